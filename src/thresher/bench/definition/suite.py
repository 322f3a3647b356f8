"""A suite as data: its scales and methods, and what the paper says of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from thresher.bench.definition.grid import Cell, Entry
from thresher.bench.definition.published import Published
from thresher.bench.definition.setup import Setup
from thresher.core.errors import ThresherError, unknown
from thresher.methods import METHODS

STANDARD = "standard"


@dataclass(frozen=True)
class Scale:
    """The cells of one scale, the setup they share, and notes for the readers of the page."""

    cells: tuple[Cell, ...]
    setup: Setup
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """What a paper says of its table: on average each of `better` scores above each of `worse`.

    It is checked on all our cells of this metric, or only on those of this data set, of these corruptions by name, or
    of these names.
    """

    better: tuple[str, ...]
    worse: tuple[str, ...]
    metric: str = "accuracy"
    data: str | None = None
    corruptions: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()

    def applies_to(self, cell: Cell) -> bool:
        corruption = (cell.corruption or "").partition(":")[0]
        known = corruption in (self.corruptions or (corruption,)) and cell.name in (self.cells or (cell.name,))
        return cell.metric == self.metric and self.data in (None, cell.data) and known


@dataclass(frozen=True)
class Suite:
    """A comparison: cells × methods at each scale, with the paper's numbers by (cell, method).

    columns    what is stored of each epoch's record beside the score: "clean_share", "kept", "train_score", ...
    drawn      those of the columns that the page plots over the epochs
    labels     what columns are called on the page, where their names do not say it
    missing    for a scale that does not exist, the sentence that says why
    clock      what a score belongs to: an epoch, or a round; of epochs the last ten count, of rounds the last
    claims     what the paper concludes; the page says of each how far it holds here
    questions  comparisons of our own; the page says how they come out
    baseline   the method that every table must contain
    verdict    from the rows, what holds here of a paper that compares something else than methods
    shares     the paper's shares of clean examples, in percent, by (cell, method)
    """

    name: str
    title: str
    methods: tuple[Entry, ...]
    scales: Mapping[str, Scale]
    paper: str = ""
    published: Mapping[tuple[str, str], Published] = field(default_factory=dict)
    columns: tuple[str, ...] = ("clean_share",)
    drawn: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    clock: str = "epoch"
    claims: tuple[Claim, ...] = ()
    questions: tuple[Claim, ...] = ()
    verdict: Callable[[Sequence[Any]], str] | None = None
    baseline: str = STANDARD
    shares: Mapping[tuple[str, str], Published] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = [entry.name for entry in self.methods]
        if self.baseline not in rows:
            raise ThresherError(f"The suite {self.name} lacks its baseline {self.baseline}: add an entry for it.")
        for entry in self.methods:
            if entry.recipe is None and entry.procedure is None and (entry.of or entry.name) not in METHODS:
                raise unknown("method", entry.of or entry.name, METHODS)
        for label, scale in self.scales.items():
            names = [cell.name for cell in scale.cells]
            if len(set(names)) < len(names) or len(set(rows)) < len(rows):
                raise ThresherError(
                    f"The suite {self.name} ({label}) has two cells or methods of one name: rename one of them."
                )
            _require_data_of_variants(self.methods, scale.cells)
        cells = {cell.name for scale in self.scales.values() for cell in scale.cells}
        if parts := {cell.part_of for scale in self.scales.values() for cell in scale.cells} - {"", *cells}:
            raise ThresherError(f"The suite {self.name} has a part of {min(parts)}, which it lacks: add that cell.")
        for cell, row in (*self.published, *self.shares):
            if cell not in cells or row not in rows:
                raise ThresherError(
                    f"The suite {self.name} has a number for {cell} × {row}, which its grid lacks: correct the name."
                )
        if unstored := set(self.drawn) - set(self.columns):
            raise ThresherError(
                f"The suite {self.name} draws {min(unstored)}, which it does not store: add it to columns."
            )
        for name in (name for claim in (*self.claims, *self.questions) for name in (*claim.better, *claim.worse)):
            if name not in rows:
                raise ThresherError(f"The suite {self.name} has a claim about {name}, which it lacks: add its entry.")

    @property
    def final(self) -> str:
        """The scores that count, in words."""
        return "last ten epochs" if self.clock == "epoch" else f"last {self.clock}"

    def scale(self, name: str) -> Scale:
        if name in self.scales:
            return self.scales[name]
        if name in self.missing:
            raise ThresherError(self.missing[name])
        raise unknown("scale", name, [*self.scales, *self.missing])


def _require_data_of_variants(entries: Sequence[Entry], cells: Sequence[Cell]) -> None:
    for cell in cells:
        for entry in filter(cell.includes, entries):
            if entry.early_stop and cell.validation is None:
                raise ThresherError(f"{entry.name} stops early on a validation set: give the cell {cell.name} one.")
            if (entry.fine_tune or entry.clean_inside) and cell.clean is None:
                raise ThresherError(f"{entry.name} is trained on a clean set: give the cell {cell.name} one.")


def setup_for(scale: Scale, cell: Cell, entry: Entry) -> Setup:
    """The scale's setup, changed by the cell and then by the method."""
    return replace(scale.setup, **{**cell.changes, **entry.changes})
