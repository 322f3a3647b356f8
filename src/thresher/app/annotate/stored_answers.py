"""The answers that a run folder holds, and the questions that they belong to."""

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from thresher.app.annotate.settled import named
from thresher.app.annotate.tasks import ID
from thresher.core.errors import ThresherError
from thresher.core.files import alone_in, damaged, read_json, read_text, reading, write_whole
from thresher.record import run_folder

HEADS = ["round", "id", "label"]


class TaskData(TypedDict):
    """The example of a task."""

    thresher_id: int


class Task(TypedDict):
    """What is read of a task that was written."""

    data: TaskData


@dataclass(frozen=True)
class Answer:
    """The label that an example got, and the first round that is trained with it."""

    round: int
    id: int
    label: str


def read_answers(run: Path) -> list[Answer]:
    """All answers so far, the earliest first."""
    path, fix = run / run_folder.ANSWERS, "restore it from a copy"
    if not path.exists():
        return []
    with reading(path, fix):
        rows = csv.DictReader(io.StringIO(read_text(path, fix), newline=""))
        found = [Answer(int(row["round"]), int(row["id"]), row["label"]) for row in rows]
    rounds = {answer.round for answer in found}
    if rounds != set(range(1, len(rounds) + 1)):  # every round is a training, so none may be made up
        raise damaged(path, "its rounds are not 1, 2, ... without a gap", fix)
    return found


def add_answers(run: Path, answers: Mapping[int, str], *, replace: bool = False) -> list[int]:
    """Store these labels, whole or not at all, and return the ids that are new or changed: none the second time.

    An answer that contradicts an earlier one is refused unless `replace` is true.
    """
    with alone_in(run):
        before = read_answers(run)
        known = {answer.id: answer.label for answer in before}
        changed = [id_ for id_, label in answers.items() if id_ in known and known[id_] != label]
        if changed and not replace:
            first = changed[0]
            raise ThresherError(
                f"{named(changed)} had another label before (id {first} was '{known[first]}' and now is "
                f"'{answers[first]}'): correct the file, or give --replace."
            )
        new = [id_ for id_, label in answers.items() if known.get(id_) != label]
        if new:
            place = 1 + max((answer.round for answer in before), default=0)
            _write(run, [*before, *(Answer(place, id_, answers[id_]) for id_ in new)])
        return new


def answers_of(answers: Sequence[Answer], round_: int, class_names: Sequence[str]) -> dict[int, int]:
    """The class of each example that this round is trained on, beside those labelled from the start.

    >>> answers_of([Answer(1, 7, "cat"), Answer(2, 7, "dog")], 2, ["cat", "dog"])
    {7: 1}
    """
    wrong = next((answer for answer in answers if answer.label not in class_names), None)
    if wrong is not None:
        raise ThresherError(
            f"{run_folder.ANSWERS} says {wrong.label!r} of id {wrong.id}, which is no class: restore it from a copy."
        )
    return {answer.id: class_names.index(answer.label) for answer in answers if answer.round <= round_}


def asked_by(run: Path, round_: int, ids: Collection[int]) -> list[str]:
    """The names of the rules that chose these examples in this round, the one that chose most first."""
    asked: dict[str, set[int]] = {}
    for path in sorted((run / run_folder.QUERIES).glob(f"{round_}-*/{run_folder.TASKS}")):
        name = path.parent.name.removeprefix(f"{round_}-").rpartition("-")[0]
        tasks = read_json(path, list[Task], "delete the folder of this question")
        asked[name] = asked.get(name, set()) | {task["data"][ID] for task in tasks}
    left, found = set(ids), []
    for _ in asked:
        name = max(asked, key=lambda name: len(asked[name] & left))
        if asked[name] & left:
            found.append(name)
            left -= asked[name]
    return found


def round_folder(run: Path, round_: int) -> Path:
    """The folder of a round's training: the run itself for the first, a folder inside it for later ones."""
    return run if round_ == 0 else run / run_folder.ROUNDS / str(round_)


def _write(run: Path, answers: Sequence[Answer]) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(HEADS)
    rows.writerows([answer.round, answer.id, answer.label] for answer in answers)
    write_whole(run / run_folder.ANSWERS, lambda path: path.write_text(text.getvalue(), encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))
