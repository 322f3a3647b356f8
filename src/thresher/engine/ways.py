"""Which ways to the derivatives of single examples are open for a model: found out at the start, by trying."""

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from thresher.engine.evidence import Evidence
from thresher.engine.factored import NotFactored, record, refuse_batch_norm
from thresher.engine.learner import Taps
from thresher.engine.look import Batch, Ways, look, on, untraced
from thresher.engine.tangent import entered
from thresher.engine.vmapped import norms_by_vmap
from thresher.errors import ThresherError
from thresher.objectives import Objective
from thresher.seeding import preserved
from thresher.signals import Signal, clean_agreement, gradient_norm

TOLERANCE = 1e-3  # of the largest value, between two ways to the same derivatives in float32


def ways_through(
    model: nn.Module,
    objective: Objective,
    wanted: Sequence[Signal],
    batch: Batch,
    clean: Batch | None,
    classes: int | None,
) -> Ways:
    """The cheapest exact ways for the wanted signals through this model; where there is none, a refusal."""
    normed, agrees = gradient_norm in wanted, clean_agreement in wanted
    if not normed and not agrees:
        return Ways(factored=False, forward_mode=False)
    if normed:
        refuse_batch_norm(model)
    with preserved(batch.inputs.device), torch.enable_grad():
        factored = _factors(model, objective, batch, classes)
        if normed and not factored:
            evidence = _evidence_of(batch, objective, model(batch.inputs).detach(), classes)
            norms_by_vmap(model, on(evidence), batch.inputs, batch.targets)
    if factored or not agrees:
        return Ways(factored, forward_mode=False)
    taps = Taps(model, objective.layers)

    def agreement(forward_mode: bool) -> Tensor:
        with preserved(batch.inputs.device), torch.enable_grad():  # the same dropout masks each time
            seen = look(
                model, objective, taps, batch, wanted=[clean_agreement], ways=Ways(False, forward_mode), clean=clean,
                leave_no_trace=True, classes=classes,
            )  # fmt: skip
            return seen.evidence.known[clean_agreement]

    try:
        return Ways(False, _forward_mode_works(model, agreement))
    finally:
        taps.remove()


def _factors(model: nn.Module, objective: Objective, batch: Batch, classes: int | None) -> bool:
    try:
        with record(model) as recorder:
            outputs = untraced(model, batch.inputs)
        recorder.verify(_evidence_of(batch, objective, outputs, classes).losses)
    except NotFactored:
        return False
    return True


def _evidence_of(batch: Batch, objective: Objective, outputs: Tensor, classes: int | None) -> Evidence:
    return Evidence(
        ids=batch.ids, targets=batch.targets, objective=objective, raw_outputs=outputs.float(), classes=classes
    )


def _forward_mode_works(model: nn.Module, agreement: Callable[[bool], Tensor]) -> bool:
    """Whether forward mode gives what backward on backward gives; a model through which neither goes is refused."""
    found, reason = None, "it gives something else than backward on backward"
    with entered(model) as names:
        try:
            found = agreement(True)
        except (NotImplementedError, RuntimeError) as error:
            reason = _first_line(error)
        except ValueError as error:  # BatchNorm has nothing to normalise by in a batch of one
            raise ThresherError(
                f"{names[-1]} cannot take so small a clean batch ({_first_line(error)}): give clean_batch=2 or more."
            ) from error
    try:
        expected = agreement(False)
    except (NotImplementedError, RuntimeError) as error:
        if found is not None:
            return True
        raise ThresherError(
            f"clean_agreement finds no way through {names[-1]}, which has neither a forward mode ({reason}) nor a "
            f"second derivative ({_first_line(error)}): replace that layer."
        ) from error
    if found is not None and bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max() + 1e-9):
        return True
    where = "this model" if found is not None else names[-1]
    warnings.warn(
        f"clean_agreement is taken by backward on backward, which is slow: {where} has no forward mode ({reason}).",
        stacklevel=2,
    )
    return False


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".:")
