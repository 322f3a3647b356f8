"""What a program may give wrongly, as a table: a name, what is done, and what the sentence must say."""

import math
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from tiny import examples, net
from torch import Tensor, nn
from torch.nn import functional

from thresher import Examples, Recipe, acquire, audit, fit, load, open_run, signals, weigh
from thresher.core.evidence import Evidence
from thresher.data import from_stream
from thresher.methods import method
from thresher.rules import KeepSmallest, every, from_peer

NAN, INF = math.nan, math.inf
KEEP = KeepSmallest(by=signals.loss, fraction=0.5)
Case = tuple[Callable[[], object], str]


class Counted(torch.optim.SGD):
    """Counts the steps of all optimizers."""

    steps = 0

    def step(self, closure: Any = None) -> Any:
        Counted.steps += 1
        return super().step(closure)


def ends(record: dict[str, Any]) -> bool:
    return bool(record["epoch"] >= 3)


def call(what: Any = None, model: Any = net, data: Any = None, **settings: Any) -> object:
    settings = {"epochs": None if "steps" in settings else 1, "batch": 8, "device": "cpu", **settings}
    settings.setdefault("optimizer", lambda parameters: Counted(parameters, lr=0.1))
    settings.setdefault("until", ends)
    return fit(Recipe() if what is None else what, model, examples() if data is None else data, **settings)


class Returns(nn.Module):
    """A network whose outputs something was done to."""

    def __init__(self, change: Callable[[Tensor], Any]):
        super().__init__()
        self.inner, self.change = net(), change

    def forward(self, inputs: Tensor) -> Any:
        return self.change(self.inner(inputs))


def returning(change: Callable[[Tensor], Any]) -> Callable[[], nn.Module]:
    return lambda: Returns(change)


def weighing(change: Callable[[Tensor], Any]) -> Callable[[Evidence], Any]:
    return lambda evidence: change(torch.ones(len(evidence)))


def losing(change: Callable[[Tensor], Any]) -> Recipe:
    return Recipe(
        objective=lambda outputs, targets: change(functional.cross_entropy(outputs, targets, reduction="none"))
    )


def with_first_parameter(value: float) -> nn.Module:
    made = net()
    with torch.no_grad():
        next(made.parameters()).view(-1)[3] = value
    return made


def nan_where(rows: Tensor) -> Tensor:
    """NaN for the examples of class 2 alone, which are told from others by their brightness."""
    return torch.where(torch.arange(len(rows)) == len(rows) - 1, NAN, rows.mean(1))[:, None] + rows


def at(place: int, value: float) -> Callable[[Tensor], Tensor]:
    return lambda ones: ones.index_fill(0, torch.tensor([place]), value)


def raises(error: Exception) -> Callable[[Any], Any]:
    def act(_: Any) -> Any:
        raise error

    return act


def normalised() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


def images(count: int = 12) -> Tensor:
    return torch.randn(count, 1, 4, 4, generator=torch.Generator().manual_seed(0))


LABELS = torch.arange(12) % 3
X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
Y = np.arange(12) % 3
other = net()

KINDS: dict[str, Case] = {
    # fit's arguments of another kind
    "a class as model": (lambda: call(model=nn.Linear), "lambda: MyModel"),
    "None as model": (lambda: call(model=None), "model"),
    "a number as model": (lambda: call(model=3), "model"),
    "a state as model": (lambda: call(model=net().state_dict()), "model"),
    "a tensor as model": (lambda: call(model=torch.zeros(3)), "model"),
    "a model on meta": (lambda: call(model=lambda: nn.Linear(16, 3, device="meta")), "device meta"),
    "one example for batch normalisation": (lambda: call(model=normalised, batch=1), "batch=2"),
    "a model function with arguments": (lambda: call(model=lambda width: net()), "lambda: MyModel"),  # noqa: ARG005
    "a model function that makes nothing": (lambda: call(model=lambda: None), "torch.nn.Module"),
    "a name as recipe": (lambda: call("prl"), "did you mean|choose one"),
    "an empty name as recipe": (lambda: call(""), "method"),
    "a number as recipe": (lambda: call(3), "Recipe"),
    "a list as recipe": (lambda: call([KEEP]), "Recipe"),
    "a rule's class": (lambda: call(KeepSmallest), "make a rule of it"),
    "the model first": (lambda: call(net(), Recipe()), "no model"),
    "None as data": (lambda: fit(Recipe(), net, None), "pass"),
    "a number as data": (lambda: fit(Recipe(), net, 7), "pass"),
    "a name as data": (lambda: fit(Recipe(), net, "digits"), "load"),
    "a dictionary as data": (lambda: fit(Recipe(), net, {"x": X, "y": Y}), "say which is the target"),
    "a generator as data": (lambda: fit(Recipe(), net, iter([(X, Y)])), "pass"),
    "a set as data": (lambda: fit(Recipe(), net, {1, 2}), "pass"),
    "an empty list as data": (lambda: fit(Recipe(), net, []), "pass"),
    "three arrays as data": (lambda: fit(Recipe(), net, (X, Y, Y)), "pairs|pass"),
    "a tensor as data": (lambda: fit(Recipe(), net, torch.zeros(12, 4)), "pass|pairs"),
    "an array as data": (lambda: fit(Recipe(), net, X), "pass|pairs"),
    "a tuple as test": (lambda: call(test=(1,)), "test"),
    "a number as test": (lambda: call(test=3), "test"),
    "a name as test": (lambda: call(test="digits"), "load"),
    "a share as test": (lambda: call(test=0.2), "test"),
    "True as clean": (lambda: call(clean=True), "clean"),
    "a dictionary as validation": (lambda: call(validation={}), "validation"),
    "a name as teacher": (lambda: call(teacher="resnet"), "teacher"),
    "a function as teacher": (lambda: call(teacher=net), "teacher"),
    "a number as until": (lambda: call(until=3), "until"),
    "text as until": (lambda: call(until="loss < 1"), "until"),
    "a list as watch": (lambda: call(watch=[]), "watch"),
    "a number as out": (lambda: call(out=3), "out"),
    "a list as out": (lambda: call(out=["a"]), "out"),
    "an empty out": (lambda: call(out=""), "out"),
    "a dictionary as settings": (lambda: call(settings={"epochs": 3}), "TrainSettings"),
    "a number as features": (lambda: call(features=3), "Features"),
    "a number as target": (lambda: call(target=3), "target"),
    "a function as fraction": (lambda: KeepSmallest(by=signals.loss, fraction=lambda epoch, epochs: 0.5), "schedule"),  # type: ignore[arg-type]  # noqa: ARG005
    "text as fraction": (lambda: KeepSmallest(by=signals.loss, fraction="half"), "fraction"),  # type: ignore[arg-type]
    "a number as rule of every": (lambda: every(3, 7), "rule"),  # type: ignore[arg-type]
    "a period of 0": (lambda: every(0, KEEP), "period"),
    "a period of nan": (lambda: every(NAN, KEEP), "period"),
    "a number to open": (lambda: open_run(3), "folder"),  # type: ignore[arg-type]
    "None to open": (lambda: open_run(None), "folder"),  # type: ignore[arg-type]
    "a number as method": (lambda: method(3), "no method"),  # type: ignore[arg-type]
    "None to load": (lambda: load(None), "name or a path"),  # type: ignore[arg-type]
    "a list to load": (lambda: load([]), "name or a path"),  # type: ignore[arg-type]
    "an array to load": (lambda: load(X), "goes to fit"),  # type: ignore[arg-type]
    "an audit of one real target": (lambda: audit(X, np.full(12, 1.5)), "same target everywhere"),
    "text as folds": (lambda: audit(X, Y, folds="3"), "whole number"),  # type: ignore[arg-type]
    "texts as probabilities": (lambda: audit(X, Y, probabilities=[["a"] * 3] * 12), "no numbers"),
    "nan features": (lambda: audit(X, Y, features=X * NAN), "NaN"),
    "features of no width": (lambda: audit(X, Y, features=np.zeros((12, 0))), "shape"),
    "a class as estimator": (lambda: audit(X, Y, estimator=dict), "class"),
    "a number as estimator": (lambda: audit(X, Y, estimator=3), "scikit-learn"),
    "a number as out of an audit": (lambda: audit(X, Y, out=3), "folder"),  # type: ignore[arg-type]
    "text as positions": (lambda: examples().subset("a"), "positions"),
    "None as positions": (lambda: examples().subset(None), "positions"),  # type: ignore[arg-type]
    "positions beyond the set": (lambda: examples().subset([10**6]), "44"),
    "decimals as positions": (lambda: examples().subset([0.5]), "whole numbers"),  # type: ignore[list-item]
    "a mask of another length": (lambda: examples().subset(torch.ones(3, dtype=torch.bool)), "mask"),
    "a scale of three channels for one": (
        lambda: Examples(images().to(torch.uint8), LABELS, normalise=(torch.zeros(3), torch.ones(3))),
        "channel",
    ),
    "text as epochs": (lambda: call(epochs="3"), "whole number"),
    "a decimal as epochs": (lambda: call(epochs=1.5), "whole number"),
    "True as epochs": (lambda: call(epochs=True), "whole number"),
    "nan epochs": (lambda: call(epochs=NAN), "whole number"),
    "endless epochs": (lambda: call(epochs=INF), "whole number"),
    "a list as epochs": (lambda: call(epochs=[1]), "whole number"),
    "nan steps": (lambda: call(steps=NAN), "whole number"),
    "endless steps": (lambda: call(steps=INF), "whole number"),
    "text as batch": (lambda: call(batch="8"), "whole number"),
    "a negative batch": (lambda: call(batch=-8), "give 1 to"),
    "text as seed": (lambda: call(seed="a"), "whole number"),
    "None as seed": (lambda: call(seed=None), "seed"),
    "None as workers": (lambda: call(workers=None), "workers"),
    "None as weight decay": (lambda: call(optimizer="sgd", weight_decay=None), "weight_decay"),
    "None as optimizer": (lambda: call(optimizer=None), "optimizer"),
    "a number as optimizer": (lambda: call(optimizer=3), "optimizer"),
    "an optimizer instance": (lambda: call(optimizer=torch.optim.SGD(net().parameters(), lr=0.1)), "made already"),
    "an optimizer's class without a rate": (lambda: call(optimizer=lambda: None), "optimizer"),
    "an optimizer that raises": (lambda: call(optimizer=lambda p: torch.optim.SGD(p, lr=-1)), "optimizer"),
    "an unknown optimizer": (lambda: call(optimizer="adamm"), "did you mean"),
    "a number as precision": (lambda: call(precision=5), "precision"),
    "a type as precision": (lambda: call(precision=torch.int8), "precision"),
    "half precision": (lambda: call(precision=torch.float16), "precision"),
    "double precision": (lambda: call(precision=torch.float64), "precision"),
    "an unknown precision": (lambda: call(precision="float8"), "precision"),
    "text as deterministic": (lambda: call(deterministic="yes"), "True or False"),
    "text as captured": (lambda: call(captured="yes"), "True or False"),
    "a number as keep": (lambda: call(keep=3), "keep"),
    "a list as keep": (lambda: call(keep=["last"]), "keep"),
    "a number as device": (lambda: call(device=3.5), "device"),
    "text as commit_every": (lambda: call(commit_every="often"), "commit_every"),
    "nan as commit_every": (lambda: call(commit_every=NAN), "commit_every"),
    "negative commit_every": (lambda: call(commit_every=-1.0), "commit_every"),
    "a number as schedule": (lambda: call(schedule=3), "schedule"),
    "an unknown schedule": (lambda: call(schedule="cosin"), "did you mean"),
    "a schedule of no arguments": (lambda: call(schedule=lambda: 1.0), "schedule"),
    "a schedule of text": (lambda: call(schedule=lambda epoch, epochs: "1"), "schedule"),  # noqa: ARG005
    "a schedule of None": (lambda: call(schedule=lambda epoch, epochs: None), "schedule"),  # noqa: ARG005
    "a number as augment": (lambda: call(augment=3), "augment"),
    "an unknown augmentation": (lambda: call(augment="wek"), "did you mean"),
    "a list of names as augment": (lambda: call(augment=["weak"]), "augment"),
    "text as average": (lambda: call(average="0.9"), "average"),
    "a number as start": (lambda: call(start=3), "start"),
    "an unknown start": (lambda: call(start="nowhere.pt"), "start"),
    "a noise rate of text": (lambda: call("prl-l", noise_rate="many"), "noise"),
    "a noise rate above 1": (lambda: call("prl-l", noise_rate=1.5), "noise"),
    "a negative noise rate": (lambda: call("prl-l", noise_rate=-0.1), "noise"),
    "a noise rate of nan": (lambda: call("prl-l", noise_rate=NAN), "noise"),
    "a list as noise rate": (lambda: call("prl-l", noise_rate=[0.1]), "noise"),
    "an unknown setting": (lambda: call(epoch=3), "did you mean"),
    # the recipe
    "text as each_batch": (lambda: call(Recipe(each_batch="prl")), "each_batch"),  # type: ignore[arg-type]
    "a class as each_batch": (lambda: call(Recipe(each_batch=KeepSmallest)), "each_batch|make"),  # type: ignore[arg-type]
    "a number as objective": (lambda: call(Recipe(objective=3)), "objective"),  # type: ignore[arg-type]
    "a class as objective": (lambda: call(Recipe(objective=nn.CrossEntropyLoss)), "objective"),
    "a module that reduces": (lambda: call(Recipe(objective=nn.CrossEntropyLoss())), "none"),
    "text as clip": (lambda: call(Recipe(clip="1")), "clip"),  # type: ignore[arg-type]
    "nan as clip": (lambda: call(Recipe(clip=NAN)), "clip"),
    "text as average of a recipe": (lambda: call(Recipe(average="0.9")), "average"),  # type: ignore[arg-type]
    "nan as average": (lambda: call(Recipe(average=NAN)), "average"),
    "text as peers": (lambda: call(Recipe(peers="2")), "peers"),  # type: ignore[arg-type]
    "a million peers": (lambda: call(Recipe(peers=10**6)), "too many networks"),
    "a million workers": (lambda: call(workers=10**6), "too many for this machine"),
    "half a peer": (lambda: call(Recipe(peers=1.5)), "peers"),  # type: ignore[arg-type]
    "a number as views": (lambda: call(Recipe(views=3)), "views"),  # type: ignore[arg-type]
    "texts as views": (lambda: call(Recipe(views=("weak",))), "views"),  # type: ignore[arg-type]
    "a number as mix": (lambda: call(Recipe(mix=0.3)), "mix"),  # type: ignore[arg-type]
    "text as draw": (lambda: call(Recipe(draw="balanced")), "draw"),  # type: ignore[arg-type]
    "text as relabel": (lambda: call(Recipe(relabel="average")), "relabel"),  # type: ignore[arg-type]
    # Examples
    "object inputs": (lambda: Examples(np.array([{}, []], dtype=object), torch.tensor([0, 1])), "inputs"),  # type: ignore[arg-type]
    "text inputs": (lambda: Examples(["a", "b"], torch.tensor([0, 1])), "inputs"),  # type: ignore[arg-type]
    "None as inputs": (lambda: Examples(None, torch.tensor([0, 1])), "inputs"),  # type: ignore[arg-type]
    "a number as inputs": (lambda: Examples(3, torch.tensor([0, 1])), "inputs"),  # type: ignore[arg-type]
    "inputs of no dimension": (lambda: Examples(torch.tensor(3.0), torch.tensor([0])), "inputs"),
    "None as targets": (lambda: Examples(images(2), None), "targets"),  # type: ignore[arg-type]
    "one target": (lambda: Examples(images(1), torch.tensor(1)), "target"),
    "object targets": (lambda: Examples(images(2), np.array([{}, 1], dtype=object)), "targets"),  # type: ignore[arg-type]
    "ragged targets": (lambda: Examples(images(2), [[1], [1, 2]]), "targets"),  # type: ignore[arg-type]
    "sparse inputs": (lambda: Examples(torch.eye(4).to_sparse(), torch.arange(4)), "to_dense"),
    "sparse targets": (lambda: Examples(torch.eye(4), torch.arange(4).to_sparse()), "to_dense"),
    "meta inputs": (lambda: Examples(torch.zeros(4, 2, device="meta"), torch.arange(4)), "meta"),
    "meta targets": (lambda: Examples(torch.eye(4), torch.zeros(4, device="meta")), "meta"),
    "complex inputs": (lambda: Examples(torch.eye(4).to(torch.complex64), torch.arange(4)), "complex"),
    "complex targets": (lambda: Examples(torch.eye(4), torch.zeros(4, dtype=torch.complex64)), "complex"),
    "quantized inputs": (
        lambda: Examples(torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.qint8), torch.arange(4)),
        "quantized|float",
    ),
    "text as ids": (lambda: Examples(images(2), torch.tensor([0, 1]), ids=["a", "b"]), "ids"),  # type: ignore[arg-type]
    "ids that are no whole numbers": (
        lambda: Examples(images(2), torch.tensor([0, 1]), ids=torch.tensor([0.5, 1.5])),
        "whole numbers",
    ),
    "ids of two dimensions": (lambda: Examples(images(2), torch.tensor([0, 1]), ids=torch.zeros(2, 1).long()), "ids"),
    "ids beyond 2^63": (
        lambda: Examples(images(2), torch.tensor([0, 1]), ids=np.array([0, 2**63 + 5], np.uint64)),  # type: ignore[arg-type]
        r"above 2\^63",
    ),
    "a number as name of a column": (
        lambda: Examples(images(2), torch.tensor([0, 1]), columns={3: torch.zeros(2)}),  # type: ignore[dict-item]
        "a text as the name",
    ),
    "a column of text": (lambda: examples().with_columns(age=["a"] * 44), "age"),  # type: ignore[arg-type]
    "a list as columns": (lambda: Examples(images(2), torch.tensor([0, 1]), columns=[1]), "columns"),  # type: ignore[arg-type]
    "text as classes": (lambda: Examples(images(2), torch.tensor([0, 1]), classes="2"), "classes"),  # type: ignore[arg-type]
    "a decimal as classes": (lambda: Examples(images(2), torch.tensor([0, 1]), classes=2.5), "classes"),  # type: ignore[arg-type]
    "no classes": (lambda: Examples(images(2), torch.tensor([0, 0]), classes=0), "classes"),
    "too few class names": (lambda: Examples(images(3), torch.arange(3), class_names=["a"]), "class_names"),
    "class names twice": (lambda: Examples(images(2), torch.arange(2), class_names=["a", "a"]), "class_names"),
    "a text as class names": (lambda: Examples(images(2), torch.arange(2), class_names="ab"), "class_names"),
    "class names of numbers": (lambda: Examples(images(2), torch.arange(2), class_names=[0, 1]), "class_names"),  # type: ignore[list-item]
    "a number as name": (lambda: Examples(images(2), torch.arange(2), name=3), "name"),  # type: ignore[arg-type]
    "one number to normalise": (lambda: Examples(images(2), torch.arange(2), normalise=0.5), "normalise"),  # type: ignore[arg-type]
    "normalise by zero": (
        lambda: Examples(images(2), torch.arange(2), normalise=(torch.zeros(1), torch.zeros(1))),
        "normalise",
    ),
    "normalise by nan": (
        lambda: Examples(images(2), torch.arange(2), normalise=(torch.zeros(1), torch.tensor([NAN]))),
        "normalise",
    ),
    "a billion classes": (lambda: call(model="mlp:8", data=Examples(images(), LABELS * 500_000_000)), "GB"),
    # data as arrays
    "objects as inputs": (lambda: call(data=(np.array([[{}]] * 12, dtype=object), Y)), "inputs"),
    "texts as inputs": (lambda: call(data=([["a"]] * 12, Y)), "encode them"),
    "ragged inputs": (lambda: call(data=([[1.0], [1.0, 2.0]], [0, 1])), "inputs of one shape"),
    "complex inputs of arrays": (lambda: call(data=(X.astype(complex), Y)), "inputs"),
    "complex targets of arrays": (lambda: call(data=(X, Y.astype(complex))), "targets"),
    "dates as targets": (lambda: call(data=(X, Y.astype("datetime64[D]"))), "targets"),
    "None among targets": (lambda: call(data=(X, [None, *Y[1:].tolist()])), "missing"),
    "sparse inputs of a pair": (lambda: call(data=(torch.eye(12).to_sparse(), Y)), "to_dense"),
    "meta inputs of a pair": (lambda: call(data=(torch.zeros(12, 4, device="meta"), Y)), "meta"),
    "one class only": (lambda: call(data=(X, np.zeros(12, dtype=int))), "one class"),
    "one class only, as Examples": (lambda: call(data=Examples(images(), torch.zeros(12).long())), "one class"),
    "targets of 1e200": (lambda: call(model="mlp:4", data=(X, Y * 1e200)), "targets"),
    "constant real targets": (lambda: call(model="mlp:4", data=(X, np.full(12, 0.5))), "same|constant"),
    "constant targets to test on": (
        lambda: call(model="mlp:4", data=(X, X[:, 0]), test=(X, np.full(12, 0.5, np.float32))),
        "same target everywhere",
    ),
    "a path of 5,000 letters": (lambda: load("a" * 5000 + "/b"), "no file or folder"),
    "inputs of 1e200": (lambda: call(model="mlp:4", data=(X * 1e200, Y)), "inputs"),
    "a scipy matrix": (lambda: call(data=(_scipy(), Y)), "encode them as numbers"),
}


def _scipy() -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


WRONG_VALUES: dict[str, Case] = {
    "negative weights of a batch": (lambda: call(Recipe(each_batch=weighing(lambda w: -w))), "negative"),
    "one negative weight of a batch": (lambda: call(Recipe(each_batch=weighing(at(2, -1.0)))), "negative"),
    "NaN weights of a batch": (lambda: call(Recipe(each_batch=weighing(lambda w: w * NAN))), "weights"),
    "infinite weights of a batch": (lambda: call(Recipe(each_batch=weighing(at(1, INF)))), "weights"),
    "complex weights of a batch": (lambda: call(Recipe(each_batch=weighing(lambda w: w * 1j))), "weights"),
    "no weights of a batch": (lambda: call(Recipe(each_batch=weighing(lambda w: None))), "weights"),  # noqa: ARG005
    "complex weights of an epoch": (lambda: call(Recipe(each_epoch=weighing(lambda w: w * 1j))), "weights"),
    "weights of a NumPy array": (lambda: call(Recipe(each_batch=weighing(lambda w: w.numpy()))), "weights"),
    "NaN parameters": (lambda: call(model=with_first_parameter(NAN)), "parameters"),
    "infinite parameters": (lambda: call(model=with_first_parameter(INF)), "parameters"),
    "NaN outputs": (lambda: call(model=returning(lambda o: o * NAN)), "outputs"),
    "NaN outputs for one example": (lambda: call(model=returning(nan_where)), "outputs.*example"),
    "infinite outputs": (lambda: call(model=returning(lambda o: o * INF)), "outputs"),
    "complex outputs": (lambda: call(model=returning(lambda o: o * 1j)), "complex"),
    "outputs of whole numbers": (lambda: call(model=returning(lambda o: o.long())), "outputs"),
    "detached outputs": (lambda: call(model=returning(lambda o: o.detach())), "outputs"),
    "no outputs": (lambda: call(model=returning(lambda o: None)), "returns a NoneType"),  # noqa: ARG005
    "outputs as a float": (lambda: call(model=returning(lambda o: 1.0)), "returns a float"),  # noqa: ARG005
    "outputs as a tuple": (lambda: call(model=returning(lambda o: (o, o))), "returns a tuple"),
    "NaN losses": (lambda: call(losing(lambda losses: losses * NAN)), "loss"),
    "NaN loss of one example": (lambda: call(losing(lambda losses: at(1, NAN)(losses))), "loss.*example"),
    "infinite losses": (lambda: call(losing(lambda losses: losses * INF)), "loss"),
    "complex losses": (lambda: call(losing(lambda losses: losses * 1j)), "loss"),
    "losses of whole numbers": (lambda: call(losing(lambda losses: losses.long())), "loss"),
    "detached losses": (lambda: call(losing(lambda losses: losses.detach())), "loss"),
    "no losses": (lambda: call(losing(lambda losses: None)), "loss"),  # noqa: ARG005
    "losses as a float": (lambda: call(losing(lambda losses: 1.0)), "loss"),  # noqa: ARG005
    "a learning rate of nan": (lambda: call(optimizer="sgd", learning_rate=NAN), "learning_rate"),
    "an infinite learning rate": (lambda: call(optimizer="sgd", learning_rate=INF), "learning_rate"),
    "a negative learning rate": (lambda: call(optimizer="sgd", learning_rate=-0.1), "learning"),
    "a momentum of 2": (lambda: call(optimizer="sgd", momentum=2.0), "momentum"),
    "a momentum of 1": (lambda: call(optimizer="sgd", momentum=1.0), "momentum"),
    "a negative momentum": (lambda: call(optimizer="sgd", momentum=-0.5), "momentum"),
    "a momentum of nan": (lambda: call(optimizer="sgd", momentum=NAN), "momentum"),
    "a weight decay of nan": (lambda: call(optimizer="sgd", weight_decay=NAN), "weight_decay"),
    "a negative weight decay": (lambda: call(optimizer="sgd", weight_decay=-1.0), "weight_decay"),
    "a schedule at nan": (lambda: call(schedule="step:nan"), "schedule"),
    "a schedule at infinity": (lambda: call(schedule="step:inf"), "schedule"),
    "a schedule times nan": (lambda: call(schedule="step:1:nan"), "schedule"),
    "a schedule times a negative": (lambda: call(schedule="step:1:-2"), "schedule"),
    "a schedule below 0": (lambda: call(schedule="step:-5"), "schedule"),
    "a straight line from nan": (lambda: call(schedule="linear:nan"), "schedule"),
    "a negative learning rate by schedule": (lambda: call(schedule=lambda epoch, epochs: -1.0), "schedule"),  # noqa: ARG005
    "a NaN learning rate by schedule": (lambda: call(schedule=lambda epoch, epochs: NAN), "schedule"),  # noqa: ARG005
    "an optimizer over other parameters": (
        lambda: call(optimizer=lambda p: Counted(other.parameters(), lr=0.1)),  # noqa: ARG005
        "other parameters",
    ),
    "an optimizer at nan": (lambda: call(optimizer=lambda p: _with_rate(p, NAN)), "learning rate"),
    "an average of nan": (lambda: call(average=NAN), "average"),
    "weigh by NaN outputs": (lambda: weigh(KEEP, returning(lambda o: o * NAN)(), images(), LABELS), "outputs"),
    "weigh by complex outputs": (lambda: weigh(KEEP, returning(lambda o: o * 1j)(), images(), LABELS), "complex"),
    "weigh by NaN parameters": (lambda: weigh(KEEP, with_first_parameter(NAN), images(), LABELS), "outputs|parameters"),
    "weigh NaN inputs": (lambda: weigh(KEEP, net(), images() * NAN, LABELS), "inputs|outputs"),
    "weigh labels beyond the outputs": (lambda: weigh(KEEP, net(), images(), LABELS + 2), "labels|targets"),
    "weigh labels below 0": (lambda: weigh(KEEP, net(), images(), LABELS - 1), "labels|targets"),
    "weigh fewer targets": (lambda: weigh(KEEP, net(), images(), LABELS[:5]), "targets"),
    "weigh text targets": (lambda: weigh(KEEP, net(), images(), ["a"] * 12), "classes"),  # type: ignore[arg-type]
    "weigh a list": (lambda: weigh(KEEP, net(), [1, 2], LABELS), "inputs"),  # type: ignore[arg-type]
    "weigh by no rule": (lambda: weigh(3, net(), images(), LABELS), "rule"),  # type: ignore[arg-type]
    "weigh by a number as peer": (lambda: weigh(KEEP, net(), images(), LABELS, peer=3), "peer"),  # type: ignore[arg-type]
    "weigh by a number as objective": (lambda: weigh(KEEP, net(), images(), LABELS, objective=3), "objective"),  # type: ignore[arg-type]
    "weigh in an epoch of text": (lambda: weigh(KEEP, net(), images(), LABELS, epoch="a"), "epoch"),  # type: ignore[arg-type]
    "weigh by a number as generator": (lambda: weigh(KEEP, net(), images(), LABELS, generator=3), "generator"),  # type: ignore[arg-type]
    "weights of an infinite sum": (lambda: call(Recipe(each_batch=weighing(lambda w: w * 3e38))), "infinite sum"),
    "weigh by no model": (lambda: weigh(KEEP, None, images(), LABELS), "model"),  # type: ignore[arg-type]
    "weigh by NaN losses": (
        lambda: weigh(KEEP, net(), images(4), torch.arange(4) % 3, objective=lambda outputs, _: outputs.sum(1) * NAN),
        "objective's losses are NaN",
    ),
    "weigh by a peer's NaN outputs": (
        lambda: weigh(
            from_peer(KEEP), net(), images(4), torch.arange(4) % 3, peer=returning(lambda outputs: outputs * NAN)()
        ),
        "outputs are NaN",
    ),
    "weigh in an epoch below 0": (
        lambda: weigh(KEEP, net(), images(4), torch.arange(4) % 3, epoch=-1),
        "a number from 0",
    ),
    "weigh with negative weights": (lambda: weigh(weighing(lambda w: -w), net(), images(), LABELS), "negative"),
    "weigh with NaN weights": (lambda: weigh(weighing(lambda w: w * NAN), net(), images(), LABELS), "weights"),
    "acquire by NaN outputs": (
        lambda: acquire(KeepSmallest(by=signals.confidence, count=2), returning(lambda o: o * NAN)(), examples()),
        "outputs",
    ),
    "acquire by NaN outputs of one": (
        lambda: acquire(KeepSmallest(by=signals.confidence, count=2), returning(nan_where)(), examples()),
        "outputs.*example",
    ),
    "acquire by complex outputs": (
        lambda: acquire(KeepSmallest(by=signals.confidence, count=2), returning(lambda o: o * 1j)(), examples()),
        "complex",
    ),
}


def _with_rate(parameters: Any, rate: float) -> torch.optim.Optimizer:
    made = Counted(parameters, lr=0.1)
    made.param_groups[0]["lr"] = rate
    return made


class Broken:
    """A map-style dataset with one broken item."""

    def __init__(self, item: Callable[[], Any]):
        self.item = item

    def __len__(self) -> int:
        return 12

    def __getitem__(self, place: int) -> Any:
        return (self.item() if place == 7 else images()[place]), int(LABELS[place])


def stream(item: Callable[[], Any], **more: Any) -> object:
    return call(data=Examples(Broken(item), LABELS, ids=torch.arange(12) + 100, name="stream"), batch=4, **more)  # type: ignore[arg-type]


ROW = torch.zeros(4)


class WholeItems:
    """A map-style dataset of whole items, of which one is broken."""

    def __init__(self, item: Any, mappings: bool = False):
        self.item, self.mappings = item, mappings

    def __len__(self) -> int:
        return 12

    def __getitem__(self, place: int) -> Any:
        if place == 7:
            return self.item() if callable(self.item) else self.item
        return {"x": ROW, "label": place % 2} if self.mappings else (ROW, place % 2)


def whole_items(item: Any, mappings: bool = False) -> object:
    return call(data=WholeItems(item, mappings), batch=4)


def stored(item: Any) -> object:
    items = WholeItems(item)
    with tempfile.TemporaryDirectory() as folder:
        return from_stream((items[place] for place in range(12)), folder)


def _raise() -> Any:
    raise KeyError("no such file")


STREAMS: dict[str, Case] = {
    "an item of another shape": (lambda: stream(lambda: torch.zeros(1, 4, 5)), "107"),
    "an item of None": (lambda: stream(lambda: None), "107"),
    "an item of NaN": (lambda: stream(lambda: torch.full((1, 4, 4), NAN)), "107"),
    "an item of text": (lambda: stream(lambda: "image"), "107"),
    "an item of complex numbers": (lambda: stream(lambda: torch.zeros(1, 4, 4) * 1j), "107, are complex"),
    "a sparse item": (lambda: stream(lambda: torch.zeros(4, 4).to_sparse()), "107, are a sparse"),
    "an item that is no pair": (lambda: whole_items(None), "position 7 of the data is a NoneType"),
    "a mapping without its label": (lambda: whole_items({"x": ROW}, mappings=True), "position 7 of the data lacks"),
    "a mapping that is none": (lambda: whole_items(None, mappings=True), "position 7 of the data is a NoneType"),
    "a text among numbers as labels": (lambda: whole_items((ROW, "cat")), "mix values"),
    "a list of texts and numbers as labels": (lambda: call(data=(images(), [0, 1, "cat"] * 4)), "mix values"),
    "a stored item of another shape": (lambda: stored((torch.zeros(5), 1)), "position 7 of the stream is float32"),
    "a stored item of NaN": (lambda: stored((ROW * NAN, 1)), "position 7 of the stream is NaN"),
    "a stored item that is no pair": (lambda: stored(None), "position 7 of the stream is a NoneType"),
    "a stored item without a target": (lambda: stored((ROW, None)), "position 7 of the stream has no target"),
    "a stored item of text": (lambda: stored(("text", 1)), "position 7 of the stream, is a str"),
    "a stored text among numbers as labels": (lambda: stored((ROW, "cat")), "object"),
    "an item of another shape, by a worker": (lambda: stream(lambda: torch.zeros(1, 4, 5), workers=1), "107"),
}

OWN_CODE: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "an item that raises": (lambda: stream(_raise), KeyError, "position 7, the example 107"),
    "a whole item that raises": (lambda: whole_items(_raise), KeyError, "item at position 7 of the data"),
    "a mapping that raises": (lambda: whole_items(_raise, True), KeyError, "item at position 7 of the data"),
    "a stored item that raises": (lambda: stored(_raise), KeyError, "item at position 7 of the stream"),
    "a model that raises": (lambda: call(model=returning(raises(KeyError("mine")))), KeyError, "model"),
    "an objective that raises": (lambda: call(losing(raises(KeyError("mine")))), KeyError, "objective"),
    "a rule that raises": (lambda: call(Recipe(each_batch=raises(KeyError("mine")))), KeyError, "each_batch"),
    "an epoch's rule that raises": (lambda: call(Recipe(each_epoch=raises(KeyError("mine")))), KeyError, "each_epoch"),
    "a view that raises": (lambda: call(Recipe(views=(partial(_raise_two),))), KeyError, "view"),
    "a schedule that raises": (lambda: call(schedule=_no_rate), ZeroDivisionError, "schedule"),
    "until that raises": (lambda: call(until=raises(KeyError("mine"))), KeyError, "until"),
    "watch that raises": (lambda: call(watch=raises(KeyError("mine"))), KeyError, "watch"),
}


def _no_rate(epoch: float, epochs: float) -> float:
    return epochs / (epoch - epoch)


def _raise_two(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    raise KeyError("mine")
