"""Which figures the page has: those of training, which overlay all runs, and those of each run."""

from collections.abc import Mapping, Sequence

import numpy as np

from thresher.report import charts
from thresher.report.charts import Figure
from thresher.report.confusion import MOST_CLASSES, confusion_figures
from thresher.report.run_record import CLEAN, CORRUPTED, UNKNOWN, Array, RunRecord
from thresher.report.summary import epoch_rows, is_share, mean_recalls, metric_of, percent, ranking_quality, run_names
from thresher.report.teacher import accuracy_figures, shared_figures, teacher_figures

MOST_POINTS = 1500


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
    return [*figures, *_reclaim_figures(runs, colours), *shared_figures(runs, colours)]


def _reclaim_figures(runs: Sequence[RunRecord], colours: Mapping[str, str]) -> list[Figure]:
    """The shares of trusted and of reclaimed labels, and how many of each are right, for runs that have them."""
    of_all = "The share of examples whose given label was trusted, and dashed of those that learnt another one instead."
    of_them = (
        "How many of the trusted labels are right, and dashed how many of those that took the place of given ones."
    )
    plans = [
        ("Trusted and reclaimed", of_all, ("trusted", "reclaimed")),
        ("Right labels among them", of_them, ("trusted_clean", "reclaimed_right")),
    ]
    figures = []
    for title, words, keys in plans:
        sets = zip(keys, ("trusted", "reclaimed"), strict=True)
        rows = [row for key, name in sets for row in epoch_rows(runs, key, name, "share")]
        if rows:
            figures.append(
                Figure(title, words, charts.curve(rows, "share", title="share", share=True, colours=colours))
            )
    return figures


def _score_figure(runs: Sequence[RunRecord], metric: str, rates: str, alone: bool) -> Figure:
    """The scores of the runs with this metric: others have an axis of their own."""
    said = _metric_name(metric)
    colours = {
        name: colour
        for run, (name, colour) in zip(runs, run_colours(runs).items(), strict=True)
        if metric_of(run) == metric
    }
    rows = [*epoch_rows(runs, "score", "evaluation"), *epoch_rows(runs, "train_score", "given labels", "score")]
    rows = [row for row in rows if row["run"] in colours]
    words = f"{_capital(said)} on the evaluation set after each epoch."
    if any(row["set"] == "given labels" for row in rows):
        words += " Dashed: how many given labels of the examples trained on, right or wrong, that epoch predicted"
        words += f"; in the whole set {rates} of them are right." if rates else "."
    spec = charts.curve(rows, "score", title=said, share=is_share(metric), colours=colours)
    return Figure("Score" if alone else f"Score: {said}", words, spec)


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
    return [*figures, *([] if teacher_shown else accuracy_figures(run)), *teacher_figures(run)]


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
