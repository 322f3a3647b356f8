"""The headline numbers of a run, how numbers are written, and what a score against unchecked labels means."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from thresher.core.files import read_json
from thresher.data import names
from thresher.record.run_folder import MODEL, WRITE_ANEW
from thresher.report.run_record import Array, RunRecord

LOWEST = 100  # of R²: what is further below says nothing more
HARDLY_ANY = 0.005  # of the labels: a smaller share is written as 0%
LAST = 10  # the noise literature reports the mean over the last ten epochs


@dataclass(frozen=True)
class Summary:
    """The headline of a run; a number is None where the history does not hold it."""

    last: float | None
    spread: float | None
    best: float | None
    best_epoch: int | None
    chosen: float | None  # of the epoch that did best on the validation set, where early stopping kept it
    chosen_epoch: int | None
    tuned: float | None  # after fine-tuning on clean examples
    kept: float | None
    clean_share: float | None
    seconds: float | None


def summarise(run: RunRecord) -> Summary:
    """Mean and standard deviation over the last ten epochs, the best epoch, and the total time."""
    scores = run.series("score")
    known = [score for score in scores if score is not None]
    best = max(known) if known else None
    recent = [score for score in scores[-LAST:] if score is not None]
    seconds = [value for value in run.series("seconds") if value is not None]
    watched = [-math.inf if value is None else value for value in run.series("validation")]
    chosen = watched.index(max(watched)) if max(watched) > -math.inf else None
    return Summary(
        last=_mean(recent),
        spread=float(np.std(recent)) if recent else None,
        best=best,
        best_epoch=int(run.history[scores.index(best)].get("epoch", scores.index(best) + 1)) if known else None,
        chosen=None if chosen is None else scores[chosen],
        chosen_epoch=None if chosen is None else chosen + 1,
        tuned=run.tuned,
        kept=_mean(run.series("kept")[-LAST:]),
        clean_share=_mean(run.series("clean_share")[-LAST:]),
        seconds=sum(seconds) if seconds else None,
    )


def mean_of_last(history: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean score over the last ten epochs of a history."""
    return _mean([row.get("score") for row in history[-LAST:]])


def examples_per_second(history: Sequence[Mapping[str, Any]]) -> float:
    """How many examples training visits a second, by the batch of each epoch.

    >>> examples_per_second([{"steps": 4, "seconds": 0.5, "batch": 8}, {"steps": 4, "seconds": 0.5, "batch": 10}])
    72.0
    """
    seen = sum(record["steps"] * record["batch"] for record in history)
    return float(seen / max(sum(record["seconds"] for record in history), 1e-9))


def noise_rate_text(found: Mapping[str, Any]) -> str:
    """The estimated share of wrong targets, its interval, and the reason.

    >>> noise_rate_text({"rate": 0.4, "low": 0.35, "high": 0.46, "why": "so many losses are too large"})
    '0.40 (0.35 to 0.46): so many losses are too large'
    >>> noise_rate_text({"rate": None, "low": 0.05, "high": 1.0, "why": "cannot tell: the model is too weak"})
    'unknown, 0.05 is assumed (cannot tell: the model is too weak)'
    """
    if found["rate"] is None:
        return f"unknown, {found['low']:.2f} is assumed ({found['why']})"
    return f"{found['rate']:.2f} ({found['low']:.2f} to {found['high']:.2f}): {found['why']}"


def mean_recalls(run: RunRecord) -> dict[int, float]:
    """The recall of each class on the evaluation set, mean of the last ten epochs; empty where none was noted."""
    tail = [row.get("scores") or {} for row in run.history[-LAST:]]
    names = [name for name in tail[-1] if name.startswith("recall_")] if tail else []
    means = {int(name.removeprefix("recall_")): _mean([scores.get(name) for scores in tail]) for name in names}
    return {label: mean for label, mean in means.items() if mean is not None}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def metric_of(run: RunRecord) -> str:
    return str(run.history[-1].get("metric") or "score")


def is_share(metric: str) -> bool:
    """Whether a metric is shown as a percentage."""
    return metric.endswith("accuracy")


def run_names(runs: Sequence[RunRecord]) -> list[str]:
    """A name for each run: its method; where that is not enough data and seed, if they differ, or the folder."""
    said = {key: [str(run.settings.get(key, "?")) for run in runs] for key in ("data", "seed")}
    data, seed = (len(set(said[key])) > 1 for key in ("data", "seed"))
    candidates = (
        [run.method for run in runs],
        [
            run.method + (f" on {on}" if data else "") + (f", seed {number}" if seed else "")
            for run, on, number in zip(runs, said["data"], said["seed"], strict=True)
        ],
        [f"{run.method} ({run.folder.name})" for run in runs],
        [f"{run.method} ({run.folder})" for run in runs],
    )
    for found in candidates:
        if max(Counter(found).values()) == 1:
            return found
    return [f"{name}, run {number}" for number, name in enumerate(candidates[0], start=1)]


def ranking_quality(scores: Array, positive: Array) -> float | None:
    """How often a random positive has the higher score, ties counting half (AUROC); None without both kinds.

    AUROC = (sum of the positives' mean ranks - p(p + 1)/2) / (p q), for p positives and q negatives.

    >>> ranking_quality(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    p, q = int(positive.sum()), int((~positive).sum())
    if p == 0 or q == 0:
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return float((ranks[place][positive].sum() - p * (p + 1) / 2) / (p * q))


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.9264), percent(None)
    ('92.6%', '–')
    """
    return "–" if share is None else f"{100 * share:.1f}%"


def score_text(value: float | None, metric: str) -> str:
    """A score: a percentage where the metric is a share, three decimals elsewhere."""
    if value is None:
        return "–"
    if is_share(metric):
        return percent(value)
    return f"{value:.3f}" if value > -LOWEST else f"below -{LOWEST}"


def seconds_text(seconds: float | None) -> str:
    """A duration in seconds, minutes or hours.

    >>> seconds_text(8.25), seconds_text(250), seconds_text(7500)
    ('8.2 s', '4 min 10 s', '2 h 5 min')
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def epoch_rows(runs: Sequence[RunRecord], key: str, of: str, name: str = "") -> list[Mapping[str, Any]]:
    """A row an epoch and run: its value of `key`, under `name` if given; runs without values are then left out."""
    return [
        {"epoch": int(row.get("epoch", place)), "run": said, "set": of, name or key: value}
        for run, said in zip(runs, run_names(runs), strict=True)
        if not name or any(value is not None for value in run.series(key))
        for place, (row, value) in enumerate(zip(run.history, run.series(key), strict=True), start=1)
    ]


class Corrected(Protocol):
    """An accuracy against true labels, and its limits."""

    @property
    def accuracy(self) -> float | None: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


def is_against_given_labels(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the run in this folder was tested on a held-out part of its own data, whose labels are unchecked."""
    if settings.get("corruption") is not None or str(settings.get("data", "")).partition(":")[0] in names():
        return False  # the test set has the true targets
    try:
        stored = read_json(folder / MODEL, dict[str, Any], WRITE_ANEW)
    except FileNotFoundError:
        return False
    return bool(stored.get("test_is_held_out"))


def against_labels(
    score: float | None,
    metric: str,
    noise_rate: Mapping[str, Any] | float | str | None,
    corrected: Corrected | None = None,
) -> str:
    """The sentence that stands beside such a score.

    noise_rate  what the run found (its `rate` may be None: it cannot be told), or what it was told
    corrected   an estimate of the score against true labels, with its limits; its accuracy is None where it cannot be
                told
    """
    said = "labels" if is_share(metric) else "targets"
    sentence = f"{score_text(score, metric)} is against your {said}, {_share_of_wrong(noise_rate)}"
    if corrected is not None and corrected.accuracy is not None:
        limits = f"{100 * corrected.low:.0f} to {100 * corrected.high:.0f}"
        return f"{sentence}; against the true ones it is about {corrected.accuracy:.0%} ({limits}%)."
    if is_share(metric):
        return f"{sentence}; --test with checked examples tells how good the model is."
    return f"{sentence}; wrong ones can rank models backwards by R²: compare the trimmed R², or give --test."


def _share_of_wrong(noise_rate: Mapping[str, Any] | float | str | None) -> str:
    rate = noise_rate.get("rate") if isinstance(noise_rate, Mapping) else noise_rate
    if not isinstance(rate, int | float):
        return "of which an unknown share is wrong"
    word = "look" if isinstance(noise_rate, Mapping) else "are taken to be"
    return f"of which {f'about {rate:.0%}' if rate >= HARDLY_ANY else 'hardly any'} {word} wrong"
