"""What the page shows of labels that a network gave: a teacher, or the average that reclaims wrong ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thresher.report import charts
from thresher.report.charts import Figure, quantity
from thresher.report.run_record import CLEAN, CORRUPTED, UNKNOWN, Array, RunRecord
from thresher.report.summary import epoch_rows, is_share, mean_of_last, metric_of, percent, score_text

GROUPS = 12  # of equally many examples, for the curve
CELLS = 20  # of the heat map, along each side


def have_one_teacher(runs: Sequence[RunRecord]) -> bool:
    """Whether these are students of one teacher, which then is shown once."""
    first = runs[0].examples.get("teacher_margin")
    return first is not None and all(np.array_equal(first, run.examples.get("teacher_margin", ())) for run in runs)


def shared_figures(runs: Sequence[RunRecord], colours: Mapping[str, str]) -> list[Figure]:
    """What students of one teacher have in common: their scores beside its own, and where it is right."""
    return [_students_figure(runs, colours), *accuracy_figures(runs[0])] if have_one_teacher(runs) else []


def reclaim_figures(runs: Sequence[RunRecord], colours: Mapping[str, str]) -> list[Figure]:
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


def teacher_figures(run: RunRecord) -> list[Figure]:
    """Weights against both confidences, and weights of right and wrong labels; what the folder lacks is left out."""
    last = run.last_epoch
    if "from_teacher" not in last or "weight" not in last or not last["from_teacher"].any():
        return []
    rows = {name: values[last["from_teacher"]] for name, values in last.items()}
    figures = [_weights_figure(rows["weight"], rows.get("origin"))]
    if "teacher_confidence" in rows and "student_confidence" in rows:
        kind = str(run.settings.get("confidence", "confidence"))
        figures.insert(0, _heat_figure(rows["teacher_confidence"], rows["student_confidence"], rows["weight"], kind))
    return figures


def accuracy_by_confidence(confidence: Array, right: Array, groups: int = GROUPS) -> list[dict[str, Any]]:
    """The share that is right in groups of equally many examples, from the least to the most confident.

    >>> accuracy_by_confidence(np.array([0.1, 0.9, 0.2, 0.8]), np.array([False, True, True, True]), 2)[0]["accuracy"]
    0.5
    """
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, min(groups, len(order))) if len(part)]
    return [
        {
            "confidence": float(confidence[part].mean()),
            "accuracy": float(right[part].mean()),
            "examples": len(part),
        }
        for part in parts
    ]


def weight_by_confidences(teacher: Array, student: Array, weight: Array, cells: int = CELLS) -> list[dict[str, Any]]:
    """The mean weight in the cells of a grid over both confidences; empty cells are left out."""
    known = np.isfinite(teacher) & np.isfinite(student) & np.isfinite(weight)
    teacher, student, weight = teacher[known], student[known], weight[known]
    edges = [np.linspace(0, max(1.0, float(values.max(initial=0))), cells + 1) for values in (teacher, student)]
    across, up = (
        np.clip(np.digitize(values, edge) - 1, 0, cells - 1)
        for values, edge in zip((teacher, student), edges, strict=True)
    )
    place = across * cells + up
    counts = np.bincount(place, minlength=cells**2)
    sums = np.bincount(place, weights=weight, minlength=cells**2)
    return [
        {
            "left": float(edges[0][at // cells]),
            "right": float(edges[0][at // cells + 1]),
            "low": float(edges[1][at % cells]),
            "high": float(edges[1][at % cells + 1]),
            "weight": float(sums[at] / counts[at]),
            "examples": int(counts[at]),
        }
        for at in np.flatnonzero(counts)
    ]


def _students_figure(runs: Sequence[RunRecord], colours: Mapping[str, str]) -> Figure:
    """The score of every student over the epochs, with levels for the teacher and for the student before."""
    metric = metric_of(runs[0])
    levels = {name: mean_of_last(history) for name, history in runs[0].stages.items()}
    said = {"teacher": "the teacher has {}", "pretraining": "the student had {} before it met the teacher"}
    parts = [said[name].format(score_text(level, metric)) for name, level in levels.items() if level is not None]
    words = "On the evaluation set, after each epoch."
    words += f" Dashed: {', '.join(parts)} (mean of the last ten epochs)." if parts else ""
    lines = [level for level in levels.values() if level is not None]
    rows = epoch_rows(runs, "score", "evaluation")
    spec = charts.curve(rows, "score", title=metric, share=is_share(metric), colours=colours, lines=lines)
    return Figure("Students beside their teacher", words, spec)


def accuracy_figures(run: RunRecord) -> list[Figure]:
    """How often the teacher is right: on unlabelled examples where the truth is known, else on validation examples."""
    if not run.has_teacher:
        return []
    taught = run.examples["from_teacher"].astype(bool)
    if "origin" in run.examples and taught.any():
        right = run.examples["origin"][taught] == CLEAN
        return [_accuracy_figure(run.examples["teacher_margin"][taught], right, "unlabelled")]
    return [_accuracy_figure(run.judged["margin"], run.judged["right"], "validation")] if run.judged else []


def _accuracy_figure(confidence: Array, right: Array, which: str) -> Figure:
    rows = accuracy_by_confidence(confidence, right)
    whole, colour = {"domain": [0, 1]}, charts.METHOD_COLOURS[0]
    encoding = {
        "x": quantity("confidence", title="margin of the teacher", scale=whole),
        "y": quantity("accuracy", title="share right", scale=whole, axis=charts.axis_format(share=True)),
        "tooltip": [
            quantity("confidence", format=".3f"), quantity("accuracy", format=".1%"), quantity("examples"),
        ],
    }  # fmt: skip
    marks = {"type": "line", "strokeWidth": 2}, {"type": "circle", "size": 55, "opacity": 1}
    layers = [{"mark": mark | {"color": colour}, "encoding": encoding} for mark in marks]
    words = f"The teacher labels {percent(float(right.mean()))} of the {which} examples rightly. Each point is "
    words += f"{rows[0]['examples']:,} of them, by the margin between its two likeliest classes."
    return Figure("Teacher against its confidence", words, charts.chart(rows, height=230, layer=layers))


def _heat_figure(teacher: Array, student: Array, weight: Array, kind: str) -> Figure:
    rows = weight_by_confidences(teacher, student, weight)
    encoding = {
        "x": quantity("left", title=f"{kind} of the teacher", axis={"grid": False}),
        "x2": {"field": "right"},
        "y": quantity("low", title=f"{kind} of the student", axis={"grid": False}),
        "y2": {"field": "high"},
        "color": quantity("weight", scale={"domain": [0, 1]}, legend={"title": "weight"}),
        "tooltip": [quantity("weight", title="mean weight", format=".3f"), quantity("examples")],
    }
    spec = charts.chart(rows, height="container", mark={"type": "rect"}, encoding=encoding)
    words = (
        f"The mean weight of the teacher's labels, by the {kind} of the teacher's prediction and of the student's when "
    )
    words += f"it was estimated.{' Little entropy is much confidence.' if kind == 'entropy' else ''}"
    return Figure("Weight against both confidences", words, spec, square=True)


def _weights_figure(weight: Array, origins: Array | None) -> Figure:
    words = f"The teacher's labels count {float(weight.mean()):.2f} on average in the last epoch"
    if origins is not None and (origins != UNKNOWN).any():
        means = [_mean(weight[origins == origin]) for origin in (CLEAN, CORRUPTED)]
        words += f": right ones (clean) {means[0]}, wrong ones (corrupted) {means[1]}"
    spec = charts.histogram(weight, origins, title="weight in the last epoch")
    return Figure("Weights of the teacher's labels", f"{words}.", spec)


def _mean(values: Array) -> str:
    return f"{values.mean():.2f}" if len(values) else "–"
