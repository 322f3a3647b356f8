"""Labels that people gave: read from exports of Label Studio or a CSV of id,label."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from thresher.app.annotate.tasks import ID
from thresher.core.errors import ThresherError, shortened
from thresher.core.files import misfit, parsed_json

KINDS = ("choices", "number")  # of questions that Label Studio asks for us, and the names of their answers


@dataclass(frozen=True)
class Vote:
    """One label for one example, a number as text; `by` is its annotator and `at` its time, where the file has them."""

    id: int
    label: str
    by: str = ""
    at: str = ""


class Annotation(TypedDict, total=False):
    """What is read of one annotation of a task."""

    result: list[dict[str, Any]] | None
    was_cancelled: bool | None


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


def _from_csv(text: str, name: str) -> list[Vote]:
    before = csv.field_size_limit(max(len(text), 1))  # an exported cell may hold a whole image
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
        heads = rows.fieldnames or []
        key = next((head for head in (ID, "id") if head in heads), None)
        if key is None or "label" not in heads:
            raise ThresherError(f"{name} has no columns id and label: let its first line be id,label.")
        return [
            Vote(_id(row[key], where), label, row.get("annotator") or "", _when(row))
            for row in rows
            for where in (f"Line {rows.line_num} of {name}",)
            for label in _labels(_unpacked(row["label"]), where)
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
        for label in _labels(task.get("label"), where):
            yield Vote(id_, label, _annotator(task.get("annotator")), _when(task))
        return
    annotations = task.get("annotations")
    if misfit(annotations, list[Annotation]) is not None:
        raise ThresherError(f"{where} has no annotations: give what Label Studio exports as JSON.")
    assert isinstance(annotations, list)
    for annotation in annotations:
        if not annotation.get("was_cancelled"):
            for label in _labels(_answered(annotation, where), where):
                yield Vote(id_, label, _annotator(annotation.get("completed_by")), _when(annotation))


def _answered(annotation: Mapping[str, Any], where: str) -> Any:
    """The value of the one question answered, or None."""
    parts = [part for part in annotation.get("result") or [] if part.get("type") in KINDS]
    if len(parts) > 1:
        raise ThresherError(f"{where} has {len(parts)} questions answered: use the interface that thresher wrote.")
    return parts[0].get("value") if parts else None


def _unpacked(cell: str | None) -> Any:
    """What a cell of a CSV file holds: a text, or a number as Label Studio writes it there.

    >>> _unpacked("cat"), _unpacked('[{"number": 3.5}]')
    ('cat', [{'number': 3.5}])
    """
    if cell is None or not cell.strip():
        return None
    try:
        return json.loads(cell) if cell.startswith(("[{", "{")) else cell
    except ValueError:
        return cell


def _labels(value: Any, where: str) -> list[str]:
    """The one label given, or none: a text, a list, or either under the word choices; a number as it is or so named."""
    given = value if isinstance(value, list) else [value]
    found = [_named_kind(each) for each in given]
    labels = [each for part in found for each in (part if isinstance(part, list) else [part])]
    labels = [f"{each!r}" if _is_number(each) else each for each in labels if each not in (None, "")]
    if len(labels) > 1 or not all(isinstance(label, str) for label in labels):
        raise ThresherError(f"{where} has several labels ({value}): let annotators choose one.")
    return labels


def _named_kind(value: Any) -> Any:
    """What stands under the name of its kind, or the value itself."""
    return next((value[kind] for kind in KINDS if kind in value), None) if isinstance(value, dict) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
        shown = shortened(str(value))
        raise ThresherError(f"{where} has the id '{shown}', which is not a whole number: correct it.") from None
