"""Wrong real targets: the corruptions that section 6 of the PRL paper names (it gives no constants).

Every function takes targets [n, d] and gives new ones, exactly round(rate * n) rows of them wrong. The wrong values
are made from standardised targets (each column with mean 0 and deviation 1) and scaled back, so that a corruption
means the same for pixels, metres and standardised columns; on the last of these `signflip` is y -> -y. Only `pairflip`
exchanges values as they are, because an eye where the mouth should be is wrong in pixels.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.corruption.labels import chosen

# The paper gives no scale for its wrong linear relation; the R² of its Standard row (-2.3 to -32, Table 1) falls by
# about 225 times the squared rate, which is what wrong values of fifteen deviations give.
LINADV_STRENGTH = 15.0


def signflip(targets: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Turn the sign of the standardised target: y -> 2 mean - y.

    >>> signflip(torch.tensor([[1.0], [3.0]]), 1.0, torch.Generator()).tolist()
    [[3.0], [1.0]]
    """
    return _replace(targets, chosen(len(targets), rate, generator), lambda rows, _: -rows)


def uninoise(targets: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Draw the target anew, uniformly between the smallest and the largest value of each column.

    >>> drawn = uninoise(torch.tensor([[0.0], [8.0]] * 50), 1.0, torch.Generator())
    >>> bool(((drawn > 0) & (drawn < 8)).all()), 3 < drawn.mean().item() < 5
    (True, True)
    """
    return _replace(targets, chosen(len(targets), rate, generator), _uniform(targets, generator))


def pairflip(targets: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Exchange the first and the last targets of an example, in their own unit: of five landmarks eyes and mouth.

    Of a number that five divides two fifths at either end are exchanged, so that the nose stays; of others one half.

    >>> pairflip(torch.arange(10.0)[None], 1.0, torch.Generator()).tolist()
    [[6.0, 7.0, 8.0, 9.0, 4.0, 5.0, 0.0, 1.0, 2.0, 3.0]]
    """
    count = targets.shape[1]
    ends = 2 * (count // 5) if count % 5 == 0 else count // 2
    if not ends:
        raise ThresherError("pairflip needs at least two targets an example: use signflip or uninoise.")
    order = [*range(count - ends, count), *range(ends, count - ends), *range(ends)]
    at = chosen(len(targets), rate, generator)
    exchanged = targets.clone()
    exchanged[at] = targets[at][:, order]
    return exchanged


def linadv(
    targets: Tensor, rate: float, generator: torch.Generator, features: Tensor, strength: float = LINADV_STRENGTH
) -> Tensor:
    """Give the targets of a random wrong linear relation: strength * x W / deviation(x W), W normal, x [n, features].

    >>> x, y = torch.randn(500, 8, generator=torch.Generator()), torch.zeros(500, 1)
    >>> wrong = linadv(y, 1.0, torch.Generator(), features=x, strength=2.0)
    >>> torch.allclose(x @ torch.linalg.lstsq(x, wrong).solution, wrong, atol=1e-3), round(wrong.std().item(), 1)
    (True, 2.0)
    """
    return _replace(targets, chosen(len(targets), rate, generator), _linear(targets, generator, features, strength))


def mixture(targets: Tensor, rate: float, generator: torch.Generator, features: Tensor) -> Tensor:
    """A third each of linadv, signflip and uninoise.

    >>> y = torch.randn(90, 2, generator=torch.Generator())
    >>> wrong = mixture(y, 1.0, torch.Generator(), features=y)
    >>> (wrong.abs().amax(1) > y.abs().max()).sum().item() <= 30
    True
    """
    thirds = chosen(len(targets), rate, generator).tensor_split(3)
    wrong = (
        _linear(targets, generator, features, LINADV_STRENGTH),
        lambda rows, _: -rows,
        _uniform(targets, generator),
    )
    mixed = targets
    for at, values in zip(thirds, wrong, strict=True):
        mixed = _replace(mixed, at, values, scale_of=targets)
    return mixed


# What to put in place of standardised rows [k, d] that stand at positions [k].
Wrong = Callable[[Tensor, Tensor], Tensor]


def _replace(targets: Tensor, at: Tensor, wrong: Wrong, scale_of: Tensor | None = None) -> Tensor:
    mean, deviation = _scale(targets if scale_of is None else scale_of)
    replaced = targets.clone()
    replaced[at] = mean + deviation * wrong((targets[at] - mean) / deviation, at)
    return replaced


def _scale(targets: Tensor) -> tuple[Tensor, Tensor]:
    deviation = targets.std(0, correction=0)
    return targets.mean(0), torch.where(deviation > 0, deviation, 1.0)


def _uniform(targets: Tensor, generator: torch.Generator) -> Wrong:
    mean, deviation = _scale(targets)
    low, high = (targets.amin(0) - mean) / deviation, (targets.amax(0) - mean) / deviation
    return lambda rows, _: low + (high - low) * torch.rand(rows.shape, generator=generator)


def _linear(targets: Tensor, generator: torch.Generator, features: Tensor, strength: float) -> Wrong:
    if strength <= 0:
        raise ThresherError(f"The strength of linadv must be above 0, not {strength}: give a number such as 15.")
    wrong = features @ torch.randn(features.shape[1], targets.shape[1], generator=generator)
    wrong = strength * wrong / _scale(wrong)[1]
    return lambda _, at: wrong[at]
