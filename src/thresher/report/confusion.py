"""Confusion between given, predicted and, where they are known, true labels (L2RW, Figure 6)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thresher.report import charts
from thresher.report.charts import Figure
from thresher.report.run_record import CORRUPTED, UNKNOWN, Array, RunRecord
from thresher.report.summary import percent

MOST_CLASSES = 40  # a heat map of more classes than this cannot be read
MOST_DISAGREEMENTS = 12


def confusion_figures(run: RunRecord) -> list[Figure]:
    """Given against predicted; and where some labels are known to be wrong the truth against both: before and after."""
    given, predicted, true, origins = _labels(run)
    agree = f"Predicted and given label agree for {_share(given == predicted)} of the training examples."
    figures = [_confusion(run, "Given against predicted", agree, given=given, predicted=predicted)]
    known = origins != UNKNOWN
    if true is not None and np.any(origins == CORRUPTED):
        given, predicted, true = given[known], predicted[known], true[known]
        before = f"What was wrong in the data: {_share(given == true)} of the given labels are right."
        after = (
            f"What is left of it: {_share(predicted == true)} of the predictions on the training examples are right."
        )
        figures.append(_confusion(run, "Before: true against given", before, true=true, given=given))
        figures.append(_confusion(run, "After: true against predicted", after, true=true, predicted=predicted))
    return figures


def _confusion(run: RunRecord, title: str, words: str, **labels: Array) -> Figure:
    """The heat map of two kinds of label, the first of them in its rows."""
    (down, rows), (_, columns) = labels.items()
    shown, count = _shown_classes(rows, columns)
    words += f" Cells are percentages of the {down} label." if len(shown) <= charts.MOST_CELL_TEXTS else ""
    if len(shown) < count:
        words += f" Shown are the {len(shown)} of {count} classes that disagree most often."
    names = [run.class_name(label) for label in shown]
    return Figure(title, words, charts.confusion(_cells(run, labels, shown), names, *labels), square=True)


def _share(hits: Array) -> str:
    return percent(float(hits.mean()))


def _labels(run: RunRecord) -> tuple[Array, Array, Array | None, Array]:
    """Given, predicted and perhaps true label, and origin, of each ledger row that has the first two."""
    last = run.last_epoch
    known = np.isfinite(last["prediction"]) & np.isfinite(last["target"])
    origins = last.get("origin", np.full(len(known), UNKNOWN))
    given, predicted = (last[name][known].astype(int) for name in ("target", "prediction"))
    return given, predicted, last["true"][known].astype(int) if "true" in last else None, origins[known]


def _shown_classes(rows: Array, columns: Array) -> tuple[list[int], int]:
    classes = np.union1d(rows, columns)
    differ = rows != columns
    involved = np.concatenate([rows[differ], columns[differ]])
    often = np.bincount(np.searchsorted(classes, involved), minlength=len(classes))
    return sorted(classes[np.argsort(-often, kind="stable")[:MOST_CLASSES]].tolist()), len(classes)


def _cells(run: RunRecord, labels: Mapping[str, Array], shown: Sequence[int]) -> list[dict[str, Any]]:
    (down, rows), (across, columns) = labels.items()
    cells = []
    for label in shown:
        answers = columns[rows == label]
        for answer in shown:
            count = int((answers == answer).sum())
            names = {down: run.class_name(label), across: run.class_name(answer)}
            cells.append({**names, "count": count, "share": count / max(len(answers), 1)})
    return cells


def disagreements(run: RunRecord) -> list[dict[str, Any]]:
    """The pairs of given and predicted label that differ most often in the last epoch, the most frequent first."""
    if run.is_regression or "prediction" not in run.last_epoch:
        return []
    given, predicted, _, origins = _labels(run)
    differ = given != predicted
    pairs, place, counts = np.unique(
        np.stack([given[differ], predicted[differ]]), axis=1, return_inverse=True, return_counts=True
    )
    corrupted = np.bincount(place.ravel(), weights=origins[differ] == CORRUPTED, minlength=len(counts))
    first = np.argsort(-counts, kind="stable")[:MOST_DISAGREEMENTS]
    return [
        {
            "given": run.class_name(int(pairs[0, at])),
            "predicted": run.class_name(int(pairs[1, at])),
            "count": int(counts[at]),
            "corrupted": int(corrupted[at]) if run.truth_known else None,
        }
        for at in first
    ]
