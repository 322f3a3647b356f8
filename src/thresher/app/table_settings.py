"""The settings that say how a table is read, and what a run is tested on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from thresher.engine.settings import TrainSettings, option

if TYPE_CHECKING:
    from thresher.data import TableOptions

TABLES = "How a table is read"


@dataclass(frozen=True)
class TableSettings(TrainSettings):
    """What is told about a table; what is not is guessed from its cells, with a line that says so."""

    test: str | None = option(
        None,
        "What to train on",
        "A file or folder to test on, in the form of --data, of which all is then trained on. If not given, the test "
        "folder or arrays of --data, or else a fifth of it, whose labels are as noisy as the others.",
    )
    task: str | None = option(None, TABLES, "classes or regression: what the target is (by its values).")
    categorical: str | None = option(
        None, TABLES, "Columns whose numbers are names of categories, with commas between them."
    )
    drop: str | None = option(None, TABLES, "Columns that are no inputs, with commas between them.")
    na: str | None = option(
        None, TABLES, "Texts that mean a missing value, with commas between them; among numbers ? and NA do anyway."
    )
    sep: str | None = option(None, TABLES, "What is between the cells of a text file: ; or tab (by its first line).")
    groups: str | None = option(
        None, TABLES, "The column of the groups, such as persons: the rows of a group stay in one part of a split."
    )


def table_options(settings: TableSettings) -> "TableOptions":
    """How a table is read, by these settings."""
    from thresher.data import TableOptions

    return TableOptions.from_words(
        task=settings.task,
        na=settings.na,
        categorical=settings.categorical,
        drop=settings.drop,
        sep=settings.sep,
        groups=settings.groups,
    )
