"""A recipe, which is a method as a value, and the protocols of its slots."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Generator, Tensor, nn

from thresher.core.errors import ThresherError, is_number, is_whole, refuse_class, refuse_unless
from thresher.core.evidence import Evidence
from thresher.core.examples import Examples
from thresher.core.objective import ObjectiveLike
from thresher.core.rule import Reader, RuleLike, warmup
from thresher.core.trees import Tree, mapped

View = Callable[[Tensor, Generator], Tensor]  # (images [n, c, h, w], generator) -> images of the same shape
Clip = float | Callable[[Iterable[nn.Parameter]], object]


def seen_through(view: View, inputs: Tree, generator: Generator) -> Tree:
    """Inputs as a view shows them; of a tree the leaves that are images [n, c, h, w] are, each by draws of its own."""
    if isinstance(inputs, Tensor):
        return view(inputs, generator)
    return mapped(lambda leaf: view(leaf, generator) if leaf.ndim == 4 else leaf, inputs)


class Draw(Protocol):
    """`draw(positions, examples, generator)`: the positions of an epoch, in the order they are visited."""

    def __call__(self, positions: Tensor, examples: Examples, generator: Generator, /) -> Tensor: ...


def shuffled(positions: Tensor, examples: Examples, generator: Generator) -> Tensor:  # noqa: ARG001
    """Every example once, in random order."""
    return positions[torch.randperm(len(positions), generator=generator)]


class Averaging(Protocol):
    """The rate of a moving average that is not a fixed number."""

    def for_epochs_of(self, steps: float) -> "Averaging":
        """The same for epochs of this many steps."""

    def pace(self, moves: Tensor) -> float | Tensor:
        """1 - rate after this many moves of the average."""


@dataclass(frozen=True)
class Pairing:
    """The mixing partners of a batch: i is mixed with `partner[i]` and keeps the share `share[i]` of itself."""

    partner: Tensor
    share: Tensor

    def blend(self, values: Tensor) -> Tensor:
        """share · values + (1 - share) · values[partner], along the first dimension."""
        return blend(self.share, values, values[self.partner])

    def blend_by_weight(self, labels: Tensor, weights: Tensor) -> Tensor:
        """Labels [n, classes] blended by share · weight, so that the loss is λwᵢℓ(yᵢ) + (1 - λ)wⱼℓ(yⱼ).

        A dropped example then teaches nothing; where both weights are 0, it is the plain blend.

        >>> half = Pairing(torch.tensor([1, 0]), torch.tensor([0.5, 0.5]))
        >>> half.blend_by_weight(torch.eye(2), torch.tensor([3.0, 0.0])).tolist()
        [[1.0, 0.0], [1.0, 0.0]]
        """
        total = self.blend(weights)[:, None]
        counted = self.blend(weights[:, None] * labels) / total.clamp_min(torch.finfo(total.dtype).tiny)
        return torch.where(total > 0, counted, self.blend(labels))


def blend(share: Tensor, values: Tensor, others: Tensor) -> Tensor:
    """share · values + (1 - share) · others, with one share [n] for each row.

    >>> blend(torch.tensor([0.25]), torch.tensor([[4.0, 0.0]]), torch.tensor([[0.0, 4.0]])).tolist()
    [[1.0, 3.0]]
    """
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    return share * values + (1 - share) * others


class Mix(Protocol):
    """`mix(evidence) -> Pairing` for one batch: partners are positions within it."""

    def __call__(self, evidence: Evidence, /) -> Pairing: ...


@dataclass(frozen=True)
class Visits:
    """What an epoch is about to visit: positions [steps, batch] of the examples, and the columns of its rules [n]."""

    order: Tensor
    examples: Examples
    decided: Mapping[str, Tensor]
    epoch: int
    generator: Generator  # on the host


class MixFromSet(Reader, ABC):
    """Mixing with partners from the whole training set, drawn when an epoch begins, so that a stream can load them.

    A mixed example has the weight of its first part; the partner's weight is ignored.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    timeless: ClassVar[bool] = True  # its draws reach a step as tensors
    blends_targets: ClassVar[bool] = True

    @abstractmethod
    def draw(self, visits: Visits) -> Pairing | None:
        """Partners (positions in the set) and shares, both [steps, batch]; None: nothing is mixed in this epoch."""


MixLike = Mix | MixFromSet | warmup


class Relabel(Reader, ABC):
    """`relabel(evidence) -> targets`: the targets to train on; the ledger keeps the given ones.

    On the batch clock it is asked in every step, after the signals. On the epoch clock it is asked once an epoch about
    the whole set, after the epoch rule, whose columns it may read; batch rules then look at the new targets.
    """

    clock: ClassVar[str] = "batch"
    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    @abstractmethod
    def __call__(self, evidence: Evidence) -> Tensor: ...


MOST_PEERS = 100  # each is a whole network with an optimizer
KINDS = {
    "each_batch": "a rule, such as KeepSmallest(...), or a function of evidence",
    "each_epoch": "a rule, such as Centrality(...), or a function of evidence",
    "relabel": "a relabelling, such as AverageLabels()",
    "objective": "an Objective, or a function of outputs and targets",
    "mix": "a mix, such as Mixup()",
    "draw": "a function, such as class_balanced",
    "clip": "a number above 0, or a function of the parameters",
    "average": "a rate from 0 up to 1, over(1) or Growing(0.999)",
}


@dataclass(frozen=True)
class Recipe:
    """How to train on data that cannot be fully trusted; the default of every slot is plain training.

    each_batch, each_epoch  rules: how much each example counts (batch weight = epoch weight × batch rule's weight)
    relabel    what an example should teach, where the given target is not trusted
    objective  losses [n]: an Objective, or a function (outputs, targets) -> [n]
    views      augmented copies of a batch; signals are read on the first
    mix        train on blends of examples, of the same batch or of the whole set
    draw       the order in which, and how often, an epoch visits the examples
    clip       a bound on the norm of the whole gradient, or a function of the parameters that changes their gradients
    peers      how many networks are trained side by side
    average    the rate of a moving average of parameters and buffers: 0.999, `over(1)` epochs, or Growing(0.999)
    divide_by  what Σ wℓ is divided by: "weights" (Σ w) or "batch" (n)
    """

    each_batch: RuleLike | None = None
    each_epoch: RuleLike | None = None
    relabel: Relabel | None = None
    objective: ObjectiveLike | None = None
    views: tuple[View, ...] = ()
    mix: MixLike | None = None
    draw: Draw = shuffled
    clip: Clip | None = None
    peers: int = 1
    average: float | Averaging | None = None
    divide_by: Literal["weights", "batch"] = "weights"

    def __post_init__(self) -> None:
        self._check_kinds()
        if self.peers < 1:
            raise ThresherError(f"peers={self.peers} trains nothing: give at least 1.")
        if self.peers > MOST_PEERS:
            raise ThresherError(f"peers={self.peers:,} are too many networks for one training: give 1 to {MOST_PEERS}.")
        if isinstance(self.average, (int, float)) and not 0 <= self.average < 1:
            raise ThresherError(f"average={self.average} never moves: give a rate from 0 up to, but below, 1.")
        if isinstance(self.clip, (int, float)) and not self.clip > 0:
            raise ThresherError(f"clip={self.clip} clips everything away: give a number above 0.")
        if self.divide_by not in ("weights", "batch"):
            raise ThresherError(f'divide_by={self.divide_by!r} is unknown: give "weights" or "batch".')

    def _check_kinds(self) -> None:
        """Refuse what cannot fill its slot."""
        refuse_unless("peers", self.peers, is_whole(self.peers, -sys.maxsize), "a whole number of at least 1")
        for name in ("each_batch", "each_epoch", "relabel", "objective", "mix", "draw"):
            part = getattr(self, name)
            refuse_class(f"The recipe's {name}", part)
            refuse_unless(
                f"The recipe's {name}", part, part is None or callable(part) or isinstance(part, Reader), KINDS[name]
            )
        views = self.views
        fits = isinstance(views, tuple | list) and all(map(callable, views))
        refuse_unless("The recipe's views", views, fits, "a tuple of views, such as (Flip(),)")
        for name in ("clip", "average"):
            part = getattr(self, name)
            fits = part is None or is_number(part) or part == math.inf or not isinstance(part, str | int | float)
            refuse_unless(f"The recipe's {name}", part, fits, KINDS[name])

    def relabel_on(self, clock: str) -> Relabel | None:
        """The relabelling, if it is asked on this clock: "batch" or "epoch"."""
        return self.relabel if self.relabel is not None and self.relabel.clock == clock else None
