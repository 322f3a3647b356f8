"""The rounds of a run whose pool people label: their trainings, and what is remembered of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from thresher.app.annotate.stored_answers import Answer, answers_of, asked_by, read_answers, round_folder
from thresher.app.folders import is_finished, read_toml, refuse_stored_code
from thresher.app.settings import Settings, table_options
from thresher.app.train_job import TrainJob, prepare_job, start
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import damaged
from thresher.data.pools import Pooled, load_with_pool
from thresher.door import open_run
from thresher.engine.run import Run
from thresher.record.loop import read_loop, save_picks, write_loop
from thresher.record.run_folder import HISTORY, ISSUES, SETTINGS, WRITE_ANEW
from thresher.report.run_record import read_history

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False)
class Asked:
    """A run whose examples are partly labelled: its settings, all its examples, and the answers so far."""

    folder: Path
    settings: Settings
    pooled: Pooled
    answers: Sequence[Answer]

    @property
    def class_names(self) -> list[str]:
        return list(self.pooled.examples.class_names or ())

    @property
    def last_round(self) -> int:
        return max((answer.round for answer in self.answers), default=0)

    def known(self, round_: int | None = None) -> dict[int, int]:
        """The classes that examples of the pool have got, up to this round or until now."""
        return answers_of(self.answers, self.last_round if round_ is None else round_, self.class_names)

    def job(self, round_: int) -> TrainJob:
        """The training of a round: on what was labelled from the start, and the answers up to then."""
        return prepare_job(self.settings, self.pooled, self.known(round_))

    def labelled(self, round_: int) -> Examples:
        """What had a label by then; a training may leave some of it out, to validate on."""
        return self.pooled.with_answers(self.known(round_))[0]

    def now(self) -> "Asked":
        """The same run with the answers that it has by now."""
        return replace(self, answers=read_answers(self.folder))

    def unlabelled(self) -> Examples:
        """What is left of the pool."""
        rest = self.pooled.with_answers(self.known())[1]
        if rest is None:
            raise ThresherError(f"Everything in the pool of {self.folder} is labelled: there is nothing left to ask.")
        return rest


def open_pool(folder: Path, model: str | None = None) -> Asked:
    """The run in this folder, which was trained with --pool, on data that is still the same."""
    if (folder / ISSUES).exists():
        raise ThresherError(
            f"{folder} is an audit, whose examples all have labels: ask about these with thresher review {folder}."
        )
    if not (folder / SETTINGS).exists():
        raise ThresherError(f"{folder} holds no run (no run.toml in it): give one that thresher train --pool wrote.")
    stored = read_toml(folder / SETTINGS)
    refuse_stored_code(stored, model, folder)
    settings = Settings(**stored)
    if not settings.pool:
        raise ThresherError(
            f"{folder} was trained without --pool, so no example waits for a label: to ask about those that have "
            "one, run thresher audit and then thresher review; else train with --pool."
        )
    options = table_options(settings)
    pooled, before = load_with_pool(settings.data, options, settings.skip_broken), read_loop(folder)
    if before is not None and before["identity"].get("pool") != pooled.fingerprint:
        raise ThresherError(f"{settings.data} is not what {folder} has asked about: put it back, or start a new run.")
    return Asked(folder, settings, pooled, read_answers(folder))


def latest(asked: Asked, aside: "Console", model: str | None = None) -> Run:
    """The run of the last round; a training that was stopped is brought to its end first."""
    from thresher.app.terminal import progress

    for round_ in range(asked.last_round + 1):
        folder = round_folder(asked.folder, round_)
        if is_finished(folder, asked.settings):
            continue
        with progress([f"round {round_}"], aside) as [watch]:
            start(asked.job(round_), folder, watch)
    remember(asked)
    return open_run(round_folder(asked.folder, asked.last_round), device=asked.settings.device, model=model)


def remember(asked: Asked, by: str | None = None) -> None:
    """Write what there is to report of the rounds that are finished: labels bought, score, and ids answered next."""
    before = read_loop(asked.folder) or {"rounds": []}
    last_asked = {record.get("round"): record.get("by") for record in before["rounds"]}
    if by is not None:
        last_asked[asked.last_round] = by
    rounds: list[dict[str, Any]] = []
    for round_ in range(asked.last_round + 1):
        folder = round_folder(asked.folder, round_)
        last = read_history(folder)[-1]
        if "metric" not in last:
            raise damaged(folder / HISTORY, "its last epoch lacks 'metric'", WRITE_ANEW)
        picked = [answer.id for answer in asked.answers if answer.round == round_ + 1]
        found = {name: last.get(name) for name in ("metric", "score", "train_score")}
        found |= {"round": round_, "labelled": len(asked.labelled(round_)), "epochs": last.get("epoch")}
        chosen_by = " and ".join(asked_by(asked.folder, round_, set(picked))) or last_asked.get(round_)
        rounds.append(found | {"by": chosen_by, "picked": picked, "clean_picks": None, "seconds": None})
    identity = {"by": None, "pool": asked.pooled.fingerprint, "seed": asked.settings.seed}
    write_loop(asked.folder, identity, asked.class_names, rounds)
    _show_answers(asked)


def _show_answers(asked: Asked) -> None:
    """Keep what was answered last, with its labels, to be looked at: people may have skipped some that were chosen."""
    ids = [answer.id for answer in asked.answers if answer.round == asked.last_round]
    if ids:
        labelled = asked.labelled(asked.last_round)
        answered = labelled.subset(torch.isin(labelled.ids, torch.tensor(ids)))
        keep_picks(asked, asked.last_round - 1, answered, targets=answered.targets)


def keep_picks(asked: Asked, round_: int, picked: Examples, **facts: torch.Tensor) -> None:
    """Keep what a round chose, to be looked at: rows of a table as they are in the file, not as the model sees them."""
    rows = [json.dumps(seen["row"]) for seen in asked.pooled.show(picked.ids.tolist()) if "row" in seen]
    save_picks(asked.folder, round_, picked, **facts, **({"row": np.array(rows)} if rows else {}))
