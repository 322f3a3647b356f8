"""One look of a network at a batch: the forward pass and the evidence it gives."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from thresher.engine.aside import Aside
from thresher.engine.compiled import as_written
from thresher.engine.evidence import Evidence
from thresher.engine.factored import Factors, Recorder, record
from thresher.engine.learner import FEATURES, Taps
from thresher.engine.replay import Notes, Replayed
from thresher.engine.tangent import Direction, by_forward_mode, by_two_backwards, direction_of
from thresher.engine.teacher import Teacher
from thresher.engine.vmapped import norms_by_vmap
from thresher.errors import ThresherError
from thresher.objectives import Objective
from thresher.signals import Signal, clean_agreement, features, gradient_norm, output_gradient

Precision = torch.dtype | None


@dataclass(frozen=True)
class Batch:
    """n examples on their way through a step: rows of the ledger, ids, model inputs, given targets, columns."""

    rows: Tensor
    ids: Tensor
    inputs: Tensor
    targets: Tensor
    columns: dict[str, Tensor]


@dataclass(frozen=True)
class Look:
    """Evidence about a batch, and what the training step may reuse of the forward pass."""

    evidence: Evidence
    outputs: Tensor  # of all views, [views · n, ...]
    layers: Mapping[str, Tensor]  # of all views
    factors: Factors | None


@dataclass(frozen=True)
class Ways:
    """How derivatives of single examples are taken through a model; `ways_through` finds out by trying.

    factored      from the layer inputs and output gradients of the one chain; else norms by vmap(grad)
    forward_mode  agreement that is not factored by one pass in forward mode; else by two backwards
    """

    factored: bool = True
    forward_mode: bool = True


USUAL = Ways()


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    return nullcontext() if precision is None else torch.autocast(device.type, dtype=precision, cache_enabled=False)


def look(
    model: nn.Module,
    objective: Objective,
    taps: Taps,
    batch: Batch,
    *,
    wanted: Sequence[Signal] = (),
    views: Sequence[Tensor] = (),
    precision: Precision = None,
    keep_graph: bool = False,
    leave_no_trace: bool = False,
    by_prediction: bool = False,
    ways: Ways = USUAL,
    clean: Batch | None = None,
    teacher: Teacher | None = None,
    **facts: Any,
) -> Look:
    """Forward the views of a batch at once; the evidence is about the first view, with a clean batch and a teacher's.

    The model's mode stays as it is; with `leave_no_trace` so do its buffers, which a clean batch never changes.
    With `by_prediction` nobody knows the targets: what the model predicts stands in for them.
    """
    views = list(views) or [batch.inputs]
    n, device = len(batch.ids), batch.inputs.device
    watcher, aside = _watcher(model, wanted, ways), Aside(device)
    forward = partial(untraced, model) if leave_no_trace else model
    with autocast(device, precision):
        inputs, outputs, layers = _forward(forward, views, watcher, taps, features in wanted)
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
    if features in wanted:
        evidence.known[features] = evidence.layers[FEATURES].detach().flatten(1).float()
    if teacher is not None:
        with autocast(device, precision):
            evidence = evidence.but(others={"teacher": teacher(evidence)})
    passage, direction = Passage(model, taps, inputs, precision, watcher), None
    if clean is not None:
        with aside.work():
            trusted = passage.see_clean(objective, clean, facts)
            direction = direction_of(model, trusted.losses) if clean_agreement in wanted else None
        evidence = evidence.but(others={**evidence.others, "clean": trusted})
    factors = passage.differentiate(evidence, wanted, keep_graph, direction)
    for signal in wanted:
        if signal.passes is not None:
            with autocast(device, precision), as_written():
                evidence.known[signal] = signal.passes(model, views[0])
            taps.take()
    return Look(evidence, outputs, layers, factors)


def _forward(
    forward: Callable[[Tensor], Tensor],
    views: list[Tensor],
    watcher: AbstractContextManager[object],
    taps: Taps,
    with_features: bool,
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """The inputs of the pass that is watched, and the outputs and layers of all views."""
    # Gradients are of the first view alone, so that one is recorded by itself.
    together = views[:1] if isinstance(watcher, Recorder) else views
    inputs = together[0] if len(together) == 1 else torch.cat(together)
    with watcher, taps.watching(with_features) if isinstance(watcher, nullcontext) else as_written():
        outputs = one_tensor(forward(inputs))
    layers = taps.take()
    if len(together) < len(views):
        with taps.watching(with_features):
            outputs = torch.cat([outputs, forward(torch.cat(views[1:]))])
        layers = {name: torch.cat([layers[name], more]) for name, more in taps.take().items()}
    return inputs, outputs.float(), layers


def prediction(outputs: Tensor, classes: int | None) -> Tensor:
    """What the model would answer: the likeliest class [n], or the outputs themselves where targets are real."""
    return outputs.detach() if classes is None else outputs.detach().argmax(1)


def _watcher(model: nn.Module, wanted: Sequence[Signal], ways: Ways) -> AbstractContextManager[object]:
    """What the forward pass must run inside, so that the wanted derivatives can be taken afterwards."""
    if ways.factored and (gradient_norm in wanted or clean_agreement in wanted):
        return record(model)
    if clean_agreement not in wanted:
        return nullcontext()
    return Notes() if ways.forward_mode else sdpa_kernel(SDPBackend.MATH)  # fused attention has no second derivative


@dataclass(frozen=True)
class Passage:
    """A forward pass that was made, from which derivatives of single examples are taken."""

    model: nn.Module
    taps: Taps
    inputs: Tensor
    precision: Precision
    watcher: AbstractContextManager[object]

    def see_clean(self, objective: Objective, clean: Batch, facts: Mapping[str, Any]) -> Evidence:
        """Evidence about a clean batch by a pass without trace; after the training pass, as in Algorithm 1."""
        with autocast(clean.inputs.device, self.precision):
            outputs = untraced(self.model, clean.inputs).float()
        return Evidence(
            ids=clean.ids, targets=clean.targets, objective=objective, raw_outputs=outputs, inputs=clean.inputs,
            columns=clean.columns, layers=self.taps.take(), **facts,
        )  # fmt: skip

    def differentiate(
        self, evidence: Evidence, wanted: Sequence[Signal], keep_graph: bool, direction: Direction | None
    ) -> Factors | None:
        """Add gradient norms, and agreement with a direction, to what is known; the factors, if they come from such."""
        factors, normed = None, gradient_norm in wanted
        if isinstance(self.watcher, Recorder):
            factors = self.watcher.differentiate(evidence.losses, retain_graph=keep_graph, norms=normed)
        if normed:
            evidence.known[gradient_norm] = (
                norms_by_vmap(self.model, self.inputs[: len(evidence)], evidence.read(output_gradient))
                if factors is None
                else factors.norms()
            ).float()
        if direction is not None:
            evidence.known[clean_agreement] = (
                self._agreement(evidence, direction) if factors is None else factors.along(direction)
            ).float()
        return factors

    def _agreement(self, evidence: Evidence, direction: Direction) -> Tensor:
        """The agreement [n] of a pass that was not factored."""
        if not isinstance(self.watcher, Notes):
            return by_two_backwards(evidence.losses, direction)
        again = Replayed(self.watcher.calls)

        def losses(values: Mapping[str, Tensor]) -> Tensor:
            with autocast(self.inputs.device, self.precision), as_written(), again:
                outputs = functional_call(self.model, dict(values), (self.inputs,)).float()
            n = len(evidence)
            layers = {name: value[:n] for name, value in self.taps.take().items()}
            return evidence.but(raw_outputs=outputs[:n], layers=layers).losses

        return by_forward_mode(self.model, losses, direction)


def untraced(model: nn.Module, inputs: Tensor) -> Tensor:
    """A forward pass that writes to copies of the buffers, such as the running statistics of BatchNorm."""
    copies = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with as_written():
        return one_tensor(functional_call(model, copies, (inputs,)))


def one_tensor(outputs: object) -> Tensor:
    """What a model returned, refused if it is more than its outputs."""
    if not isinstance(outputs, Tensor):
        kind = type(outputs).__name__
        raise ThresherError(f"The model returns a {kind}: let it return its outputs alone, as one tensor [n, ...].")
    return outputs


def read_all(evidence: Evidence, wanted: Iterable[Signal]) -> None:
    """Compute the declared signals now, so that rules find them ready."""
    for signal in wanted:
        evidence.read(signal)
