"""One look of a network at a batch: the forward pass and the evidence it gives."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from thresher.engine.evidence import Evidence
from thresher.engine.factored import Factors, NotFactored, record, refuse_batch_norm
from thresher.engine.learner import FEATURES, Taps
from thresher.engine.vmapped import norms_by_vmap
from thresher.objectives import Objective
from thresher.seeding import preserved
from thresher.signals import Signal, features, gradient_norm

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
    factors: Factors | None


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
    factored: bool = True,
    **facts: Any,
) -> Look:
    """Forward the views of a batch at once; the evidence is about the first view.

    The model's mode stays as it is; with `leave_no_trace` so do its buffers.
    """
    views = list(views) or [batch.inputs]
    n = len(batch.ids)
    recorder = record(model) if gradient_norm in wanted and factored else None
    forward = partial(untraced, model) if leave_no_trace else model
    with autocast(batch.inputs.device, precision):
        # Norms are of the first view alone, so that one is recorded by itself.
        together = views[:1] if recorder is not None else views
        with recorder or nullcontext():
            outputs = forward(together[0] if len(together) == 1 else torch.cat(together))
        layers = {name: value[:n] for name, value in taps.take().items()}
        if len(together) < len(views):
            outputs = torch.cat([outputs, forward(torch.cat(views[1:]))])
        outputs = outputs.float()
    evidence = Evidence(
        ids=batch.ids,
        targets=batch.targets,
        objective=objective,
        raw_outputs=outputs if len(views) == 1 else outputs[:n],
        inputs=views[0],
        columns=batch.columns,
        layers=layers,
        **facts,
    )
    if features in wanted:
        evidence.known[features] = layers[FEATURES].detach().flatten(1).float()
    factors = None
    if recorder is not None:
        factors = recorder.differentiate(evidence.losses, retain_graph=keep_graph)
        evidence.known[gradient_norm] = factors.norms()
    elif gradient_norm in wanted:
        evidence.known[gradient_norm] = norms_by_vmap(model, _on(evidence), views[0], batch.targets)
    return Look(evidence, outputs, factors)


def can_factor(model: nn.Module, objective: Objective, batch: Batch, classes: int | None) -> bool:
    """Whether gradient norms come from layer factors for this model; if not, `vmap(grad)` is tried, and may refuse."""
    refuse_batch_norm(model)
    with preserved(batch.inputs.device), torch.enable_grad():
        try:
            with record(model) as recorder:
                outputs = untraced(model, batch.inputs)
            recorder.verify(_evidence_of(batch, objective, outputs, classes).losses)
        except NotFactored:
            evidence = _evidence_of(batch, objective, model(batch.inputs).detach(), classes)
            norms_by_vmap(model, _on(evidence), batch.inputs, batch.targets)
            return False
    return True


def _evidence_of(batch: Batch, objective: Objective, outputs: Tensor, classes: int | None) -> Evidence:
    return Evidence(
        ids=batch.ids, targets=batch.targets, objective=objective, raw_outputs=outputs.float(), classes=classes
    )


def _on(evidence: Evidence) -> Callable[[Tensor, Tensor], Tensor]:
    """The evidence's objective as a function of outputs and targets."""
    return lambda outputs, targets: evidence.but(raw_outputs=outputs, targets=targets).losses


def untraced(model: nn.Module, inputs: Tensor) -> Tensor:
    """A forward pass that writes to copies of the buffers, such as the running statistics of BatchNorm."""
    copies = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return functional_call(model, copies, (inputs,))  # type: ignore[no-any-return]


def read_all(evidence: Evidence, wanted: Iterable[Signal]) -> None:
    """Compute the declared signals now, so that rules find them ready."""
    for signal in wanted:
        evidence.read(signal)
