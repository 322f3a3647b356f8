"""Selection in two rounds the slow way: lists of rows, one part after the other, then all that was proposed."""

from collections.abc import Callable, Sequence

Choose = Callable[[Sequence[int], int], list[int]]  # (rows to choose from, how many) -> rows in order of choice


def chosen(parts: Sequence[Sequence[int]], each: int, count: int, choose: Choose) -> tuple[list[int], list[int]]:
    """What all parts propose, and what is chosen of that."""
    proposed = sorted(row for part in parts for row in choose(part, each))
    return proposed, choose(proposed, count)


def members(
    parts: Sequence[Sequence[int]],
    each: int,
    count: int,
    choose: Choose,
    nearest: Callable[[int, Sequence[int]], int],
) -> dict[int, list[int]]:
    """For each chosen row, whose members are nearest to it by way of the proposal of their part they are nearest to."""
    of_proposal: dict[int, list[int]] = {}
    for part in parts:
        own = choose(part, each)
        for row in part:
            of_proposal.setdefault(row if row in own else nearest(row, own), []).append(row)
    proposed, final = chosen(parts, each, count, choose)
    found: dict[int, list[int]] = {row: [] for row in final}
    for proposal in proposed:
        found[proposal if proposal in final else nearest(proposal, final)] += of_proposal[proposal]
    return found
