"""Corruption of clean data for benchmarks, seeded and recorded.

Every corrupted set carries two columns: `true_target`, what the target was before anything was done to it, and
`is_corrupt`, whether the given target differs from it, or whether the example was added to a pool with a target that
says nothing. No method sees either column.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from thresher.core.errors import ThresherError, unknown
from thresher.core.examples import Examples
from thresher.core.seeding import generator
from thresher.core.tasks import CLASSES, REAL
from thresher.corruption import labels, noisy_pools, targets
from thresher.corruption.imbalance import imbalance

__all__ = ["FOR_CLASSES", "FOR_REAL_TARGETS", "Corruption", "corrupt", "names", "recorded"]

# A corruption takes the examples, the number and the option of `name:number:option`, and a generator.
Corruption = Callable[[Examples, float, str | None, torch.Generator], Examples]
Flip = Callable[[Tensor, float, torch.Generator, int], Tensor]
Add = Callable[[Examples, float, torch.Generator], Examples]
Replace = Callable[[Tensor, float, torch.Generator], Tensor]


def corrupt(examples: Examples, corruption: str, *, seed: int = 0) -> Examples:
    """The examples with targets made wrong as `name:rate` or `name:rate:option` says.

    >>> clean = Examples(torch.zeros(10, 2), torch.arange(10) % 5)
    >>> dirty = corrupt(clean, "symmetric:0.4", seed=0)
    >>> dirty.columns["is_corrupt"].sum().item(), (dirty.targets != dirty.columns["true_target"]).sum().item()
    (4, 4)
    """
    if examples.task not in (CLASSES, REAL):
        raise ThresherError(
            f"{examples.name} has {examples.task} targets, which no corruption knows: corrupt them by hand."
        )
    name, number, option = _parsed(corruption)
    table, other = (FOR_REAL_TARGETS, FOR_CLASSES) if examples.is_regression else (FOR_CLASSES, FOR_REAL_TARGETS)
    if name not in table and name in other:
        here, there = ("real targets", "classes") if examples.is_regression else ("classes", "real targets")
        raise ThresherError(
            f"{name} corrupts {there} and {examples.name} has {here}: use one of {', '.join(sorted(table))}."
        )
    if name not in table:
        raise unknown("corruption", name, names())
    if examples.targets.ndim == 2 and not examples.is_regression:
        raise ThresherError(f"{examples.name} has soft labels: corrupt the class ids first and soften them afterwards.")
    return table[name](examples, number, option, generator(seed, "corruption", name))


def names() -> list[str]:
    """The names `corrupt` knows, sorted."""
    return sorted({*FOR_CLASSES, *FOR_REAL_TARGETS})


def recorded(examples: Examples, given: Tensor) -> Examples:
    """The examples with these targets, and `true_target` and `is_corrupt` updated, earlier corruption included."""
    given = given.to(examples.targets.device)
    true = examples.columns.get("true_target", examples.targets)
    before = examples.columns.get("is_corrupt", torch.zeros(len(given), dtype=torch.bool, device=given.device))
    wrong = _differ(given, true) | (before & ~_differ(given, examples.targets))
    return examples.with_targets(given, true_target=true, is_corrupt=wrong)


def _differ(one: Tensor, other: Tensor) -> Tensor:
    return (one != other).reshape(len(one), -1).any(1)


def _parsed(corruption: str) -> tuple[str, float, str | None]:
    name, _, rest = corruption.partition(":")
    number, _, option = rest.partition(":")
    if name not in names():
        raise unknown("corruption", name, names())
    example = "imbalance:200" if name == "imbalance" else f"{name}:0.4"
    try:
        return name, float(number), option or None
    except ValueError:
        raise ThresherError(f"'{corruption}' has no number after the name: write it like {example}.") from None


def _whole_number(name: str, option: str | None) -> int | None:
    try:
        return None if option is None else int(option)
    except ValueError:
        raise ThresherError(f"The option of {name} must be a whole number, not '{option}': correct it.") from None


def _refuse_option(rate: float, option: str | None) -> None:
    if option is not None:
        raise ThresherError(f"This corruption takes no option: leave out ':{option}' after {rate:g}.")


def _features(examples: Examples) -> Tensor:
    """The inputs as standardised features [n, d]."""
    if not isinstance(examples.inputs, Tensor):
        raise ThresherError(
            f"{examples.name} is streamed and this corruption looks at all inputs: "
            "read them first with thresher.data.in_memory(examples)."
        )
    flat = examples.inputs.cpu().flatten(1).float()
    mean, deviation = flat.mean(0), flat.std(0, correction=0)
    return (flat - mean) / torch.where(deviation > 0, deviation, 1.0)


def _flipped(flip: Flip, examples: Examples, rate: float, option: str | None, draws: torch.Generator) -> Examples:
    _refuse_option(rate, option)
    return recorded(examples, flip(examples.labels.cpu(), rate, draws, examples.outputs))


def _backgroundflip(examples: Examples, rate: float, option: str | None, draws: torch.Generator) -> Examples:
    background = _whole_number("backgroundflip", option) or 0
    return recorded(examples, labels.backgroundflip(examples.labels.cpu(), rate, draws, examples.outputs, background))


def _by_input(
    flip: Callable[..., Tensor], examples: Examples, rate: float, option: str | None, draws: torch.Generator
) -> Examples:
    _refuse_option(rate, option)
    return recorded(examples, flip(examples.labels.cpu(), rate, draws, examples.outputs, _features(examples)))


def _imbalance(examples: Examples, ratio: float, option: str | None, draws: torch.Generator) -> Examples:
    total = _whole_number("imbalance", option)
    kept = examples.subset(imbalance(examples.labels.cpu(), ratio, draws, examples.outputs, total))
    return recorded(kept, kept.targets)


def _added(add: Add, examples: Examples, rate: float, option: str | None, draws: torch.Generator) -> Examples:
    _refuse_option(rate, option)
    return add(examples, rate, draws)


def _noisy_class(examples: Examples, rate: float, option: str | None, draws: torch.Generator) -> Examples:
    label = _whole_number("class", option)
    return noisy_pools.noisy_class(examples, rate, draws, 1 if label is None else label)


def _replaced(
    replace: Replace, examples: Examples, rate: float, option: str | None, draws: torch.Generator
) -> Examples:
    _refuse_option(rate, option)
    return recorded(examples, replace(examples.targets.cpu(), rate, draws))


def _exchanged(examples: Examples, rate: float, option: str | None, draws: torch.Generator) -> Examples:
    """Targets exchanged in the unit of the data, where standardised ones know it."""
    _refuse_option(rate, option)
    mean, deviation = examples.target_scale or (torch.zeros(1), torch.ones(1))
    given = examples.targets.cpu()
    own = given * deviation + mean
    exchanged = targets.pairflip(own, rate, draws)
    wrong = _differ(exchanged, own)[:, None]  # the others stay as they are to the last bit
    return recorded(examples, torch.where(wrong, ((exchanged - mean) / deviation).to(given.dtype), given))


def _linadv(examples: Examples, rate: float, option: str | None, draws: torch.Generator) -> Examples:
    strength = targets.LINADV_STRENGTH if option is None else _parsed(f"linadv:{option}")[1]
    return recorded(examples, targets.linadv(examples.targets.cpu(), rate, draws, _features(examples), strength))


def _mixture(examples: Examples, rate: float, option: str | None, draws: torch.Generator) -> Examples:
    _refuse_option(rate, option)
    return recorded(examples, targets.mixture(examples.targets.cpu(), rate, draws, _features(examples)))


FOR_CLASSES: dict[str, Corruption] = {
    "symmetric": partial(_flipped, labels.symmetric),
    "pairflip": partial(_flipped, labels.pairflip),
    "asymmetric": partial(_flipped, labels.asymmetric),
    "derangement": partial(_flipped, labels.derangement),
    "instance": partial(_by_input, labels.instance),
    "projection": partial(_by_input, labels.projection),
    "uniformflip": partial(_flipped, labels.symmetric),  # L2RW's name for it
    "uniformflip-any": partial(_flipped, labels.uniformflip_any),
    "backgroundflip": _backgroundflip,
    "imbalance": _imbalance,
    "blank": partial(_added, noisy_pools.blank),
    "diverse": partial(_added, noisy_pools.diverse),
    "class": _noisy_class,
}

FOR_REAL_TARGETS: dict[str, Corruption] = {
    "linadv": _linadv,
    "signflip": partial(_replaced, targets.signflip),
    "uninoise": partial(_replaced, targets.uninoise),
    "pairflip": _exchanged,
    "mixture": _mixture,
}
