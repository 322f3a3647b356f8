"""acquire(): which examples of a pool to label next."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import FOLDER, SEED, Kind, ThresherError, or_none, refuse_other_kinds, whole
from thresher.core.evidence import Evidence, Signal, looks_at_head
from thresher.core.examples import Examples
from thresher.core.files import refuse_as_folder
from thresher.core.objective import Objective, ObjectiveLike
from thresher.core.one_output import OneOutput, adapted
from thresher.core.rule import Rule, RuleLike, ask, checked_count, columns_of, needs_of, parts, signals_of
from thresher.core.seeding import generator, preserved, seed_global
from thresher.core.tasks import CLASSES, REAL
from thresher.core.unfinished import unfinished_beside
from thresher.engine.device.placement import Precision, autocast_on, several
from thresher.engine.loop.rounds import decided_in_parts, parts_for, size_of_each
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.several.ranks import Ranks
from thresher.engine.several.shards import Shards
from thresher.engine.start.checks import check_round, first_of, output_width
from thresher.engine.start.gradient_trial import choose_strategy, last_linear
from thresher.engine.step.forward import check_outputs, prediction
from thresher.engine.step.learner import Taps, evaluating
from thresher.objectives import as_objective


def acquire(
    rule: RuleLike,
    model: nn.Module,
    pool: Examples,
    *,
    labelled: Examples | None = None,
    average: nn.Module | None = None,
    objective: ObjectiveLike | None = None,
    seed: int = 0,
    batch: int = 512,
    precision: Precision = None,
    workers: int = 0,
    on_disk: Path | str | None = None,
    signals_at_once: float = 8.0,
) -> Tensor:
    """The ids of the examples to label next, in the order of the pool: those to which the rule gives a weight.

    The pool's targets are never looked at: what the model predicts stands in for them. The model stays as it is.
    labelled, average  what some rules read: the examples labelled so far, and the model's moving average
    In a process group of torch.distributed every process sees its part of the pool, and all choose the same.
    signals_at_once   GiB of outputs and signals of the pool that the rule sees at once. Where there are more, and no
              `on_disk`, it chooses in random parts of the pool, and then among what those propose; a warning says so
    on_disk   a folder for outputs and features while the rule looks at them, where n · (features + classes) numbers do
              not fit into memory; the inputs of a streamed pool never have to

    >>> from thresher import signals
    >>> from thresher.rules import KeepSmallest
    >>> pool = Examples(torch.tensor([[0.0, 5.0], [0.0, 1.0], [4.0, 0.0]]), torch.zeros(3, dtype=torch.long))
    >>> acquire(KeepSmallest(by=signals.confidence, count=1), nn.Identity(), pool)
    tensor([1])
    """
    _refuse(rule, model, pool)
    refuse_other_kinds(KINDS, {
        "labelled": labelled, "average": average, "batch": batch, "workers": workers, "precision": precision,
        "on_disk": on_disk, "signals_at_once": signals_at_once, "seed": seed, "objective": objective,
    })  # fmt: skip
    given = {"average": average, "labelled": labelled}
    check_round(rule, pool, {name: source for name, source in given.items() if source is not None})
    where = next((tensor.device for tensor in model.parameters()), pool.targets.device)
    seen, needs = pool.to(where).in_type_of(model), needs_of(rule)
    classes = None if pool.classes is None else output_width(model, seen)
    adapter = OneOutput(two_classes=True) if classes == 1 else None
    classes = 2 if adapter is not None else classes
    own = as_objective(objective, pool.task).to(where)
    with _folder(on_disk) as folder, preserved(where), adapted(model, adapter), adapted(average, adapter):
        seed_global(where, seed, "acquire")  # for signals that come from dropout
        sweeper = Sweeper(
            batch, autocast_on(where, precision), workers, shards=Shards(Ranks(where)) if several() else None
        )
        sweep = Sweep(sweeper, own, classes, signals_of(rule), folder)
        known = labelled.to(where) if labelled is not None and "labelled" in needs else None
        about = About(rule, sweep, model, average if "average" in needs else None, known)
        weights = about.weights(seen, signals_at_once if folder is None else math.inf, seed)
    return pool.ids[(weights > 0).to(pool.ids.device)]


KINDS: dict[str, Kind] = {
    "labelled": or_none((lambda each: isinstance(each, Examples), "Examples(inputs, targets)")),
    "average": or_none((lambda each: isinstance(each, nn.Module), "a torch.nn.Module")),
    "objective": or_none((callable, "a function that gives losses [n]")),
    "batch": whole(1),
    "workers": whole(0),
    "precision": or_none((lambda each: isinstance(each, torch.dtype), "torch.float32 or torch.bfloat16")),
    "on_disk": or_none(FOLDER),
    "signals_at_once": (lambda each: isinstance(each, Real) and float(each) > 0, "a number of GiB above 0"),
    "seed": SEED,
}


def _refuse(rule: object, model: object, pool: object) -> None:
    """Refuse arguments of other kinds, and rules that would choose more examples than the pool has."""
    if not callable(rule):
        raise ThresherError(
            f"acquire() asks a rule, not a {type(rule).__name__}: "
            'pass one, such as acquisition("margin").rule(100) from thresher.methods.'
        )
    if not isinstance(model, nn.Module):
        raise ThresherError(f"acquire() asks a network, not a {type(model).__name__}: pass run.model of a run.")
    if not isinstance(pool, Examples):
        raise ThresherError(
            f"acquire() chooses from Examples, not from a {type(pool).__name__}: "
            "pass Examples(inputs, targets), with any targets, which are not looked at."
        )
    if pool.task not in (CLASSES, REAL):
        raise ThresherError(
            f"acquire() knows pools with classes or real targets, not {pool.task} ones: choose by hand."
        )
    for part in parts(rule):
        count = getattr(part, "count", None) if isinstance(part, Rule) else None
        if count is not None:
            checked_count(count, len(pool))


def _folder(on_disk: Path | str | None) -> AbstractContextManager[Path | None]:
    """A temporary folder inside the one given."""
    if on_disk is None:
        return nullcontext()
    refuse_as_folder(Path(on_disk))
    return unfinished_beside(Path(on_disk) / "signals", is_folder=True)


@dataclass(frozen=True)
class Sweep:
    """Evidence about whole sets, whose outputs and signals lie in memory or in files of a folder."""

    sweeper: Sweeper
    objective: Objective
    classes: int | None
    wanted: list[Signal]
    folder: Path | None

    def __call__(self, model: nn.Module, examples: Examples, by_prediction: bool = False) -> Evidence:
        with preserved(examples.targets.device):
            batch = first_of(examples, 2)
        head = last_linear(model, batch.inputs) if looks_at_head(self.wanted) else None
        with evaluating(model), evaluating(self.objective):
            strategy = choose_strategy(model, self.objective, self.wanted, batch, None, self.classes)
        taps, kept = Taps(model, self.objective.layers, head), Kept(len(examples), self.folder)
        try:
            replace(self.sweeper, strategy=strategy).each(
                kept.take, model, self.objective, replace(examples, classes=self.classes),
                wanted=self.wanted, taps=taps, by_prediction=by_prediction,
            )  # fmt: skip
        finally:
            taps.remove()
        outputs, *values = kept.columns
        return Evidence(
            ids=examples.ids.to(outputs.device),
            targets=prediction(outputs, self.classes) if by_prediction else examples.targets.to(outputs.device),
            objective=self.objective,
            raw_outputs=outputs,
            classes=self.classes,
            known=dict(zip(self.wanted, values, strict=True)),
        )


@dataclass(frozen=True)
class About:
    """What a rule reads of a pool, or of a part of it, and what it decides."""

    rule: RuleLike
    sweep: Sweep
    model: nn.Module
    average: nn.Module | None
    labelled: Examples | None

    def weights(self, pool: Examples, at_most: float, seed: int) -> Tensor:
        """The rule's weights [n], in parts where evidence of more than so many GiB would be needed."""
        others, shards = self._labelled(), self.sweep.sweeper.shards
        alone = replace(self, sweep=replace(self.sweep, sweeper=replace(self.sweep.sweeper, shards=None)))

        def of_part(positions: Tensor) -> Evidence:
            return alone.evidence(pool.subset(positions), others)

        if math.isfinite(at_most):
            some = of_part(torch.arange(min(2, len(pool)), device=pool.ids.device))
            ranks, draws = None if shards is None else shards.ranks, generator(seed, "acquire", device=pool.ids.device)
            found = parts_for(self.rule, some.replace(ids=pool.ids), lambda: size_of_each(some), at_most, ranks, draws)
            if found is not None:
                return decided_in_parts(*found, of_part, some, self.sweep.wanted, pool.ids).weights
        evidence = self.evidence(pool, others)
        draws = generator(seed, "acquire", device=evidence.ids.device)
        return ask(self.rule, evidence.replace(generator=draws)).weights

    def evidence(self, pool: Examples, others: Mapping[str, Evidence]) -> Evidence:
        """Evidence about these examples of the pool, by what the model predicts, beside that about others."""
        evidence = self.sweep(self.model, pool, by_prediction=True)
        with torch.no_grad():
            check_outputs(evidence.outputs, evidence.ids)
        if self.average is not None:
            targets = evidence.targets.to(pool.targets.device)
            said = replace(pool, targets=targets, classes=self.sweep.classes)
            others = {"average": self.sweep(self.average, said), **others}
        columns = {name: pool.columns[name].to(evidence.ids.device) for name in columns_of(self.rule)}
        return evidence.replace(others=others, columns=columns)

    def _labelled(self) -> dict[str, Evidence]:
        if self.labelled is None:
            return {}
        theirs = {} if self.average is None else {"average": self.sweep(self.average, self.labelled)}
        return {"labelled": self.sweep(self.model, self.labelled).replace(others=theirs)}


@dataclass
class Kept:
    """Columns of n rows that come a few at a time, in memory or, where there is a folder, in files of it."""

    n: int
    folder: Path | None
    columns: list[Tensor] = field(default_factory=list)
    done: int = 0

    def take(self, values: list[Tensor]) -> None:
        if not self.columns:
            self.columns = [self._room(value) for value in values]
        for column, value in zip(self.columns, values, strict=True):
            column[self.done : self.done + len(value)] = value
        self.done += len(values[0])

    def _room(self, value: Tensor) -> Tensor:
        shape = (self.n, *value.shape[1:])
        if self.folder is None:
            return value.new_empty(shape)
        file = self.folder / f"{len(list(self.folder.iterdir()))}.bin"
        size: Any = torch.Size(shape).numel()
        return torch.from_file(str(file), shared=True, size=size, dtype=value.dtype).view(shape)
