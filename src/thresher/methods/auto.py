"""The method that suits: chosen by what can be seen of the data, from the ranking of the stored results."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.seeding import generator
from thresher.core.tasks import LABELS, POSITIONS
from thresher.methods.registry import METHODS
from thresher.models import are_embeddings
from thresher.noise import audit_rate, estimated
from thresher.noise.estimate import Estimate, cannot_tell

AUTO = "auto"
LOOKED_AT = 2000  # examples whose neighbours vote
NEIGHBOURS = 10
CLEAN = 0.02  # the rate below which labels pass for clean
MOSTLY_WRONG = 0.6  # the rate from which labels count as mostly wrong, as in benchmarks/ranking.py
OFTEN = 1 / 3  # of the comparisons: how often a simpler way is ahead that is named
IMBALANCED = 5.0  # how many times as frequent as the rarest class the commonest is
STRAY = 5  # examples of a class below which it may be a folder by mistake, and does not make a set imbalanced


@dataclass(frozen=True)
class Choice:
    """A method by name, and why it was chosen."""

    method: str
    why: str

    def sentence(self) -> str:
        return f"auto chose {self.method}: {self.why}."

    @classmethod
    def begun(cls, method: str, folder: Path) -> "Choice":
        """The method of a run that has begun: with more epochs, or by a later ranking, another might suit."""
        return cls(method, f"the run in {folder} was begun by it")


def choose(
    train: Examples,
    model: nn.Module | Callable[[], nn.Module],
    *,
    epochs: float,
    noise_rate: float | str | None = "auto",
    clean: bool = False,
) -> Choice:
    """The method that gained most over plain training in stored results of such data, of those that can run here.

    Looks at the task, the classes and how frequent they are, whether clean examples are given, and the noise rate: the
    one given, or else one that neighbours of some examples tell. The same data give the same choice.

    >>> inputs, labels = torch.arange(200.0)[:, None], torch.arange(200) // 100
    >>> choose(Examples(inputs, labels), nn.Linear(1, 2), epochs=30, noise_rate=0.7).method
    'reclaim-patient'
    """
    seen, facts = _situation(train, noise_rate, clean)
    if seen is None:
        return Choice("standard", f"{facts}, so every example counts the same")
    told = isinstance(noise_rate, float | int) or noise_rate == "folds"
    for row in ranking()[seen]:
        needs = METHODS[row["method"]].needs
        lacks = {"clean": not clean, "model factory": isinstance(model, nn.Module),
                 "noise_rate": not told and epochs <= estimated().after}  # fmt: skip
        if not any(lacks.get(need, False) for need in needs):
            gained = f"{row['gain']:+.2f} over plain training" if row["gain"] else "as good as plain training"
            why = f"{facts}; the best here in {row['cells']} stored comparisons ({gained}){_simpler_ones(seen)}"
            return Choice(row["method"], why)
    raise ThresherError("No method of the ranking can run here: choose one with method= (--method).")


def _simpler_ones(seen: str) -> str:
    """Which simpler ways were often ahead of the best method there, in words."""
    told = [
        f"{row['way']} on {row['ahead']} of {row['cells']}"
        for row in simpler().get(seen, ())
        if row["ahead"] >= OFTEN * row["cells"]
    ]
    return f"; simpler, and ahead of it: {', '.join(told)}" if told else ""


def ranking() -> dict[str, list[dict[str, Any]]]:
    """Situation -> its methods, the best first, as benchmarks/ranking.py made it from the stored results."""
    return _stored("ranking")


def simpler() -> dict[str, list[dict[str, Any]]]:
    """Situation -> ways that need no method, or have a simpler model, and how often they are ahead; made like it."""
    return _stored("simpler")


def _stored(part: str) -> dict[str, list[dict[str, Any]]]:
    text = files("thresher.methods").joinpath("ranking.json").read_text(encoding="utf-8")
    found: dict[str, list[dict[str, Any]]] = json.loads(text)[part]
    return found


def _situation(train: Examples, noise_rate: float | str | None, clean: bool) -> tuple[str | None, str]:
    """The situation of the ranking, None where nothing is wrong, and what was seen in words."""
    if train.task in (LABELS, POSITIONS):
        raise ThresherError(f"No method is compared on {train.task} targets yet: name one, such as prl-l or standard.")
    if train.is_regression:
        return "regression", f"{len(train):,} examples with real targets"
    counts = torch.bincount(train.labels.cpu(), minlength=train.outputs)
    counts = counts[counts > 0]
    facts = f"{len(train):,} examples of {len(counts)} classes"
    common = counts[counts >= STRAY]
    times = float(counts.max() / (common if len(common) > 1 else counts).min())
    if isinstance(noise_rate, float | int):
        found = Estimate(float(noise_rate), float(noise_rate), float(noise_rate), "given")
        facts += f", {noise_rate:.0%} of the labels said to be wrong"
    else:
        found = neighbours_rate(train)
        if found.rate is None:
            facts += ", how many labels are wrong unknown"
        else:
            facts += f", about {found.rate:.0%} of the labels wrong by their neighbours"
    looks_clean = found.rate is not None and found.rate < CLEAN
    if times >= IMBALANCED and (looks_clean or found.rate is None):
        is_table = len(train.input_shape) == 1 and not are_embeddings(train)
        kind = "imbalanced tables" if is_table else "imbalanced"
        return kind, f"{facts}, the commonest {times:.0f} times as frequent as the rarest"
    if clean:
        return "clean examples", f"{facts}, and some that can be trusted"
    if looks_clean:
        return None, facts
    return ("mostly wrong" if (found.rate or 0.0) >= MOSTLY_WRONG else "classes"), facts


def neighbours_rate(train: Examples) -> Estimate:
    """The noise rate by the votes of the nearest neighbours among some of the examples, as their inputs are."""
    if not isinstance(train.inputs, Tensor) or not train.inputs.dtype.is_floating_point:
        return cannot_tell("the inputs are no numbers that could be compared")
    some = torch.randperm(len(train), generator=generator(0, "neighbours"))[:LOOKED_AT]
    if len(some) <= NEIGHBOURS:
        return cannot_tell(f"{len(some)} examples are too few")
    inputs = train.inputs[some.to(train.inputs.device)].flatten(1).double().cpu()
    labels = train.labels.cpu()[some].numpy()
    near = torch.cdist(inputs, inputs).fill_diagonal_(torch.inf).topk(NEIGHBOURS, largest=False).indices.numpy()
    votes = np.stack([(labels[near] == each).mean(1) for each in range(train.outputs)], axis=1)
    return audit_rate(votes, labels)
