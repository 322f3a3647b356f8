"""What a score means where the test set is a held-out part of labels that cannot be trusted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from thresher.data import names
from thresher.record.run_folder import MODEL
from thresher.report.summary import is_share, score_text


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
        return bool(json.loads((folder / MODEL).read_text(encoding="utf-8")).get("test_is_held_out"))
    except (OSError, ValueError):
        return False


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
    return f"of which {f'about {rate:.0%}' if rate else 'hardly any'} {word} wrong"
