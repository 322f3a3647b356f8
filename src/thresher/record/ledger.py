"""The ledger: what was decided about every example, every epoch, as append-only Parquet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import write_whole
from thresher.record.run_folder import LEDGER

NOTES_AT_ONCE, MOST_NUMBERS = 2**13, 2**20  # notes, and numbers of their outputs, that wait to be written
FIXED = ("visited", "signal", "weight", "loss", "p_given", "belief", "confidence")


@dataclass(frozen=True)
class Note:
    """Outputs, losses and weights of the examples at positions `index` of the set."""

    index: Tensor
    outputs: Tensor
    losses: Tensor
    weights: Tensor
    signal: Tensor | None = None


def steps_at_once(batch: int, outputs: int) -> int:
    """How many steps' notes are written at once: of thousands of classes a few steps hold as many numbers.

    >>> steps_at_once(128, 10), steps_at_once(128, 10_000)
    (64, 1)
    """
    return -(-min(NOTES_AT_ONCE, MOST_NUMBERS // outputs) // batch)


Together = Callable[[Sequence[Note]], Sequence[Note]]  # brings the notes of several processes together


class EpochRows:
    """The rows of one epoch and one network, kept on the device: [n + 1, 7 + predictions].

    The last row belongs to no example: it takes visits that a later visit of the same epoch overrides.
    Belief is p_given without the network's preference for some classes: outputs are shifted so that, over the epochs,
    mean predictions approach the frequencies of the given labels. Otherwise the examples of a class that the network
    never predicts would all have a belief near zero.
    Notes are written `every` so many steps, because the cost of a small write is mostly that of launching its kernels.
    """

    def __init__(self, examples: Examples, every: int = 1, together: Together | None = None):
        self.examples, self.every, self.together = examples, every, together
        width = examples.targets.shape[1] if examples.is_regression else 1  # or the share that is right
        device = examples.targets.device
        self.table = torch.zeros(len(examples) + 1, len(FIXED) + width, device=device)
        if examples.classes is not None:
            self.labels = torch.cat([examples.labels, torch.zeros(1, dtype=torch.long, device=device)])
            counts = torch.zeros(examples.classes or 0, device=device).index_add_(
                0, examples.labels, torch.ones(len(examples), device=device)
            )
            self.frequencies = counts / counts.sum()
            self.shift = torch.zeros_like(counts)
            self.mass = torch.zeros_like(counts)
        self.notes: list[Note] = []

    def add(self, note: Note) -> None:
        self.notes.append(note)
        if len(self.notes) >= self.every:
            self.flush()

    def flush(self) -> None:
        """Write the collected notes."""
        if self.notes:
            self._write(self.notes if self.together is None else self.together(self.notes))
            self.notes = []

    @torch.no_grad()
    def _write(self, notes: Sequence[Note]) -> None:
        index, outputs, losses, weights = (
            torch.cat([getattr(note, name) for note in notes]) for name in ("index", "outputs", "losses", "weights")
        )
        missing = torch.full_like(notes[0].losses, float("nan"))
        signal = torch.cat([missing if note.signal is None else note.signal for note in notes])
        if self.examples.classes is None:
            p_given = belief = confidence = torch.zeros_like(losses)
            prediction = outputs
        else:
            labels, shifted = self.labels[index][:, None], (outputs + self.shift).softmax(1)
            (top, best), total = outputs.max(1), outputs.logsumexp(1)
            p_given, belief = (outputs.gather(1, labels)[:, 0] - total).exp_(), shifted.gather(1, labels)[:, 0]
            confidence = (top - total).exp_()
            self.mass += shifted.sum(0)
            prediction = best[:, None].to(losses.dtype)
        known = torch.stack([torch.ones_like(losses), signal, weights, losses, p_given, belief, confidence], 1)
        self.table.index_copy_(0, index, torch.cat([known, prediction], 1))

    def visited(self) -> np.ndarray[Any, Any]:
        """Whether a step visited each example [n]."""
        self.flush()
        return self.table[:-1, 0].cpu().numpy() > 0

    def weights(self) -> Tensor:
        """The weight of each example that a step visited [n]."""
        self.flush()
        return self.table[:-1, 2]

    def fill(self, note: Note) -> None:
        """Write rows of examples that no step has seen unmixed; whether a step visited them stays as it is."""
        self.flush()
        visited = self.table[note.index, 0]
        self._write([note])
        self.table[note.index, 0] = visited

    def take(self) -> dict[str, np.ndarray[Any, Any]]:
        """The epoch's rows on the host, each column [n]; the next epoch starts empty."""
        self.flush()
        rows = self.table[:-1].cpu().numpy().copy()
        self.table.zero_()
        if self.examples.classes is not None:
            predicted = self.mass / self.mass.sum().clamp_min(1)
            self.shift += torch.log(self.frequencies.clamp_min(1e-6)) - torch.log(predicted.clamp_min(1e-6))
            self.mass.zero_()
        columns = {name: rows[:, place] for place, name in enumerate(FIXED)}
        columns["visited"] = columns["visited"] > 0
        return {**columns, "prediction": rows[:, len(FIXED) :]}


def last_visits(order: Tensor, n: int) -> Tensor:
    """`order` [steps, batch] with `n` in place of every visit that a later one of the same example overrides.

    >>> last_visits(torch.tensor([[0, 2], [1, 0]]), 3).tolist()
    [[3, 2], [1, 0]]
    """
    flat = order.flatten().cpu().numpy()
    last = np.zeros(n, np.int64)
    last[flat] = np.arange(len(flat))  # numpy assigns in order, so the last visit stays
    rows = np.where(last[flat] == np.arange(len(flat)), flat, n)
    return torch.from_numpy(rows).view_as(order).to(order.device)


def residual_belief(losses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """1 - rank/(n-1) of each loss, which replaces the probability of the given target in regression.

    >>> residual_belief(np.array([0.1, 5.0, 0.2]))
    array([1. , 0. , 0.5], dtype=float32)
    """
    ranks = np.empty(len(losses), np.float32)
    ranks[np.argsort(losses, kind="stable")] = np.arange(len(losses), dtype=np.float32)
    return np.asarray(1 - ranks / max(len(losses) - 1, 1), np.float32)


def epoch_table(
    examples: Examples,
    rows: Mapping[str, np.ndarray[Any, Any]],
    extra: Mapping[str, np.ndarray[Any, Any]],
    *,
    epoch: int,
    peer: int,
) -> pa.Table:
    """One epoch of one network as an Arrow table of the ledger."""
    n = len(examples)
    columns: dict[str, Any] = {
        "id": examples.ids.cpu().numpy(),
        "epoch": np.full(n, epoch, np.int32),
        "peer": np.full(n, peer, np.int8),
        **{name: rows[name] for name in ("visited", "signal", "weight")},
        "kept": rows["weight"] > 0,
        "loss": rows["loss"],
        "p_given": rows["p_given"],
        "belief": rows["belief"],
    }
    if examples.is_regression:
        predictions = examples.as_given(torch.from_numpy(rows["prediction"])).numpy()
        targets = examples.as_given(examples.targets).numpy()
        columns |= {f"prediction_{place}": predictions[:, place] for place in range(targets.shape[1])}
        columns |= {f"target_{place}": targets[:, place] for place in range(targets.shape[1])}
    elif examples.classes is not None:
        columns["prediction"] = rows["prediction"][:, 0].astype(np.int32)
        columns["target"] = examples.labels.cpu().numpy().astype(np.int32)
    else:
        columns["right"] = rows["prediction"][:, 0]
    return pa.table({**columns, **extra})


def _unified(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all of these schemas; a column of two types, such as boolean and later number, is refused."""
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        first, *others = schemas
        clashes = (
            f"The column {name!r} was {first.field(name).type} and is now {other.field(name).type}"
            for other in others
            for name in first.names
            if name in other.names and first.field(name).type != other.field(name).type
        )
        raise ThresherError(f"{next(clashes, error)}: let a rule give a column values of one type.") from error


def _with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), table], promote_options="permissive")


def _write(table: pa.Table, path: Path) -> None:
    write_whole(path, lambda place: pq.write_table(table, place, compression="zstd"))


class Ledger:
    """The record of a run: in memory until it is committed to its folder, and readable from either."""

    def __init__(self, folder: Path | None = None, parts: Sequence[str] = ()):
        self.folder, self.parts = folder, list(parts)
        self.pending: list[pa.Table] = []
        self.schema: pa.Schema | None = None  # the columns of all tables that were added

    @classmethod
    def read(cls, folder: Path | str) -> "Ledger":
        """The ledger of a run folder (or its `ledger` folder)."""
        folder = Path(folder)
        folder = folder / LEDGER if (folder / LEDGER).is_dir() else folder
        parts = sorted(path.name for path in folder.glob("part-*.parquet"))
        if not parts:
            raise ThresherError(f"{folder} holds no ledger: give the folder of a run that has saved an epoch.")
        return cls(folder, parts)

    def add(self, table: pa.Table) -> None:
        self.schema = table.schema if self.schema is None else _unified([self.schema, table.schema])
        self.pending.append(table)

    def commit(self) -> None:
        """Write what is pending as one more part, which is valid once the checkpoint names it."""
        if self.folder is None or not self.pending:
            return
        table = pa.concat_tables(self.pending, promote_options="permissive")
        if self.parts:
            table = self._with_all_columns(table)
        name = f"part-{len(self.parts):05d}.parquet"
        _write(table, self.folder / name)
        self.parts.append(name)
        self.pending = []

    def _with_all_columns(self, table: pa.Table) -> pa.Table:
        """The table with the columns of all parts, which get its new columns, so that any reader reads the folder.

        A rule may begin to give columns of its own later in a run; earlier rows have no value there.
        """
        assert self.folder is not None
        known = pq.read_schema(self.folder / self.parts[0])
        schema = _unified([known, table.schema])
        if schema != known:
            for path in (self.folder / part for part in reversed(self.parts)):  # last the one whose schema is read
                _write(_with_schema(pq.read_table(path), schema), path)
        return _with_schema(table, schema)

    def discard_uncommitted(self) -> None:
        """Remove parts that no checkpoint names, which a run leaves if it ends between the two writes."""
        if self.folder is not None:
            for path in self.folder.glob("part-*.parquet"):
                if path.name not in self.parts:
                    path.unlink()

    def table(self, columns: Sequence[str] | None = None, where: Any = None) -> pa.Table:
        """The rows as an Arrow table: these columns of those that `where` (a pyarrow expression) selects."""
        stored = [] if self.folder is None else [self.folder / part for part in self.parts]
        # Pending rows may have columns that the parts do not have yet.
        schema = _unified([*map(pq.read_schema, stored), *(table.schema for table in self.pending)])
        tables = [pq.read_table(path, columns=columns, filters=where, schema=schema) for path in stored]
        for pending in self.pending:
            rows = _with_schema(pending, schema)
            rows = rows if where is None else rows.filter(where)
            tables.append(rows if columns is None else rows.select(columns))
        return pa.concat_tables(tables)

    def to_pandas(self) -> Any:
        """The rows as a DataFrame, where pandas is installed."""
        if find_spec("pandas") is None:
            raise ThresherError("to_pandas() needs pandas: pip install pandas, or call table(), which needs none.")
        return self.table().to_pandas()

    def trust(self) -> tuple[Tensor, Tensor]:
        """(ids, trust): the mean over epochs and networks of the belief in the given target, 0 to 1."""
        return self._means("belief")

    def signals(self) -> tuple[Tensor, Tensor]:
        """(ids, means) over epochs and networks of what the batch rule looked at, such as l2rw's agreements.

        NaN where no step visited an example, or the rule looked at nothing.
        """
        return self._means("signal")

    def _means(self, column: str) -> tuple[Tensor, Tensor]:
        rows = self.table(["id", column])
        known = pc.if_else(pc.is_finite(rows[column]), rows[column], None)
        means = rows.set_column(1, column, known).group_by("id").aggregate([(column, "mean")]).sort_by("id")
        ids, values = means["id"].to_numpy(), means[f"{column}_mean"].to_numpy()
        return torch.from_numpy(ids.copy()), torch.from_numpy(values.astype(np.float32))
