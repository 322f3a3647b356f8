"""The methods of the PRL paper as loops that anybody can check: one example at a time, plain SGD."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thresher import Examples
from thresher.core import seeding

RATE, RAMP, BOUND, DELTA, HARD, SOFT = 0.25, 10, 1.0, 0.1, 0.8, 0.95
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Seen:
    """What one network sees of a batch: for each example its loss, its gradients, its outputs and its id."""

    losses: list[Tensor]
    gradients: list[list[Tensor]]
    outputs: list[Tensor]
    targets: list[Tensor]
    ids: list[int]


def batches(n: int, batch: int, epochs: int, seed: int) -> Iterator[tuple[int, list[int]]]:
    """Every batch with its epoch: everyone once in random order, after what the last epoch left over."""
    left: list[int] = []
    for epoch in range(epochs):
        drawn = torch.randperm(n, generator=seeding.generator(seed, "order", epoch)).tolist()
        order = left + [i for i in drawn if i not in left] + [i for i in drawn if i in left]
        full = len(order) // batch * batch
        left = order[full:]
        yield from ((epoch, order[start : start + batch]) for start in range(0, full, batch))


def log_softmax(outputs: Tensor) -> Tensor:
    return outputs - outputs.exp().sum().log()


def cross_entropy(outputs: Tensor, target: Tensor) -> Tensor:
    return -log_softmax(outputs)[target]


def squared_error(outputs: Tensor, target: Tensor) -> Tensor:
    return 0.5 * ((outputs - target) ** 2).sum()


def huber(outputs: Tensor, target: Tensor) -> Tensor:
    residuals = (outputs - target).abs()
    return sum((0.5 * r**2 if r <= DELTA else DELTA * (r - 0.5 * DELTA) for r in residuals), torch.zeros(()))


def bootstrap_hard(outputs: Tensor, target: Tensor) -> Tensor:
    return HARD * cross_entropy(outputs, target) + (1 - HARD) * cross_entropy(outputs, outputs.argmax())


def bootstrap_soft(outputs: Tensor, target: Tensor) -> Tensor:
    own = sum((-p * p.log() for p in outputs.softmax(0)), torch.zeros(()))
    return SOFT * cross_entropy(outputs, target) + (1 - SOFT) * own


def smallest(values: Sequence[float], ids: Sequence[int], share: float) -> list[int]:
    count = max(1, round(share * len(values)))
    return sorted(range(len(values)), key=lambda i: (values[i], ids[i]))[:count]


def loss_sizes(seen: Seen) -> list[float]:
    return [loss.item() for loss in seen.losses]


def layer_sizes(seen: Seen) -> list[float]:
    """‖softmax - onehot‖ of each example, or ‖outputs - target‖."""
    sizes = []
    for outputs, target in zip(seen.outputs, seen.targets, strict=True):
        if target.ndim == 0:
            difference = outputs.softmax(0).clone()
            difference[target] -= 1
        else:
            difference = outputs - target
        sizes.append(difference.norm().item())
    return sizes


def gradient_sizes(seen: Seen) -> list[float]:
    return [math.sqrt(sum(float((g**2).sum()) for g in gradients)) for gradients in seen.gradients]


def mean(seen: Seen, chosen: Sequence[int]) -> list[Tensor] | None:
    if not chosen:
        return None
    return [torch.stack([seen.gradients[i][p] for i in chosen]).mean(0) for p in range(len(seen.gradients[0]))]


Answer = list[Tensor] | None
Step = Callable[[list[Seen], int], list[Answer]]


def everyone(networks: list[Seen], epoch: int) -> list[Answer]:  # noqa: ARG001
    return [mean(seen, range(len(seen.ids))) for seen in networks]


def clipped(networks: list[Seen], epoch: int) -> list[Answer]:
    gradients = everyone(networks, epoch)[0]
    assert gradients is not None
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
    return [[g * min(1.0, BOUND / norm) for g in gradients]]


def clipped_each(networks: list[Seen], epoch: int) -> list[Answer]:  # noqa: ARG001
    (seen,) = networks
    factors = [min(1.0, BOUND / size) for size in gradient_sizes(seen)]
    n = len(factors)
    return [
        [sum(f * g[p] for f, g in zip(factors, seen.gradients, strict=True)) / n for p in range(len(seen.gradients[0]))]
    ]  # type: ignore[misc]


def keeping(sizes: Callable[[Seen], list[float]], falling: bool = False, peers: bool = False) -> Step:
    def step(networks: list[Seen], epoch: int) -> list[Answer]:
        rate = RATE * min(epoch / RAMP, 1) if falling else RATE
        chosen = [smallest(sizes(seen), seen.ids, 1 - rate) for seen in networks]
        if peers:
            chosen.reverse()
        return [mean(seen, which) for seen, which in zip(networks, chosen, strict=True)]

    return step


def smallest_one(networks: list[Seen], epoch: int) -> list[Answer]:  # noqa: ARG001
    return [mean(seen, [loss_sizes(seen).index(min(loss_sizes(seen)))]) for seen in networks]


def disagreeing(networks: list[Seen], epoch: int) -> list[Answer]:  # noqa: ARG001
    first, second = ([int(outputs.argmax()) for outputs in seen.outputs] for seen in networks)
    chosen = [i for i in range(len(first)) if first[i] != second[i]]
    return [mean(seen, chosen) for seen in networks]


# name -> (the step, how many networks, the loss where it is not the task's own)
METHODS: dict[str, tuple[Step, int, Loss | None]] = {
    "standard": (everyone, 1, None),
    "normclip": (clipped, 1, None),
    "ignormclip": (clipped_each, 1, None),
    "huber": (everyone, 1, huber),
    "bootstrap-hard": (everyone, 1, bootstrap_hard),
    "bootstrap-soft": (everyone, 1, bootstrap_soft),
    "min-sgd": (smallest_one, 1, None),
    "decouple": (disagreeing, 2, None),
    "spl": (keeping(loss_sizes), 1, None),
    "spl-ramp": (keeping(loss_sizes, falling=True), 1, None),
    "prl-l": (keeping(layer_sizes), 1, None),
    "prl-l-ramp": (keeping(layer_sizes, falling=True), 1, None),
    "prl-g": (keeping(gradient_sizes), 1, None),
    "co-teaching": (keeping(loss_sizes, falling=True, peers=True), 2, None),
    "co-prl-l": (keeping(layer_sizes, falling=True, peers=True), 2, None),
}


def look(model: nn.Module, train: Examples, at: Sequence[int], loss: Loss) -> Seen:
    seen = Seen([], [], [], [], [])
    assert isinstance(train.inputs, Tensor)
    for i in at:
        outputs = model(train.inputs[i : i + 1])[0]
        value = loss(outputs, train.targets[i])
        seen.gradients.append(list(torch.autograd.grad(value, list(model.parameters()))))
        seen.losses.append(value.detach())
        seen.outputs.append(outputs.detach())
        seen.targets.append(train.targets[i])
        seen.ids.append(int(train.ids[i]))
    return seen


def trained(name: str, models: list[nn.Module], train: Examples, batch: int, epochs: int, rate: float) -> None:
    """Train the models in place by plain SGD with the learning rate `rate`, on the batches that fit() would use."""
    step, _, own = METHODS[name]
    loss = own or (squared_error if train.is_regression else cross_entropy)
    for epoch, at in batches(len(train), batch, epochs, seed=0):
        answers = step([look(model, train, at, loss) for model in models], epoch)
        with torch.no_grad():
            for model, gradients in zip(models, answers, strict=True):
                for parameter, gradient in zip(model.parameters(), gradients or [], strict=gradients is not None):
                    parameter -= rate * gradient
