"""The first step of a process is looked at: what is not finite is named before any parameter moves.

Later steps are not, because that would make the host wait for the device; an epoch's end is.
"""

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence


def check_first_step(model: nn.Module, evidence: Evidence, weights: Tensor) -> None:
    """Refuse parameters, inputs, outputs, losses or weights that cannot be trained with, and name the first example."""
    check_parameters(model)
    ids = evidence.ids
    if isinstance(evidence.inputs, Tensor) and len(evidence.inputs) == len(ids):
        _check_rows("The inputs are", evidence.inputs, ids, "clean them before training")
    check_outputs(evidence.outputs, ids)
    _check_losses(evidence.losses, ids)
    _check_rows("The weights of the rules are", weights, ids, "let the rule give finite weights")
    if bool((weights < 0).any()):
        raise ThresherError(
            f"A rule gave a negative weight to the example {_id(weights < 0, ids)}: let it give weights of at least 0."
        )


def check_parameters(model: nn.Module) -> None:
    """Refuse a network that has NaN or infinite parameters."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
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


def _check_losses(losses: Tensor, ids: Tensor) -> None:
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
