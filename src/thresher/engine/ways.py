"""Which ways to the derivatives of single examples are open for a model: found out at the start, by trying."""

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from thresher.engine.evidence import Evidence
from thresher.engine.factored import NotFactored, record, refuse_batch_norm
from thresher.engine.learner import Taps
from thresher.engine.look import Batch, Ways, look, untraced
from thresher.engine.tangent import direction_of, entered
from thresher.engine.vmapped import norms_by_vmap
from thresher.errors import ThresherError
from thresher.objectives import Objective
from thresher.seeding import preserved
from thresher.signals import Signal, clean_agreement, gradient_norm, output_gradient

TOLERANCE = 1e-3  # of the largest value, between two ways to the same derivatives in float32
See = Callable[[Sequence[Signal], bool], Evidence]  # a look that wants these signals, in forward mode or not


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
            evidence = _evidence_of(batch, objective, untraced(model, batch.inputs).detach(), classes)
            norms_by_vmap(model, batch.inputs, evidence.read(output_gradient))
    if factored or not agrees:
        return Ways(factored, forward_mode=False)
    taps = Taps(model, objective.layers)

    def see(signals: Sequence[Signal], forward_mode: bool) -> Evidence:
        with preserved(batch.inputs.device), torch.enable_grad():  # the same dropout masks each time
            return look(
                model, objective, taps, batch, wanted=signals, ways=Ways(False, forward_mode), clean=clean,
                leave_no_trace=True, classes=classes,
            ).evidence  # fmt: skip

    try:
        return Ways(False, _forward_mode_works(model, see))
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


def _forward_mode_works(model: nn.Module, see: See) -> bool:
    """Whether forward mode gives the right agreement; where neither it nor backward on backward does, a refusal."""
    with entered(model) as names:
        total = _total(model, see, names)
        forward, why = _tried(see, True, total)
        where = names[-1]
    backward, why_not = _tried(see, False, total)
    if forward is not None and backward is not None and not _near(forward, backward, backward):
        forward, where, why = None, "the model", "it gives something else than backward on backward"
    if forward is not None:
        return True
    if backward is None:
        raise ThresherError(
            f"clean_agreement finds no way through {where}, which has neither a forward mode ({why}) nor a second "
            f"derivative ({why_not}): replace that layer."
        )
    warnings.warn(
        f"clean_agreement is taken by backward on backward, which is slow: {where} has no forward mode ({why}).",
        stacklevel=2,
    )
    return False


def _tried(see: See, forward_mode: bool, total: Tensor) -> tuple[Tensor | None, str]:
    """The agreement [n] by this way, or None and why not; it must add up to the total."""
    try:
        found = see([clean_agreement], forward_mode).known[clean_agreement]
    except (NotImplementedError, RuntimeError) as error:
        return None, _first_line(error)
    if not _near(found.sum(), total, found):
        return None, "its derivatives do not add up"
    return found, ""


def _total(model: nn.Module, see: See, names: Sequence[str]) -> Tensor:
    """Σ uᵢ = ∂Σℓᵢ/∂θ · g, which takes plain gradients only."""
    try:
        evidence = see([], False)
    except ValueError as error:  # BatchNorm has nothing to normalise by in a batch of one
        raise ThresherError(
            f"{names[-1]} cannot take so small a clean batch ({_first_line(error)}): give two clean examples or more "
            "(clean_batch=2), or a model without BatchNorm."
        ) from error
    own, clean = direction_of(model, evidence.losses), direction_of(model, evidence.other("clean").losses)
    products = [(own[parameter] * gradient).sum() for parameter, gradient in clean.items() if parameter in own]
    return len(evidence) * torch.stack(products).sum()


def _near(ours: Tensor, theirs: Tensor, scale: Tensor) -> bool:
    return bool((ours - theirs).abs().max() <= TOLERANCE * scale.abs().sum() + 1e-9)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".:")
