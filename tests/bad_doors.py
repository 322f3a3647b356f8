"""What the doors beside `fit` may be given wrongly, as a table: weighers, loops, distillation, audits, settings."""

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC
from tiny import examples, net
from torch import nn

from thresher import Examples, Ledger, Recipe, acquire, active_loop, audit, distil, fit, weigh
from thresher.app.estimator import ThresherClassifier
from thresher.data import scan
from thresher.models import build
from thresher.models.pretrained import load_weights
from thresher.objectives import Huber
from thresher.report import write_report
from thresher.rules import ClipNorm, Debias, KeepSmallest
from thresher.schedules import ramp
from thresher.slots import Mixup, PadCrop
from thresher.trainers import Numbered, TensorBoard, Weigher, WeigherCallback, save_weights, weighted

X, Y = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3


class Length:
    """A dataset that says its length wrongly."""

    def __init__(self, length: Any):
        self.length = length

    def __len__(self) -> int:
        return self.length  # type: ignore[no-any-return]

    def __getitem__(self, place: int) -> Any:
        return X[0], 0


SMALLEST = KeepSmallest(by="loss", fraction=0.5)


def picked(**given: Any) -> object:
    return acquire(KeepSmallest(by="confidence", count=3), net(), examples(), **given)


def intervals() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"x": pandas.cut(X[:, 0], 3), "z": X[:, 1], "y": Y})


def images() -> Examples:
    return Examples(torch.zeros(12, 3, 8, 8, dtype=torch.uint8), torch.arange(12) % 3)


def started_from_junk() -> object:
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        file.write(b"junk")
        file.flush()
        return train("cnn9", images(), start=file.name)


def train(model: Any = "mlp:4", data: Any = None, **settings: Any) -> object:
    return fit("standard", model, examples() if data is None else data, **{"epochs": 1, **settings})


def classifier(**settings: Any) -> object:
    return ThresherClassifier("standard", **{"model": "mlp:4", "epochs": 1, **settings}).fit(X, Y)


def loop(**given: Any) -> object:
    told = {"by": "margin", "start": 8, "count": 4, "rounds": 1, "epochs": 1, "batch": 4, "device": "cpu", **given}
    return active_loop(told.pop("recipe", Recipe()), net, told.pop("pool", examples()), **told)


def taught(**given: Any) -> object:
    sets = [given.pop(name, examples().subset(at)) for name, at in (("labelled", [0, 1]), ("unlabelled", [2, 3]))]
    return distil(net, *sets, **{"teacher": net, "epochs": 1, "device": "cpu", **given})


def counted_loss(**given: Any) -> object:
    rows, told = examples(), {"model": net(), "targets": examples().targets, **given}
    return Weigher().loss(told.pop("model"), rows.inputs, told.pop("targets"), **told)


def resumed(state: Any = None, **changes: Any) -> None:
    made = Weigher()
    made.load_state_dict({**made.state_dict(), **changes} if changes else state)


def weigher(what: str = "standard", **given: Any) -> object:
    return Weigher(what, **given)


DOORS: dict[str, tuple[Callable[[], object], str]] = {
    "text as epochs of a weigher": (lambda: weigher(epochs="3"), "epochs"),
    "nan epochs of a weigher": (lambda: weigher(epochs=math.nan), "epochs"),
    "endless epochs of a weigher": (lambda: weigher(epochs=math.inf), "epochs"),
    "text as seed of a weigher": (lambda: weigher(seed="a"), "seed"),
    "text as classes of a weigher": (lambda: weigher(classes="3"), "classes"),
    "a number as out of a weigher": (lambda: weigher(out=3), "path of a folder"),
    "auto as noise rate of a weigher": (lambda: weigher("prl-l", noise_rate="auto"), "share"),
    "no clean batch": (lambda: weigher("l2rw", clean=examples(), clean_batch=0), "clean_batch"),
    "no model to a weigher": (lambda: counted_loss(model=None), "torch.nn.Module"),
    "texts as targets of a weigher": (lambda: counted_loss(targets=["a"] * 44), "targets"),
    "ids that are decimals": (lambda: counted_loss(ids=torch.ones(44)), "whole numbers"),
    "few ids": (lambda: counted_loss(ids=torch.arange(3)), "one id each"),
    "few weights": (lambda: counted_loss(weight=torch.ones(3)), "one each"),
    "a negative epoch": (lambda: Weigher().begin_epoch(-1), "epoch"),
    "a state of nothing": (resumed, "state of a weigher"),
    "a state without networks": (lambda: resumed(networks=None), "state of a weigher"),
    "a state with text as epoch": (lambda: resumed(epoch="x"), "epoch"),
    "a number of items": (lambda: Numbered(3), "by position"),
    "a trainer that is none": (lambda: weighted(dict), "trainers"),
    "a callback of a number": (lambda: WeigherCallback(3), "Weigher"),  # type: ignore[arg-type]
    "a logger of a number": (lambda: TensorBoard(3), "SummaryWriter"),
    "weights of nothing": (lambda: save_weights(None, "a"), "torch.nn.Module"),  # type: ignore[arg-type]
    "weights into a folder": (lambda: save_weights(net(), "."), "file to write"),
    "a number as by": (lambda: loop(by=3), "name, or a function"),
    "text as start of a loop": (lambda: loop(start="8"), "start"),
    "nan rounds": (lambda: loop(rounds=math.nan), "rounds"),
    "a name as recipe of a loop": (lambda: loop(recipe="standard"), "a Recipe"),
    "an array as pool": (lambda: loop(pool=X), "Examples"),
    "a number as avoid": (lambda: loop(avoid=3), "Run.trust"),
    "a file as on_disk": (lambda: loop(on_disk=__file__), "is a file"),
    "a file as out of a loop": (lambda: loop(out=__file__), "is a file"),
    "a name as recipe of a student": (lambda: taught(recipe="prl-l"), "recipe"),
    "None as labelled": (lambda: taught(labelled=None), "labelled"),
    "an array as unlabelled": (lambda: taught(unlabelled=X), "unlabelled"),
    "text as temperature": (lambda: taught(temperature="1"), "a number"),
    "a number as model of an audit": (lambda: audit(X, Y, model=3), "no model"),  # type: ignore[arg-type]
    "a number as tell": (lambda: audit(X, Y, tell=3), "stage"),  # type: ignore[arg-type]
    "an unknown method of an audit": (lambda: audit(X, Y, method="prll"), "did you mean"),
    "a file as out of an audit": (lambda: audit(X, Y, out=__file__), "is a file"),
    "a judge without probabilities": (
        lambda: audit(X, Y, estimator=LinearSVC(), method=None, folds=2),
        "predict_proba",
    ),
    "text as batch of an estimator": (lambda: classifier(batch="8"), "batch"),
    "a class as model of an estimator": (lambda: classifier(model=nn.Linear), "class"),
    "text as patience": (lambda: classifier(early_stopping=True, n_iter_no_change="a"), "whole number"),
    "a noise rate that nobody reads": (lambda: classifier(noise_rate="many"), "share of the data"),
    "a number as ledger": (lambda: Ledger.read(3), "folder"),  # type: ignore[arg-type]
    "a name too long for a folder": (lambda: loop(out="a" * 300), "cannot be made"),
    "a device of no numbers": (lambda: train(device="meta"), "no numbers"),
    "a model of no numbers": (lambda: train(nn.Linear(16, 3, device="meta")), "device meta"),
    "a length below 0": (lambda: train(data=Length(-1)), "length of the data"),
    "a length of decimals": (lambda: train(data=Length(3.5)), "length of the data"),
    "masked inputs": (lambda: train(data=(np.ma.masked_less(X, 0), Y)), "masked at"),
    "text as batch of acquire": (lambda: picked(batch="a"), "batch"),
    "no batch of acquire": (lambda: picked(batch=0), "at least 1"),
    "text as precision of acquire": (lambda: picked(precision="float32"), "torch.float32"),
    "text as labelled": (lambda: picked(labelled="a"), "Examples"),
    "a number as on_disk": (lambda: picked(on_disk=3), "path of a folder"),
    "nothing at once": (lambda: picked(signals_at_once=0), "above 0"),
    "text as outputs": (lambda: weigh(SMALLEST, net(), examples().inputs, examples().targets, outputs="a"), "a tensor"),  # type: ignore[arg-type]
    "a number as model to build": (lambda: build(3, input_shape=(4,), outputs=3), "a text"),  # type: ignore[arg-type]
    "text as outputs to build": (lambda: build("mlp", input_shape=(4,), outputs="3"), "whole number"),  # type: ignore[arg-type]
    "a number as folder to scan": (lambda: scan(3), "folder"),  # type: ignore[arg-type]
    "a name as folders of a report": (lambda: write_report("runs", Path("p.html")), "a list of folders"),
    "a start that is none": (started_from_junk, "holds no start"),
    "weights that are none": (lambda: load_weights(net(), Path(__file__), ()), "cannot be read as weights"),
    "intervals": (lambda: train(data=intervals(), target="y"), "Column x holds"),
    "text as a bound": (lambda: ClipNorm("a"), "a number"),  # type: ignore[arg-type]
    "a number as signal": (lambda: KeepSmallest(by=3, fraction=0.5), "signal"),  # type: ignore[arg-type]
    "text as yes or no": (lambda: Debias(hard="yes"), "True or False"),  # type: ignore[arg-type]
    "text as delta": (lambda: Huber("1"), "a number"),  # type: ignore[arg-type]
    "text as padding": (lambda: PadCrop("4"), "a whole number"),  # type: ignore[arg-type]
    "nan as alpha": (lambda: Mixup(math.nan), "a number"),
    "text as end of a ramp": (lambda: ramp(1.0, "0.6", epochs=3), "a number"),  # type: ignore[arg-type]
}
