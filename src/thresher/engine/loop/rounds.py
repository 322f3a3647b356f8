"""Rules of an epoch or a round about more than fits in one memory: asked in parts, then about what those propose."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from thresher.core.errors import note_stage
from thresher.core.evidence import OTHER_EXAMPLES, Evidence, Signal
from thresher.core.rounds import Rounds, rounds_of
from thresher.core.rule import Decision, RuleLike, ask
from thresher.core.seeding import generator
from thresher.engine.several.ranks import Ranks

GIB = 2.0**30


@dataclass(frozen=True)
class Parts:
    """Random parts of n examples, in each process the same; process r is asked about the parts r, r + count, ...

    How many there are depends on the size of the evidence alone, so that decisions do not depend on the processes.
    """

    positions: Sequence[Tensor]
    ranks: Ranks | None
    seed: int

    @property
    def n(self) -> int:
        return sum(map(len, self.positions))

    @property
    def own(self) -> list[int]:
        rank, count = (0, 1) if self.ranks is None else (self.ranks.rank, self.ranks.count)
        return list(range(rank, len(self.positions), count))

    def draws(self, place: int, device: torch.device) -> torch.Generator:
        """What a rule draws by in one part; in the second round, the place after the last."""
        return generator(self.seed, "part", place, device=device)

    def whole(self, found: Sequence[tuple[Tensor, Tensor]], like: Tensor, n: int) -> Tensor:
        """All n rows, of which this process found some: (places, rows)."""
        rows = like.new_zeros(n, *like.shape[1:], dtype=torch.uint8 if like.dtype == torch.bool else None)
        for places, values in found:
            rows[places] = values.to(rows.dtype)
        if self.ranks is not None:
            self.ranks.add_up([rows])  # every row is one process's, and zero in the others
        return rows.to(like.dtype)


def parts_for(
    rule: RuleLike | None,
    evidence: Evidence,
    size_of_each: Callable[[], float],
    at_most: float,
    ranks: Ranks | None,
    draws: torch.Generator,
) -> tuple[Rounds, Parts] | None:
    """The parts in which a rule is asked, or None where one call about all examples fits, or is needed.

    The size of the evidence about each example is asked for only where it counts; at_most is in GiB.
    """
    n = len(evidence)
    if rounds_of(rule, evidence, 2) is None or not math.isfinite(at_most):
        return None
    size = size_of_each() * n
    count = min(math.ceil(size / (at_most * GIB)), math.isqrt(n))
    if count < 2:
        return None
    rounds = rounds_of(rule, evidence, count)
    assert rounds is not None
    seed = int(torch.randint(2**31, (), generator=draws, device=draws.device))
    shuffled = torch.randperm(n, generator=generator(seed, "parts")).tensor_split(count)
    if ranks is None or ranks.is_first:
        how = "what each proposes is chosen from" if rounds.then is not None else "what each decides stands"
        warnings.warn(
            f"The rule is asked about {count} random parts of {n:,} examples, because signals of all would be "
            f"{size / GIB:.3g} GiB, more than signals_at_once={at_most:g}; {how}.",
            stacklevel=2,
        )
    return rounds, Parts([part.sort().values.to(evidence.ids.device) for part in shuffled], ranks, seed)


def size_of_each(evidence: Evidence) -> float:
    """Bytes of outputs and signals about one example."""
    return _bytes(evidence) / len(evidence)


def _bytes(evidence: Evidence) -> int:
    _ = evidence.outputs
    own = sum(value.numel() * value.element_size() for value in evidence.known.values())
    return own + sum(_bytes(other) for name, other in evidence.others.items() if name not in OTHER_EXAMPLES)


def decided_in_parts(
    rounds: Rounds,
    parts: Parts,
    of_part: Callable[[Tensor], Evidence],
    some: Evidence,
    wanted: Sequence[Signal],
    ids: Tensor,
) -> Decision:
    """The decision of both rounds about all n examples; `of_part` gives the evidence about some positions.

    Its columns say which part an example is in (`part`, from 1), and whether that proposed it (`proposed`).
    """
    device, decided, proposed = ids.device, list[tuple[Tensor, Decision]](), list[tuple[Tensor, Evidence]]()
    try:
        for place in parts.own:
            positions = parts.positions[place]
            evidence = of_part(positions).replace(generator=parts.draws(place, device))
            decided.append((positions, ask(rounds.first[place], evidence)))
            if rounds.then is not None:
                kept = (decided[-1][1].weights > 0).nonzero()[:, 0]
                proposed.append((positions[kept], evidence.subset(kept)))
    except Exception as error:
        note_stage(error, "each_epoch")
        raise
    first = _decision_of_all(parts, decided)
    marks = {"part": _part_of_each(parts, ids), "proposed": (first.weights > 0).int()}
    if rounds.then is None:
        return Decision(first.weights, {**first.columns, "part": marks["part"]})
    places = (first.weights > 0).nonzero()[:, 0]
    evidence = _evidence_at(parts, places, proposed, some, wanted, ids)
    then = ask(rounds.then, evidence.replace(generator=parts.draws(len(parts.positions), device)))
    made = rounds.joined(first, places, then, ids)
    return Decision(made.weights, {**made.columns, **marks})


def _decision_of_all(parts: Parts, decided: Sequence[tuple[Tensor, Decision]]) -> Decision:
    kinds = {name: value[:0].cpu() for name, value in decided[0][1].columns.items()} if decided else {}
    if parts.ranks is not None:
        kinds = parts.ranks.from_first(kinds)  # who has no part does not know the columns
    weights = torch.zeros(1, device=parts.positions[0].device)
    columns = {
        name: parts.whole([(at, one.columns[name]) for at, one in decided], kind.to(weights.device), parts.n)
        for name, kind in kinds.items()
    }
    return Decision(parts.whole([(at, one.weights) for at, one in decided], weights, parts.n), columns)


def _part_of_each(parts: Parts, ids: Tensor) -> Tensor:
    found = torch.empty(len(ids), dtype=torch.int32, device=ids.device)
    for place, positions in enumerate(parts.positions):
        found[positions] = place + 1
    return found


def _evidence_at(
    parts: Parts,
    places: Tensor,
    proposed: Sequence[tuple[Tensor, Evidence]],
    some: Evidence,
    wanted: Sequence[Signal],
    ids: Tensor,
) -> Evidence:
    """Evidence about the proposed examples in every process; `some` shows of what kind it is."""

    def together(of: Callable[[Evidence], Tensor]) -> Tensor:
        found = [(torch.searchsorted(places, at), of(evidence)) for at, evidence in proposed]
        return parts.whole(found, of(some), len(places))

    others = {
        name: other
        if name in OTHER_EXAMPLES
        else _evidence_at(parts, places, [(at, each.others[name]) for at, each in proposed], other, wanted, ids)
        for name, other in some.others.items()
    }
    return some.replace(
        ids=ids[places],
        targets=together(lambda evidence: evidence.targets),
        raw_outputs=together(lambda evidence: evidence.outputs),
        columns={name: together(lambda e, n=name: e.columns[n]) for name in some.columns},  # type: ignore[misc]
        others=others,
        known={
            signal: together(lambda e, s=signal: e.known[s])  # type: ignore[misc]
            for signal in wanted
            if signal in some.known
        },
    )
