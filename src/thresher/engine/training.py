"""A training in progress: its networks, its place in the run, and one epoch of it."""

import time
import warnings
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from thresher.engine.capture import Captured, obstacle, phase
from thresher.engine.check import check_model, check_recipe, check_schedules, check_sets
from thresher.engine.checkpoint import Record, describe
from thresher.engine.clean import CleanStream, queued
from thresher.engine.epoch import epoch_evidence
from thresher.engine.evidence import Evidence
from thresher.engine.feed import Feed
from thresher.engine.learner import Learner
from thresher.engine.look import Precision
from thresher.engine.optimizer import MakeOptimizer
from thresher.engine.partners import PartnerStream
from thresher.engine.record import epoch_record, fill_unseen
from thresher.engine.step import Now, Step
from thresher.engine.sweep import Sweeper, measure, metric_of
from thresher.engine.teacher import TEACHER_OUTPUT, Teacher
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.ledger import EpochRows, Ledger, epoch_table, last_visits
from thresher.mix import as_mixable
from thresher.noise_rate import NoiseRate
from thresher.objectives import Objective, as_objective
from thresher.recipe import Recipe, over
from thresher.rules.rule import Decision, ask, columns_of, needs_of, schedules_of
from thresher.schedules import Schedule
from thresher.seeding import derive, generator, preserved, seed_global


@dataclass(frozen=True)
class Plan:
    """How long and how to train: the settings of `fit` that are no data and no method."""

    epochs: float
    steps: int | None
    batch: int
    seed: int
    precision: Precision
    workers: int
    schedule: Schedule | None
    make_optimizer: MakeOptimizer
    captured: bool = False
    channels_last: bool = False
    clean_batch: int = 1


class Training:
    """Everything that changes while a run goes on; `state()` is all of it that a checkpoint needs."""

    def __init__(
        self,
        recipe: Recipe,
        models: Sequence[nn.Module],
        sets: Mapping[str, Examples],
        plan: Plan,
        keep_best: bool,
        teacher: nn.Module | None = None,
    ):
        self.recipe, self.plan, self.keep_best = recipe, plan, keep_best
        train, needs = sets["train"], needs_of(recipe)
        objective = as_objective(recipe.objective, train.classes)
        said = train.columns.get(TEACHER_OUTPUT) if teacher is None else teacher
        given = {**sets, "peer": recipe.peers > 1 or None, "average": recipe.average, "teacher": said}
        check_recipe(recipe, objective, train, given)
        check_schedules(recipe, plan.epochs)
        clean = sets.get("clean") if "clean" in needs else None
        self.clean = CleanStream(clean, plan.clean_batch, plan.seed)
        device = train.targets.device
        fits = check_model(recipe, models[0], objective.to(device), train, plan.seed, clean, plan.clean_batch)
        check_sets(models[0], sets, plan.seed)
        rate = recipe.average
        if isinstance(rate, over):
            rate = rate.rate(len(train) / plan.batch)
        self.learners = [
            Learner(m, as_objective(recipe.objective, train.classes).to(device), plan.make_optimizer, rate)
            for m in models
        ]
        for learner in self.learners:
            learner.watch_layers(learner.objective.layers, fits.head)
        self.refusal = obstacle(self.learners[0].optimizer, device) if plan.captured else "nobody asked for it"
        captured = self.refusal is None
        taught = Teacher(teacher, objective.teacher_layers) if "teacher" in needs else None
        at_once = max(1024 if captured else 512, plan.batch)
        self.sweeper = Sweeper(
            at_once, plan.precision, plan.workers, fits.ways.factored, captured, plan.channels_last, taught
        )
        self.sets = self._with_teacher(sets, taught, objective)
        self.train = train = self.sets["train"]
        self.rows = [EpochRows(train, flush_at=0 if captured else 8192) for _ in models]
        self.step = Step(recipe, self.learners, train.classes, plan.precision, self.rows, fits.ways, plan.batch, taught)
        self.generator = torch.Generator(self.device)
        self.captured = Captured(self._one_step, (self.generator,)) if captured else None
        self.scalars = {s: torch.zeros((), dtype=torch.float64, device=self.device) for s in schedules_of(recipe)}
        self.noise_rate = NoiseRate(recipe, train, plan.epochs)
        self.partners = PartnerStream(recipe.mix, train, plan.seed)
        read = columns_of(recipe) if self.step.teacher is None else columns_of(recipe) | {TEACHER_OUTPUT}
        self.feed = Feed(train, sorted(read), plan.channels_last, clean)
        self.now = Now(0, plan.epochs, self.generator, self.scalars)
        self.epoch, self.steps_done, self.finished, self.stopped = 0, 0, False, False
        self.carry = torch.empty(0, dtype=torch.long)
        self.history: list[Record] = []
        self.ledger = Ledger()
        self.best: dict[str, Any] | None = None

    def _with_teacher(
        self, sets: Mapping[str, Examples], teacher: Teacher | None, objective: Objective
    ) -> dict[str, Examples]:
        """The sets, with the column of a teacher that is a network: it is asked once, for it does not change."""
        made = dict(sets)
        if teacher is not None and teacher.network is not None:
            for name in ("train", "validation"):
                if name in sets and TEACHER_OUTPUT not in sets[name].columns:
                    said = self.sweeper(teacher.network, objective, sets[name]).outputs
                    made[name] = sets[name].with_columns(**{TEACHER_OUTPUT: said})
        return made

    @property
    def device(self) -> torch.device:
        return self.train.targets.device

    def identity(self) -> dict[str, Any]:
        """What makes this run this run and no other, for telling whether a folder may be continued."""
        optimizer = self.learners[0].optimizer
        return {
            "recipe": describe(self.recipe),
            "model": derive(repr(self.learners[0].model)),
            "data": describe([self.train.ids, self.train.targets]),
            "length": [self.plan.epochs, self.plan.steps],
            "batch": self.plan.batch,
            "clean": None if self.clean.clean is None else self._clean_identity(self.clean.clean),
            **self._teacher_identity(),
            "seed": self.plan.seed,
            "optimizer": [type(optimizer).__name__, self.learners[0].base_rates, self._optimizer_settings()],
            "keep": "best_on_validation" if self.keep_best else "last",
            "schedule": describe(self.plan.schedule),
            "precision": str(self.plan.precision),
        }

    def _optimizer_settings(self) -> Any:
        hidden = ("params", "lr", "fused", "foreach", "capturable")
        groups = self.learners[0].optimizer.param_groups
        return [{name: describe(value) for name, value in group.items() if name not in hidden} for group in groups]

    def _teacher_identity(self) -> dict[str, Any]:
        """What the teacher says of the sets that rules read; nothing where nobody asks it."""
        needs = needs_of(self.recipe)
        read = [self.sets[name] for name in ("train", "validation") if name == "train" or name in needs]
        return {"teacher": describe([e.columns[TEACHER_OUTPUT] for e in read])} if "teacher" in needs else {}

    def _clean_identity(self, clean: Examples) -> Any:
        return [describe([clean.ids, clean.targets]), self.plan.clean_batch]

    def run_epoch(self) -> Generator[tuple[int, int], None, None]:
        """Train one epoch, yielding (step, steps) after each step; its record and its ledger rows end it."""
        started = time.perf_counter()
        self.generator.manual_seed(derive(self.plan.seed, "epoch", self.epoch))
        for schedule, scalar in self.scalars.items():
            scalar.fill_(self.noise_rate.settle(schedule)(self.epoch, self.plan.epochs))
        self.now = Now(self.epoch, self.plan.epochs, self.generator, self.scalars)
        sights = [self._epoch_evidence(learner) for learner in self.learners]
        decisions = self._decide_epoch(sights)
        lessons = self._relabel_epoch(sights, decisions)
        self.feed.begin(decisions, lessons)
        order = self._order(decisions)
        clean = self.clean.order(self.epoch, len(order))
        clean_inputs = self.clean.inputs(clean, self.epoch, self.plan.workers, len(order))
        drawn = self.partners.draw(order, self.feed.decided, self.epoch)
        fetched = self.partners.inputs(drawn, self.epoch, self.plan.workers, len(order))
        rows, key = last_visits(order, len(self.train)), (*phase(self.recipe, self.epoch), drawn is None)
        streams = zip(self._inputs(order), clean_inputs, fetched, strict=True)
        with preserved(self.device):
            for done, (inputs, clean_seen, partner_seen) in enumerate(streams):
                progress = self.epoch + done / len(order)
                if self.plan.schedule is not None:
                    for learner in self.learners:
                        learner.set_learning_rate(self.plan.schedule(progress, self.plan.epochs))
                seed_global(self.device, self.plan.seed, self.epoch, done)
                self._take_step(
                    key,
                    index=order[done],
                    rows=rows[done],
                    inputs=inputs,
                    clean=None if clean is None else clean[done],
                    clean_inputs=clean_seen,
                    partner=None if drawn is None else drawn.partner[done],
                    share=None if drawn is None else drawn.share[done],
                    partner_inputs=partner_seen,
                )
                self.steps_done += 1
                yield done + 1, len(order)
        blended = (self.step.mixes_within or drawn is not None) and not self.step.asks
        self._end_epoch(started, len(order), sights, decisions, lessons, blended)

    def _take_step(self, key: Hashable, **given: Any) -> None:
        if self.captured is None:
            self._one_step(**given)
            return
        self.captured(key, **given)
        if self.captured.refusal is not None and self.refusal is None:
            self.refusal = self.captured.refusal
            warnings.warn(f"The step runs without a CUDA graph: {self.refusal}", stacklevel=2)

    def _one_step(
        self,
        index: Tensor,
        rows: Tensor,
        inputs: Tensor | None,
        clean: Tensor | None,
        clean_inputs: Tensor | None,
        partner: Tensor | None,
        share: Tensor | None,
        partner_inputs: Tensor | None,
    ) -> None:
        weights, lessons = self.feed.decisions(index)
        trusted, beside = self.feed.clean_batch(clean, clean_inputs), self.feed.beside(partner, share, partner_inputs)
        self.step(self.feed.batch(index, rows, inputs), weights, self.now, trusted, beside, lessons)

    def _inputs(self, order: Tensor) -> Iterable[Tensor | None]:
        """What a stream brings for each step; a set in memory is gathered inside the step."""
        if self.train.in_memory:
            return [None] * len(order)
        return self.train.batches(order, seed=self.plan.seed, epoch=self.epoch, workers=self.plan.workers)

    def _epoch_evidence(self, learner: Learner) -> Evidence:
        columns, validation, relabel = self.feed.columns, self.sets.get("validation"), self.recipe.relabel
        asked = (self.recipe.each_epoch, relabel if relabel is not None and relabel.clock == "epoch" else None)
        return epoch_evidence(asked, learner, self.train, columns, validation, self.sweeper, self.now)

    def _decide_epoch(self, sights: Sequence[Evidence]) -> list[Decision] | None:
        if self.recipe.each_epoch is None:
            return None
        if "peer" in needs_of(self.recipe.each_epoch):
            others = [sights[(place + 1) % len(sights)] for place in range(len(sights))]
            sights = [s.but(others={**s.others, "peer": o}) for s, o in zip(sights, others, strict=True)]
        decisions = [ask(self.recipe.each_epoch, evidence) for evidence in sights]
        for decision in decisions:
            if not (decision.weights.isfinite() & (decision.weights >= 0)).all():
                raise ThresherError(
                    "The epoch rule gave negative or NaN weights: let it give finite, non-negative ones."
                )
        for learner, decision in zip(self.learners, decisions, strict=True):
            learner.epoch_memory.update(decision.memory)
        return decisions

    def _relabel_epoch(self, sights: Sequence[Evidence], decisions: Sequence[Decision] | None) -> list[Tensor] | None:
        """The targets of this epoch for each network, where the recipe relabels once an epoch."""
        relabel = self.recipe.relabel
        if relabel is None or relabel.clock != "epoch":
            return None
        columns = [{} for _ in sights] if decisions is None else [decision.columns for decision in decisions]
        seen = [s.but(columns={**s.columns, **own}) for s, own in zip(sights, columns, strict=True)]
        return [as_mixable(relabel(evidence), self.train.classes).detach() for evidence in seen]

    def _order(self, decisions: Sequence[Decision] | None) -> Tensor:
        """Positions [steps, batch]: full batches of the examples that count; the remainder opens the next epoch."""
        everyone = torch.arange(len(self.train))
        if decisions is not None:
            counts = torch.stack([decision.weights for decision in decisions]).amax(0).cpu() > 0
            everyone, self.carry = everyone[counts], self.carry[counts[self.carry]]
        if len(everyone) < self.plan.batch:
            raise ThresherError(
                f"The epoch rule keeps {len(everyone)} examples, fewer than a batch: keep more, or lower batch=."
            )
        drawn = self.recipe.draw(everyone, self.train, generator(self.plan.seed, "order", self.epoch))
        order = queued(self.carry, drawn)
        steps = len(order) // self.plan.batch
        if self.plan.steps is not None:
            steps = min(steps, self.plan.steps - self.steps_done)
        used = steps * self.plan.batch
        self.carry = order[used:]
        return order[:used].view(steps, self.plan.batch).to(self.device)

    def _end_epoch(
        self,
        started: float,
        steps: int,
        sights: Sequence[Evidence],
        decisions: Sequence[Decision] | None,
        lessons: Sequence[Tensor] | None,
        blended: bool,
    ) -> None:
        columns, extras = [], []
        for place, (learner, rows) in enumerate(zip(self.learners, self.rows, strict=True)):
            weights = None if decisions is None else decisions[place].weights
            seen = fill_unseen(rows, learner, self.train, self.sweeper, weights, sights[place], blended)
            decided = {} if decisions is None else {k: v.cpu().numpy() for k, v in decisions[place].columns.items()}
            if lessons is not None and not self.train.is_regression:
                decided["taught"] = lessons[place].argmax(1).int().cpu().numpy()
            columns.append({**seen, **decided})
            extras.append(decided)
        self.noise_rate.look(self.epoch + 1, columns)
        for place, seen in enumerate(columns):
            extra = extras[place] | self.noise_rate.columns()
            self.ledger.add(epoch_table(self.train, seen, extra, epoch=self.epoch + 1, peer=place))
        record = epoch_record(columns, self.train)
        length = nn.utils.get_total_norm([p.detach() for own in self.learners for p in own.model.parameters()])
        if record["loss"] != record["loss"] or not length.isfinite():
            raise ThresherError(
                f"Training diverged to NaN in epoch {self.epoch + 1}: lower the learning rate or set clip=1.0."
            )
        rate = self.learners[0].optimizer.param_groups[0]["lr"]
        skipped = self.step.take_skipped()
        self.epoch += 1
        record |= {"epoch": self.epoch, "steps": steps, "learning_rate": float(rate), "skipped": skipped}
        record |= {"metric": metric_of(self.train), **self.noise_rate.record(), **self._scores()}
        self.history.append(record | {"seconds": time.perf_counter() - started})
        if self.plan.steps is None:
            self.finished = self.epoch >= self.plan.epochs
        else:
            self.finished = self.steps_done >= self.plan.steps

    def _scores(self) -> dict[str, Any]:
        """The score on the test set, each network's and the mean; and the best so far on the validation set."""
        found: dict[str, Any] = {"score": None, "scores": {}}
        metric = metric_of(self.train)
        if "test" in self.sets:
            measured = [self._measure(learner.model, learner, "test") for learner in self.learners]
            found["scores"] = {name: sum(m[name] for m in measured) / len(measured) for name in measured[0]}
            found["score"] = found["scores"][metric]
            if len(measured) > 1:
                found["scores"] |= {f"peer{place}": m[metric] for place, m in enumerate(measured)}
            averages = [self._measure(own.average, own, "test")[metric] for own in self.learners if own.average]
            if averages:
                found["scores"]["average"] = sum(averages) / len(averages)
        if self.keep_best:
            checked = [self._measure(learner.model, learner, "validation")[metric] for learner in self.learners]
            found["validation"] = sum(checked) / len(checked)
            if self.best is None or found["validation"] > self.best["score"]:
                states = [{k: v.cpu().clone() for k, v in own.model.state_dict().items()} for own in self.learners]
                self.best = {"score": found["validation"], "epoch": self.epoch, "models": states}
        return found

    def _measure(self, model: nn.Module, learner: Learner, name: str) -> dict[str, float]:
        return measure(self.sweeper(model, learner.objective, self.sets[name]).outputs, self.sets[name])

    def restore_best(self) -> None:
        if self.best is not None:
            for learner, state in zip(self.learners, self.best["models"], strict=True):
                learner.model.load_state_dict(state)

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
            "carry": self.carry,
            "clean_carry": self.clean.carry,
            "best": self.best,
            "noise_rate": self.noise_rate.state(),
            "shifts": [rows.shift.cpu() for rows in self.rows] if self.train.classes else [],
        }

    def load_state(self, saved: Mapping[str, Any]) -> None:
        for learner, state in zip(self.learners, saved["learners"], strict=True):
            learner.load_state(state, self.device)
        for rows, shift in zip(self.rows, saved["shifts"], strict=False):
            rows.shift.copy_(shift)
        self.epoch, self.steps_done = saved["epoch"], saved["steps_done"]
        self.finished, self.stopped = saved["finished"], saved["stopped"]
        self.carry, self.best, self.history = saved["carry"], saved["best"], list(saved["history"])
        self.clean.carry = saved["clean_carry"]
        self.noise_rate.load_state(saved["noise_rate"])
        self.ledger.parts = list(saved["ledger"])

    def close(self) -> None:
        for learner in self.learners:
            learner.remove_hooks()
