"""Tiny examples and models, and what it means that two runs are the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from thresher import Examples, Run
from thresher.core.evidence import Evidence
from thresher.methods import Trainer


def examples(count: int = 44, classes: int = 3, *, seed: int = 0, corrupt: float = 0.25) -> Examples:
    """Images [count, 1, 4, 4] of `classes` classes, some of them with a wrong label."""
    draws = torch.Generator().manual_seed(seed)
    true = torch.arange(count) % classes
    inputs = torch.randn(count, 1, 4, 4, generator=draws) + 2.0 * true[:, None, None, None]
    wrong = torch.rand(count, generator=draws) < corrupt
    given = torch.where(wrong, (true + 1) % classes, true)
    columns = {"is_corrupt": wrong, "true_target": true}
    return Examples(inputs, given, ids=torch.arange(count) * 3 + 1, classes=classes, columns=columns, name="tiny")


def real_examples(count: int = 44, *, seed: int = 0) -> Examples:
    """The same kind of images with two real targets each."""
    inputs = examples(count, seed=seed).inputs
    assert isinstance(inputs, Tensor)
    targets = torch.stack([inputs.mean((1, 2, 3)), inputs[:, 0, 0, 0]], 1)
    return Examples(inputs, targets, name="tiny real")


def trusted(train: Examples, count: int) -> Examples:
    """The first uncorrupted examples, of each class in turn: a clean set that is part of `train`."""
    places = (~train.columns["is_corrupt"]).nonzero().flatten()
    if train.classes is not None:
        labels = train.labels[places]
        turn = torch.tensor([(labels[:place] == label).sum() for place, label in enumerate(labels)])
        places = places[turn.argsort(stable=True)]
    return train.subset(places[:count])


@dataclass
class Streamed:
    """The inputs of a set as a map-style dataset."""

    inputs: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, position: int) -> tuple[Tensor, str]:
        return self.inputs[position], "whatever else a dataset gives"


def streamed(train: Examples) -> Examples:
    assert isinstance(train.inputs, Tensor)
    return Examples(
        Streamed(train.inputs),
        train.targets,
        ids=train.ids,
        classes=train.classes,
        columns=train.columns,
        name="stream",
    )


def net(outputs: int = 3, *, dropout: float = 0.0, batch_norm: bool = False, seed: int | None = None) -> nn.Module:
    """A small network; with a seed always the same one, without it as the global random state has it."""
    if seed is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return net(outputs, dropout=dropout, batch_norm=batch_norm)
    middle: list[nn.Module] = [nn.BatchNorm1d(8)] if batch_norm else []
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), *middle, nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, outputs))


def by_id(function: Callable[[Tensor], Tensor]) -> Callable[[Evidence], Tensor]:
    """A rule whose weights are a function of the ids alone."""

    def rule(evidence: Evidence) -> Tensor:
        return function(evidence.ids).float()

    return rule


def tensors(run: Run) -> list[Tensor]:
    """All parameters and buffers of a run, copied."""
    return [v.detach().clone() for model in [*run.models, *run.averages] for v in model.state_dict().values()]


def without_clock(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if name != "seconds"} for record in history]


def assert_same_tensors(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0, equal_nan=True)


def assert_same_run(ours: Run, theirs: Run) -> None:
    """Bit for bit: parameters, buffers, averages, history (wall clock apart), ledger."""
    assert_same_tensors(tensors(ours), tensors(theirs))
    assert without_clock(ours.history) == without_clock(theirs.history)
    pd.testing.assert_frame_equal(ours.ledger.to_pandas(), theirs.ledger.to_pandas(), check_exact=True)
    assert ours.stopped == theirs.stopped


def trainer(settings: dict[str, Any]) -> Trainer:
    """A trainer of these: its own fields, and settings, by name."""
    rest = dict(settings)
    return Trainer(rest.pop("model", None), rest.pop("train")).changed(**rest)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def copied(state: Any) -> Any:
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    return state


def hand_step(model: nn.Module, total: Tensor, rate: float = 0.1) -> list[Tensor]:
    gradients = torch.autograd.grad(total, list(model.parameters()))
    return [(p - rate * g).detach() for p, g in zip(model.parameters(), gradients, strict=True)]


def hand_losses(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(model(inputs), targets, reduction="none")


def close(model: nn.Module, expected: list[Tensor]) -> None:
    for parameter, value in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-5, atol=1e-6)
