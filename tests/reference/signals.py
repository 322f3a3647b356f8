"""Signals of one example the slow, obvious way: Python numbers, and gradients written out by hand.

outputs and target are lists; the target of class ids is one-hot.
"""

import math


def probabilities(outputs: list[float]) -> list[float]:
    top = max(outputs)
    shares = [math.exp(value - top) for value in outputs]
    return [share / sum(shares) for share in shares]


def cross_entropy(outputs: list[float], target: list[float]) -> float:
    return -sum(t * math.log(p) for t, p in zip(target, probabilities(outputs), strict=True))


def cross_entropy_gradient(outputs: list[float], target: list[float]) -> list[float]:
    return [p * sum(target) - t for t, p in zip(target, probabilities(outputs), strict=True)]


def squared_error(outputs: list[float], target: list[float]) -> float:
    return sum((o - t) ** 2 for o, t in zip(outputs, target, strict=True)) / 2


def squared_error_gradient(outputs: list[float], target: list[float]) -> list[float]:
    return [o - t for o, t in zip(outputs, target, strict=True)]


def length(vector: list[float]) -> float:
    return math.sqrt(sum(value * value for value in vector))


def confidence(outputs: list[float]) -> float:
    return max(probabilities(outputs))


def margin(outputs: list[float]) -> float:
    first, second = sorted(probabilities(outputs), reverse=True)[:2]
    return first - second


def entropy(outputs: list[float]) -> float:
    return -sum(p * math.log(p) for p in probabilities(outputs))


def predicted(outputs: list[float]) -> int:
    return outputs.index(max(outputs))


def given(target: list[float]) -> int:
    return target.index(max(target))


def p_given(outputs: list[float], target: list[float]) -> float:
    return probabilities(outputs)[given(target)]
