"""Facility location in one pass over data that need not fit into memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from thresher.core.chunks import places_of_least, rows_at_once
from thresher.core.errors import ThresherError
from thresher.core.seeding import generator as seeded
from thresher.rules.coresets.coverage import Coreset, clusters
from thresher.rules.coresets.distances import checked_rows
from thresher.rules.coresets.facility_location import facility_location

AT_LEAST, FOR_EACH = 4096, 16  # rows of the sample, in all and for each medoid
PIECE = 4096  # rows that are offered to the sample at once


def streamed_facility_location(
    blocks: Iterable[Tensor],
    count: int,
    *,
    reservoir: int | None = None,
    generator: torch.Generator | None = None,
) -> Coreset:
    """`count` medoids from one pass over blocks of embeddings [m, d]; a second pass assigns the clusters.

    The pass keeps a uniform sample of the stream (`reservoir`, 16 rows for each medoid and at least 4,096; Vitter
    1985), of which exact greedy takes the medoids: at least 1 - 1/e of the best value on the sample, whose mean value
    of any medoids is that of the stream but for O(1/√reservoir). Memory does not depend on n.

    >>> streamed_facility_location([torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [9.0]])], 2).cluster_sizes
    tensor([3, 1])
    """
    if isinstance(blocks, Iterator):
        raise ThresherError(
            "An iterator can be read only once, but clusters need a second pass: give a list or a data set."
        )
    if not (isinstance(count, Integral) and count >= 1):
        raise ThresherError(f"count={count} cannot be chosen: give a whole count of at least 1.")
    room = max(AT_LEAST, FOR_EACH * count) if reservoir is None else max(reservoir, count)
    sample, n = _sampled(blocks, room, generator or seeded(0, "stream"))
    if n < count:
        raise ThresherError(f"count={count} cannot be chosen of {n} examples: give a whole number from 1 to {n}.")
    greedy = facility_location(sample.rows, count)
    medoids = sample.rows[greedy.indices]
    nearest = _nearest(blocks, medoids, sample.places[greedy.indices.cpu()], n)
    if n == len(sample.places):
        return greedy
    return clusters(sample.places[greedy.indices.cpu()].tolist(), nearest)


@dataclass
class Sample:
    """A uniform sample of the stream so far."""

    rows: Tensor  # [room, d]
    places: Tensor  # [room] their places in the stream, on the host

    def renew(self, piece: Tensor, start: int, generator: torch.Generator) -> None:
        """Put each example of the piece [m, d] into a random slot with probability room / its place in the stream."""
        places = start + torch.arange(len(piece))
        slots = (torch.rand(len(piece), dtype=torch.float64, generator=generator) * (places + 1)).long()
        entering = (slots < len(self.places)).nonzero()[:, 0].tolist()
        latest = dict(zip(slots[entering].tolist(), entering, strict=True))  # of several for one slot the last stays
        new, taken = torch.tensor(list(latest), dtype=torch.long), torch.tensor(list(latest.values()), dtype=torch.long)
        self.rows[new] = piece[taken]
        self.places[new] = places[taken]


def _sampled(blocks: Iterable[Tensor], room: int, generator: torch.Generator) -> tuple[Sample, int]:
    """The sample after one pass, in the order of the stream, and the number of examples."""
    head: list[Tensor] = []
    sample, n = None, 0
    for piece in _pieces(blocks, PIECE):
        if sample is None:
            head.append(piece[: room - n].clone())  # a view would hold its whole block
            if n + len(piece) < room:
                n += len(piece)
                continue
            sample, piece, n = Sample(torch.cat(head), torch.arange(room)), piece[room - n :], room
        sample.renew(piece, n, generator)
        n += len(piece)
    if sample is None:
        if not head:
            raise ThresherError("The stream holds no blocks: give at least one block of embeddings [m, d].")
        sample = Sample(torch.cat(head), torch.arange(n))
    order = sample.places.argsort()
    return Sample(sample.rows[order.to(sample.rows.device)], sample.places[order]), n


def _nearest(blocks: Iterable[Tensor], medoids: Tensor, chosen: Tensor, n: int) -> Tensor:
    """By a second pass: the nearest of the medoids [count, d] for every example [n].

    The medoids must stand at their `chosen` places again.
    """
    centre = medoids.mean(0)  # products of what is around 0 keep most digits
    around = medoids - centre
    norms, found, first = around.square().sum(1), torch.empty(n, dtype=torch.long, device=medoids.device), 0
    for piece in _pieces(blocks, rows_at_once(len(medoids), medoids)):
        here = (chosen >= first) & (chosen < first + len(piece))
        stood = chosen[here] - first
        if first + len(piece) > n or not torch.equal(piece[stood.to(piece.device)], medoids[here.to(medoids.device)]):
            first = -1
            break
        # ‖x - m‖² without ‖x‖², which is the same for all medoids
        squares = torch.addmm(norms, piece - centre, around.T, alpha=-2)
        found[first : first + len(piece)] = places_of_least(squares)
        first += len(piece)
    if first != n:
        raise ThresherError(
            "The stream changed between two passes: give blocks that keep their order, such as a DataLoader "
            "with shuffle=False."
        )
    return found


def _pieces(blocks: Iterable[Tensor], size: int) -> Iterator[Tensor]:
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
