"""The figures of the page: those of training, which overlay all runs, and those of each run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thresher.report import charts
from thresher.report.charts import Figure
from thresher.report.run_record import CLEAN, CORRUPTED, UNKNOWN, Array, RunRecord
from thresher.report.summary import epoch_rows, is_share, mean_recalls, metric_of, percent, ranking_quality, run_names
from thresher.report.teacher import accuracy_figures, reclaim_figures, shared_figures, teacher_figures

MOST_POINTS = 1500
MOST_CLASSES = 40  # a heat map of more classes than this cannot be read
MOST_DISAGREEMENTS = 12


def run_colours(runs: Sequence[RunRecord]) -> dict[str, str]:
    """A colour for each run, by its name, in the order in which the runs were given."""
    shades = charts.METHOD_COLOURS
    return {name: shades[place % len(shades)] for place, name in enumerate(run_names(runs))}


def training_figures(runs: Sequence[RunRecord]) -> list[Figure]:
    """Score, loss, share of clean examples and share kept over the epochs, all runs overlaid."""
    scored = [
        run for run in runs if any(value is not None for value in run.series("score") + run.series("train_score"))
    ]
    metrics = list(dict.fromkeys(metric_of(run) for run in scored))
    base_rates = sorted({round(rate, 4) for run in runs if (rate := _base_rate(run)) is not None})
    rates = " and ".join(percent(rate) for rate in base_rates)
    clean = "How many of the examples that counted are truly clean"
    dashed = "the dashed line is" if len(base_rates) == 1 else "the dashed lines are"
    clean += f"; {dashed} their share in the whole set, {rates}." if rates else "."
    plans: list[tuple[str, str, str, str, bool]] = [
        (
            "loss",
            "Training loss",
            "loss",
            "Mean loss of the training steps of each epoch, as the method weighs it.",
            False,
        ),
        ("clean_share", "Clean among those kept", "clean share", clean, True),
        ("kept", "Examples kept", "share kept", "The share of examples whose weight is above zero.", True),
    ]
    colours = run_colours(runs)
    figures = [_score_figure(runs, metric, rates, alone=len(metrics) == 1) for metric in metrics]
    for key, title, axis, words, share in plans:
        rows = epoch_rows(runs, key, "")
        if any(row[key] is not None for row in rows):
            lines, whole = (base_rates if key == "clean_share" else []), key == "kept"
            spec = charts.curve(rows, key, title=axis, share=share, colours=colours, lines=lines, whole=whole)
            figures.append(Figure(title, words, spec))
    if any("trusted" in row for run in runs for row in run.history):
        figures += reclaim_figures(runs, colours)
    return [*figures, *shared_figures(runs, colours)] if runs[0].has_teacher else figures


def _score_figure(runs: Sequence[RunRecord], metric: str, rates: str, alone: bool) -> Figure:
    """The scores of the runs with this metric: others have an axis of their own."""
    said = _metric_name(metric)
    colours = {
        name: colour
        for run, (name, colour) in zip(runs, run_colours(runs).items(), strict=True)
        if metric_of(run) == metric
    }
    evaluated = epoch_rows(runs, "score", "evaluation", "score")
    fitted = epoch_rows(runs, "train_score", "given labels", "score")
    rows = [row for row in (*evaluated, *fitted) if row["run"] in colours]
    sets, words = {row["set"] for row in rows}, []
    if "evaluation" in sets:
        words.append(f"{_capital(said)} on the evaluation set after each epoch.")
    if "given labels" in sets:
        what = "how many given labels of the examples trained on, right or wrong, each epoch predicted"
        right = f"; in the whole set {rates} of them are right" if rates else ""
        words.append(f"{f'Dashed: {what}' if words else _capital(what)}{right}.")
    title = "Score" if "evaluation" in sets else "Given labels that were predicted"
    spec = charts.curve(rows, "score", title=said, share=is_share(metric), colours=colours)
    return Figure(title if alone else f"{title}: {said}", " ".join(words), spec)


def run_figures(run: RunRecord, teacher_shown: bool = False) -> list[Figure]:
    """Weights, trust, labels, recalls and teacher, for one run; what the folder does not hold is left out."""
    figures = []
    if "weight" in run.last_epoch:
        figures += _weight_figures(run)
    if "trust" in run.examples:
        figures.append(_trust_figure(run))
    if "prediction" in run.last_epoch and not run.is_regression:
        figures += confusion_figures(run)
    if "prediction_0" in run.last_epoch and run.is_regression:
        figures.append(_scatter_figure(run))
    if recalls := mean_recalls(run):
        figures.append(_recall_figure(run, recalls))
    if run.has_teacher:
        figures += [*([] if teacher_shown else accuracy_figures(run)), *teacher_figures(run)]
    return figures


def _weight_figures(run: RunRecord) -> list[Figure]:
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


def _recall_figure(run: RunRecord, recalls: Mapping[int, float]) -> Figure:
    balanced = percent(float(np.mean(list(recalls.values()))))
    lowest = min(recalls, key=recalls.__getitem__)
    words = (
        f"The share of each class that is recognised on the evaluation set, mean of the last ten epochs: {balanced} "
    )
    words += f"over the classes (balanced accuracy), least of {run.class_name(lowest)}, {percent(recalls[lowest])}."
    shown = sorted(sorted(recalls, key=recalls.__getitem__)[:MOST_CLASSES])
    if len(shown) < len(recalls):
        words += f" Shown are the {len(shown)} lowest of {len(recalls)}."
    rows = [{"class": run.class_name(label), "recall": recalls[label]} for label in shown]
    return Figure("Recall of each class", words, charts.bars(rows, "class", "recall"))


def _trust_figure(run: RunRecord) -> Figure:
    trust, origins = run.examples["trust"], run.examples.get("origin")
    if run.trusts_by_rank:
        words = "Trust is one minus the mean residual rank over all epochs, from 0 to 1."
    else:
        words = "Trust is the mean over all epochs of the probability of the given label, from 0 to 1, after the "
        words += "network's preference for some classes is taken out."
    if origins is not None:
        known = (origins != UNKNOWN) & np.isfinite(trust)
        quality = ranking_quality(trust[known], origins[known] == CLEAN)
        if quality is not None:
            words += f" A clean example is trusted more than a corrupted one {percent(quality)} of the time (AUROC)."
    return Figure("Trust", words, charts.histogram(trust, origins, title="trust", whole=(0.0, 1.0)))


def _scatter_figure(run: RunRecord) -> Figure:
    last = run.last_epoch
    targets = sorted(name.removeprefix("target_") for name in last if name.startswith("target_"))
    given, predicted = ([last[f"{side}_{name}"] for name in targets] for side in ("target", "prediction"))
    words = "On the dashed line the model agrees with the target it was given."
    if len(targets) > 1:
        words += " Each of the targets is shown less its mean, in its own deviations."
        scales = [(np.nanmean(values), np.nanstd(values) or 1.0) for values in given]
        given, predicted = (
            [(values - mean) / deviation for values, (mean, deviation) in zip(side, scales, strict=True)]
            for side in (given, predicted)
        )
    shown, said = np.concatenate(given), np.concatenate(predicted)
    origins = np.tile(last.get("origin", np.full(len(last["id"]), UNKNOWN)), len(targets))
    ids = np.tile(last["id"], len(targets))
    usable = np.flatnonzero(np.isfinite(shown) & np.isfinite(said))
    picked = np.sort(np.random.default_rng(0).permutation(usable)[:MOST_POINTS])
    rows = [
        {"example": int(ids[at]), "given": float(shown[at]), "predicted": float(said[at]), "origin": origins[at]}
        for at in picked
    ]
    words += f" A random {len(picked):,} of {len(usable):,} target values." if len(picked) < len(usable) else ""
    return Figure("Given against predicted", words, charts.scatter(rows))


def _base_rate(run: RunRecord) -> float | None:
    if not run.truth_known:
        return None
    known = run.examples["origin"][run.examples["origin"] != UNKNOWN]
    return float((known == CLEAN).mean())


def _metric_name(metric: str) -> str:
    return "R²" if metric == "r2" else metric.replace("_", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


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
