"""Active learning: train, choose what to label next, and train again from scratch."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import (
    FOLDER,
    SEED,
    Kind,
    ThresherError,
    function_of,
    or_none,
    refuse_other_kinds,
    takes,
    whole,
)  # fmt: skip
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import RuleLike, needs_of
from thresher.core.seeding import derive, generator
from thresher.engine.acquire import acquire
from thresher.engine.device.placement import find_device
from thresher.engine.loop.history import measure
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.run import Run
from thresher.engine.start.checks import check_round
from thresher.engine.store.about import describe
from thresher.engine.store.checkpoint import Record
from thresher.engine.train import Moment, train_recipe
from thresher.methods.acquisitions import acquisition
from thresher.methods.rounds import Rounds
from thresher.models.given import refuse_no_model
from thresher.objectives import as_objective
from thresher.rules.expected_trust import scaled_by_trust

HARMLESS = ("workers", "commit_every")  # settings that change nothing in the result
MakeRule = Callable[[int], RuleLike]  # from the number of picks
EXAMPLES: Kind = (lambda each: isinstance(each, Examples), "Examples(inputs, targets)")
KINDS: dict[str, Kind] = {
    "recipe": (lambda each: isinstance(each, Recipe), 'a Recipe, such as method("prl-l").recipe(noise_rate=0.2)'),
    "pool": EXAMPLES,
    "by": (lambda each: isinstance(each, str) or takes(each, 1), "a name, or a function of the count"),
    "start": whole(1),
    "count": whole(1),
    "rounds": whole(0),
    "test": or_none(EXAMPLES),
    "avoid": or_none(function_of(1, "a function of a run, such as Run.trust")),
    "seed": SEED,
    "out": or_none(FOLDER),
    "on_disk": or_none(FOLDER),
    "watch": or_none(function_of(1, "a function of a Moment")),
}


@dataclass(frozen=True)
class Loop:
    """The result of a loop: its last training, one record a round, and the ids bought, those of the start first."""

    run: Run
    history: list[Record]
    bought: list[list[int]]

    @property
    def scores(self) -> list[float]:
        """The score of every round on the test set."""
        return [record["score"] for record in self.history if record["score"] is not None]

    def clean_share(self) -> float | None:
        """The share of clean examples among all that were chosen, where the truth is known."""
        picks = sum(len(record["picked"]) for record in self.history)
        clean = [record["clean_picks"] for record in self.history if record["clean_picks"] is not None]
        return sum(clean) / picks if clean and picks else None


@dataclass(frozen=True)
class TrainedTo:
    """For `until=`: stop as soon as this share of the training labels is predicted in an epoch.

    >>> TrainedTo(0.99)({"train_score": 0.991}), TrainedTo(0.99)({"train_score": 0.98})
    (True, False)
    """

    share: float = 0.99

    def __call__(self, record: Record) -> bool:
        return bool(record["train_score"] >= self.share)


def active_loop(
    recipe: Recipe,
    model: Callable[[], nn.Module],
    pool: Examples,
    *,
    by: str | MakeRule,
    start: int,
    count: int,
    rounds: int,
    test: Examples | None = None,
    avoid: Callable[[Run], tuple[Tensor, Tensor]] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    out: Path | str | None = None,
    on_disk: Path | str | None = None,
    watch: Callable[[Moment], None] | None = None,
    **settings: Any,
) -> Loop:
    """Buy `start` labels at random, then in each round `count` that a rule chooses; train from scratch each time.

    recipe    how to train: any recipe; rules that read the moving average need one, such as average=Growing(0.999)
    pool      its targets are the oracle's answers; they are not read before they are bought
    by        a name such as "s-badge", or a function of the count that gives a rule
    avoid     Run.trust avoids examples like those whose labels were not believed in training
    out       a folder; a loop that was interrupted goes on where it was, with the same result
    on_disk   a folder for the features and outputs of the pool, where they do not fit into memory
    settings  go to `fit`: epochs, batch, optimizer, until=TrainedTo(0.99), ...
    """
    given = {"recipe": recipe, "pool": pool, "by": by, "start": start, "count": count, "rounds": rounds, "test": test}
    refuse_other_kinds(KINDS, {**given, "avoid": avoid, "seed": seed, "out": out, "on_disk": on_disk, "watch": watch})
    rule = (acquisition(by).rule if isinstance(by, str) else by)(count)
    _refuse(recipe, model, pool, rule, start, count, rounds)
    if avoid is not None:
        scaled_by_trust(rule, pool.ids, pool.ids)  # refused now, not after the first round
    where = find_device(device)
    pool, test, workers = pool.to(where), None if test is None else test.to(where), settings.get("workers", 0)
    told = _identity(by, rule, recipe, pool, start, rounds, seed) | {"avoid": describe(avoid)}
    told["settings"] = describe({name: value for name, value in settings.items() if name not in HARMLESS})
    done = Rounds(out, told, pool.class_names)
    first = torch.randperm(len(pool), generator=generator(seed, "start"))[:start]
    bought = [pool.ids.cpu()[first].tolist(), *(record["picked"] for record in done.records)]
    for place in range(min(len(done.records), rounds), rounds + 1):  # a finished loop reads its last training
        began = time.perf_counter()
        is_bought = torch.isin(pool.ids, torch.tensor(list(chain(*bought)), device=where))
        labelled = pool.subset(is_bought)
        run = train_recipe(
            recipe, model, labelled, device=where, seed=derive(seed, "round", place), out=done.folder(place), **settings
        )
        if place < len(done.records):
            break
        picked = None
        if place < rounds:
            asked = rule if avoid is None else scaled_by_trust(rule, *avoid(run))
            picked = chosen(
                asked, run, pool.subset(~is_bought), labelled,
                seed=derive(seed, "picks", place), workers=workers, on_disk=on_disk,
            )  # fmt: skip
        record = {"round": place, "labelled": len(labelled), **_measured(run, test, workers), **_picks(picked)}
        done.finish(record | {"seconds": time.perf_counter() - began}, picked)
        bought.append(record["picked"])
        if watch is not None:
            watch(Moment(place, rounds + 1, 1, 1, record))
    return Loop(run, done.records, bought)


def chosen(rule: RuleLike, run: Run, pool: Examples, labelled: Examples, *, seed: int, **settings: Any) -> Examples:
    """The picks of the rule from a pool, by the run's first network and its moving average."""
    average = run.averages[0] if run.averages else None
    own = None if run.recipe is None else run.recipe.objective
    ids = acquire(rule, run.model, pool, labelled=labelled, average=average, objective=own, seed=seed, **settings)
    return pool.subset(torch.isin(pool.ids, ids.to(pool.ids.device)))


def _measured(run: Run, test: Examples | None, workers: int) -> Record:
    """The scores of a round; the test set is evaluated once, because doing so every epoch would cost more."""
    last = run.history[-1]
    found = {"metric": last["metric"], "score": None, "epochs": last["epoch"], "train_score": last["train_score"]}
    if test is not None:
        objective = as_objective(None if run.recipe is None else run.recipe.objective, test.task).to(
            test.targets.device
        )
        found["score"] = measure(Sweeper(workers=workers)(run.model, objective, test).outputs, test)[last["metric"]]
    return found


def _picks(picked: Examples | None) -> Record:
    """The ids that a round chose, and how many of them are clean, if known."""
    if picked is None:
        return {"picked": [], "clean_picks": None}
    corrupt = picked.columns.get("is_corrupt")
    return {"picked": picked.ids.tolist(), "clean_picks": None if corrupt is None else int((~corrupt.bool()).sum())}


def _identity(
    by: str | MakeRule, rule: RuleLike, recipe: Recipe, pool: Examples, start: int, rounds: int, seed: int
) -> Record:
    """What tells this loop from others: a folder continues only the same one."""
    name = by if isinstance(by, str) else type(rule).__name__
    about = {"recipe": recipe, "rule": rule, "pool": [pool.ids, pool.targets]}
    told = {"by": name, "start": start, "rounds": rounds, "seed": seed}
    return told | {part: describe(value) for part, value in about.items()}


def _refuse(
    recipe: Recipe, model: Callable[[], nn.Module], pool: Examples, rule: RuleLike, start: int, count: int, rounds: int
) -> None:
    """Refuse what would fail after the first round."""
    refuse_no_model(model)
    if isinstance(model, nn.Module):
        raise ThresherError("active_loop trains from scratch in every round: pass a function that makes the model.")
    if start + rounds * count > len(pool):
        wanted = f"{start} + {rounds} × {count}"
        raise ThresherError(f"{pool.name} has {len(pool)} examples and {wanted} are to be bought: buy fewer.")
    if "average" in needs_of(rule) and recipe.average is None:
        raise ThresherError("This rule reads the moving average: give the recipe one, such as average=Growing(0.999).")
    check_round(rule, pool, {"labelled": pool, "average": recipe.average})
