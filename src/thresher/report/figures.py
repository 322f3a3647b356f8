"""The figures of the page: a chart, and a sentence that says what is to be seen in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.report import charts
from thresher.report.record import CLEAN, CORRUPTED, UNKNOWN, Array, RunRecord
from thresher.report.summary import is_share, metric_of, percent, ranking_quality, run_names

MOST_CLASSES = 40  # a heat map of more classes than this cannot be read
MOST_POINTS = 1500
MOST_DISAGREEMENTS = 12


@dataclass(frozen=True)
class Figure:
    """A titled chart with the sentence under its title; square ones are as high as they are wide."""

    title: str
    words: str
    spec: charts.Spec
    square: bool = False


def method_colours(runs: Sequence[RunRecord]) -> dict[str, str]:
    """One colour a method, in the order in which the runs were given."""
    methods = list(dict.fromkeys(run.method for run in runs))
    return {method: charts.METHOD_COLOURS[place % len(charts.METHOD_COLOURS)] for place, method in enumerate(methods)}


def training_figures(runs: Sequence[RunRecord]) -> list[Figure]:
    """Score, loss, share of clean examples and share kept over the epochs, all runs overlaid."""
    metrics = list(dict.fromkeys(metric_of(run) for run in runs))
    metric = " or ".join(_metric_name(name) for name in metrics)
    base_rates = sorted({round(rate, 4) for run in runs if (rate := _base_rate(run)) is not None})
    rates = " and ".join(percent(rate) for rate in base_rates)
    clean = "How many of the examples that counted are truly clean"
    dashed = "the dashed line is" if len(base_rates) == 1 else "the dashed lines are"
    clean += f"; {dashed} their share in the whole set, {rates}." if rates else "."
    plans: list[tuple[str, str, str, str, bool]] = [
        ("score", "Score", metric, f"{_capital(metric)} on the evaluation set after each epoch.", is_share(metrics[0])),
        (
            "loss",
            "Training loss",
            "loss",
            "Mean loss of the training steps of each epoch, as the method weighs it.",
            False,
        ),
        ("clean_share", "Clean among those kept", "clean share", clean, True),
        ("kept", "Examples kept", "share kept", "The share of visited examples whose weight is above zero.", True),
    ]
    figures = []
    for key, title, axis, words, share in plans:
        rows = _epoch_rows(runs, key)
        if any(row[key] is not None for row in rows):
            lines, whole = (base_rates if key == "clean_share" else []), key == "kept"
            spec = charts.curve(
                rows, key, title=axis, share=share, colours=method_colours(runs), lines=lines, whole=whole
            )
            figures.append(Figure(title, words, spec))
    return figures


def run_figures(run: RunRecord) -> list[Figure]:
    """Weights, trust, and given against predicted, for one run; what the folder does not hold is left out."""
    figures = []
    if "weight" in run.last_epoch:
        figures.append(_weight_figure(run))
    if "trust" in run.examples:
        figures.append(_trust_figure(run))
    if "prediction" in run.last_epoch and not run.is_regression:
        figures.append(_confusion_figure(run))
    if "prediction_0" in run.last_epoch and run.is_regression:
        figures.append(_scatter_figure(run))
    return figures


def disagreements(run: RunRecord) -> list[dict[str, Any]]:
    """The pairs of given and predicted label that differ most often in the last epoch, the most frequent first."""
    if run.is_regression or "prediction" not in run.last_epoch:
        return []
    given, predicted, origins = _labels(run)
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


def _weight_figure(run: RunRecord) -> Figure:
    weights = run.last_epoch["weight"]
    kept = weights > 0
    words = f"How much each example counted in the last epoch: {percent(float(kept.mean()))} have a weight above zero"
    origins = run.last_epoch.get("origin")
    if origins is not None and run.truth_known and kept.any():
        words += f", and {percent(float((origins[kept] == CLEAN).mean()))} of those are truly clean"
    peers = len(np.unique(run.last_epoch["peer"])) if "peer" in run.last_epoch else 1
    words += f". Each of the {peers} peers counts every example once." if peers > 1 else "."
    return Figure("Weights", words, charts.histogram(weights, origins, title="weight in the last epoch"))


def _trust_figure(run: RunRecord) -> Figure:
    trust, origins = run.examples["trust"], run.examples.get("origin")
    meaning = "one minus the mean residual rank" if run.is_regression else "the mean probability of the given label"
    words = f"Trust is {meaning} over all epochs, from 0 to 1."
    if origins is not None:
        known = (origins != UNKNOWN) & np.isfinite(trust)
        quality = ranking_quality(trust[known], origins[known] == CLEAN)
        if quality is not None:
            words += f" A clean example is trusted more than a corrupted one {percent(quality)} of the time (AUROC)."
    return Figure("Trust", words, charts.histogram(trust, origins, title="trust", whole=(0.0, 1.0)))


def _confusion_figure(run: RunRecord) -> Figure:
    given, predicted, _ = _labels(run)
    shown, count = _shown_classes(given, predicted)
    words = (
        f"Predicted and given label agree for {percent(float((given == predicted).mean()))} of the training examples."
    )
    words += " Cells are percentages of the given label." if len(shown) <= charts.MOST_CELL_TEXTS else ""
    if len(shown) < count:
        words += f" Shown are the {len(shown)} of {count} classes that disagree most often."
    spec = charts.confusion(_cells(run, given, predicted, shown), [run.class_name(label) for label in shown])
    return Figure("Given against predicted", words, spec, square=True)


def _labels(run: RunRecord) -> tuple[Array, Array, Array]:
    """Given and predicted label and origin of each ledger row that has both labels."""
    last = run.last_epoch
    known = np.isfinite(last["prediction"]) & np.isfinite(last["target"])
    origins = last.get("origin", np.full(len(known), UNKNOWN))
    return last["target"][known].astype(int), last["prediction"][known].astype(int), origins[known]


def _shown_classes(given: Array, predicted: Array) -> tuple[list[int], int]:
    classes = np.union1d(given, predicted)
    differ = given != predicted
    involved = np.concatenate([given[differ], predicted[differ]])
    often = np.bincount(np.searchsorted(classes, involved), minlength=len(classes))
    return sorted(classes[np.argsort(-often, kind="stable")[:MOST_CLASSES]].tolist()), len(classes)


def _cells(run: RunRecord, given: Array, predicted: Array, shown: Sequence[int]) -> list[dict[str, Any]]:
    cells = []
    for label in shown:
        answers = predicted[given == label]
        for answer in shown:
            count = int((answers == answer).sum())
            names = {"given": run.class_name(label), "predicted": run.class_name(answer)}
            cells.append({**names, "count": count, "share": count / max(len(answers), 1)})
    return cells


def _scatter_figure(run: RunRecord) -> Figure:
    last = run.last_epoch
    targets = sorted(name.removeprefix("target_") for name in last if name.startswith("target_"))
    given = np.concatenate([last[f"target_{name}"] for name in targets])
    predicted = np.concatenate([last[f"prediction_{name}"] for name in targets])
    origins = np.tile(last.get("origin", np.full(len(last["id"]), UNKNOWN)), len(targets))
    ids = np.tile(last["id"], len(targets))
    usable = np.flatnonzero(np.isfinite(given) & np.isfinite(predicted))
    picked = np.sort(np.random.default_rng(0).permutation(usable)[:MOST_POINTS])
    rows = [
        {"example": int(ids[at]), "given": float(given[at]), "predicted": float(predicted[at]), "origin": origins[at]}
        for at in picked
    ]
    words = "On the dashed line the model agrees with the target it was given."
    words += f" A random {len(picked):,} of {len(usable):,} target values." if len(picked) < len(usable) else ""
    return Figure("Given against predicted", words, charts.scatter(rows))


def _epoch_rows(runs: Sequence[RunRecord], key: str) -> list[Mapping[str, Any]]:
    return [
        {"epoch": int(row.get("epoch", place)), "run": name, "method": run.method, key: value}
        for run, name in zip(runs, run_names(runs), strict=True)
        for place, (row, value) in enumerate(zip(run.history, run.series(key), strict=True), start=1)
    ]


def _base_rate(run: RunRecord) -> float | None:
    if not run.truth_known:
        return None
    known = run.examples["origin"][run.examples["origin"] != UNKNOWN]
    return float((known == CLEAN).mean())


def _metric_name(metric: str) -> str:
    return "R²" if metric == "r2" else metric.replace("_", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
