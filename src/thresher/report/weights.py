"""How much examples counted in the last epoch: all of them, and those of one class (L2RW, Figure 3)."""

import numpy as np

from thresher.report import charts
from thresher.report.figure import Figure
from thresher.report.run_record import CLEAN, CORRUPTED, UNKNOWN, Array, RunRecord
from thresher.report.summary import percent, ranking_quality


def weight_figures(run: RunRecord) -> list[Figure]:
    """The weights of all examples and, where wrong labels are known, of the class that lost most examples to them."""
    weights, origins = run.last_epoch["weight"], run.last_epoch.get("origin")
    kept = weights > 0
    words = f"How much each example counted in the last epoch: {percent(float(kept.mean()))} have a weight above zero"
    if origins is not None and run.truth_known and kept.any():
        words += f", and {percent(float((origins[kept] == CLEAN).mean()))} of those are truly clean"
    peers = len(np.unique(run.last_epoch["peer"])) if "peer" in run.last_epoch else 1
    words += f". Each of the {peers} peers counts every example once." if peers > 1 else "."
    if origins is not None and (quality := _quality(weights, origins, origins != UNKNOWN)) is not None:
        words += f" A clean example counts more than a corrupted one {percent(quality)} of the time (AUROC)."
    figures = [Figure("Weights", words, _histogram(weights, origins))]
    true = run.last_epoch.get("true")
    if true is not None and origins is not None and np.any(origins == CORRUPTED):
        figures.append(_within_a_class(run, weights, origins, true))
    return figures


def _within_a_class(run: RunRecord, weights: Array, origins: Array, true: Array) -> Figure:
    known = origins != UNKNOWN
    classes, lost = np.unique(true[origins == CORRUPTED].astype(int), return_counts=True)
    label = int(classes[lost.argmax()])
    mine = known & (true == label)
    found = [_quality(weights, origins, known & (true == other)) for other in classes]
    qualities = [quality for quality in found if quality is not None]
    words = (
        f"Only examples that truly are {run.class_name(label)}: {int((origins[mine] == CLEAN).sum()):,} are given that "
    )
    words += f"label and {int(lost.max()):,} another, more than of any other class."
    if (own := _quality(weights, origins, mine)) is not None:
        words += f" The first count more than the second {percent(own)} of the time (AUROC)"
        words += f", {percent(float(np.mean(qualities)))} on average over the classes." if len(qualities) > 1 else "."
    return Figure("Weights within one class", words, _histogram(weights[mine], origins[mine]))


def _quality(weights: Array, origins: Array, among: Array) -> float | None:
    return ranking_quality(weights[among], origins[among] == CLEAN)


def _histogram(weights: Array, origins: Array | None) -> charts.Spec:
    return charts.histogram(weights, origins, title="weight in the last epoch")
