"""How a table is read where its looks are not enough."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from thresher.core.errors import ThresherError, unknown

CLASSES, REGRESSION = "classes", "regression"
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}  # what is hard to type


@dataclass(frozen=True)
class TableOptions:
    """Settings for reading a table; all else is guessed from its cells and listed in the notes of its preparation.

    task         "classes" or "regression": what the target is
    na           texts that mean a missing value, beside an empty cell
    categorical  columns whose numbers are names of categories
    drop         columns that are no inputs
    sep          what separates the cells of a text file
    groups       the column of the groups, such as persons: the rows of a group stay in one part of a split

    >>> TableOptions.from_words(drop="id,name", sep="tab")
    TableOptions(task=None, na=(), categorical=(), drop=('id', 'name'), sep='\\t', groups=None)
    """

    task: str | None = None
    na: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    sep: str | None = None
    groups: str | None = None

    def __post_init__(self) -> None:
        if self.task not in (None, CLASSES, REGRESSION):
            raise ThresherError(f"The task '{self.task}' is unknown: give {CLASSES} or {REGRESSION}.")
        if self.sep is not None and (len(self.sep) != 1 or not self.sep.isascii()):
            raise ThresherError(
                f"The separator {self.sep!r} is not one character of ASCII: give one, such as ; or tab."
            )
        for name in ("na", "categorical", "drop"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))

    @staticmethod
    def from_words(**words: str | None) -> "TableOptions":
        """The options as a command line has them: names with commas between them, and words for separators."""
        told: dict[str, Any] = {name: word for name, word in words.items() if word is not None}
        for name in {"na", "categorical", "drop"} & told.keys():
            told[name] = tuple(part.strip() for part in told[name].split(","))
        if "sep" in told:
            told["sep"] = SEPARATORS.get(told["sep"], told["sep"])
        return TableOptions(**told)

    def check(self, columns: Sequence[str], targets: Sequence[str], name: str) -> None:
        """Refuse names of columns that the table, which messages call `name`, does not have or that are its targets."""
        groups = () if self.groups is None else (self.groups,)
        for column in (*self.categorical, *self.drop, *groups):
            if column not in columns:
                raise unknown(f"column in {name}", column, columns)
        for column in targets:
            if column in (*self.drop, *groups):
                raise ThresherError(f"Column {column} is what to predict: name another column to drop or to group by.")

    def refuse_if_given(self, what: str) -> None:
        """Refuse options for data that are no table, which messages call `what`."""
        for field in fields(self):
            if getattr(self, field.name):
                raise ThresherError(f"{field.name} is for tables, and {what} is none: leave it out.")
