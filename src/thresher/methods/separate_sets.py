"""Refusals where labelled, unlabelled and validation sets share examples."""

import math

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, refuse_unless
from thresher.core.examples import Examples
from thresher.core.signals import margins
from thresher.data.overlap import overlapping

CHANCE = 3  # deviations by which validation examples may repeat labelled ones more often than unlabelled ones do


def check_apart(labelled: Examples, unlabelled: Examples, validation: Examples | None) -> None:
    """Refuse sets that share examples, on which the teacher would judge itself."""
    for place, each in {"labelled": labelled, "unlabelled": unlabelled, "validation": validation}.items():
        fits = isinstance(each, Examples) or (each is None and place == "validation")
        refuse_unless(place, each, fits, "Examples(inputs, targets)")
    if labelled.classes is None:
        raise ThresherError("Distillation is defined for classification only: give class labels.")
    named = {"labelled": labelled, "validation": validation}
    for name, other in named.items():
        if other is not None and len(both := _shared(other, unlabelled)):
            raise ThresherError(
                f"{len(both)} unlabelled examples (such as id {int(both[0])}) are in the {name} set too: "
                "take them out of one; if they are other examples, give them ids of their own."
            )
    for name, other in {"unlabelled": unlabelled, "validation": validation}.items():
        if other is not None and (ours := _kind(labelled)) != (theirs := _kind(other)) and ours and theirs:
            raise ThresherError(
                f"The labelled set has inputs of {ours} and the {name} set of {theirs}: bring them to one scale."
            )
    if validation is not None:
        refuse_seen(_shared(labelled, validation), "the labelled set")
        _refuse_copies(labelled, unlabelled, validation)


def refuse_seen(ids: Tensor, where: str) -> None:
    """Refuse a validation set that contains these ids, which the teacher was trained on."""
    if len(ids):
        raise ThresherError(
            f"{len(ids)} validation examples (such as id {int(ids[0])}) are in {where}: hold them out of the teacher's "
            "training; if they are other examples, give them ids of their own."
        )


def surer_of(known: Tensor, others: Tensor) -> float:
    """By how many standard errors the mean margin of outputs [n, classes] is higher on known examples than on others.

    More than a few mean that the teacher was trained on the known ones, or that the others are of another kind.
    """
    ours, theirs = (margins(outputs.double()) for outputs in (known, others))
    error = ours.var(correction=0) / len(ours) + theirs.var(correction=0) / len(theirs)
    return ((ours.mean() - theirs.mean()) / error.sqrt().clamp_min(1e-12)).item()


def _refuse_copies(labelled: Examples, unlabelled: Examples, validation: Examples) -> None:
    """Refuse a validation set that contains labelled examples under other ids, recognised by their inputs.

    Some sets repeat inputs by nature, above all tables with few columns. Then unlabelled examples repeat labelled ones
    as often as validation examples do, up to chance.
    """
    copied = validation.ids[overlapping(validation, labelled).to(validation.ids.device)]
    if len(copied) <= CHANCE:
        return
    usual = len(validation) * overlapping(unlabelled, labelled).double().mean().item()
    if len(copied) > usual + CHANCE * math.sqrt(usual + 1):
        raise ThresherError(
            f"{len(copied)} validation examples (such as id {int(copied[0])}) have the same inputs as labelled ones, "
            "far more than unlabelled examples do: hold them out of the teacher's training."
        )


def _kind(examples: Examples) -> torch.dtype | None:
    return examples.inputs.dtype if isinstance(examples.inputs, Tensor) else None


def _shared(first: Examples, second: Examples) -> Tensor:
    return first.ids[torch.isin(first.ids, second.ids)]
