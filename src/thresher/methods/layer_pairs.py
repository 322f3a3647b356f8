"""Pairs of a student's and a teacher's layers, for variational information distillation."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.engine.device.placement import plain
from thresher.engine.step.learner import Taps, evaluating
from thresher.objectives import LayerPair
from thresher.objectives.variational import by_place


def pairs_between(
    student: nn.Module, teacher: nn.Module, layers: Mapping[str, str], inputs: Tensor
) -> tuple[LayerPair, ...]:
    """Pairs of layers by name, student's to teacher's, with their widths in a pass over some inputs.

    >>> small, large = nn.Sequential(nn.Linear(2, 3)), nn.Sequential(nn.Linear(2, 7))
    >>> pairs_between(small, large, {"0": "0"}, torch.zeros(1, 2))
    (LayerPair(student='0', teacher='0', student_width=3, teacher_width=7),)
    """
    own = _widths(plain(student), list(layers), inputs)
    theirs = _widths(plain(teacher), list(layers.values()), inputs)
    return tuple(LayerPair(name, other, own[name], theirs[other]) for name, other in layers.items())


def _widths(model: nn.Module, layers: Sequence[str], inputs: Tensor) -> dict[str, int]:
    known = dict(model.named_modules())
    for name in layers:
        if name not in known:
            names = ", ".join(sorted(set(known) - {""}))
            raise ThresherError(f"There is no layer {name!r} in {type(model).__name__}: choose one of {names}.")
    taps = Taps(model, layers)
    try:
        with torch.no_grad(), evaluating(model), taps.watching():
            model(inputs)
        found = taps.take()
    finally:
        taps.remove()
    for name in layers:
        if name not in found or not isinstance(found[name], Tensor) or found[name].ndim not in (2, 3, 4):
            raise ThresherError(
                f"Layer {name!r} of {type(model).__name__} gives no vector [n, channels], tokens [n, places, channels] "
                "or map [n, channels, height, width]: choose one that does."
            )
    return {name: by_place(value).shape[2] for name, value in found.items()}
