"""Reclaim the slow, obvious way: one example at a time, and a training loop without an engine."""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def divergence_from_uniform(outputs: Tensor) -> Tensor:
    """KL(uniform ‖ mean prediction) of a batch, to be differentiated as it stands."""
    classes, mean = outputs.shape[1], sum(row.softmax(0) for row in outputs) / len(outputs)
    return sum((1 / classes) * torch.log((1 / classes) / mean[c]) for c in range(classes))  # type: ignore[return-value]


def uniform_terms(outputs: Tensor) -> list[Tensor]:
    """For each example KL(u ‖ m) + 1 - Σ_c u pᵢc / m_c, where m is a constant."""
    n, classes = outputs.shape
    chances = [row.softmax(0) for row in outputs]
    m = [sum(float(p[c].detach()) for p in chances) / n for c in range(classes)]
    kl = sum(math.log(1 / classes / m[c]) / classes for c in range(classes))
    return [kl + 1 - sum(p[c] / classes / m[c] for c in range(classes)) for p in chances]


def lesson(given: int, outputs: Tensor, trusted: bool, trust: float, temperature: float) -> list[float]:
    """What one example should teach, by the teacher's outputs [classes]."""
    p = [math.exp(float(value)) for value in outputs]
    p = [value / sum(p) for value in p]
    if trusted:
        return [trust * (c == given) + (1 - trust) * p[c] for c in range(len(p))]
    sharp = [value ** (1 / temperature) for value in p]
    return [value / sum(sharp) for value in sharp]


def train(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    epochs: int,
    warm: int,
    rate: float,
    learning_rate: float,
    strength: float,
    rest: Callable[[Tensor], float],
    trust: float,
    temperature: float,
) -> tuple[nn.Module, nn.Module]:
    """Full batches of plain gradient descent: trust what the average predicts, weigh the rest by `rest(p)`."""
    average = copy.deepcopy(model)
    n, classes = len(targets), int(targets.max()) + 1
    for epoch in range(epochs):
        weights = [1.0] * n
        lessons = [[float(c == int(given)) for c in range(classes)] for given in targets]
        if epoch >= warm:
            taught = average(inputs).detach()
            for i, (row, given) in enumerate(zip(taught, targets, strict=True)):
                trusted = int(row.argmax()) == int(given)
                weights[i] = 1.0 if trusted else rest(row.softmax(0))
                lessons[i] = lesson(int(given), row, trusted, trust, temperature)
        outputs = model(inputs)
        terms = uniform_terms(outputs)
        total = torch.zeros(())
        for i in range(n):
            logs = outputs[i].log_softmax(0)
            cross_entropy = -sum(lessons[i][c] * logs[c] for c in range(classes))
            total = total + weights[i] * (cross_entropy + strength * terms[i])
        gradients = torch.autograd.grad(total / sum(weights), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= learning_rate * gradient
            for mine, other in zip(average.parameters(), model.parameters(), strict=True):
                mine.copy_(rate * mine + (1 - rate) * other)
    return model, average
