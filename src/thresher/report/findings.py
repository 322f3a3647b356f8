"""What the page says of an audit: the first sentence, numbers, the noise between classes, and duplicates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from thresher.record.issues import Issues
from thresher.report.summary import percent

MOST_CLASSES = 20  # a matrix of more cannot be read
MOST_GROUPS = 60  # of duplicates, those across labels or sets first


def first_sentence(issues: Issues) -> str:
    """The headline, and what follows it on the page; why a rate cannot be told stands in its card."""
    told = issues.headline() if issues.told else issues.headline().partition(":")[0]
    return f"{told.removesuffix('.')}; here are the worst."


def findings(issues: Issues) -> dict[str, Any]:
    """Everything above the gallery, as the template takes it; no shares of classes where none can be told."""
    pairs = _pairs(issues)
    return {
        "cards": _cards(issues),
        "matrix": _matrix(issues, pairs) if issues.told else None,
        "classes": _classes(issues) if issues.told else [],
        "duplicates": _duplicates(issues),
        "method": ": ".join(str(issues.summary[key]) for key in ("method", "why") if issues.summary.get(key)),
    }


def _cards(issues: Issues) -> list[dict[str, str]]:
    found = issues.summary.get("noise_rate") or {}
    count = sum(issues.column("is_issue").tolist())
    reasons = Counter(reason for reason in issues.table.column("reason").to_pylist() if reason)
    cards = [
        {"title": "examples", "value": f"{len(issues):,}", "words": "every one of them was judged"},
        {"title": "issues", "value": f"{count:,}", "words": _reason_words(reasons) or "none was found"},
    ]
    if found.get("rate") is None:
        words = str(found.get("why") or "it was not estimated").removeprefix("cannot tell: ")
        cards.append({"title": "noise rate", "value": "cannot tell", "words": words})
    else:
        interval = f"{found['low']:.0%} to {found['high']:.0%}"
        cards.append({"title": "noise rate", "value": f"{found['rate']:.0%}", "words": f"likely {interval}"})
    groups = issues.summary.get("duplicates")
    if groups is not None:
        cards.append({"title": "groups of duplicates", "value": f"{len(groups):,}", "words": across_what(groups)})
    return cards


def across_what(groups: Sequence[Mapping[str, Any]]) -> str:
    """How many groups of duplicates have different labels, or are in the training and the test set.

    >>> across_what([{"across": "labels"}, {"across": None}, {"across": "sets"}, {"across": "labels"}])
    '2 across labels, 1 across sets'
    """
    counts = Counter(group["across"] for group in groups if group.get("across"))
    said = [f"{counts[kind]:,} across {kind}" for kind in ("labels", "sets") if counts[kind]]
    return ", ".join(said) or "none across labels or sets"


def _reason_words(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1]))


def _pairs(issues: Issues) -> Counter[tuple[str, str]]:
    """How many issues are labelled as the first class and look like the second."""
    if "suggested" not in issues.table.column_names:
        return Counter()
    rows = issues.table.filter(issues.table.column("is_issue"))
    pairs = zip(rows.column("label").to_pylist(), rows.column("suggested").to_pylist(), strict=True)
    return Counter((given, suggested) for given, suggested in pairs if suggested and given != suggested)


def _matrix(issues: Issues, pairs: Mapping[tuple[str, str], int]) -> dict[str, Any] | None:
    """Shares of each true class by the label it has been given, with the number of issues; None where unknown."""
    names, shares = issues.summary.get("class_names"), issues.summary.get("noise_matrix")
    if not names or not shares:
        return None
    involved: Counter[str] = Counter()
    for (given, suggested), count in pairs.items():
        involved[given] += count
        involved[suggested] += count
    worst = sorted(range(len(names)), key=lambda place: -involved[names[place]])[:MOST_CLASSES]
    shown = sorted(worst)
    rows = [
        {"name": names[true], "cells": [_cell(names, shares, pairs, true, label) for label in shown]} for true in shown
    ]
    return {"names": [names[label] for label in shown], "rows": rows, "hidden": len(names) - len(shown)}


def _cell(
    names: Sequence[str], shares: Sequence[Sequence[float]], pairs: Mapping[tuple[str, str], int], true: int, label: int
) -> dict[str, Any]:
    share, count = float(shares[true][label]), pairs.get((names[label], names[true]), 0)
    words = f"{percent(share)} of what truly is {names[true]} is labelled {names[label]}"
    words += f"; {count:,} issue{'s' if count != 1 else ''}" if true != label else ""
    return {
        "given": names[label],
        "suggested": names[true],
        "heat": round(max(share, 0) ** 0.5, 3),  # the root lets a few percent be seen
        "text": f"{100 * share:.0f}" if share >= 0.005 else "",
        "count": count,
        "right": true == label,
        "words": words,
    }


def _classes(issues: Issues) -> list[dict[str, Any]]:
    """The classes whose labels look wrong most often."""
    names, shares = issues.summary.get("class_names"), issues.summary.get("class_noise")
    if not names or not shares:
        return []
    sizes = Counter(issues.table.column("label").to_pylist())
    known = [(name, float(share)) for name, share in zip(names, shares, strict=True) if share is not None]
    worst = sorted(known, key=lambda pair: -pair[1])[:MOST_CLASSES]
    return [{"name": name, "share": share, "text": percent(share), "size": f"{sizes[name]:,}"} for name, share in worst]


def _duplicates(issues: Issues) -> list[dict[str, Any]]:
    """Groups of examples that are alike, those with different labels first."""
    groups = list(issues.summary.get("duplicates") or [])
    order = {"labels": 0, "sets": 1}
    groups.sort(key=lambda group: (order.get(group.get("across") or "", 2), not group.get("exact")))
    return [
        {
            "ids": list(group["ids"]),
            "count": len(group["ids"]),
            "kind": "the same" if group.get("exact") else "alike",
            "across": {"labels": "different labels", "sets": "in training and test set"}.get(group.get("across") or ""),
        }
        for group in groups[:MOST_GROUPS]
    ]
