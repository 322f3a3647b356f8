"""A training in progress: its networks, its place in the run, and one epoch of it."""

import math
import time
import warnings
from collections.abc import Generator, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError, raised_in
from thresher.core.evidence import Now
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import columns_of, needs_of, schedules_of
from thresher.core.schedules import Schedule, observers_of
from thresher.core.seeding import derive, preserved, seed_global
from thresher.engine.device.capture import Captured, obstacle, phase
from thresher.engine.device.placement import shard_of
from thresher.engine.loop.batch_norm import renew_averages
from thresher.engine.loop.epoch import EpochDecisions, decide_epoch
from thresher.engine.loop.feed import Feed, Given
from thresher.engine.loop.history import Columns, Scores, epoch_record, fill_unseen
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.plan import Plan
from thresher.engine.several.gather import CleanOfAll, NotesOfAll
from thresher.engine.several.ranks import Ranks
from thresher.engine.several.shards import Shards
from thresher.engine.start.checks import Tried
from thresher.engine.start.learners import learners_for, tried_out
from thresher.engine.start.ready_teacher import with_teacher_output
from thresher.engine.step.passes import Passes
from thresher.engine.step.shared import SharedStep
from thresher.engine.step.step import Step
from thresher.engine.step.teacher import TEACHER_OUTPUT, Teacher
from thresher.engine.store.about import identity
from thresher.engine.store.checkpoint import Record
from thresher.record.epoch_rows import EpochRows, steps_at_once
from thresher.record.ledger import Ledger, epoch_table

Value = TypeVar("Value")


class Training:
    """Everything that changes while a run goes on; `state()` is all of it that a checkpoint needs."""

    def __init__(
        self,
        recipe: Recipe,
        models: Sequence[nn.Module],
        sets: Mapping[str, Examples],
        plan: Plan,
        teacher: nn.Module | None = None,
        ranks: Ranks | None = None,
    ):
        self.recipe, self.plan, self.ranks = recipe, plan, ranks
        tried = tried_out(recipe, models, sets, plan, teacher, ranks)
        schedules, needs = schedules_of(recipe), needs_of(recipe)
        self.observers = observers_of(schedules, sets["train"], plan.epochs) if schedules else []  # may refuse
        self.learners = learners_for(recipe, models, sets["train"], plan, tried, ranks)
        self.refusal = self._why_uncaptured()
        captured = self.refusal is None
        objective = self.learners[0].objective
        taught = Teacher(teacher, objective.teacher_layers) if "teacher" in needs else None
        self.sweeper = Sweeper(
            max(1024 if captured else 512, plan.batch), plan.autocast, plan.workers, tried.in_sweep, captured,
            plan.channels_last, taught, None if ranks is None else Shards(ranks), plan.settings.signals_at_once,
        )  # fmt: skip
        self.sets = dict(sets)
        if taught is not None and taught.network is not None:
            asked = partial(self.sweeper, taught.network, objective)
            self.sets |= with_teacher_output(sets, lambda examples: asked(examples).outputs)
        self.train = self.sets["train"]
        self.step = self._make_step(tried, taught)
        self.generator = torch.Generator(self.device)
        self.captured = Captured(self._one_step, (self.generator,)) if captured else None
        self.scalars = {s: torch.zeros((), dtype=torch.float64, device=self.device) for s in schedules}
        read = columns_of(recipe) if self.step.passes.teacher is None else columns_of(recipe) | {TEACHER_OUTPUT}
        self.feed = Feed(recipe, self.train, sets.get("clean") if "clean" in needs else None, sorted(read), plan, ranks)
        self.now = Now(0, plan.epochs, self.generator, self.scalars)
        self.epoch, self.steps_done, self.finished, self.stopped = 0, 0, False, False
        self.history: list[Record] = []
        self.ledger = Ledger()
        self.scores = Scores(self.sets, self.learners, self.sweeper, plan.keep_best)

    def _why_uncaptured(self) -> str | None:
        """Why the step is not captured as a CUDA graph; None where it is."""
        if not self.plan.captured:
            return "it was not asked for"
        if self.ranks is not None:
            return "in several processes the host adds up gradients during the backward pass"
        return obstacle(self.learners[0].optimizer, self.plan.device)

    def _make_step(self, tried: Tried, taught: Teacher | None) -> Step:
        recipe, plan, ranks, train = self.recipe, self.plan, self.ranks, self.train
        every = 1 if self.refusal is None else steps_at_once(plan.batch, train.outputs)
        together = None if ranks is None else NotesOfAll(ranks, plan.batch)
        self.rows = [EpochRows(train, every, together) for _ in self.learners]
        of_clean = None if ranks is None else CleanOfAll(ranks, plan.clean_batch)
        passes = Passes(recipe, self.learners, train.classes, plan.autocast, tried.in_step, taught, of_clean)
        of_step = (recipe, passes, self.rows, plan.batch, plan.clean_batch)
        return Step(*of_step) if ranks is None else SharedStep(*of_step, ranks=ranks)

    @property
    def device(self) -> torch.device:
        return self.train.targets.device

    def identity(self) -> dict[str, Any]:
        return identity(self.recipe, self.sets, self.plan, self.learners[0])

    def run_epoch(self) -> Generator[tuple[int, int], None, None]:
        """Train one epoch, yielding (step, steps) after each step; its record and its ledger rows end it."""
        started, plan, epoch = time.perf_counter(), self.plan, self.epoch
        self.generator.manual_seed(derive(plan.seed, "epoch", epoch))
        for schedule, scalar in self.scalars.items():
            scalar.fill_(self._settled(schedule)(epoch, plan.epochs))
        self.now = Now(epoch, plan.epochs, self.generator, self.scalars)
        decided = self._decided()
        at_most = None if plan.steps is None else plan.steps - self.steps_done
        feed = self.feed.of_epoch(epoch, None if decided is None else decided.decisions, at_most)
        key = None if self.captured is None else self._recorded_for(epoch, feed.has_partners)
        alike = self.ranks is None or self.ranks.is_first or self.step.draws_as_one()
        rank = () if alike or self.ranks is None else (self.ranks.rank,)  # for masks of dropout
        with preserved(self.device):
            for done, given in enumerate(feed.steps):
                if plan.schedule is not None:
                    for learner in self.learners:
                        learner.set_learning_rate(plan.schedule(epoch + done / feed.count, plan.epochs))
                seed_global(self.device, plan.seed, epoch, done, *rank)
                with raised_in(partial(self._place_of, given.positions, done)):
                    self._take_step(key, **given._asdict())
                self.steps_done += 1
                yield done + 1, feed.count
        self._end_epoch(started, feed.count, decided, self.step.sees_only_blends(epoch, feed.has_partners))

    def _place_of(self, positions: Tensor, done: int) -> str:
        first = ", ".join(map(str, self.train.ids[positions[:3]].tolist()))
        return f"step {done + 1} of epoch {self.epoch + 1}, on the examples {first}, ..."

    def _decided(self) -> EpochDecisions | None:
        """What the recipe decides about the whole set before the first step, where it has anything that does."""
        if self.recipe.each_epoch is None and self.recipe.relabel_on("epoch") is None:
            return None
        columns, validation = self.feed.source.columns, self.sets.get("validation")
        with raised_in("each_epoch"):
            made = decide_epoch(self.recipe, self.learners, self.train, columns, validation, self.sweeper, self.now)
        self.feed.source.begin(made.decisions, made.new_targets)
        return made

    def _settled(self, schedule: Schedule) -> Schedule:
        """The schedule with what observers have found for it."""
        for observer in self.observers:
            schedule = observer.fill_in(schedule)
        return schedule

    def _recorded_for(self, epoch: int, with_partners: bool) -> Hashable:
        """What a captured step takes for granted in this epoch."""
        return (*phase(self.recipe, epoch), with_partners, *map(frozenset, self.feed.source.decided))

    def _take_step(self, key: Hashable, **given: Any) -> None:
        if self.captured is None:
            self._one_step(**given)
            return
        self.captured(key, **given)
        if self.captured.refusal is not None and self.refusal is None:
            self.refusal = self.captured.refusal
            warnings.warn(f"The step runs without a CUDA graph: {self.refusal}", stacklevel=2)

    def _one_step(self, **given: Any) -> None:
        self.step(now=self.now, **self.feed.batches(Given(**given), len(self.learners)))

    def _end_epoch(self, started: float, steps: int, decided: EpochDecisions | None, blended: bool) -> None:
        """Write the ledger's rows of the epoch and its record, and refuse to go on where training diverged."""
        plan, columns = self.plan, self._columns(decided, blended)
        if self.ranks is not None:
            decided_bytes = [own["weight"].tobytes() for own in columns]
            self.ranks.check_same("what they decided", self.generator.get_state().numpy().tobytes(), *decided_bytes)
        record = epoch_record(columns, self.train)
        self._refuse_divergence(record["loss"])
        if any(own.average is not None for own in self.learners):
            renew_averages(
                self.learners, self.train, self.recipe.views, plan, self.generator, self.sweeper.batch, self.epoch
            )
        rate = self.learners[0].optimizer.param_groups[0]["lr"]
        skipped = self.step.take_skipped()
        self.epoch += 1
        record |= {
            "epoch": self.epoch,
            "steps": steps,
            "batch": plan.batch,
            "learning_rate": float(rate),
            "skipped": skipped,
        }
        for observer in self.observers:
            record |= observer.record()
        record |= self.scores.take(self.epoch)
        self.history.append(record | {"seconds": time.perf_counter() - started})
        self.finished = self.epoch >= plan.epochs if plan.steps is None else self.steps_done >= plan.steps

    def _columns(self, decided: EpochDecisions | None, blended: bool) -> list[Columns]:
        """What each network's examples were in this epoch, which observers look at and the ledger keeps."""
        columns, extras = list[Columns](), []
        for place, (learner, rows) in enumerate(zip(self.learners, self.rows, strict=True)):
            weights, seen = (None, None) if decided is None else (decided.weights(place), decided.evidence[place])
            extras.append({} if decided is None else decided.columns(place, self.train.classes))
            filled = fill_unseen(rows, learner, self.train, self.sweeper, weights, seen, blended)
            columns.append({**filled, **extras[place]})
        for observer in self.observers:
            observer.observe(self.epoch + 1, columns)
        found = {name: values for observer in self.observers for name, values in observer.columns().items()}
        for place, (own, extra) in enumerate(zip(columns, extras, strict=True)):
            self.ledger.add(epoch_table(self.train, own, extra | found, epoch=self.epoch + 1, peer=place))
        if any(bool((own["weight"] < 0).any()) for own in columns):
            raise ThresherError("A batch rule gave negative weights: let it give weights of at least 0.")
        return columns

    def _refuse_divergence(self, loss: float | None) -> None:
        groups = [group for own in self.learners for group in own.optimizer.param_groups]
        held = [shard_of(parameter.detach()) for group in groups for parameter in group["params"]]
        length = nn.utils.get_total_norm(held)
        if not math.isfinite(loss or 0.0) or not length.isfinite():
            raise ThresherError(
                f"Training diverged in epoch {self.epoch + 1}: lower the learning rate, scale targets to about 1, or "
                "set clip=1.0."
            )

    def networks(self) -> tuple[list[nn.Module], list[nn.Module]]:
        return [own.model for own in self.learners], [own.average for own in self.learners if own.average is not None]

    def state(self) -> dict[str, Any]:
        """Everything the next epoch depends on."""
        return {
            "learners": [learner.state() for learner in self.learners],
            "epoch": self.epoch,
            "steps_done": self.steps_done,
            "finished": self.finished,
            "stopped": self.stopped,
            "carry": self.feed.visits.carry,
            "clean_carry": self.feed.clean.carry,
            "best": self.scores.best,
            "observed": [observer.state() for observer in self.observers],
            "shifts": [rows.shift.cpu() for rows in self.rows] if self.train.classes else [],
        }

    def load_state(self, saved: Mapping[str, Any]) -> None:
        for learner, state in zip(self.learners, saved["learners"], strict=True):
            learner.load_state(state, self.device)
        for rows, shift in zip(self.rows, saved["shifts"], strict=False):
            rows.shift.copy_(shift)
        self.epoch, self.steps_done = saved["epoch"], saved["steps_done"]
        self.finished, self.stopped = saved["finished"], saved["stopped"]
        self.feed.visits.carry, self.scores.best, self.history = saved["carry"], saved["best"], list(saved["history"])
        self.feed.clean.carry = saved["clean_carry"]
        for observer, state in zip(self.observers, saved["observed"], strict=True):
            observer.load_state(state)
        self.ledger.parts = list(saved["ledger"])

    def agreed(self, value: Value) -> Value:
        """The first process's value, of several."""
        return value if self.ranks is None else self.ranks.from_first(value)

    def close(self) -> None:
        for learner in self.learners:
            learner.remove_hooks()
