"""What a step of several processes brings together: evidence for the rules, partners to mix with, notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from thresher.core.evidence import OTHER_EXAMPLES, Evidence, Signal, Swept
from thresher.core.objective import Objective
from thresher.core.recipe import Pairing
from thresher.engine.several.ranks import Ranks
from thresher.record.epoch_rows import Note


class Facts(Protocol):
    """What every process knows of a whole batch without a message."""

    @property
    def ids(self) -> Tensor: ...
    @property
    def targets(self) -> Tensor: ...
    @property
    def columns(self) -> dict[str, Tensor]: ...


def whole_evidence(ranks: Ranks, own: Evidence, batch: Facts) -> Evidence:
    """Evidence about all examples of a batch, from that of every process about its part.

    The signals that were computed are gathered now, those of one number an example by a single message; outputs are
    gathered when a rule reads them. Evidence about other examples, such as the clean ones, stays as it is.
    """
    n = len(batch.ids)
    known = {key: value for key, value in own.known.items() if isinstance(key, Signal)}
    single = [key for key, value in known.items() if value.ndim == 1 and value.dtype == torch.float32]
    found: dict[Any, Tensor] = {}
    if single:
        columns = ranks.whole(torch.stack([known[key] for key in single], 1), n)
        found = dict(zip(single, columns.unbind(1), strict=True))
    found |= {key: ranks.whole(value, n) for key, value in known.items() if key not in found}
    others = {
        name: other if name in OTHER_EXAMPLES else whole_evidence(ranks, other, batch)
        for name, other in own.others.items()
        if name != "peer"  # which the step links to the whole evidence of the other network
    }
    outputs = own.outputs.detach()
    return own.replace(
        ids=batch.ids,
        targets=batch.targets,
        raw_outputs=lambda: Swept(ranks.whole(outputs, n), {}),
        inputs=None,
        columns=batch.columns,
        layers={},
        others=others,
        known=found,
    )


@dataclass(frozen=True)
class SharedPairing(Pairing):
    """Partners within a batch, of which some are other processes': what is blended is gathered first."""

    ranks: Ranks = field(kw_only=True)

    def blend(self, values: Tensor) -> Tensor:
        """As `Pairing.blend`: of this process's rows, or of whole values such as weights."""
        n = len(self.share)
        return super().blend(values) if len(values) == n else self.ranks.own(super().blend(self.ranks.whole(values, n)))

    def blend_by_weight(self, labels: Tensor, weights: Tensor) -> Tensor:
        """As `Pairing.blend_by_weight`, of this process's labels and the weights of all."""
        whole = Pairing(self.partner, self.share)
        return self.ranks.own(whole.blend_by_weight(self.ranks.whole(labels, len(weights)), weights))


def see_whole_batch(ranks: Ranks, objective: Objective, n: int) -> list[RemovableHandle]:
    """Let an objective whose losses depend on the other examples of a batch see all n of them while it trains.

    Each process's rows stay attached to its graph; the quantities of the batch are detached by the objective.
    """
    part, shared = ranks.part(n), list[bool]()  # of the call that goes on

    def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        evidence = args[0]
        shared.append(module.training and len(evidence) == part.stop - part.start)
        if not shared[-1]:
            return args
        gathered = {name: ranks.whole(value, n) for name, value in evidence.columns.items()}
        return (
            evidence.replace(
                ids=ranks.whole(evidence.ids, n),
                targets=ranks.whole(evidence.targets, n),
                raw_outputs=ranks.attached(evidence.outputs, n),
                columns=gathered,
            ),
        )

    def after(module: nn.Module, args: tuple[Any, ...], losses: Tensor) -> Tensor:  # noqa: ARG001
        return losses[part] if shared.pop() else losses

    return [objective.register_forward_pre_hook(before), objective.register_forward_hook(after)]


@dataclass(frozen=True)
class CleanOfAll:
    """The gradient of the mean loss of n clean examples, of which each process sees a part; all, if they are few."""

    ranks: Ranks
    n: int

    def part(self, losses: Tensor) -> Tensor:
        """This process's part of the mean, from its losses."""
        return losses.mean() if self.n < self.ranks.count else losses.sum() / self.n

    def total(self, direction: Mapping[nn.Parameter, Tensor]) -> Mapping[nn.Parameter, Tensor]:
        """The gradient of the mean, from those of all parts."""
        if self.n >= self.ranks.count:
            self.ranks.add_up(list(direction.values()))
        return direction


@dataclass(frozen=True)
class NotesOfAll:
    """The notes of several steps, of which each process made those of its part of a batch of n."""

    ranks: Ranks
    n: int

    def __call__(self, notes: Sequence[Note]) -> list[Note]:
        """Notes of whole batches, by one message for all of them."""
        lone = notes[0].losses.dtype
        columns = [notes[0].outputs.shape[1], 1, 1, 1]
        missing = torch.full_like(notes[0].losses, float("nan"))
        packed = torch.stack(
            [
                torch.cat(
                    [
                        note.outputs.to(lone),
                        note.losses[:, None],
                        note.weights[:, None].to(lone),
                        (missing if note.signal is None else note.signal)[:, None].to(lone),
                    ],
                    1,
                )
                for note in notes
            ],
            1,
        )  # [rows, steps, width]
        index = torch.stack([note.index for note in notes], 1)
        found, places = self.ranks.whole(packed, self.n), self.ranks.whole(index, self.n)
        made = []
        for step in range(len(notes)):
            outputs, losses, weights, signal = torch.split(found[:, step], columns, 1)
            made.append(Note(places[:, step], outputs, losses[:, 0], weights[:, 0], signal[:, 0]))
        return made
