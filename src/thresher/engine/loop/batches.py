"""Batches: their order in an epoch, what a step has to know about their examples, and sweeps over whole sets."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.evidence import Signal, Swept
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.one_output import one_output
from thresher.core.recipe import Draw
from thresher.core.rule import Decision
from thresher.core.seeding import generator, preserved
from thresher.core.tasks import POSITIONS, summary
from thresher.core.trees import Tree, mapped, selected
from thresher.engine.device.capture import Captured
from thresher.engine.device.placement import Autocast, as_written
from thresher.engine.gradients.strategy import Strategy
from thresher.engine.several.shards import Shards
from thresher.engine.step.forward import Batch, forward_pass, read_all
from thresher.engine.step.learner import Taps, evaluating
from thresher.engine.step.teacher import TEACHER_OUTPUT, Teacher


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
                f"The epoch rule keeps {len(counted)} examples, fewer than a batch, which repeats them: lower batch=.",
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


def streamed(
    examples: Examples | None, order: Tensor | None, steps: int, *, seed: int, epoch: int, workers: int
) -> Iterable[Tree | None]:
    """The inputs that a stream brings for each step; a set in memory is gathered inside the step."""
    if examples is None or order is None or examples.in_memory:
        return [None] * steps
    return examples.batches(order, seed=seed, epoch=epoch, workers=workers)


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


@dataclass(frozen=True)
class Sweeper:
    """How to sweep: how many examples at once, in which precision, with how many loading workers, captured or not."""

    batch: int = 512
    autocast: Autocast = nullcontext
    workers: int = 0
    strategy: Strategy | None = None
    captured: bool = False
    channels_last: bool = False
    teacher: Teacher | None = None  # for objectives that ask it
    shards: Shards | None = None  # among several processes
    signals_at_once: float = math.inf  # GiB that a rule of an epoch may see, which is else asked in parts
    captures: dict[Any, Captured] = field(default_factory=dict, repr=False)

    def __call__(
        self,
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        *,
        wanted: Sequence[Signal] = (),
        taps: Taps | None = None,
        positions: Tensor | None = None,
    ) -> Swept:
        """Outputs [n, ...] and the wanted signals of the examples (at these positions), in order.

        Of classes at every token or pixel only a summary [n, 3] is kept.
        """
        found: list[list[Tensor]] = []
        self.each(found.append, model, objective, examples, wanted=wanted, taps=taps, positions=positions)
        outputs, *values = (torch.cat(column) for column in zip(*found, strict=True))
        return Swept(outputs, dict(zip(wanted, values, strict=True)))

    def each(
        self,
        take: Callable[[list[Tensor]], object],
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        *,
        wanted: Sequence[Signal] = (),
        taps: Taps | None = None,
        positions: Tensor | None = None,
        by_prediction: bool = False,
    ) -> None:
        """Hand over outputs and wanted signals of a few examples at a time, in order."""
        device = examples.targets.device
        places = torch.arange(len(examples), device=device) if positions is None else positions
        n = len(places)
        if self.captured and examples.in_memory:  # every row has the one shape that was captured
            places = torch.cat([places, places[:1].expand(-n % self.batch)])
        batches = torch.split(places, self.batch)
        rows = batches if self.shards is None else self.shards.of(batches)
        strategy = self.strategy if self.strategy is not None and set(self.strategy.norms) & set(wanted) else None
        see = self._seen(model, objective, examples, wanted, taps or Taps(model), strategy, by_prediction)
        grad = torch.set_grad_enabled(strategy is not None)
        with preserved(device), evaluating(model), evaluating(objective), as_written(), grad:
            done = 0
            stream = [None] * len(rows) if examples.in_memory else examples.batches(rows, workers=self.workers)
            for turn, (row, inputs) in enumerate(zip(rows, stream, strict=True)):
                if self.captured and examples.in_memory and strategy is None:
                    key = (id(model), id(examples), by_prediction, *wanted)
                    if key not in self.captures:
                        self.captures[key] = Captured(see)
                    seen = [value.clone() for value in self.captures[key]("sweep", index=row, inputs=inputs)]
                else:
                    seen = see(row, inputs)
                brought = [seen] if self.shards is None else self.shards.brought(seen, turn, batches)
                for values in brought:
                    take([value[: n - done] for value in values])
                    done += self.batch

    def _seen(
        self,
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        wanted: Sequence[Signal],
        taps: Taps,
        strategy: Strategy | None,
        by_prediction: bool,
    ) -> Callable[[Tensor, Tree | None], list[Tensor]]:
        """(positions, streamed inputs) -> the outputs of these examples, and their wanted signals."""
        teacher = self.teacher if wanted and "teacher" in objective.needs else None
        read = objective.columns if teacher is None else objective.columns | {TEACHER_OUTPUT}
        source = BatchSource(examples, sorted(read) if wanted else (), self.channels_last)

        def see(index: Tensor, inputs: Tree | None) -> list[Tensor]:
            batch = source.batch(index, index, inputs)
            evidence = forward_pass(
                model, objective, taps, batch, wanted=wanted, autocast=self.autocast,
                by_prediction=by_prediction, strategy=strategy, classes=examples.classes, teacher=teacher,
            ).evidence  # fmt: skip
            read_all(evidence, wanted)
            outputs = evidence.outputs.detach()
            if outputs.numel() == len(outputs):  # one number an example
                one = one_output(outputs, examples.task, examples.classes)
                outputs = outputs if one is None else one(outputs)
            kept = summary(outputs, batch.targets) if examples.task == POSITIONS else outputs
            return [kept, *(evidence.known[signal].detach() for signal in wanted)]

        return see
