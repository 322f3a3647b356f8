"""What people answered: read from Label Studio's exports or a CSV of id,label, and settled where they disagree."""

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thresher.annotate.tasks import ID
from thresher.errors import ThresherError
from thresher.naming import unknown

MOST_NAMED = 5  # ids that a message names before it counts the rest


@dataclass(frozen=True)
class Vote:
    """One person's label for one example; `by` is who that was, where the file says so."""

    id: int
    label: str
    by: str = ""


@dataclass(frozen=True)
class Settled:
    """One class for each answered id, and what a person should know about how it came to that."""

    answers: Mapping[int, int]
    warnings: tuple[str, ...]


def read_votes(path: Path) -> list[Vote]:
    """The votes in a file: Label Studio's JSON or JSON-MIN export, or a CSV with columns id (or thresher_id) and label.

    Tasks that nobody answered, or that were skipped, have none.
    """
    if not path.is_file():
        raise ThresherError(f"There is no file {path}: give Label Studio's JSON export, or a CSV of id,label.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        return _from_csv(text, path.name) if path.suffix.lower() == ".csv" else _from_json(text, path.name)
    except UnicodeDecodeError as error:
        raise ThresherError(f"{path} is no text ({error.reason}): give a JSON export or a CSV file.") from error


def settle(votes: Sequence[Vote], pool: Collection[int], class_names: Sequence[str], source: str) -> Settled:
    """One class an id: what all agree on, else the majority, with a warning; a tie stays open, with a warning.

    Whoever votes twice on the same example is heard once, with the later vote.

    >>> votes = [Vote(7, "dog", "a"), Vote(7, "cat", "b"), Vote(7, "dog", "c")]
    >>> settle(votes, {7}, ["cat", "dog"], "answers.json").answers
    {7: 1}
    """
    strangers = sorted({vote.id for vote in votes} - set(pool))
    if strangers:
        raise ThresherError(f"{source} answers {named(strangers)}, not in the pool of this run: remove them.")
    for vote in votes:
        if vote.label not in class_names:
            raise ThresherError(
                f"{source} says '{vote.label}' of id {vote.id}. {unknown('class', vote.label, class_names)}"
            )
    heard: dict[int, dict[Any, str]] = {}
    for place, vote in enumerate(votes):
        heard.setdefault(vote.id, {})[vote.by or place] = vote.label
    answers, outvoted, open_ = {}, [], []
    for id_, labels in heard.items():
        (first, most), *others = Counter(labels.values()).most_common()
        if others and others[0][1] == most:
            open_.append(id_)
            continue
        answers[id_] = class_names.index(first)
        if others:
            outvoted.append(id_)
    warnings = []
    if outvoted:
        warnings.append(f"People disagree on {named(outvoted)}; the majority counts.")
    if open_:
        warnings.append(
            f"People disagree on {named(open_)} without a majority; these stay open and can be asked again."
        )
    return Settled(answers, tuple(warnings))


def named(ids: Sequence[int]) -> str:
    """Ids in words, the first few by name.

    >>> named([3]), named(range(9))
    ('id 3', 'ids 0, 1, 2, 3, 4 and 4 more')
    """
    first = ", ".join(map(str, ids[:MOST_NAMED]))
    more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    return f"id{'s' if len(ids) > 1 else ''} {first}{more}"


def _from_csv(text: str, name: str) -> list[Vote]:
    rows = csv.DictReader(text.splitlines())
    heads = rows.fieldnames or []
    key = next((head for head in (ID, "id") if head in heads), None)
    if key is None or "label" not in heads:
        raise ThresherError(f"{name} has no columns id and label: write them in its first line.")
    return [
        Vote(_id(row[key], f"Line {number} of {name}"), row["label"].strip(), row.get("annotator") or "")
        for number, row in enumerate(rows, start=2)
        if row["label"] and row["label"].strip()
    ]


def _from_json(text: str, name: str) -> list[Vote]:
    try:
        exported = json.loads(text)
    except ValueError as error:
        raise ThresherError(f"{name} is no JSON ({error}): export it again, or give a .csv file.") from error
    if not isinstance(exported, list) or not all(isinstance(task, dict) for task in exported):
        raise ThresherError(f"{name} is no list of tasks: export the project from Label Studio as JSON.")
    return [vote for place, task in enumerate(exported, 1) for vote in _task_votes(task, f"Task {place} of {name}")]


def _task_votes(task: Mapping[str, Any], where: str) -> Iterator[Vote]:
    """The votes of one exported task; in JSON-MIN it stands for one annotation, with its data at the same level."""
    data = task.get("data", task)
    if not isinstance(data, dict) or ID not in data:
        raise ThresherError(f"{where} has no {ID}: export the tasks that thresher query wrote.")
    id_ = _id(data[ID], where)
    if "annotations" not in task:
        for label in _choices(task.get("label"), where):
            yield Vote(id_, label, str(task.get("annotator", "")))
        return
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        chosen = [
            part["value"].get("choices") for part in annotation.get("result", []) if part.get("type") == "choices"
        ]
        if len(chosen) > 1:
            raise ThresherError(f"{where} has {len(chosen)} questions answered: use the interface of thresher query.")
        for label in _choices(chosen[0] if chosen else None, where):
            yield Vote(id_, label, _annotator(annotation.get("completed_by")))


def _choices(value: Any, where: str) -> list[str]:
    """The one label chosen, or none: exports have it as a text, a list, or a list under the word choices."""
    if isinstance(value, dict):
        value = value.get("choices")
    labels = [value] if isinstance(value, str) and value else value or []
    if not isinstance(labels, list) or len(labels) > 1 or not all(isinstance(label, str) for label in labels):
        raise ThresherError(f"{where} has several labels ({value}): let people choose one.")
    return labels


def _annotator(who: Any) -> str:
    """Label Studio writes a number, or an object with an id and an email address."""
    return str(who.get("id", who.get("email", ""))) if isinstance(who, dict) else "" if who is None else str(who)


def _id(value: Any, where: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ThresherError(f"{where} has the id '{value}', which is no whole number: correct it.") from None
