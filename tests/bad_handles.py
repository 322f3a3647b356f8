"""What the handles of a run, an audit and a trainer's step may be given wrongly, as a table like `bad_doors`."""

import math
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from bad_doors import X, Y, counted_loss, loop, train
from bad_python import returning
from tiny import examples, net
from torch import nn

from thresher import Recipe, audit, fit, load
from thresher.record.issues import Issues
from thresher.trainers import Numbered

COUNT = len(examples())
INPUTS = torch.zeros(3, 1, 4, 4)


@cache
def run() -> Any:
    return fit(Recipe(), net, examples(), test=examples(seed=1), epochs=2, device="cpu")


@cache
def issues() -> Issues:
    return audit(X, Y, folds=2, method=None)


def frame(**columns: Any) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"x": X[:, 0], "y": Y, **columns})


def in_trainer(*items: dict[str, Any], **more: Any) -> object:
    """Hugging Face's Trainer with a weigher, which learns these items, or as many sound ones."""
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    from thresher.trainers import ThresherTrainer, Weigher

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, labels: Any = None) -> dict[str, torch.Tensor]:  # noqa: ARG002
            return {"logits": self.inner(x)}

    with tempfile.TemporaryDirectory() as folder:
        told = {"report_to": [], "use_cpu": True, "max_steps": 1, "disable_tqdm": True, "save_strategy": "no"}
        given = {"train_dataset": list(items), "weigher": Weigher(), **more}
        trainer = ThresherTrainer(model=Linear(), args=transformers.TrainingArguments(folder, **told), **given)
        return trainer.train()


def item(**more: Any) -> dict[str, Any]:
    return {"x": torch.ones(4), "labels": 1, **more}


def weight(value: Any) -> Callable[[], object]:
    return lambda: counted_loss(weight=torch.full((COUNT,), value))


HANDLES: dict[str, tuple[Callable[[], object], str]] = {
    "complex inputs to predict": (lambda: run().predict(INPUTS * 1j), "complex"),
    "inputs to predict of another shape": (lambda: run().predict(torch.zeros(3, 1, 5, 5)), "reshape them"),
    "an unknown choice of networks": (lambda: run().predict(INPUTS, networks="all of them"), "choice of networks"),
    "a name as views to predict by": (lambda: run().predict(INPUTS, views="weak"), "a list of views"),
    "a number as views to predict by": (lambda: run().predict(INPUTS, views=3), "a list of views"),
    "a number as page": (lambda: run().report(3), "the path of a page"),
    "no epochs to take the mean of": (lambda: run().last(0), "at least 1"),
    "text as epochs of a share": (lambda: run().clean_share("3"), "at least 1"),
    "a text as filter of a ledger": (lambda: run().ledger.table(where="id > 3"), "pyarrow.compute"),
    "an unknown column of issues": (lambda: issues().column("nope"), "column of the issues"),
    "text as count of issues": (lambda: issues().chosen(count="3"), "a whole number"),  # type: ignore[arg-type]
    "text as trust of issues": (lambda: issues().chosen(below="0.1"), "a number"),  # type: ignore[arg-type]
    "text as seed to load": (lambda: load("blobs:100,2", seed="a"), "seed"),  # type: ignore[arg-type]
    "a number as folder of data": (lambda: load("digits", data_dir=3), "data_dir"),  # type: ignore[arg-type]
    "a dictionary as options": (lambda: load("digits", options={"sep": ";"}), "TableOptions"),  # type: ignore[arg-type]
    "a separator of another alphabet": (lambda: load("digits", options=_options(sep="€")), "ASCII"),
    "an unknown column of groups": (lambda: audit(frame(), target="y", groups="g"), "no column g"),
    "complex features of an audit": (lambda: audit(X, Y, features=X * 1j), "complex"),
    "complex probabilities": (lambda: audit(X, Y, probabilities=np.full((12, 3), 1 / 3) * 1j), "complex"),
    "complex features": (lambda: train(features=np.ones((44, 2)) * 1j), "complex"),
    "inputs without a number": (lambda: train(data=(X[:, :0], Y)), "without a number"),
    "endless epochs of whole numbers": (lambda: train(epochs=10**30), "so that it ends"),
    "endless steps of whole numbers": (lambda: train(epochs=None, steps=10**30), "so that it ends"),
    "a device without a name": (lambda: train(device=""), "device"),
    "endless rounds": (lambda: loop(rounds=10**9), "buy fewer"),
    "a mapping to number": (lambda: Numbered({"a": 1}), "by position"),
    "weights of NaN": (weight(math.nan), "from 0 on"),
    "weights of infinity": (weight(math.inf), "from 0 on"),
    "weights below 0": (weight(-1.0), "from 0 on"),
    "weights of complex numbers": (weight(1j), "from 0 on"),
    "outputs that lead nowhere": (
        lambda: counted_loss(model=returning(lambda outputs: outputs.detach())()),
        "leave out .detach",
    ),
    "targets below 0": (lambda: counted_loss(targets=examples().targets - 9), "from 0 on"),
    "no item for a trainer": (in_trainer, "is empty"),
    "a number for a trainer": (lambda: in_trainer(train_dataset=3), "dataset of items"),
    "items without labels": (lambda: in_trainer({"x": torch.ones(4)}), "no labels"),
    "ids of texts": (lambda: in_trainer(item(id="a")), "id of the items"),
    "ids of halves": (lambda: in_trainer(item(id=0.5)), "a whole number"),
    "ids for some": (lambda: in_trainer(item(id=0), item()), "Some items"),
    "an item's weight of NaN": (lambda: in_trainer(item(weight=math.nan)), "from 0 on"),
    "an item's weight below 0": (lambda: in_trainer(item(weight=-1.0)), "from 0 on"),
    "an item's weight of text": (lambda: in_trainer(item(weight="a")), "weight of the items"),
    "no trusted item": (lambda: in_trainer(item(), clean_dataset=[]), "is empty"),
    "a number as trusted items": (lambda: in_trainer(item(), clean_dataset=3), "dataset of items"),
}


def _options(**told: Any) -> Any:
    from thresher.data import TableOptions

    return TableOptions(**told)
