"""A run goes on, or is shown again, only for what it was made of: one other byte anywhere is another run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from thresher import Examples, Recipe, ThresherError, audit, fit
from thresher.engine.store.checkpoint import OF_LATER
from thresher.objectives import Distillation, ForwardCorrection

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(60) % 3
Given = dict[str, Any]


def flipped(values: Tensor, place: int) -> Tensor:
    """The same with the lowest bit of one byte changed."""
    changed = values.contiguous().clone()
    changed.flatten().view(torch.uint8)[place] ^= 1
    return changed


def network(first: float = 0.1) -> nn.Linear:
    made = nn.Linear(4, 3)
    with torch.no_grad():
        made.weight.copy_(torch.linspace(-1, 1, 12).view(3, 4))
        made.weight[0, 0] = first
    return made


class Times(nn.Module):
    """A network, or an objective, with a factor that no parameter holds."""

    def __init__(self, factor: float):
        super().__init__()
        self.inner, self.factor = network(), factor

    def forward(self, inputs: Tensor, targets: Tensor | None = None) -> Tensor:
        if targets is not None:
            return self.factor * nn.functional.cross_entropy(inputs, targets, reduction="none")
        outputs: Tensor = self.inner(inputs)
        return self.factor * outputs


class Holds:
    """A data set that holds its inputs in this way."""

    def __init__(self, inputs: Tensor, how: Callable[[Tensor], Any]):
        self.held, self.cache_of_items = how(inputs), dict[int, Tensor]()

    def __len__(self) -> int:
        return 60

    def __getitem__(self, place: int) -> Tensor:
        held = self.held["inputs"] if isinstance(self.held, dict) and "inputs" in self.held else self.held
        item = held[place]
        self.cache_of_items[place] = torch.as_tensor(item[0] if isinstance(item, tuple) else item)
        return self.cache_of_items[place]


class Weights:
    """A rule whose setting its repr does not show."""

    def __init__(self, weight: float):
        self.weight = weight

    def __call__(self, evidence: Any) -> Tensor:
        return torch.full((len(evidence),), self.weight)


def some(count: int = 60, **more: Any) -> Examples:
    return Examples(X[:count].clone(), Y[:count].clone(), classes=3, **more)


def given(**changes: Any) -> Given:
    usual = {"what": Recipe(), "model": network, "data": some(), "test": some(20), "epochs": 1, "batch": 16}
    return {**usual, "device": "cpu", **changes}


def holding(how: Callable[[Tensor], Any]) -> tuple[Given, Given]:
    first, other = (Examples(Holds(inputs, how), Y) for inputs in (X, flipped(X, 959)))  # type: ignore[arg-type]
    return given(data=first), given(data=other)


def collated(times: float) -> Examples:
    return Examples(Holds(X, list), Y, collate=lambda items: torch.stack(list(items)) * times)  # type: ignore[arg-type]


def of_test(**changes: Any) -> tuple[Given, Given]:
    return given(), given(test=replace(some(20), **changes))


def of_clean(**changes: Any) -> tuple[Given, Given]:
    first = given(what="l2rw", clean=some(20))
    return first, {**first, "clean": replace(some(20), **changes)}


def of_validation(**changes: Any) -> tuple[Given, Given]:
    first = given(validation=some(20), keep="best_on_validation")
    return first, {**first, "validation": replace(some(20), **changes)}


other_label = Y.index_fill(0, torch.tensor([37]), 2)
certain = torch.eye(3) * 0.7 + 0.1
named = some(class_names=["a", "b", "c"])
pixels = Examples((X * 9).to(torch.uint8), Y, normalise=(torch.zeros(1), torch.ones(1)))
taught = given(what=Recipe(objective=Distillation()), data=some().with_columns(teacher_output=torch.zeros(60, 3)))

CASES: dict[str, tuple[Given, Given]] = {
    "the first byte": (given(), given(data=replace(some(), inputs=flipped(X, 0)))),
    "the last byte": (given(), given(data=replace(some(), inputs=flipped(X, 959)))),
    "a label": (given(), given(data=replace(some(), targets=other_label))),
    "ids": (given(), given(data=some(ids=torch.arange(60) + 1))),
    "the order": (given(), given(data=some().subset(torch.arange(59, -1, -1)))),
    "a column": (
        given(data=some().with_columns(age=torch.zeros(60))),
        given(data=some().with_columns(age=flipped(torch.zeros(60), 77))),
    ),
    "class names": (given(data=named), given(data=replace(named, class_names=["a", "c", "b"]))),
    "how pixels are normalised": (
        given(data=pixels),
        given(data=replace(pixels, normalise=(torch.zeros(1), flipped(torch.ones(1), 0)))),
    ),
    "a real target": (given(data=Examples(X, X[:, :3]), test=None),
                      given(data=Examples(X, flipped(X[:, :3], 5)), test=None)),
    "one of several inputs": (
        given(model=lambda: nn.Sequential(Second(), network()), data=Examples({"a": X[:, :2], "b": X}, Y), test=None),
        given(model=lambda: nn.Sequential(Second(), network()),
              data=Examples({"a": flipped(X[:, :2], 9), "b": X}, Y), test=None),
    ),
    "a test input": of_test(inputs=flipped(X[:20], 3)),
    "a test label": of_test(targets=Y[:20].flip(0)),
    "no test set": (given(), given(test=None)),
    "a clean input": of_clean(inputs=flipped(X[:20], 3)),
    "a clean label": of_clean(targets=Y[:20].flip(0)),
    "a validation input": of_validation(inputs=flipped(X[:20], 3)),
    "a validation label": of_validation(targets=Y[:20].flip(0)),
    "a data set of tensors in a dict": holding(lambda inputs: {"inputs": inputs}),
    "a data set of tuples": holding(lambda inputs: [(each, "text") for each in inputs]),
    "a data set of lists of numbers": holding(lambda inputs: inputs.tolist()),
    "a data set of tensors by place": holding(lambda inputs: dict(enumerate(inputs))),
    "a data set of arrays": holding(lambda inputs: inputs.numpy()),
    "how a batch is made of items": (given(data=collated(1.0), test=None), given(data=collated(2.0), test=None)),
    "what a teacher said": (
        taught, {**taught, "data": some().with_columns(teacher_output=flipped(torch.zeros(60, 3), 40))}
    ),
    "a parameter of a model function": (given(), given(model=lambda: network(0.2))),
    "a parameter of a model": (given(model=network()), given(model=network(0.2))),
    "an attribute of a model": (given(model=lambda: Times(1.0)), given(model=lambda: Times(2.0))),
    "an attribute of an objective": (
        given(what=Recipe(objective=Times(1.0))), given(what=Recipe(objective=Times(2.0)))
    ),
    "an attribute of a rule": (
        given(what=Recipe(each_batch=Weights(1.0))), given(what=Recipe(each_batch=Weights(2.0)))
    ),
    "a matrix of an objective": (
        given(what=Recipe(objective=ForwardCorrection(certain))),
        given(what=Recipe(objective=ForwardCorrection(certain + torch.eye(3) * 1e-6))),
    ),
}  # fmt: skip


class Second(nn.Module):
    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return inputs["b"]


def trained(told: Given, out: Path) -> Any:
    told = dict(told)
    return fit(told.pop("what"), told.pop("model"), told.pop("data"), out=out, **told)


@pytest.mark.parametrize(("first", "other"), CASES.values(), ids=CASES)
def test_another_byte_is_another_run(first: Given, other: Given, tmp_path: Path) -> None:
    found = trained(first, tmp_path / "run").history
    assert trained(first, tmp_path / "run").history == found  # nothing else makes it another
    with pytest.raises(ThresherError, match="holds another run"):
        trained(other, tmp_path / "run")


def test_a_run_of_an_earlier_version_goes_on_although_it_stored_less(tmp_path: Path) -> None:
    trained(given(data=named), tmp_path / "run")
    checkpoint = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    stored = json.loads(checkpoint["identity"])
    checkpoint["identity"] = json.dumps({name: stored[name] for name in stored if name not in OF_LATER})
    assert len(checkpoint["identity"]) < len(json.dumps(stored)) - 60
    torch.save(checkpoint, tmp_path / "run" / "checkpoint.pt")
    trained(given(data=named), tmp_path / "run")


INPUTS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
CHANCES = np.full((60, 2), 0.5, np.float32)


@pytest.mark.parametrize("what", ["inputs", "labels", "probabilities", "features", "groups", "batch"])
def test_an_audit_of_other_data_is_another_audit(what: str, tmp_path: Path) -> None:
    told: Given = {"inputs": INPUTS.copy(), "labels": np.arange(60) % 2, "batch": 32}
    told |= {"probabilities": CHANCES.copy()} if what == "probabilities" else {}
    told |= {"features": INPUTS.copy()} if what == "features" else {}
    told |= {"groups": np.arange(60) // 2} if what == "groups" else {}

    def ask() -> Any:
        given = dict(told)
        return audit(given.pop("inputs"), given.pop("labels"), folds=2, method=None, out=tmp_path / "run", **given)

    ask()
    ask()
    if what == "batch":
        told["batch"] = 16
    elif what == "labels":
        told["labels"][7] ^= 1
    else:
        told[what].reshape(-1)[7] += 1 if what == "groups" else 0.25
    with pytest.raises(ThresherError, match="holds another audit"):
        ask()
