"""One forward pass of a network over a batch, and the evidence it gives.

The first step of a process is looked at: what is not finite is named before any parameter moves. Later steps are not,
because that would make the host wait for the device; an epoch's end is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Prepared, Signal, looks_at_head, prepared_as
from thresher.core.objective import Objective
from thresher.core.trees import Tree, call, call_with, concatenated
from thresher.engine.device.capture import Aside
from thresher.engine.device.placement import Autocast, as_written, shard_of
from thresher.engine.gradients.factored import Factors, Recorder
from thresher.engine.gradients.strategy import Forward, Strategy
from thresher.engine.gradients.unfactored import Direction, direction_of
from thresher.engine.several.gather import CleanOfAll
from thresher.engine.step.carried import Carrier
from thresher.engine.step.learner import LAST_INPUTS, Taps
from thresher.engine.step.teacher import Teacher


@dataclass(frozen=True)
class Batch:
    """n examples on their way through a step: rows of the ledger, ids, model inputs, given targets, columns."""

    rows: Tensor
    ids: Tensor
    inputs: Tree
    targets: Tensor
    columns: dict[str, Tensor]


@dataclass(frozen=True)
class Pass:
    """Evidence about a batch, and what the training step may reuse of the forward pass."""

    evidence: Evidence
    outputs: Tensor  # of all views, [views · n, ...]
    layers: Mapping[str, Tensor]  # of all views
    factors: Factors | None


def forward_pass(
    model: nn.Module,
    objective: Objective,
    taps: Taps,
    batch: Batch,
    *,
    wanted: Sequence[Signal] = (),
    views: Sequence[Tree] = (),
    autocast: Autocast = nullcontext,
    keep_graph: bool = False,
    leave_no_trace: bool = False,
    by_prediction: bool = False,
    strategy: Strategy | None = None,
    clean: Batch | None = None,
    teacher: Teacher | None = None,
    through: nn.Module | None = None,
    of_clean: CleanOfAll | None = None,
    **facts: Any,
) -> Pass:
    """Forward the views of a batch at once; the evidence is about the first view, with a clean batch and a teacher's.

    The model's mode stays as it is; with `leave_no_trace` so do its buffers, which a clean batch never changes.
    With `by_prediction` the targets are unknown: what the model predicts stands in for them.
    `through` wraps the model so that its gradients are added up over processes, `of_clean` does that for the clean one.
    """
    views = list(views) or [batch.inputs]
    n, device = len(batch.ids), batch.ids.device
    watcher = nullcontext() if strategy is None else strategy.watch(model)
    aside = None if clean is None else Aside(device)
    forward = partial(untraced, model) if leave_no_trace else partial(call, model, through=through)
    see_clean = partial(_see_clean, model, objective, taps, clean, autocast, facts, strategy, of_clean)
    trusted: Evidence | None = None
    direction: Direction | None = None
    if isinstance(watcher, Carrier):  # what it carries has to be known first
        trusted, direction = see_clean(watcher.untraced)
        forward = partial(watcher.forward, direction or {})
    with autocast():
        inputs, outputs, layers = _forward(forward, views, watcher, taps, looks_at_head(wanted))
    evidence = Evidence(
        ids=batch.ids,
        targets=prediction(outputs[:n], facts["classes"]) if by_prediction else batch.targets,
        objective=objective,
        raw_outputs=outputs if len(views) == 1 else outputs[:n],
        inputs=views[0],
        columns=batch.columns,
        layers={name: value[:n] for name, value in layers.items()},
        **facts,
    )
    for signal in prepared_as(Prepared.LAST_INPUTS, wanted):
        evidence.known[signal] = evidence.layers[LAST_INPUTS].detach().flatten(1).float()
    for signal in prepared_as(Prepared.LAST_INPUTS_GRADIENT, wanted):
        evidence.known[signal] = taps.through_head(objective.output_gradient(evidence).detach().flatten(1))
    if teacher is not None:
        with autocast():
            evidence = evidence.replace(others={"teacher": teacher(evidence)})
    factors = None
    if trusted is None and aside is not None:
        with aside.work():
            has_buffers = strategy is None or strategy.held_by(model).has_buffers
            trusted, direction = see_clean(partial(untraced, model, has_buffers=has_buffers))
    if trusted is not None:
        evidence = evidence.replace(others={**evidence.others, "clean": trusted})
    if strategy is not None:
        made = Forward(model, inputs, autocast, watcher, taps.take)
        factors = strategy.prepare(made, evidence, direction, keep_graph)
    for signal in wanted:
        if signal.passes is not None:
            with autocast(), as_written():
                evidence.known[signal] = signal.passes(model, views[0])
            taps.take()
    return Pass(evidence, outputs, layers, factors)


def _forward(
    forward: Callable[[Tree], Tensor],
    views: list[Tree],
    watcher: AbstractContextManager[object],
    taps: Taps,
    with_last_inputs: bool,
) -> tuple[Tree, Tensor, dict[str, Tensor]]:
    """The inputs of the pass that is watched, and the outputs and layers of all views."""
    # Gradients are of the first view alone, so that one is recorded by itself.
    together = views[:1] if isinstance(watcher, Recorder) else views
    inputs = together[0] if len(together) == 1 else concatenated(together)
    with watcher, taps.watching(with_last_inputs) if isinstance(watcher, nullcontext) else as_written():
        outputs = forward(inputs)
    layers = taps.take()
    if len(together) < len(views):
        with taps.watching(with_last_inputs):
            outputs = torch.cat([outputs, forward(concatenated(views[1:]))])
        layers = {name: torch.cat([layers[name], more]) for name, more in taps.take().items()}
    return inputs, outputs.float(), layers


def _see_clean(
    model: nn.Module,
    objective: Objective,
    taps: Taps,
    clean: Batch | None,
    autocast: Autocast,
    facts: Mapping[str, Any],
    strategy: Strategy | None,
    of_clean: CleanOfAll | None,
    forward: Callable[[Tree], Tensor],
) -> tuple[Evidence, Direction | None]:
    """Evidence about a clean batch by a pass without trace, and the gradient of its loss where that is asked for.

    The pass comes after the training pass, as in Algorithm 1 of L2RW, unless that one carries the gradient.
    """
    assert clean is not None
    with autocast():
        outputs = forward(clean.inputs).float()
    trusted = Evidence(
        ids=clean.ids, targets=clean.targets, objective=objective, raw_outputs=outputs, inputs=clean.inputs,
        columns=clean.columns, layers=taps.take(), **facts,
    )  # fmt: skip
    if strategy is None or not strategy.agreements:
        return trusted, None
    parameters = strategy.held_by(model).parameters
    if of_clean is None:
        return trusted, direction_of(parameters, trusted.losses)
    return trusted, of_clean.total(direction_of(parameters, of_clean.part(trusted.losses)))


def prediction(outputs: Tensor, classes: int | None) -> Tensor:
    """What the model would answer: the likeliest class [n], or the outputs themselves where targets are real."""
    return outputs.detach() if classes is None else outputs.detach().argmax(1)


def untraced(model: nn.Module, inputs: Tree, has_buffers: bool = True) -> Tensor:
    """A forward pass that writes to copies of the buffers, such as the running statistics of BatchNorm."""
    copies = {name: buffer.clone() for name, buffer in model.named_buffers()} if has_buffers else {}
    with as_written():
        return call_with(model, copies, inputs) if copies else call(model, inputs)


def read_all(evidence: Evidence, wanted: Iterable[Signal]) -> None:
    """Compute the declared signals now, so that rules find them ready."""
    for signal in wanted:
        evidence.read(signal)


def check_first_step(model: nn.Module, evidence: Evidence, weights: Tensor) -> None:
    """Refuse parameters, inputs, outputs, losses or weights that cannot be trained with, and name the first example."""
    check_parameters(model)
    ids = evidence.ids
    if isinstance(evidence.inputs, Tensor) and len(evidence.inputs) == len(ids):
        _check_rows("The inputs are", evidence.inputs, ids, "clean them before training")
    check_outputs(evidence.outputs, ids)
    check_losses(evidence.losses, ids)
    _check_rows("The weights of the rules are", weights, ids, "let the rule give finite weights")
    if not bool(torch.isfinite(weights.sum())):
        raise ThresherError("The weights of the rules have an infinite sum: let the rule give smaller ones.")
    if bool((weights < 0).any()):
        raise ThresherError(
            f"A rule gave a negative weight to the example {_id(weights < 0, ids)}: let it give weights of at least 0."
        )


def check_parameters(model: nn.Module) -> None:
    """Refuse a network that has NaN or infinite parameters."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(shard_of(parameter.detach())).all()):
            raise ThresherError(
                f"The model's parameters are NaN or infinite before the first step ({name}): make or load them again."
            )


def check_outputs(outputs: Tensor, ids: Tensor) -> None:
    """Refuse outputs that no gradient can go through, or that are not finite."""
    if torch.is_grad_enabled() and not outputs.requires_grad:
        raise ThresherError(
            "The model's outputs are detached from its parameters: let it compute them from the inputs with gradients."
        )
    if len(outputs) == len(ids):
        _check_rows("The model's outputs are", outputs, ids, "check its layers and the scale of its inputs")


def check_losses(losses: Tensor, ids: Tensor) -> None:
    if torch.is_grad_enabled() and not losses.requires_grad:
        raise ThresherError("The objective's losses are detached from the outputs: compute them without .detach().")
    _check_rows("The objective's losses are", losses, ids, "let it give finite numbers")


def _check_rows(what: str, values: Tensor, ids: Tensor, fix: str) -> None:
    if not values.is_floating_point():
        return
    wrong = ~torch.isfinite(values).reshape(len(values), -1).all(1)
    if bool(wrong.any()):
        count = int(wrong.sum())
        raise ThresherError(
            f"{what} NaN or infinite for {count} of {len(values)} examples of the first batch, at first the example "
            f"{_id(wrong, ids)}: {fix}."
        )


def _id(wrong: Tensor, ids: Tensor) -> int:
    return int(ids[wrong.float().argmax()])
