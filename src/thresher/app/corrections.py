"""What a correction changes: suggestions of an audit, and above them the answers of people."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from thresher.app.annotate.stored_answers import read_answers
from thresher.app.sources import IMAGES, rows_of, targets_of
from thresher.core.errors import ThresherError
from thresher.core.files import damaged, read_json, read_text, write_whole
from thresher.data.table_options import TableOptions
from thresher.record.issues import Issues

CHANGES = "changes.csv"  # of a corrected copy: what was changed, for people and for the way back
CORRECTED_LABELS = "labels_corrected.csv"  # of a corrected folder of images: every image and its label
CORRECTION = "correction.json"  # of a corrected copy: of what it is a copy, and of which kind
PEOPLE = "answered by people"
HEADS = ("id", "place", "old", "new", "why", "now", "target")
FORMULAS = "=+-@\t\r'"  # with which a cell begins that a spreadsheet may not read as text


class Correction(TypedDict):
    """Of what a corrected copy is one."""

    kind: str
    file: str | None
    column: NotRequired[str]
    sep: NotRequired[str | None]


@dataclass(frozen=True)
class Change:
    """One label that becomes another, or an example that is left out (`new` is None)."""

    id: int
    place: str | int  # the file, from the folder that was audited on, or the row
    old: Any
    new: Any
    why: str
    now: str = ""  # where the file is in the copy
    target: str = ""  # the column, of a table


def changes_of(
    issues: Issues,
    answers: Mapping[int, Any],
    *,
    below: float | None,
    count: int | None,
    drop: bool,
    target: str = "",
) -> list[Change]:
    """What to change, the worst first: what people answered, and of the rest the chosen ones with another suggestion.

    Whatever people answered is neither dropped nor given another label than theirs. Of several targets ("a,b") the one
    changes that lies furthest from what is expected.
    """
    names = issues.table.column_names
    better = issues.column("suggested" if "suggested" in names else "expected").tolist()
    places = issues.column("file").tolist() if "file" in names else rows_of(issues)
    of = targets_of(issues, target)
    chosen = issues.chosen(below=below, count=count).tolist()
    columns = (issues.column(name).tolist() for name in ("id", "label", "trust", "reason"))
    found = []
    for id_, old, trust, reason, new, place, is_chosen, at in zip(*columns, better, places, chosen, of, strict=True):
        if id_ in answers:
            if is_other(answers[id_], old):
                found.append(Change(id_, place, _rounded(old), answers[id_], PEOPLE, target=at))
        elif is_chosen and (drop or new != old):
            why = f"{reason or 'low trust'} (trust {trust:.3f})"
            found.append(Change(id_, place, _rounded(old), None if drop else _rounded(new), why, target=at))
    return found


def why_none(issues: Issues) -> str:
    """Why no suggestion was taken.

    >>> import pyarrow as pa
    >>> facts = {"id": [0], "trust": [0.9], "is_issue": [False], "reason": [""], "weight": [1.0]}
    >>> table = pa.table({**facts, "label": ["cat"], "suggested": ["cat"], "probability": [0.9]})
    >>> why_none(Issues(table, {"noise_rate": {"rate": 0.02, "low": 0.0, "high": 0.08}}))
    'was taken: all labels may be right (0% to 8% look wrong)'
    """
    found = issues.summary.get("noise_rate")
    if not issues.told:
        return "was taken: how many labels are wrong cannot be told"
    if found and found["low"] == 0:
        return f"was taken: all labels may be right (0% to {found['high']:.0%} look wrong)"
    return "is likelier right than wrong"


def answers_in(run: Path, issues: Issues) -> dict[int, Any]:
    """The labels, or numbers, that people gave to examples of an audited run, the latest of each."""
    known = set(issues.column("id").tolist())
    kind: Callable[[str], Any] = str if "suggested" in issues.table.column_names else float
    return {answer.id: kind(answer.label) for answer in read_answers(run) if answer.id in known}


def write_changes(folder: Path, changes: Sequence[Change], about: Mapping[str, Any]) -> None:
    """Write changes.csv and correction.json into a corrected copy."""
    place = "file" if changes and isinstance(changes[0].place, str) else "row"
    heads = [place if head == "place" else head for head in HEADS]
    _write_rows(folder / CHANGES, heads, ([getattr(change, head) for head in HEADS] for change in changes))
    said = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / CORRECTION, lambda path: path.write_text(said, encoding="utf-8"))


def write_labels(folder: Path, labels: Mapping[str, Any]) -> None:
    """Write the label of every file of a corrected copy, by its place in the copy."""
    _write_rows(folder / CORRECTED_LABELS, ("file", "label"), sorted(labels.items()))


def _write_rows(file: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(value) for value in row] for row in rows)
    write_whole(file, lambda path: path.write_text(text.getvalue(), encoding="utf-8"))


def read_changes(folder: Path) -> tuple[list[Change], dict[str, Any]]:
    """What `write_changes` wrote; labels are texts, and "" stands for what was left out."""
    fix = "correct the data again"
    try:
        about: dict[str, Any] = read_json(folder / CORRECTION, Correction, fix)
        if about["kind"] != IMAGES and (about["file"] is None or "column" not in about):
            raise damaged(folder / CORRECTION, "it names no file and column", fix)
        TableOptions(sep=about.get("sep"))  # refuses what is not one character
        rows = csv.reader(io.StringIO(read_text(folder / CHANGES, fix), newline=""))
        first = next(rows)
        if not {"id", "old", "new"} <= set(first):
            raise ValueError(f"its first line is {','.join(first):.60}")
        found = [Change(int(id_), *map(_value, rest)) for id_, *rest in rows]
        found = found if "file" in first else [_of_a_row(change) for change in found]
    except FileNotFoundError:
        raise ThresherError(f"{folder} is no corrected copy: give a folder that thresher correct wrote.") from None
    except ThresherError:
        raise
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise ThresherError(
            f"The list of changes in {folder} is damaged ({error!r}): correct the data again."
        ) from error
    return found, about


def forget_changes(folder: Path, *others: Path) -> None:
    """Remove the list of changes, and other files of the correction, once all is as it was."""
    for path in (*others, folder / CHANGES, folder / CORRECTION):
        path.unlink(missing_ok=True)


def in_text(label: Any) -> str:
    """A label as text: a class by its name, a number as it is written shortest.

    >>> in_text("cat"), in_text(3), in_text(0.30000000000000004)
    ('cat', '3', '0.3')
    """
    return f"{label:.15g}" if isinstance(label, float) else str(label)


def _rounded(audited: Any) -> Any:
    """A label of the issues, a real target in seven digits: it may have gone through single precision."""
    return float(f"{audited:.7g}") if isinstance(audited, float) else audited


def is_same(found: Any, audited: Any) -> bool:
    """Whether a label of the data, or its text, is that which was audited.

    Real targets may have gone through single precision, and whole numbers and truth values are written in several ways.

    >>> is_same("3.0", "3"), is_same("true", "True"), is_same(0.1, 0.10000000149), is_same("cat", "dog")
    (True, True, True, False)
    """
    one, other = str(found).strip(), str(audited).strip()
    if one == other or one.lower() == other.lower() in ("true", "false"):
        return True
    if not (_is_number(one) and _is_number(other)):
        return False
    return math.isclose(float(one), float(other), rel_tol=1e-5 if isinstance(audited, float) else 0, abs_tol=0)


def is_other(answer: Any, audited: Any) -> bool:
    """Whether what people answered is another label than the audited one; names of classes are compared as they are."""
    return not is_same(answer, audited) if isinstance(audited, float) else bool(answer != audited)


def refuse_changed(path: Path, place: str, found: Any, audited: Any) -> None:
    """Refuse data whose label at this place is not the one that was audited."""
    if not is_same(found, audited):
        was = in_text(_rounded(audited))
        raise ThresherError(f"{path} is not what was audited ({place} is '{found}' and was '{was}'): audit it again.")


def _of_a_row(change: Change) -> Change:
    return Change(change.id, int(change.place), change.old, change.new, change.why)


def _cell(value: Any) -> str:
    """A value for a spreadsheet: what is no number, but would be read as a formula, begins with an apostrophe."""
    text = "" if value is None else in_text(value)
    return f"'{text}" if text[:1] in FORMULAS and text and not _is_number(text) else text


def _value(text: str) -> str:
    """What `_cell` was given, as text.

    >>> [_value(_cell(text)) for text in ("=1+1", "'=1", "-3", "cat", "")]
    ['=1+1', "'=1", '-3', 'cat', '']
    """
    return text[1:] if text.startswith("'") else text


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def counted(changes: Iterable[Change]) -> dict[str, int]:
    """How many labels changed, how many of these by people, and how many examples were left out."""
    listed = list(changes)
    dropped = sum(change.new is None for change in listed)
    people = sum(change.why == PEOPLE for change in listed)
    return {"relabelled": len(listed) - dropped, "by_people": people, "dropped": dropped}
