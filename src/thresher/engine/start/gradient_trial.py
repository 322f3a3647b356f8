"""How derivatives are taken through a model, and which layer is its last: found before training by trying."""

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Prepared, Signal, prepared_as
from thresher.core.objective import Objective
from thresher.core.seeding import preserved
from thresher.core.signals import output_gradient
from thresher.core.trees import Tree, call
from thresher.engine.device.placement import as_written
from thresher.engine.gradients.factored import record
from thresher.engine.gradients.formulas import refuse_batch_norm
from thresher.engine.gradients.layers import NotFactored
from thresher.engine.gradients.strategy import Factored, Strategy, Unfactored
from thresher.engine.gradients.unfactored import direction_of, entered, norms_by_vmap, trained_parameters
from thresher.engine.step.forward import Batch, forward_pass, untraced
from thresher.engine.step.learner import Taps, evaluating

TOLERANCE = 1e-3  # of the largest value, between two ways to the same derivatives in float32
See = Callable[[Strategy | None], Evidence]  # a pass over the batch under this strategy


def choose_strategy(
    model: nn.Module,
    objective: Objective,
    wanted: Sequence[Signal],
    batch: Batch,
    clean: Batch | None,
    classes: int | None,
) -> Strategy | None:
    """The cheapest exact strategy for the wanted signals through this model, if any asks for derivatives.

    Where there is none a refusal says why.
    """
    norms = prepared_as(Prepared.GRADIENT_NORM, wanted)
    agreements = prepared_as(Prepared.CLEAN_AGREEMENT, wanted)
    if not norms and not agreements:
        return None
    if norms:
        refuse_batch_norm(model)
    with preserved(batch.ids.device), torch.enable_grad():
        why_not = _not_factored(model, objective, batch, classes, bool(norms))
        if why_not is None:
            return Factored(norms, agreements)
        if norms:
            evidence = _evidence_of(batch, objective, untraced(model, batch.inputs).detach(), classes)
            gradients = evidence.read(output_gradient).view_as(evidence.outputs)
            norms_by_vmap(model, batch.inputs, gradients, why_not=why_not)
    if not agreements:
        return Unfactored(norms)
    taps = Taps(model, objective.layers)

    def see(strategy: Strategy | None) -> Evidence:
        with preserved(batch.ids.device), torch.enable_grad():  # the same dropout masks each time
            return forward_pass(
                model, objective, taps, batch, strategy=strategy, clean=clean, leave_no_trace=True,
                wanted=() if strategy is None else strategy.agreements, classes=classes,
            ).evidence  # fmt: skip

    try:
        return Unfactored(norms, agreements, _forward_mode_works(model, agreements[0], see))
    finally:
        taps.remove()


def last_linear(model: nn.Module, inputs: Tree) -> str:
    """The name of the Linear layer whose output is the model's output; a model without one is refused."""
    results: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, object, Tensor], None]:
        return lambda module, given, output: results.__setitem__(name, output)  # noqa: ARG005

    linears = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    handles = [module.register_forward_hook(keep(name)) for name, module in linears.items()]
    try:
        with torch.no_grad(), evaluating(model), as_written():
            outputs = call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    for name, result in results.items():
        if result.data_ptr() == outputs.data_ptr() and result.shape[0] == outputs.shape[0]:
            return name
    raise ThresherError(
        "features needs a model that ends in an nn.Linear layer: let the last layer's output be returned."
    )


def _not_factored(model: nn.Module, objective: Objective, batch: Batch, classes: int | None, norms: bool) -> str | None:
    """Why the layers of this model do not give the gradients of single examples; None if they do."""
    try:
        with record(model) as recorder:
            outputs = untraced(model, batch.inputs)
        losses = _evidence_of(batch, objective, outputs, classes).losses
        recorder.verify(losses)
        recorder.differentiate(losses, norms=norms)
    except NotFactored as error:
        return str(error)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # the model runs, but not where rows that examples share are given to each of them
        return f"noting its layers changes what it does ({_first_line(error)})"
    return None


def _evidence_of(batch: Batch, objective: Objective, outputs: Tensor, classes: int | None) -> Evidence:
    return Evidence(
        ids=batch.ids, targets=batch.targets, objective=objective, raw_outputs=outputs.float(), classes=classes
    )


def _forward_mode_works(model: nn.Module, signal: Signal, see: See) -> bool:
    """Whether forward mode gives the right agreement; where neither it nor backward on backward does, a refusal."""
    with entered(model) as names:
        total = _total(model, see, names)
        forward, why = _tried(see, signal, True, total)
        where = names[-1]
    backward, why_not = _tried(see, signal, False, total)
    if forward is not None and backward is not None and not _near(forward, backward, backward):
        forward, where, why = None, "the model", "it gives something else than backward on backward"
    if forward is not None:
        return True
    if backward is None:
        raise ThresherError(
            f"{signal.name} finds no way through {where}, which has neither a forward mode ({why}) nor a second "
            f"derivative ({why_not}): replace that layer."
        )
    warnings.warn(
        f"{signal.name} is taken by backward on backward, which is slow: {where} has no forward mode ({why}).",
        stacklevel=2,
    )
    return False


def _tried(see: See, signal: Signal, forward_mode: bool, total: Tensor) -> tuple[Tensor | None, str]:
    """The agreement [n] in this way, or None and why not; it must add up to the total."""
    try:
        found = see(Unfactored((), (signal,), forward_mode)).known[signal]
    except (NotImplementedError, RuntimeError) as error:
        return None, _first_line(error)
    if not _near(found.sum(), total, found):
        return None, "its derivatives do not add up"
    return found, ""


def _total(model: nn.Module, see: See, names: Sequence[str]) -> Tensor:
    """Σ uᵢ = ∂Σℓᵢ/∂θ · g, which takes plain gradients only."""
    try:
        evidence = see(None)
    except ValueError as error:  # BatchNorm has nothing to normalise by in a batch of one
        raise ThresherError(
            f"{names[-1]} cannot take so small a clean batch ({_first_line(error)}): give two clean examples or more "
            "(clean_batch=2), or a model without BatchNorm."
        ) from error
    of_model = trained_parameters(model)
    own, clean = direction_of(of_model, evidence.losses), direction_of(of_model, evidence.other("clean").losses)
    products = [(own[parameter] * gradient).sum() for parameter, gradient in clean.items() if parameter in own]
    return len(evidence) * torch.stack(products).sum()


def _near(ours: Tensor, theirs: Tensor, scale: Tensor) -> bool:
    return bool((ours - theirs).abs().max() <= TOLERANCE * scale.abs().sum() + 1e-9)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".:")
