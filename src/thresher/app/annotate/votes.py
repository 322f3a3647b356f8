"""Labels that people gave: read from exports of Label Studio or a CSV of id,label, and one chosen for each example."""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from thresher.app.annotate.tasks import ID
from thresher.core.errors import ThresherError, unknown
from thresher.core.files import misfit, parsed_json

MOST_NAMED = 5  # ids that a message names before it counts the rest


@dataclass(frozen=True)
class Vote:
    """One label for one example; `by` is its annotator and `at` its time, where the file has them."""

    id: int
    label: str
    by: str = ""
    at: str = ""


class Annotation(TypedDict, total=False):
    """What is read of one annotation of a task."""

    result: list[dict[str, Any]] | None
    was_cancelled: bool | None


@dataclass(frozen=True)
class Settled:
    """One class for each answered id, and warnings about labels that disagree."""

    answers: Mapping[int, int]
    warnings: tuple[str, ...]


def read_votes(path: Path) -> list[Vote]:
    """The votes in a file: Label Studio's JSON or JSON-MIN export, or a CSV with columns id (or thresher_id) and label.

    Tasks without an answer, and skipped ones, have no vote.
    """
    if not path.is_file():
        raise ThresherError(f"There is no file {path}: give Label Studio's JSON export, or a CSV of id,label.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        return _from_csv(text, path.name) if path.suffix.lower() == ".csv" else _from_json(text, path.name)
    except UnicodeDecodeError as error:
        raise ThresherError(f"{path} is not a text file ({error.reason}): give a JSON export or a CSV file.") from error


def settle(
    votes: Sequence[Vote], asked: Collection[int], class_names: Sequence[str], source: str, among: str = "the pool"
) -> Settled:
    """One class an id: the majority, with a warning where votes disagree; a tie stays open, with a warning.

    Of two votes of one annotator on an example the later counts.

    >>> votes = [Vote(7, "dog", "a"), Vote(7, "cat", "b"), Vote(7, "dog", "c")]
    >>> settle(votes, {7}, ["cat", "dog"], "answers.json").answers
    {7: 1}
    """
    unknown_ids = sorted({vote.id for vote in votes} - set(asked))
    if unknown_ids:
        raise ThresherError(f"{source} answers {named(unknown_ids)}, not in {among} of this run: remove them.")
    counted, changed = _counted(votes, class_names, source)
    answers, outvoted, open_ = {}, [], []
    for id_, classes in counted.items():
        (first, most), *others = Counter(classes).most_common()
        if others and others[0][1] == most:
            open_.append(id_)
            continue
        answers[id_] = first
        if others:
            outvoted.append(id_)
    said = {
        "One annotator labelled {} twice; the later label counts.": changed,
        "Annotators disagree on {}; the majority counts.": outvoted,
        "Annotators disagree on {} without a majority; these stay open and can be asked again.": open_,
    }
    return Settled(answers, tuple(words.format(named(ids)) for words, ids in said.items() if ids))


def _counted(votes: Sequence[Vote], class_names: Sequence[str], source: str) -> tuple[dict[int, list[int]], list[int]]:
    """The classes that each id was given, one an annotator, and the ids on which an annotator changed the label."""
    # Blanks around a name matter only where two classes differ in nothing else.
    places = {name.strip(): place for place, name in enumerate(class_names)}
    places |= {name: place for place, name in enumerate(class_names)}
    given: dict[int, dict[Any, int]] = {}
    changed: dict[int, None] = {}
    for place, vote in sorted(enumerate(votes), key=lambda each: each[1].at):  # exports may begin with the latest
        label = vote.label if vote.label in places else vote.label.strip()
        if label not in places:
            raise ThresherError(f"{source} says '{label}' of id {vote.id}. {unknown('class', label, class_names)}")
        by_annotator, class_ = given.setdefault(vote.id, {}), places[label]
        if by_annotator.setdefault(vote.by or place, class_) != class_:
            changed[vote.id] = None
        by_annotator[vote.by or place] = class_
    return {id_: list(classes.values()) for id_, classes in given.items()}, list(changed)


def named(ids: Sequence[int]) -> str:
    """Ids for a message, the first few of them listed.

    >>> named([3]), named(range(9))
    ('id 3', 'ids 0, 1, 2, 3, 4 and 4 more')
    """
    first = ", ".join(map(str, ids[:MOST_NAMED]))
    more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    return f"id{'s' if len(ids) > 1 else ''} {first}{more}"


def _from_csv(text: str, name: str) -> list[Vote]:
    before = csv.field_size_limit(max(len(text), 1))  # an exported cell may hold a whole image
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
        heads = rows.fieldnames or []
        key = next((head for head in (ID, "id") if head in heads), None)
        if key is None or "label" not in heads:
            raise ThresherError(f"{name} has no columns id and label: let its first line be id,label.")
        return [
            Vote(_id(row[key], f"Line {rows.line_num} of {name}"), row["label"], row.get("annotator") or "", _when(row))
            for row in rows
            if row["label"] and row["label"].strip()
        ]
    except csv.Error as error:
        raise ThresherError(f"{name} cannot be read as a CSV file ({error}): write it again.") from error
    finally:
        csv.field_size_limit(before)


def _from_json(text: str, name: str) -> list[Vote]:
    fix = "export the project from Label Studio as JSON again, or give a .csv file"
    exported = parsed_json(text, list[dict[str, Any]], Path(name), fix)
    return [vote for place, task in enumerate(exported, 1) for vote in _task_votes(task, f"Task {place} of {name}")]


def _task_votes(task: Mapping[str, Any], where: str) -> Iterator[Vote]:
    """The votes of one exported task; in JSON-MIN it stands for one annotation, with its data at the same level."""
    data = task.get("data", task)
    if not isinstance(data, dict) or ID not in data:
        raise ThresherError(f"{where} has no {ID}: export the tasks that thresher wrote.")
    id_ = _id(data[ID], where)
    if data is task:
        for label in _choices(task.get("label"), where):
            yield Vote(id_, label, _annotator(task.get("annotator")), _when(task))
        return
    annotations = task.get("annotations")
    if misfit(annotations, list[Annotation]) is not None:
        raise ThresherError(f"{where} has no annotations: give what Label Studio exports as JSON.")
    assert isinstance(annotations, list)
    for annotation in annotations:
        if not annotation.get("was_cancelled"):
            for label in _choices(_chosen(annotation, where), where):
                yield Vote(id_, label, _annotator(annotation.get("completed_by")), _when(annotation))


def _chosen(annotation: Mapping[str, Any], where: str) -> Any:
    """The value of the one question answered, or None."""
    parts = [part for part in annotation.get("result") or [] if part.get("type") == "choices"]
    if len(parts) > 1:
        raise ThresherError(f"{where} has {len(parts)} questions answered: use the interface that thresher wrote.")
    return parts[0].get("value") if parts else None


def _choices(value: Any, where: str) -> list[str]:
    """The one label chosen, or none: exports have it as a text, a list, or a list under the word choices."""
    if isinstance(value, dict):
        value = value.get("choices")
    labels = [value] if isinstance(value, str) and value else value or []
    if not isinstance(labels, list) or len(labels) > 1 or not all(isinstance(label, str) for label in labels):
        raise ThresherError(f"{where} has several labels ({value}): let annotators choose one.")
    return labels


def _annotator(who: Any) -> str:
    """Label Studio writes a number, or an object with an id and an email address."""
    return str(who.get("id", who.get("email", ""))) if isinstance(who, dict) else "" if who is None else str(who)


def _when(record: Mapping[str, Any]) -> str:
    """When an annotation was made or last changed; in Label Studio's format later times are larger texts."""
    return str(record.get("updated_at") or record.get("created_at") or "")


def _id(value: Any, where: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ThresherError(f"{where} has the id '{value}', which is not a whole number: correct it.") from None
