"""The ledger: what was decided about every example, every epoch, as append-only Parquet."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from thresher.core.errors import FOLDER, ThresherError, refuse_other_kinds, refuse_unless, unknown
from thresher.core.examples import Examples
from thresher.core.files import damaged, reading, write_whole
from thresher.record.run_folder import LEDGER, WRITE_ANEW

TYPES: dict[str, Callable[[pa.DataType], bool]] = {  # of the columns of every ledger, which have a value in each row
    "id": pa.types.is_int64,
    **dict.fromkeys(("epoch", "prediction", "target"), pa.types.is_int32),
    "peer": pa.types.is_int8,
    **dict.fromkeys(("signal", "weight", "loss", "p_given", "belief", "right"), pa.types.is_floating),
    **dict.fromkeys(("visited", "kept"), pa.types.is_boolean),
}


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


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _refuse_other_types(schema: pa.Schema, folder: Path | None) -> None:
    """Refuse a ledger with a column that holds no numbers, or other ones than there, as no run writes them."""
    for field in schema:
        if not TYPES.get(field.name, _is_number)(field.type):
            raise damaged(folder or Path(LEDGER), f"its column {field.name} holds {field.type}", WRITE_ANEW)


def _refuse_gaps(table: pa.Table, path: Path) -> None:
    """Refuse a part with rows that lack what every row has."""
    for name in table.column_names:
        if name in TYPES and table[name].null_count:
            raise damaged(path, f"its column {name} has rows without a value", WRITE_ANEW)


def _refuse_unknown(columns: Any, known: Sequence[str]) -> None:
    """Refuse what is no list of names of columns."""
    fits = columns is None or (isinstance(columns, Sequence) and not isinstance(columns, str))
    refuse_unless("columns", columns, fits, 'a list of names, such as ["id", "belief"]')
    for name in columns or ():
        if name not in known:
            raise unknown("column of the ledger", str(name), known)


def _refuse_other_filters(where: Any, schema: pa.Schema) -> None:
    """Refuse what is no filter of these columns."""
    fits = where is None or isinstance(where, pc.Expression)
    refuse_unless("where", where, fits, 'an expression, such as pyarrow.compute.field("epoch") == 3')
    if where is not None:
        try:
            schema.empty_table().filter(where)
        except (pa.ArrowException, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise ThresherError(f"where= cannot be asked of this ledger ({reason}): name its columns.") from error


def _schema_of(path: Path) -> pa.Schema:
    with reading(path, WRITE_ANEW):
        return pq.read_schema(path)


def _write(table: pa.Table, path: Path) -> None:
    write_whole(path, lambda place: pq.write_table(table, place, compression="zstd"))


def dataframe(table: pa.Table) -> Any:
    """The table as a DataFrame, where pandas is installed."""
    if find_spec("pandas") is None:
        raise ThresherError("to_pandas() needs pandas: pip install pandas, or read the Arrow table, which needs none.")
    return table.to_pandas()


class Ledger:
    """The record of a run: in memory until it is committed to its folder, and readable from either."""

    def __init__(self, folder: Path | None = None, parts: Sequence[str] = ()):
        self.folder, self.parts = folder, list(parts)
        self.pending: list[pa.Table] = []
        self.schema: pa.Schema | None = None  # the columns of all tables that were added

    @classmethod
    def read(cls, folder: Path | str) -> "Ledger":
        """The ledger of a run folder (or its `ledger` folder)."""
        refuse_other_kinds({"folder": FOLDER}, {"folder": folder})
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
        if not stored and not self.pending:
            raise ThresherError(
                "The ledger has no rows: let an epoch end, of batches whose ids are known. Processes that a trainer "
                "forks keep theirs, so give out= there, and read Ledger.read(out)."
            )
        # Pending rows may have columns that the parts do not have yet.
        schema = _unified([*map(_schema_of, stored), *(table.schema for table in self.pending)])
        _refuse_other_types(schema, self.folder)
        _refuse_unknown(columns, schema.names)
        _refuse_other_filters(where, schema)
        tables = []
        for path in stored:
            with reading(path, WRITE_ANEW):
                tables.append(pq.read_table(path, columns=columns, filters=where, schema=schema))
            _refuse_gaps(tables[-1], path)
        for pending in self.pending:
            rows = _with_schema(pending, schema)
            rows = rows if where is None else rows.filter(where)
            tables.append(rows if columns is None else rows.select(columns))
        return pa.concat_tables(tables)

    def to_pandas(self) -> Any:
        """The rows as a DataFrame, where pandas is installed."""
        return dataframe(self.table())

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
