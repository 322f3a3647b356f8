"""From what judges said to the table of issues."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from thresher.auditing.combine import likelier
from thresher.auditing.duplicates import Alike, contradicting
from thresher.auditing.neighbours import Nearest
from thresher.core.examples import Examples
from thresher.data.image_files import files_of
from thresher.noise import Estimate, audit_rate, confident_joint, noise_matrix
from thresher.noise.noise_matrix import scaled_to
from thresher.record.issues import AMBIGUOUS, DISAGREEMENT, DUPLICATE, OUTLIER, Issues

Array = NDArray[Any]
CLOSE = 0.1  # of each other: two probabilities between which a label is ambiguous
KEPT = 0.1  # of the labels of a class: what keeps its weight, whatever judges say
FAR = 6.0  # robust deviations of the logarithm of the distance to the neighbours


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of every example beside what judges say."""

    examples: Examples
    trust: Array
    near: Nearest | None
    alike: Sequence[Alike]
    summary: Mapping[str, Any]


def issues_of_classes(facts: Facts, probabilities: Array, votes: Array | None, cautious: Array) -> Issues:
    """The table and the summary where targets are classes; by `cautious` trust [n] wrong labels are counted."""
    examples, trust = facts.examples, facts.trust
    labels, classes = examples.labels.cpu().numpy(), examples.outputs
    rate = audit_rate(probabilities, labels, votes=votes, trust=cautious)
    names = np.array(list(examples.class_names or map(str, range(classes))))
    suggested = probabilities.argmax(1)
    wrong = suspects(trust, probabilities, labels, rate, cautious)
    double = contradicting(facts.alike, labels, trust)
    far = _far(facts.near, len(labels))
    top = np.sort(probabilities, 1)
    unsure = top[:, -1] - top[:, -2] < CLOSE
    reasons = [(double, DUPLICATE), (wrong & unsure, AMBIGUOUS), (wrong, DISAGREEMENT), (far, OUTLIER)]
    is_issue = double | wrong | far
    left_out = (double | (wrong & ~unsure)) & ~most_trusted(trust, labels)
    matrix = noise_matrix(probabilities, labels)
    to_assume = scaled_to(matrix, _cautious(rate), np.bincount(labels, minlength=classes) / len(labels))
    columns = {
        "label": pa.array(names[labels].tolist(), pa.string()),
        "suggested": pa.array(names[suggested].tolist(), pa.string()),
        "probability": probabilities[np.arange(len(labels)), suggested],
        "likelier": likelier(probabilities, labels, suggested, to_assume),
        "trust": trust,
        "is_issue": is_issue,
        "reason": pa.array(_reason(reasons, len(labels)), pa.string()),
        "weight": np.where(left_out, 0.0, np.minimum(1.0, 2 * trust)),
    }
    told = {
        "class_names": names.tolist(),
        "noise_matrix": matrix.round(4).tolist(),
        "class_noise": _class_noise(matrix, labels, classes),
    }
    return _issues(facts, columns, rate, told)


def _cautious(rate: Estimate) -> float:
    """The share of wrong labels that a correction assumes: half way up to the rate; none where none may be wrong."""
    return 0.0 if rate.rate is None or rate.low == 0 else (rate.low + rate.rate) / 2


def suspects(trust: Array, probabilities: Array, labels: Array, rate: Estimate, cautious: Array) -> Array:
    """Which labels [n] look wrong: some of the least trusted, of those that the judges contradict.

    How many: the middle of three counts that err in different ways, and no more than the high end of the rate's
    interval. They are the rate, the labels outside the diagonal of the confident joint, and those of cautious
    trust below a half. Where the rate cannot be told, as many as the low end of its interval, and those that another
    class contradicts with a probability above a half.
    """
    contradicted, count = np.asarray(probabilities.argmax(1) != labels), len(labels)
    if rate.rate is None:
        likelier_than_all = probabilities.max(1) > 0.5
        return np.asarray(contradicted & (least_trusted(trust, rate.low * count) | likelier_than_all))
    joint = confident_joint(torch.from_numpy(probabilities), torch.from_numpy(labels)).double().numpy()
    shares = 1 - joint.diagonal() / np.maximum(joint.sum(1), 1)  # of the labels of each class
    shares[joint.sum(1) == 0] = 0
    confident = float(shares @ np.bincount(labels, minlength=len(joint)))
    middle = float(np.median((confident, rate.rate * count, float((cautious < 0.5).sum()))))
    return contradicted & least_trusted(trust, min(middle, rate.high * count))


def least_trusted(trust: Array, count: float) -> Array:
    """The examples [n] of the lowest trust, so many of them."""
    found = np.zeros(len(trust), bool)
    found[np.argsort(trust, kind="stable")[: round(count)]] = True
    return found


def most_trusted(trust: Array, labels: Array) -> Array:
    """Which examples [n] are the most trusted tenth of their class, or its best one: no class may lose all weight.

    >>> most_trusted(np.array([0.1, 0.2, 0.9, 0.8]), np.array([0, 0, 1, 1])).tolist()
    [False, True, True, False]
    """
    found = np.zeros(len(trust), bool)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        found[own[np.argsort(-trust[own], kind="stable")[: max(1, round(KEPT * len(own)))]]] = True
    return found


def issues_of_targets(facts: Facts, columns: Mapping[str, Array], rate: Estimate, wrong: Array) -> Issues:
    """The table and the summary where targets are real numbers."""
    labels = np.asarray(columns["label"])
    double = contradicting([group for group in facts.alike if group.exact], labels, facts.trust)
    far = _far(facts.near, len(wrong))
    reasons = [(double & wrong, DUPLICATE), (wrong, DISAGREEMENT), (far, OUTLIER)]
    made = {
        **columns,
        "trust": facts.trust,
        "is_issue": wrong | far,
        "reason": pa.array(_reason(reasons, len(wrong)), pa.string()),
        "weight": np.where(wrong, 0.0, np.minimum(1.0, 2 * facts.trust)),
    }
    return _issues(facts, made, rate, {"class_names": None, "noise_matrix": None, "class_noise": None})


def _issues(facts: Facts, columns: Mapping[str, Any], rate: Estimate, told: Mapping[str, Any]) -> Issues:
    examples = facts.examples
    ids = examples.ids.cpu().numpy()
    files = [] if examples.in_memory else files_of(examples.inputs)
    where = {"file": pa.array([str(file) for file in files], pa.string())} if files else {"row": ids}
    order = np.argsort(facts.trust, kind="stable")
    own = {"id": ids, **where, **columns}
    brought = {name: pa.array(values) for name, values in examples.brought.items() if name not in own}
    table = pa.table({**own, **brought}).take(pa.array(order))
    summary = {
        "examples": len(ids),
        "issues": int(np.count_nonzero(columns["is_issue"])),
        "noise_rate": asdict(rate),
        **told,
        **facts.summary,
    }
    return Issues(table, summary)


def _far(near: Nearest | None, count: int) -> Array:
    """Which examples [n] lie far from all others, by the logarithm of the mean distance to their neighbours."""
    if near is None:
        return np.zeros(count, bool)
    logs = np.log(np.maximum(near.distances.mean(1), 1e-12))
    middle = np.median(logs)
    spread = 1.4826 * np.median(np.abs(logs - middle))
    return np.asarray(logs > middle + FAR * max(float(spread), 1e-6))


def _reason(reasons: Sequence[tuple[Array, str]], count: int) -> list[str]:
    """The first reason that holds for each example, or an empty text."""
    found = np.full(count, "", object)
    for holds, text in reversed(reasons):
        found[holds] = text
    return list(found)


def _class_noise(matrix: Array, labels: Array, classes: int) -> list[float]:
    """The share of the labels of each class that look wrong, from the noise matrix and the frequencies of labels."""
    given = np.bincount(labels, minlength=classes) / len(labels)
    true = np.maximum(np.linalg.lstsq(matrix.T, given, rcond=None)[0], 0)
    right = matrix.diagonal() * true
    return [round(float(share), 4) for share in np.clip(1 - right / np.maximum(matrix.T @ true, 1e-12), 0, 1)]
