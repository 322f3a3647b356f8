"""Figures within sentences are those that are stored: those of pages that are written by hand, and of the README."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from thresher.bench.run.results import read

ROOT = Path(__file__).parent.parent
DIGITS = ("digits-symmetric-40", "digits-instance-40", "digits-uniformflip-any-80")
WORST, MOSTLY, DEVELOPED = "cifar10n-worse", "cifar10-uniformflip-any-80", "cifar10-instance-40"


def text_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@cache
def stored(file: str) -> list[dict[str, Any]]:
    return read(ROOT / "results" / f"{file}.jsonl")[0]


def rows(file: str, cell: str, method: str) -> list[dict[str, Any]]:
    found = [row for row in stored(file) if (row["cell"], row["method"]) == (cell, method)]
    assert found, (file, cell, method)
    return found


def score(file: str, cell: str, method: str) -> str:
    """The mean over seeds of the last ten epochs, in percent."""
    return f"{100 * fmean(row['last'] for row in rows(file, cell, method)):.1f}"


def on_digits(method: str) -> list[str]:
    return [score("inputs-small", cell, method) for cell in DIGITS]


def seen(cell: str, method: str, column: str, epoch: int) -> float:
    """A column of the history of the one run of a cell."""
    (row,) = rows("inputs-paper", cell, method)
    return float(row["columns"][column][epoch])


def took(cell: str) -> str:
    (row,) = rows("inputs-paper", cell, "reclaim-vote")
    return f"{row['seconds']:.0f} s"


def untold(method: str) -> list[float]:
    """Its scores where nobody tells it the rate: digits and Fashion-MNIST, three kinds of symmetric noise and pairs."""
    kinds = ("symmetric-40", "symmetric-60", "symmetric-80", "pairflip-40")
    cells = (f"{data}-{kind}-untold" for data in ("digits", "fashion") for kind in kinds)
    return [100 * fmean(row["last"] for row in rows("reclaim-small", cell, method)) for cell in cells]


def reclaim() -> list[str]:
    own, agreed, before = map(untold, ("reclaim", "by-agreement", "or-all"))
    return [
        f"it is at {fmean(own):.1f} on average of three seeds when it is told nothing",
        f"(agreement alone {fmean(agreed):.1f}, and {fmean(before):.1f} if all labels",
        f"of them wrong {own[2]:.1f} and {own[6]:.1f} instead of {before[2]:.1f} and {before[6]:.1f}).",
        f"the last ten epochs score {score('reclaim-paper', WORST, 'reclaim')} on average of three seeds",
        f"plain training ends at {score('reclaim-paper', WORST, 'standard')}, and where",
        f"after 30 epochs at {score('inputs-paper', 'cifar10n-worse-in-60-epochs', 'standard-short')}",
        f"(symmetric 50) it is {score('reclaim-paper', 'cifar10-symmetric-50', 'reclaim')} (one seed)",
        f"{score('reclaim-paper', 'cifar10-symmetric-80', 'patient')} with [reclaim-patient]",
        f"reached {score('inputs-paper', MOSTLY, 'reclaim-vote')} with votes",
        f"and {score('inputs-paper', f'{MOSTLY}-in-60-epochs', 'agreeing-started')} with agreement",
    ]


def reclaim_patient() -> list[str]:
    return [f"the last ten epochs score {score('reclaim-paper', 'cifar10-symmetric-80', 'patient')} (one seed)"]


def reclaim_vote() -> list[str]:
    worst, mostly = (score("inputs-paper", cell, "reclaim-vote") for cell in (WORST, MOSTLY))
    voted = [f"{100 * seen(cell, 'reclaim-vote', 'trusted_clean', 0):.1f}%" for cell in (WORST, MOSTLY)]
    auroc = [f"{seen(cell, 'reclaim-vote', 'trust_auroc', -1):.3f}" for cell in (WORST, MOSTLY)]
    found = [f"{seen(cell, 'reclaim-vote', 'wrong_found', -1):.3f}" for cell in (WORST, MOSTLY)]
    pure = [f"{100 * seen(DEVELOPED, name, 'trusted_clean', -1):.1f}%" for name in ("votes-throughout", "reclaim-vote")]
    right = [
        f"{100 * seen(DEVELOPED, name, 'reclaimed_right', -1):.0f}%" for name in ("votes-throughout", "reclaim-vote")
    ]
    own, bare, ever, unmixed, pair, started = map(
        on_digits, ("reclaim-vote", "no-start", "votes-throughout", "not-mixed", "two-networks", "reclaim-started")
    )
    longer = [
        score("inputs-paper", f"{DEVELOPED}-in-60-epochs", name)
        for name in ("neighbours-of-the-start", "late", "agreeing-started")
    ]
    reported = [
        score("inputs-paper", f"{cell}-in-60-epochs", "agreeing-started")
        for cell in ("cifar10-uniformflip-any-90", "cifar10-uniformflip-any-20", WORST)
    ]
    surest, surest_bare = on_digits("surest-started"), on_digits("surest")
    return [
        f"from {reported[0]} where a share of 0.9 is redrawn to {reported[1]} where",
        f"with CIFAR-10N worst at {reported[2]}.",
        f"`rest=growing(facts)`: {surest[0]}, {surest[1]} and {surest[2]},",
        f"without a start {surest_bare[0]}, {surest_bare[1]} and {surest_bare[2]})",
        f"{longer[0]} and {longer[1]} there, and reclaim with labels trusted that are predicted {longer[2]}.",
        f"CIFAR-10N worst {worst} ({took(WORST)}), and {mostly} ({took(MOSTLY)}) where",
        f"worst reclaim, told the rate, reaches {score('reclaim-paper', WORST, 'reclaim')} in 140 epochs",
        f"right for {voted[0]} and {voted[1]}, and trust separates",
        f"separates wrong labels with an AUROC of {auroc[0]} and {auroc[1]};",
        f"that were replaced: {found[0]} and {found[1]}.",
        f"select to the end score {score('inputs-paper', DEVELOPED, 'votes-throughout')} on",
        f"afterwards score {score('inputs-paper', DEVELOPED, 'reclaim-vote')}.",
        f"({pure[0]} right instead of {pure[1]})",
        f"are right for only {right[0]}, while `joint` leaves fewer to label and is right for {right[1]} of them.",
        f"{own[0]}, {own[1]} and {own[2]}; without the start {bare[0]}, {bare[1]} and {bare[2]};",
        f"to the end {ever[0]}, {ever[1]} and {ever[2]}; without mixup {unmixed[0]}, {unmixed[1]} and {unmixed[2]}.",
        f"({', '.join(pair)}), confident",
        f"({', '.join(started)}) is better on two of the three.",
    ]


FIGURES: dict[str, Callable[[], list[str]]] = {
    "reclaim": reclaim, "reclaim-patient": reclaim_patient, "reclaim-vote": reclaim_vote,
}  # fmt: skip


@pytest.mark.parametrize("page", FIGURES)
def test_figures_of_a_methods_page_are_those_that_are_stored(page: str) -> None:
    text = text_of(f"docs/methods/{page}.md")
    assert [told for told in FIGURES[page]() if told not in text] == []


def test_the_readme_tells_the_recorded_walk_through() -> None:
    recorded = text_of("docs/walkthrough.md")  # written by benchmarks/walkthrough.py
    pictures = re.search(r"has ([\d,]+) pictures .* (\d+)% of them lie in a wrong one", recorded)
    minutes = re.search(r"All commands together took ([\d.]+) minutes", recorded)
    assert pictures is not None
    assert minutes is not None
    words = (
        {"20": "a fifth"}[pictures[2]],
        {1: "a minute", 2: "two minutes", 3: "three minutes"}[round(float(minutes[1]))],
    )
    told = f"{pictures[1]} pictures, {words[0]} of them mislabelled, in {words[1]} on a CPU"
    assert told in text_of("README.md")
