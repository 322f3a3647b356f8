"""What the steps of an epoch are given: which examples, in which order, with which clean ones and partners."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Draw, MixFromSet, Pairing, Recipe, Visits
from thresher.core.rule import Decision, in_epoch
from thresher.core.seeding import generator
from thresher.core.trees import Tree, mapped, selected
from thresher.engine.plan import Plan
from thresher.engine.several.ranks import Ranks
from thresher.engine.step.forward import Batch
from thresher.record.epoch_rows import last_visits


class Given(NamedTuple):
    """What one step is given: positions [batch] of examples, clean examples and partners, and what streams bring."""

    positions: Tensor
    rows: Tensor  # of the ledger's notes: the positions, where an example is visited last
    inputs: Tree | None
    clean: Tensor | None
    clean_inputs: Tree | None
    partner: Tensor | None
    share: Tensor | None
    partner_inputs: Tree | None


@dataclass(frozen=True)
class EpochFeed:
    """What the steps of one epoch are given."""

    steps: Iterator[Given]
    count: int
    has_partners: bool


class Feed:
    """Which examples each step sees; of several processes, this one's part of them."""

    def __init__(
        self,
        recipe: Recipe,
        train: Examples,
        clean: Examples | None,
        columns: Sequence[str],
        plan: Plan,
        ranks: Ranks | None,
    ):
        self.train, self.mix, self.plan, self.ranks = train, recipe.mix, plan, ranks
        self.visits = TrainStream(train, recipe.draw, plan.batch, plan.seed)
        self.clean = CleanStream(clean, plan.clean_batch, plan.seed)
        self.source = BatchSource(train, columns, plan.channels_last, clean)

    def of_epoch(self, epoch: int, decisions: Sequence[Decision] | None, at_most: int | None) -> EpochFeed:
        """The steps of an epoch, no more than so many."""
        order = self.visits.order(epoch, decisions, at_most)
        clean = self.clean.order(epoch, len(order))
        drawn = self._drawn_partners(order, {} if decisions is None else decisions[0].columns, epoch)
        partner, share = (None, None) if drawn is None else (drawn.partner, drawn.share)
        rows = last_visits(order, len(self.train))
        inputs, clean_inputs, partner_inputs = (
            self._streamed(examples, positions, len(order), epoch)
            for examples, positions in ((self.train, order), (self.clean.clean, clean), (self.train, partner))
        )
        columns = (order, rows, inputs, clean, clean_inputs, partner, share, partner_inputs)
        each = (repeat(None, len(order)) if column is None else column for column in columns)
        return EpochFeed((Given(*step) for step in zip(*each, strict=True)), len(order), drawn is not None)

    def batches(self, given: Given, networks: int) -> dict[str, Any]:
        """What the step is called with: the batch, as each network gets it, its weights, clean ones and partners."""
        source, wholes = self.source, list[Batch]()
        weights = source.weights_at(given.positions)
        if self.ranks is not None:
            whole = source.batch(given.positions, given.rows, torch.empty(0))  # whose inputs no process has
            wholes = source.as_decided(whole, given.positions, networks)
        index, rows, clean, partner, share = (
            self._own(each, 0) for each in (given.positions, given.rows, given.clean, given.partner, given.share)
        )
        assert index is not None
        assert rows is not None
        batch = source.batch(index, rows, given.inputs)
        return {
            "batch": batch,
            "batches": source.as_decided(batch, index, networks),
            "epoch_weights": weights,
            "clean": source.clean_batch(clean, given.clean_inputs),
            "partners": source.partners(partner, given.partner_inputs),
            "share": share,
            "wholes": wholes,
        }

    def _drawn_partners(self, order: Tensor, decided: Mapping[str, Tensor], epoch: int) -> Pairing | None:
        """Partners and shares [steps, batch] for an epoch in this order, or None where none come from the whole set."""
        mix = in_epoch(epoch, self.mix)
        if not isinstance(mix, MixFromSet):
            return None
        return mix.draw(Visits(order, self.train, decided, epoch, generator(self.plan.seed, "mix", epoch)))

    def _streamed(
        self, examples: Examples | None, order: Tensor | None, steps: int, epoch: int
    ) -> Iterable[Tree | None]:
        """The inputs that a stream brings for each step; a set in memory is gathered inside the step."""
        positions = self._own(order)
        if examples is None or positions is None or examples.in_memory:
            return repeat(None, steps)
        return examples.batches(positions, seed=self.plan.seed, epoch=epoch, workers=self.plan.workers)

    def _own(self, rows: Tensor | None, along: int = 1) -> Tensor | None:
        """Of rows [steps, batch], or [batch] along 0, those of this process; all where there are too few to share."""
        if self.ranks is None or rows is None or rows.shape[along] < self.ranks.count:
            return rows
        part = self.ranks.part(rows.shape[along])
        return rows.narrow(along, part.start, part.stop - part.start)


class BatchSource:
    """The training set and the epoch's decisions about it, from which a step picks its batch by position.

    The tensors stay the same from epoch to epoch and only their values change, so that a captured step can read them.
    """

    def __init__(self, train: Examples, columns: Sequence[str], channels_last: bool, clean: Examples | None = None):
        self.train, self.channels_last, self.clean = train, channels_last, clean
        self.columns = {name: train.columns[name] for name in columns}
        self.decided: list[dict[str, Tensor]] = []
        self.weights: dict[str, Tensor] = {}
        self.new_targets: dict[str, Tensor] = {}

    def begin(self, decisions: Sequence[Decision] | None, new_targets: Sequence[Tensor] | None) -> None:
        """Take over what the epoch's rules decided for each network, and the targets it is to learn."""
        if new_targets is not None:
            _overwrite(self.new_targets, {str(place): targets for place, targets in enumerate(new_targets)})
        if decisions is not None:
            self.decided = self.decided or [{} for _ in decisions]
            for kept, decision in zip(self.decided, decisions, strict=True):
                _overwrite(kept, decision.columns)
            _overwrite(self.weights, {str(place): decision.weights for place, decision in enumerate(decisions)})

    def batch(self, index: Tensor, rows: Tensor, inputs: Tree | None) -> Batch:
        """The examples at these positions; their inputs are gathered here unless a stream has brought them."""
        train, inputs = self.train, self._inputs(self.train, index, inputs)
        columns = _at(self.columns, index)
        targets = train.targets.index_select(0, index)
        return Batch(rows, train.ids.index_select(0, index), inputs, targets, columns)

    def as_decided(self, batch: Batch, index: Tensor, networks: int) -> list[Batch]:
        """The batch as each network gets it: with the columns that its rule decided, and its new targets."""
        made = [batch] * networks
        if self.decided:
            columns = [{**batch.columns, **_at(kept, index)} for kept in self.decided]
            made = [replace(own, columns=its) for own, its in zip(made, columns, strict=True)]
        if self.new_targets:
            new_targets = _at(self.new_targets, index).values()
            made = [replace(own, targets=its) for own, its in zip(made, new_targets, strict=True)]
        return made

    def weights_at(self, index: Tensor) -> list[Tensor] | None:
        """The epoch's weights of the examples at these positions, for each network."""
        return list(_at(self.weights, index).values()) or None

    def clean_batch(self, index: Tensor | None, inputs: Tree | None) -> Batch | None:
        """The clean examples at these positions, where there are any."""
        return None if self.clean is None or index is None else self._plain_batch(self.clean, index, inputs)

    def partners(self, index: Tensor | None, inputs: Tree | None) -> Batch | None:
        """The partners at these positions of the training set, where the batch is mixed with such."""
        return None if index is None else self._plain_batch(self.train, index, inputs)

    def _plain_batch(self, examples: Examples, index: Tensor, inputs: Tree | None) -> Batch:
        inputs = self._inputs(examples, index, inputs)
        return Batch(index, examples.ids.index_select(0, index), inputs, examples.targets.index_select(0, index), {})

    def _inputs(self, examples: Examples, index: Tensor, streamed: Tree | None) -> Tree:
        inputs = streamed
        if inputs is None:
            inputs = examples.as_model_input(selected(examples.inputs, index))
        return mapped(_channels_last, inputs) if self.channels_last else inputs


def _channels_last(inputs: Tensor) -> Tensor:
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs


def _at(kept: Mapping[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    return {name: value.index_select(0, index) for name, value in kept.items()}


def _overwrite(kept: dict[str, Tensor], new: Mapping[str, Tensor]) -> None:
    """Copy new values into the tensors kept under the same names; names without new values are removed."""
    for name in kept.keys() - new.keys():
        del kept[name]
    for name, value in new.items():
        old = kept.get(name)
        if old is not None and old.shape == value.shape and old.dtype == value.dtype:
            old.copy_(value)
        else:
            kept[name] = value.detach().clone()


class TrainStream:
    """Full batches of the examples that count in an epoch; the remainder opens the next one.

    Where fewer count than a batch holds, they are repeated to fill one, so that a method that trusts little goes on.
    """

    def __init__(self, train: Examples, draw: Draw, batch: int, seed: int):
        self.train, self.draw, self.batch, self.seed = train, draw, batch, seed
        self.carry = torch.empty(0, dtype=torch.long)

    def order(self, epoch: int, decisions: Sequence[Decision] | None, at_most: int | None) -> Tensor:
        """Positions [steps, batch] of an epoch, of no more than so many steps."""
        counted = torch.arange(len(self.train))
        if decisions is not None:
            counts = torch.stack([decision.weights for decision in decisions]).amax(0).cpu() > 0
            counted, self.carry = counted[counts], self.carry[counts[self.carry]]
        if not len(counted):
            raise ThresherError("The epoch rule keeps no example: let it keep some, as many as a batch or more.")
        drawn = self.draw(counted, self.train, generator(self.seed, "order", epoch))
        order = queued(self.carry, drawn)
        if len(counted) < self.batch:
            warnings.warn(
                f"The epoch rule keeps fewer examples than a batch of {self.batch}, which repeats them: give a smaller "
                "batch.",  # without how many are kept, so that it is said once and not at every epoch
                stacklevel=2,
            )
            order = drawn.repeat(-(-self.batch // len(drawn)))[: max(len(drawn), self.batch)]
        steps = len(order) // self.batch
        used = (steps if at_most is None else min(steps, at_most)) * self.batch
        self.carry = order[used:]
        return order[:used].view(-1, self.batch).to(self.train.targets.device)


class CleanStream:
    """Batches of the clean set: each example once in random order, then again; a remainder opens the next epoch."""

    def __init__(self, clean: Examples | None, batch: int, seed: int):
        self.clean, self.batch, self.seed = clean, batch, seed
        self.carry = torch.empty(0, dtype=torch.long)

    def order(self, epoch: int, steps: int) -> Tensor | None:
        """Positions [steps, batch] of an epoch, or None where no rule reads a clean set."""
        if self.clean is None:
            return None
        draws = generator(self.seed, "clean", epoch)
        drawn = [self.take(draws) for _ in range(steps)] or [self.carry[:0]]
        return torch.cat(drawn).view(steps, self.batch).to(self.clean.targets.device)

    def take(self, draws: torch.Generator) -> Tensor:
        """Positions of the next batch, from permutations that these draws give."""
        assert self.clean is not None
        while len(self.carry) < self.batch:
            self.carry = queued(self.carry, torch.randperm(len(self.clean), generator=draws))
        taken, self.carry = self.carry[: self.batch], self.carry[self.batch :]
        return taken


def queued(carry: Tensor, drawn: Tensor) -> Tensor:
    """The remainder, then those drawn; those in both come last, so that no batch holds an example twice.

    >>> queued(torch.tensor([2]), torch.tensor([1, 2, 0])).tolist()
    [2, 1, 0, 2]
    """
    if not len(carry):
        return drawn
    repeated = torch.zeros(int(max(carry.max(), drawn.max())) + 1, dtype=torch.bool)
    repeated[carry] = True
    repeated = repeated[drawn]
    return torch.cat([carry, drawn[~repeated], drawn[repeated]])
