"""Facility location in one pass over data that need not fit into memory."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from numbers import Integral

import torch
from torch import Tensor

from thresher.core.chunks import rows_at_once
from thresher.core.errors import ThresherError
from thresher.core.seeding import generator as seeded
from thresher.rules.coresets.coverage import Coreset, clusters
from thresher.rules.coresets.distances import checked_rows
from thresher.rules.coresets.facility_location import facility_location

OFFERED = 64  # examples in a piece of the stream; the sample is renewed between pieces


def streamed_facility_location(
    blocks: Iterable[Tensor],
    count: int,
    *,
    slack: float = 0.1,
    reservoir: int | None = None,
    generator: torch.Generator | None = None,
) -> Coreset:
    """`count` medoids from one pass over blocks of embeddings [m, d]; a second pass assigns the clusters.

    Sieve-streaming (Badanidiyuru et al. 2014): for every guess v = (1 + slack)^p of the best value a sieve takes an
    example if it gains (v / 2 - f(S)) / (count - |S|). Values are of a random sample of the stream (`reservoir`, twice
    the count), relative to the mean of its beginning as a first medoid. Memory does not depend on n.
    Exact greedy on the sample proposes medoids too, and the second pass keeps those of the two that cover more.

    >>> streamed_facility_location([torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [9.0]])], 2).cluster_sizes
    tensor([3, 1])
    """
    if isinstance(blocks, Iterator):
        raise ThresherError(
            "An iterator can be read only once, but clusters need a second pass: give a list or a data set."
        )
    if not (isinstance(count, Integral) and count >= 1 and slack > 0):
        raise ThresherError(f"count={count} with slack={slack}: give a whole count of at least 1 and a slack above 0.")
    room = max(1000, 2 * count) if reservoir is None else max(reservoir, count)
    sample, sieves, n = _sieved(blocks, count, slack, room, generator or seeded(0, "stream"))
    if n < count:
        raise ThresherError(f"count={count} cannot be chosen of {n} examples: give a whole number from 1 to {n}.")
    greedy = facility_location(sample.rows, count)
    if n == len(sample.places):
        _nearest(blocks, sample.rows[greedy.indices][None], [greedy.indices.tolist()], n)
        return greedy
    best = min(sieves, key=lambda sieve: float(sieve.reach.mean()))
    rows = dict(zip(best.chosen, best.rows, strict=True))
    for place, row in zip(
        sample.places, sample.rows, strict=True
    ):  # filling the places that the sieve left free only helps
        if len(rows) < count:
            rows.setdefault(place, row)
    chosen = [list(rows), [sample.places[slot] for slot in greedy.indices.tolist()]]
    medoids = torch.stack([torch.stack(list(rows.values())), sample.rows[greedy.indices]])
    better, nearest = _nearest(blocks, medoids, chosen, n)
    return clusters(chosen[better], nearest)


@dataclass
class Sample:
    """A uniform sample of the stream so far."""

    rows: Tensor  # [room, d]
    places: list[int]  # their places in the stream
    centre: Tensor  # [1, d] the first medoid, which all examples have
    far: Tensor  # [room] the distance to it

    @classmethod
    def of(cls, head: Tensor) -> "Sample":
        centre = head.mean(0, keepdim=True)
        return cls(head, list(range(len(head))), centre, torch.cdist(centre, head)[0])

    def renew(self, piece: Tensor, start: int, generator: torch.Generator) -> list[int]:
        """Sample each example of the piece [m, d] with probability room / its place (reservoir sampling): new slots."""
        places = start + 1 + torch.arange(len(piece))
        slots = (torch.rand(len(piece), dtype=torch.float64, generator=generator) * places).long().tolist()
        entering = {slot: place for place, slot in enumerate(slots) if slot < len(self.places)}
        for slot, place in entering.items():
            self.rows[slot] = piece[place]
            self.places[slot] = start + place
        new = list(entering)
        self.far[new] = torch.cdist(self.centre, self.rows[new])[0]
        return new


@dataclass
class Sieve:
    """A guess of the best value, and the examples taken under it."""

    goal: float
    reach: Tensor  # [room] the distance of each sampled example to its nearest medoid
    chosen: list[int] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)

    def offer(self, piece: Tensor, distances: Tensor, start: int, count: int, far: Tensor) -> None:
        """Take examples of the piece [m, d] that gain enough, one after the other; distances [m, room] to the sample.

        The longer none gains enough, the more are judged at once, because taking one changes the gains of the others.
        """
        first, at_once = 0, 1
        while len(self.chosen) < count and first < len(piece):
            offered = distances[first : first + at_once]
            gains = (self.reach - torch.minimum(offered, self.reach)).mean(1)
            missing = self.goal / 2 - float((far - self.reach).mean())
            enough = (gains > 0) & (gains >= missing / (count - len(self.chosen)))
            if not bool(enough.any()):
                first, at_once = first + len(offered), 4 * at_once
                continue
            taken = first + int(enough.int().argmax())
            self.reach = torch.minimum(self.reach, distances[taken])
            self.chosen.append(start + taken)
            self.rows.append(piece[taken].clone())  # a view would hold its whole block
            first, at_once = taken + 1, 1

    def renew(self, slots: list[int], sample: Sample) -> None:
        """Compute the reach of the examples that are new in the sample."""
        self.reach[slots] = sample.far[slots]
        if self.rows:
            nearest = torch.cdist(torch.stack(self.rows), sample.rows[slots]).amin(0)
            self.reach[slots] = torch.minimum(nearest, sample.far[slots])


def _sieved(
    blocks: Iterable[Tensor], count: int, slack: float, room: int, generator: torch.Generator
) -> tuple[Sample, list[Sieve], int]:
    """The sample and the sieves after one pass, and the number of examples."""
    stream, head = _pieces(blocks), []
    for piece in stream:
        head.append(piece)
        if sum(len(each) for each in head) >= room:
            break
    if not head:
        raise ThresherError("The stream holds no blocks: give at least one block of embeddings [m, d].")
    sample = Sample.of(torch.cat(head))
    sieves: dict[int, Sieve] = {}
    best, n = 0.0, 0
    for piece in chain(head, stream):
        new = sample.renew(piece, n, generator) if n >= len(sample.places) else []
        if new:
            for sieve in sieves.values():
                sieve.renew(new, sample)
        distances = torch.cdist(piece, sample.rows)
        best = max(best, float((sample.far - torch.minimum(distances, sample.far)).mean(1).max()))
        sieves = _guesses(sieves, best, count, slack, sample.far)
        for sieve in sieves.values():
            sieve.offer(piece, distances, n, count, sample.far)
        n += len(piece)
    return sample, list(sieves.values()), n


def _guesses(sieves: dict[int, Sieve], best: float, count: int, slack: float, far: Tensor) -> dict[int, Sieve]:
    """A sieve for every power of 1 + slack that the best value can be near, from the best single gain upwards."""
    if best <= 0:
        return sieves or {0: Sieve(0.0, far.clone())}
    low, high = (math.log(value, 1 + slack) for value in (best, max(best, min(2 * count * best, float(far.mean())))))
    powers = range(math.ceil(low), max(math.ceil(low), math.floor(high)) + 1)
    return {power: sieves.get(power) or Sieve((1 + slack) ** power, far.clone()) for power in powers}


def _nearest(blocks: Iterable[Tensor], medoids: Tensor, chosen: Sequence[Sequence[int]], n: int) -> tuple[int, Tensor]:
    """By a second pass: which of the sets [sets, count, d] of medoids is nearer in total, and the assignment [n] to it.

    The `chosen` must be where the first pass found them.
    """
    sets, count, _ = medoids.shape
    found, first = torch.empty(sets, n, dtype=torch.long, device=medoids.device), 0
    totals, stood = medoids.new_zeros(sets), torch.tensor(chosen, device=medoids.device)
    for piece in _pieces(blocks, rows_at_once(sets * count, medoids)):
        here = (stood >= first) & (stood < first + len(piece))
        if first + len(piece) > n or not torch.equal(piece[stood[here] - first], medoids[here]):
            first = -1
            break
        distances, found[:, first : first + len(piece)] = torch.cdist(piece, medoids).min(2)
        totals += distances.sum(1)
        first += len(piece)
    if first != n:
        raise ThresherError(
            "The stream changed between two passes: give blocks that keep their order, such as a DataLoader "
            "with shuffle=False."
        )
    better = int(totals.argmin())
    return better, found[better]


def _pieces(blocks: Iterable[Tensor], size: int = OFFERED) -> Iterator[Tensor]:
    """The stream in pieces [m, d] of at most `size` examples, in double precision."""
    width = None
    for block in blocks:
        alone = isinstance(block, (list, tuple)) and len(block) == 1  # as a loader over a TensorDataset gives it
        rows = checked_rows(block[0] if alone else block)
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise ThresherError(
                f"A block has rows of {rows.shape[1]} numbers after rows of {width}: give rows of one width."
            )
        yield from torch.split(rows, size)
