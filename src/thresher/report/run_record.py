"""The part of a run folder that the report shows, read once."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from thresher.core.errors import ThresherError
from thresher.core.files import damaged, parsed_json, read_arrays, read_json, read_json_lines, read_text, reading
from thresher.record import run_folder
from thresher.record.issues import Issues
from thresher.record.ledger import Ledger

Array = NDArray[Any]
Columns = Mapping[str, Array]

CLEAN, CORRUPTED, UNKNOWN = "clean", "corrupted", "unknown"
STAGES = ("teacher", "pretraining")
OF_CLASSES = ("target", "prediction", "true_target")  # columns of class ids
MOST_CLASSES = 10**7  # of which a page could count the names


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run: settings, one history row an epoch, facts of each example, and the ledger's last epoch."""

    folder: Path
    settings: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    examples: Columns  # id, trust, file, target.., true_target.., origin; sorted by id
    last_epoch: (
        Columns  # id, peer, weight, prediction.., target.., origin, true, from_teacher; one row an example and peer
    )
    previews: Columns  # ids, pictures and ends, or inputs, or row: a row of a table each, as JSON
    class_names: Sequence[str] | None
    tuned: float | None  # the score after fine-tuning on clean examples
    judged: Columns  # margin and right: the teacher on validation examples
    stages: Mapping[str, Sequence[Mapping[str, Any]]]  # the histories of its teacher and of its pretraining
    noise_rate: Mapping[str, Any] | None  # where it was estimated: rate, low, high and why
    issues: Issues | None = None  # what an audit found

    @property
    def method(self) -> str:
        return str(self.settings.get("method") or self.folder.name)

    @property
    def has_teacher(self) -> bool:
        """Whether labels of it come from a teacher."""
        return "from_teacher" in self.examples

    @property
    def is_regression(self) -> bool:
        return "target_0" in self.examples or "target_0" in self.last_epoch

    @property
    def trusts_by_rank(self) -> bool:
        """Whether trust is by the ranks of losses: there is no one class whose probability could say it."""
        return self.is_regression or "right" in self.last_epoch

    @property
    def truth_known(self) -> bool:
        return "origin" in self.examples and bool(np.any(self.examples["origin"] != UNKNOWN))

    def class_name(self, label: int) -> str:
        """The name of a class, or its number where it has none."""
        if self.class_names is not None and 0 <= label < len(self.class_names):
            return str(self.class_names[label])
        return str(label)

    def series(self, key: str) -> list[float | None]:
        """One number an epoch, None where it is missing or not finite."""
        return [finite(row.get(key)) for row in self.history]


def read_run(folder: Path) -> RunRecord:
    """Read a run folder; everything but its history may be missing, and that too where an audit was written."""
    audited = (folder / run_folder.ISSUES).is_file()
    history = [] if audited and not (folder / run_folder.HISTORY).is_file() else read_history(folder)
    examples = _read_examples(folder / run_folder.EXAMPLES)
    return RunRecord(
        folder=folder,
        settings=_read_settings(folder),
        history=history,
        examples=examples,
        last_epoch=_read_last_epoch(folder / run_folder.LEDGER, examples),
        previews=_read_previews(folder),
        class_names=class_names_in(folder) if examples else None,
        tuned=_read_tuned(folder / run_folder.FINE_TUNED),
        judged=_read_judged(folder / run_folder.TEACHER),
        stages=_read_stages(folder) if "from_teacher" in examples else {},
        noise_rate=noise_rate_found(folder, history),
        issues=Issues.read(folder) if audited else None,
    )


def by_folds_in(folder: Path) -> dict[str, Any] | None:
    """The noise rate that folds found for the run in this folder: rate, low, high and why."""
    path = folder / run_folder.NOISE_RATE
    try:
        stored = read_json(path, run_folder.NoiseRate, again := "delete it, and the rate is measured again")
    except FileNotFoundError:
        return None
    if (odd := run_folder.odd_rate(stored)) is not None:
        raise damaged(path, f"{odd:g} is no share", again)
    return {name: stored[name] for name in ("rate", "low", "high", "why")}


def class_names_in(folder: Path) -> list[str] | None:
    """The names of the classes of a finished run, or None where they have none."""
    path = folder / run_folder.EXAMPLES
    with reading(path, run_folder.WRITE_ANEW):
        stored = (pq.read_schema(path).metadata or {}).get(b"class_names")
        named = None if stored is None else stored.decode()
    if named is None:
        return None
    names: list[str] = parsed_json(named, list[str], path, run_folder.WRITE_ANEW)
    return names


def noise_rate_found(folder: Path, history: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The noise rate that folds, or the run itself, found: rate, low, high and why."""
    return by_folds_in(folder) or next((row["noise_rate"] for row in history if row.get("noise_rate")), None)


def rows_of(known_ids: Array, wanted_ids: Array) -> tuple[Array, Array]:
    """Where each wanted id stands among sorted known ids, and whether it is there at all.

    >>> rows_of(np.array([3, 5, 9]), np.array([9, 4]))[1].tolist()
    [True, False]
    """
    if len(known_ids) == 0:
        return np.zeros(len(wanted_ids), int), np.zeros(len(wanted_ids), bool)
    rows = np.searchsorted(known_ids, wanted_ids).clip(max=len(known_ids) - 1)
    return rows, known_ids[rows] == wanted_ids


def finite(value: Any) -> float | None:
    """A number, or None where there is none or it is not finite."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def read_history(folder: Path) -> list[dict[str, Any]]:
    """One record an epoch; a folder that has none is refused."""
    path = folder / run_folder.HISTORY
    if not path.is_file():
        raise ThresherError(
            f"{folder} is not a run folder ({run_folder.HISTORY} is missing): give the folder a run was written to."
        )
    history = read_json_lines(path, run_folder.Epoch, run_folder.WRITE_ANEW)
    for row in history:
        if odd := next(filter(run_folder.RECALL_OF_NONE.match, row.get("scores", ())), None):
            raise damaged(path, f"an epoch has the score {odd}, which is that of no class", run_folder.WRITE_ANEW)
    if not history:
        raise ThresherError(f"{folder} has no finished epoch yet: let the run finish one, then ask for the report.")
    return history


def _read_tuned(folder: Path) -> float | None:
    """The score of the fine-tuned run, once it is finished."""
    if not (folder / run_folder.EXAMPLES).exists():
        return None
    return finite(read_history(folder)[-1].get("score"))


def _read_judged(path: Path) -> Columns:
    return _as_arrays(_table(path)) if path.is_file() else {}


def _table(path: Path, needs: str = "id") -> pa.Table:
    """The table of a file, which has a column of ids."""
    with reading(path, run_folder.WRITE_ANEW):
        table = pq.read_table(path)
        table.validate(full=True)  # whose texts may be no UTF-8
        if not pa.types.is_integer(table.schema.field(needs).type) or table[needs].null_count:
            raise ValueError(f"{needs} holds no whole numbers")
    return table


def _read_stages(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The stages before a student's training, in its own folder or in one that it shares with other students."""
    places = [place / run_folder.STAGES / name for place in (folder.parent, folder) for name in STAGES]
    return {place.name: read_history(place) for place in places if (place / run_folder.HISTORY).is_file()}


def _read_settings(folder: Path) -> dict[str, Any]:
    path = folder / run_folder.SETTINGS
    if not path.is_file():
        return {}
    with reading(path, run_folder.WRITE_ANEW):
        return _flat(tomllib.loads(read_text(path, run_folder.WRITE_ANEW)))


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _read_examples(path: Path) -> Columns:
    if not path.is_file():
        return {}
    table = _table(path).sort_by("id")
    columns = _as_arrays(table)
    for name, values in columns.items():
        kinds = "O" if name == "file" else "b" if name in ("is_corrupt", "from_teacher") else "iuf"
        if values.dtype.kind not in kinds and table[name].null_count == 0:
            raise damaged(path, f"{name} holds {values.dtype}", run_folder.WRITE_ANEW)
    if "trust" not in columns or columns["trust"].dtype.kind != "f":
        raise damaged(path, "it has no numbers as trust", run_folder.WRITE_ANEW)
    _refuse_huge_classes(columns, path)
    if "is_corrupt" in columns:
        corrupt, known = columns.pop("is_corrupt"), table["is_corrupt"].is_valid().to_numpy()
        columns["origin"] = np.where(known, np.where(corrupt.astype(bool), CORRUPTED, CLEAN), UNKNOWN)
    return columns


def _refuse_huge_classes(columns: Columns, path: Path) -> None:
    """Refuse class ids that no network had outputs for."""
    for name in OF_CLASSES:
        highest = columns[name].max(initial=0) if name in columns else 0
        if highest > MOST_CLASSES:
            raise damaged(path, f"{name} has the class {highest:.0f}", run_folder.WRITE_ANEW)


def _as_arrays(table: pa.Table) -> dict[str, Array]:
    return {name: table[name].to_numpy() for name in table.column_names if table[name].null_count < len(table)}


def _read_last_epoch(folder: Path, examples: Columns) -> Columns:
    """The ledger rows of the last epoch: filtered while reading, so that a long ledger does not fill the memory."""
    if not any(folder.glob("part-*.parquet")):
        return {}
    with reading(folder, run_folder.WRITE_ANEW):
        ledger = Ledger.read(folder)
        last = pc.max(ledger.table(["epoch"])["epoch"])
        if not last.is_valid:
            return {}
        shown = ("id", "peer", "weight", "prediction", "target", "right", "teacher_confidence", "student_confidence")
        known = pq.read_schema(folder / ledger.parts[0]).names
        names = [name for name in known if name in shown or name.startswith(("prediction_", "target_"))]
        columns = _as_arrays(ledger.table(names, pc.field("epoch") == last))
        _refuse_huge_classes(columns, folder)
        pairs = [("weight", "id"), ("prediction", "target")]  # columns of which no run writes one alone
        if any((one in columns) != (other in columns) for one, other in pairs):
            raise ValueError(f"it has the columns {', '.join(known)}")
        if "origin" in examples:
            rows, found = rows_of(examples["id"], columns["id"])
            columns["origin"] = np.where(found, examples["origin"][rows], UNKNOWN)
            if "true_target" in examples and found.all():  # a class; real targets have a column each
                columns["true"] = examples["true_target"][rows]
        if "from_teacher" in examples:
            rows, found = rows_of(examples["id"], columns["id"])
            columns["from_teacher"] = found & examples["from_teacher"][rows]
        return columns


def read_signals(folder: Path, ids: Array) -> Array | None:
    """The mean signal of each of these examples over the run, as its batch rule saw it; None where none looked."""
    if not any((folder / run_folder.LEDGER).glob("part-*.parquet")):
        return None
    known, signals = (values.numpy() for values in Ledger.read(folder).signals())
    rows, found = rows_of(known, ids)
    values = np.where(found, signals[rows], np.nan) if len(known) else np.full(len(ids), np.nan)
    return values if np.isfinite(values).any() else None


def read_traces(folder: Path, ids: Array) -> dict[int, list[float | None]]:
    """The trust in each of these examples, epoch by epoch: of the run itself, or of the trainings of an audit."""
    ledgers = [folder / run_folder.LEDGER, *sorted((folder / run_folder.AUDIT).glob(f"**/{run_folder.LEDGER}"))]
    known = [place for place in ledgers if any(place.glob("part-*.parquet"))]
    if not known:
        return {}
    wanted = pc.field("id").isin(pa.array(ids))
    names = ["id", "epoch", "belief"]
    rows = pa.concat_tables([Ledger.read(each).table(names, wanted) for each in known], promote_options="permissive")
    means = (
        rows.group_by(["id", "epoch"])
        .aggregate([("belief", "mean")])
        .sort_by([("id", "ascending"), ("epoch", "ascending")])
    )
    traces: dict[int, list[float | None]] = {}
    for id_, belief in zip(means["id"].to_pylist(), means["belief_mean"].to_pylist(), strict=True):
        traces.setdefault(id_, []).append(finite(belief))
    return traces


def _read_previews(folder: Path) -> Columns:
    path = folder / run_folder.PREVIEWS
    if not path.is_file():
        return {}
    return read_previews(path, run_folder.WRITE_ANEW)


def read_previews(path: Path, fix: str) -> dict[str, Array]:
    """Ids and looks of examples, as `save_previews` wrote them: one of each for every id."""
    kinds = {"ids": "iu", "inputs": "fiu", "pictures": "u", "ends": "iu", "row": "U", "targets": "fiu"}
    found = read_arrays(path, fix, kinds)
    if not found:
        return found
    if "ids" not in found:
        raise damaged(path, "it lacks 'ids'", fix)
    of_each = {name: values for name, values in found.items() if name not in ("pictures", "width")}
    short = [name for name, values in of_each.items() if len(values) != len(found["ids"])]
    flat = [name for name in ("ids", "pictures", "ends", "row") if name in found and found[name].ndim != 1]
    if short or flat:
        raise damaged(path, f"{(short or flat)[0]} is of another length or shape than the ids", fix)
    if "width" in found and (found["width"].shape != () or found["width"].dtype.kind not in "iu"):
        raise damaged(path, "width is no number", fix)
    for row in found.get("row", ()):
        parsed_json(str(row), dict[str, Any], path, fix)
    return found
