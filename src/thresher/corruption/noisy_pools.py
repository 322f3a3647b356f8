"""Pools with a noisy part: clean examples and, mixed with them, some of a kind whose labels say nothing.

Which examples are of the noisy kind can be seen from their inputs, unlike labels that are wrong here and there: the
heteroskedastic benchmarks of the paper on active learning, section 2. Columns other than the record are left out.
"""

from dataclasses import replace

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples

KINDS, LABELS = 100, 3  # of Noisy-Diverse: colours, and the labels of each colour


def blank(examples: Examples, rate: float, generator: torch.Generator) -> Examples:
    """Noisy-Blank: add black examples (x = 0) with any label, until they are the share `rate` of all.

    >>> pool = blank(Examples(torch.ones(10, 1, 2, 2), torch.arange(10)), 0.8, torch.Generator())
    >>> len(pool), pool.columns["is_corrupt"].sum().item(), pool.inputs[pool.columns["is_corrupt"]].abs().sum().item()
    (50, 40, 0.0)
    """
    inputs = _inputs(examples)
    count = _added(len(examples), rate)
    labels = torch.randint(0, examples.outputs, (count,), generator=generator)
    return _mixed(examples, inputs.new_zeros(count, *inputs.shape[1:]), labels, labels, generator)


def diverse(examples: Examples, rate: float, generator: torch.Generator) -> Examples:
    """Noisy-Diverse: add images of one of 100 colours; each colour has three labels, all equally likely.

    >>> pool = diverse(Examples(torch.arange(2400.0).view(200, 3, 2, 2), torch.arange(200)), 0.9, torch.Generator())
    >>> len(pool), pool.inputs[pool.columns["is_corrupt"]].unique(dim=0).shape[0]
    (2000, 100)
    """
    inputs, classes = _inputs(examples), examples.outputs
    if inputs.ndim != 4:
        raise ThresherError(
            f"{examples.name} has inputs of shape {list(inputs.shape[1:])} and diverse adds images of one colour: "
            "give images [n, channels, height, width], or use blank."
        )
    count = _added(len(examples), rate)
    low, high = inputs.amin(), inputs.amax()
    colours = low + (high - low) * torch.rand(KINDS, inputs.shape[1], 1, 1, generator=generator)
    choices = torch.rand(KINDS, classes, generator=generator).argsort(1)[:, : min(LABELS, classes)]
    kinds = torch.randint(0, KINDS, (count,), generator=generator)
    labels = choices[kinds, torch.randint(0, choices.shape[1], (count,), generator=generator)]
    added = colours.to(inputs.dtype)[kinds].expand(-1, -1, *inputs.shape[2:])
    return _mixed(examples, added, labels, labels, generator)


def noisy_class(examples: Examples, rate: float, generator: torch.Generator, label: int = 1) -> Examples:
    """Noisy-Class: give the examples of one class any label, then repeat them until they are the share `rate` of all.

    A copy has the label of its original. Examples of the class that are not needed are left out.

    >>> pool = noisy_class(Examples(torch.arange(10.0)[:, None], torch.arange(10) % 5), 0.8, torch.Generator())
    >>> len(pool), pool.inputs[pool.columns["is_corrupt"]].unique().tolist()
    (40, [1.0, 6.0])
    """
    if not 0 <= label < examples.outputs:
        raise ThresherError(f"There is no class {label} to make noisy: give one from 0 to {examples.outputs - 1}.")
    inputs, labels = _inputs(examples), examples.labels.cpu()
    noisy = (labels == label).nonzero()[:, 0]
    if not 0 < len(noisy) < len(labels):
        raise ThresherError(f"{len(noisy)} of {len(labels)} examples are of class {label}: choose another noisy class.")
    clean = examples.subset(labels != label)
    count = _added(len(clean), rate)
    given = torch.randint(0, examples.outputs, noisy.shape, generator=generator)
    once = torch.randperm(len(noisy), generator=generator)[:count]
    again = torch.randint(0, len(noisy), (count - len(once),), generator=generator)
    source = torch.cat([once, again])
    at = noisy[source]
    ids = torch.cat([examples.ids.cpu()[at[: len(once)]], _new_ids(examples, len(again))])
    return _mixed(clean, inputs[at.to(inputs.device)], given[source], torch.full_like(source, label), generator, ids)


def _inputs(examples: Examples) -> Tensor:
    if not isinstance(examples.inputs, Tensor):
        raise ThresherError(
            f"{examples.name} is streamed and this corruption adds inputs to it: "
            "read them first with thresher.data.in_memory(examples)."
        )
    return examples.inputs


def _added(clean: int, rate: float) -> int:
    """How many to add to the clean ones so that they are the share `rate` of all.

    >>> _added(20, 0.8)
    80
    """
    if not 0 <= rate < 1:
        raise ThresherError(f"The noisy share must be at least 0 and below 1, not {rate}: correct it.")
    return round(clean * rate / (1 - rate))


def _new_ids(examples: Examples, count: int) -> Tensor:
    return int(examples.ids.max()) + 1 + torch.arange(count)


def _mixed(
    clean: Examples,
    inputs: Tensor,
    given: Tensor,
    true: Tensor,
    generator: torch.Generator,
    ids: Tensor | None = None,
) -> Examples:
    """Clean examples and noisy ones in random order; `is_corrupt` marks the noisy kind, whatever its label."""
    count, device = len(inputs), clean.targets.device
    new = _new_ids(clean, count) if ids is None else ids
    before = clean.columns.get("is_corrupt", torch.zeros_like(clean.targets, dtype=torch.bool))
    marks = torch.ones(count, dtype=torch.bool, device=device)
    columns = {
        "true_target": torch.cat([clean.columns.get("true_target", clean.targets), true.to(device)]),
        "is_corrupt": torch.cat([before.bool(), marks]),
    }
    both = replace(
        clean,
        inputs=torch.cat([_inputs(clean), inputs]),
        targets=torch.cat([clean.targets, given.to(device)]),
        ids=torch.cat([clean.ids, new.to(device)]),
        columns=columns,
        checked=False,
    )
    return both.subset(torch.randperm(len(both), generator=generator))
