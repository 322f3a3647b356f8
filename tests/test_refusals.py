"""Law 9: wrong input fails at the start with one sentence that says how to fix it, and loses nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import Streamed, examples, net, real_examples, trainer
from torch import Tensor, nn
from torch.nn import functional

from thresher import Examples, Recipe, ThresherError, fit, signals, weigh
from thresher.core.evidence import Evidence
from thresher.core.schedules import ramp
from thresher.methods import METHODS
from thresher.objectives import CrossEntropy, Objective, SquaredError
from thresher.rules import (
    Centrality,
    ClipNorm,
    FacilityLocation,
    KeepSmallest,
    MetaGradient,
    Rule,
    every,
    from_average,
    from_peer,
    per_class,
    product,
    warmup,
)
from thresher.slots.draw import class_balanced
from thresher.slots.mix import ClusterMixup, Mixup, SameClassMixup
from thresher.slots.relabel import AverageLabels
from thresher.slots.views import Flip

KEEP = KeepSmallest(by=signals.loss, fraction=0.5)
NORM = KeepSmallest(by=signals.gradient_norm, fraction=0.5)


class Watched(torch.optim.SGD):
    """Counts the steps of all optimizers."""

    steps = 0

    def step(self, closure: Any = None) -> Any:
        Watched.steps += 1
        return super().step(closure)


class Reads(Rule):
    """A rule that needs something."""

    def __init__(self, **declared: frozenset[str]):
        for name, value in declared.items():
            setattr(self, name, value)

    def __call__(self, evidence: Evidence) -> Tensor:
        return torch.ones(len(evidence))


@dataclass(frozen=True)
class Tagged(Rule):
    """Weight 1 for everyone, declaring a signal."""

    signal: signals.Signal

    def __call__(self, evidence: Evidence) -> Tensor:
        return torch.ones(len(evidence))


class Deep(Objective):
    """Looks at a layer."""

    def __init__(self, layer: str):
        super().__init__()
        self.layers = (layer,)

    def forward(self, evidence: Evidence) -> Tensor:
        own: Tensor = functional.cross_entropy(evidence.outputs, evidence.targets, reduction="none")
        return own + evidence.layer(self.layers[0]).flatten(1).square().mean(1)


class Scaled(Objective):
    """Looks at a column."""

    columns = frozenset({"is_corrupt"})

    def forward(self, evidence: Evidence) -> Tensor:
        own: Tensor = functional.cross_entropy(evidence.outputs, evidence.targets, reduction="none")
        return own * (2.0 - evidence.columns["is_corrupt"].float())


def not_for_ever(record: dict[str, Any]) -> bool:
    assert record["epoch"] < 30, "this never ends"
    return False


def call(recipe: Recipe | None = None, model: Any = net, train: Any = None, **settings: Any) -> None:
    settings = {"epochs": None if "steps" in settings else 1, "batch": 8, "device": "cpu", **settings}
    settings.setdefault("optimizer", lambda p: Watched(p, lr=0.1))
    settings.setdefault("until", not_for_ever)
    fit(recipe or Recipe(), model, train or examples(), **settings)


def bad_inputs(value: float) -> Examples:
    inputs = torch.zeros(8, 1, 4, 4)
    inputs[3, 0, 1, 1] = value
    return Examples(inputs, torch.zeros(8, dtype=torch.long), classes=3)


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape)


def ids(*values: int) -> Tensor:
    return torch.tensor(values)


def with_batch_norm() -> nn.Module:
    return net(batch_norm=True)


shared = net(seed=0)

# What is wrong: (what is done, what the sentence must say).
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    # the call
    "two lengths": (lambda: call(epochs=1, steps=1), "both say how long to train"),
    "no epochs": (lambda: call(epochs=0), "epochs must be at least 1"),
    "no steps": (lambda: call(steps=0), "steps must be at least 1"),
    "batch too large": (lambda: call(batch=45), "give 1 to 44"),
    "batch of nobody": (lambda: call(batch=0), "give 1 to 44"),
    "unknown keep": (lambda: call(keep="best"), 'give "last" or "best_on_validation"'),
    "nothing to validate on": (lambda: call(keep="best_on_validation"), "pass validation="),
    "no such device": (lambda: call(device="cuda:77"), "There is no device 'cuda:77' here"),
    "no device at all": (lambda: call(device="gpu"), "There is no device 'gpu' here"),
    "no optimizer": (lambda: call(optimizer=lambda p: None), "returns a torch.optim.Optimizer"),  # noqa: ARG005
    "an optimizer that cannot skip": (lambda: call(optimizer=torch.optim.LBFGS), "choose Adam"),
    "another one": (lambda: call(optimizer=partial(torch.optim.Rprop, lr=0.1)), "choose Adam"),
    "dampening": (
        lambda: call(optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5)),
        "leave dampening out",
    ),
    # the model
    "one module for two": (lambda: call(Recipe(peers=2), net()), "pass lambda: MyModel()"),
    "the same module twice": (lambda: call(Recipe(peers=2), lambda: shared), "new model"),
    "nothing to train": (lambda: call(model=net().requires_grad_(False)), "requires_grad_"),
    "too few outputs": (lambda: call(model=lambda: net(2)), r"make it give \[2, 3\]"),
    "other inputs": (lambda: call(model=nn.Linear(5, 3)), "cannot take inputs of shape"),
    "norms under batch norm": (lambda: call(Recipe(each_batch=NORM), with_batch_norm), "batch_to_group_norm"),
    "features without a last layer": (
        lambda: call(
            Recipe(each_batch=product(KEEP, Tagged(signals.features))), lambda: nn.Sequential(net(), nn.Tanh())
        ),
        "ends in an nn.Linear",
    ),
    # the sets
    "NaN inputs": (lambda: call(train=bad_inputs(float("nan"))), "1 examples with NaN or infinite inputs: remove"),
    "infinite inputs": (lambda: call(train=bad_inputs(float("inf"))), "remove or fill them"),
    "NaN in a stream": (lambda: call(train=nan_stream()), "clean it before training"),
    "NaN targets": (lambda: Examples(zeros(2, 1), torch.tensor([0.0, float("nan")])), "remove or correct"),
    "labels too large": (lambda: Examples(zeros(2, 1), ids(0, 3), classes=3), r"renumber the labels to 0..2"),
    "labels below 0": (lambda: Examples(zeros(2, 1), ids(0, -1), classes=3), "renumber the labels"),
    "nobody": (lambda: Examples(zeros(0, 1), ids()), "at least one example"),
    "too few targets": (lambda: Examples(zeros(3, 1), ids(0, 1)), "one target and one id for each input"),
    "ids twice": (lambda: Examples(zeros(2, 1), ids(0, 1), ids=ids(5, 5)), "an id of its own"),
    "no probabilities": (lambda: Examples(zeros(2, 1), torch.ones(2, 3), classes=3), "non-negative with sum 1"),
    "soft labels too wide": (lambda: Examples(zeros(1, 1), torch.ones(1, 2) / 2, classes=3), "make them equal"),
    "a short column": (lambda: examples().with_columns(age=zeros(3)), "give one"),
    "another test set": (lambda: call(test=real_examples()), "test"),
    "a test set of other shape": (
        lambda: call(test=Examples(zeros(9, 1, 5, 5), torch.arange(9) % 3, name="other")),
        "test",
    ),
    "a test set of more classes": (lambda: call(test=examples(20, classes=4)), "test"),
    "another validation set": (lambda: call(keep="best_on_validation", validation=real_examples()), "validation"),
    # the recipe
    "nobody trains": (lambda: Recipe(peers=0), "give at least 1"),
    "an average that never moves": (lambda: Recipe(average=1.0), "below, 1"),
    "clip to nothing": (lambda: Recipe(clip=0.0), "give a number above 0"),
    "unknown divisor": (lambda: Recipe(divide_by="mean"), 'give "weights" or "batch"'),  # type: ignore[arg-type]
    "keep nothing": (lambda: KeepSmallest(by=signals.loss, fraction=0.0), "above 0 and at most 1"),
    "keep too much": (lambda: KeepSmallest(by=signals.loss, fraction=1.5), "above 0 and at most 1"),
    "keep nobody": (lambda: KeepSmallest(by=signals.loss, count=0), "at least 1"),
    "keep how many": (lambda: KeepSmallest(by=signals.loss), "exactly one of them"),
    "a ramp to nothing": (
        lambda: call(Recipe(each_batch=KeepSmallest(by=signals.loss, fraction=ramp(1.0, -0.5, epochs=1))), epochs=3),
        "above 0 and at most 1",
    ),
    "a bound of 0": (lambda: ClipNorm(bound=0.0), "above 0"),
    "no mixing": (lambda: Mixup(alpha=0.0), "alpha above 0"),
    "no mixing within clusters": (lambda: ClusterMixup(alpha=-1.0), "alpha above 0"),
    "no mixing within classes": (lambda: SameClassMixup(b=0.0), "b above 0"),
    "no clusters": (
        lambda: call(Recipe(each_epoch=per_class(Centrality(fraction=0.5)), mix=ClusterMixup())),
        "put one there, such as FacilityLocation",
    ),
    "clusters of two networks": (
        lambda: call(Recipe(peers=2, each_epoch=FacilityLocation(fraction=0.5), mix=ClusterMixup())),
        "leave peers at 1",
    ),
    "clusters and other labels": (
        lambda: call(
            Recipe(each_epoch=FacilityLocation(fraction=0.5), mix=ClusterMixup(), relabel=AverageLabels(), average=0.9)
        ),
        "leave one of them out",
    ),
    "same class of real targets": (
        lambda: call(Recipe(mix=SameClassMixup()), lambda: net(2), real_examples()),
        "choose another mix for regression",
    ),
    "no trust": (lambda: AverageLabels(trust=2.0), "trust between 0 and 1"),
    "no peer": (lambda: call(Recipe(each_batch=from_peer(KEEP))), "peers=2"),
    "no average": (lambda: call(Recipe(relabel=AverageLabels())), "average=0.999"),
    "norms of the average in a step": (
        lambda: call(Recipe(each_batch=warmup(1, from_average(NORM)), average=0.9)),
        "gradient_norm is not taken from the average while training: rank by loss",
    ),
    "agreement of the average in a step": (
        lambda: call(Recipe(each_batch=from_average(MetaGradient()), average=0.9), clean=examples(9)),
        "clean_agreement is not taken from the average",
    ),
    "dropout of the average in a step": (
        lambda: call(
            Recipe(each_batch=from_average(KeepSmallest(by=signals.mutual_information, fraction=0.5)), average=0.9),
            lambda: net(dropout=0.5),
        ),
        "mutual_information is not taken from the average",
    ),
    "norms of the average in a sweep": (
        lambda: call(Recipe(each_epoch=warmup(1, from_average(NORM)), average=0.9)),
        "gradient_norm is not taken from the average",
    ),
    "norms beside an average in a sweep": (
        lambda: call(Recipe(each_epoch=product(from_average(KEEP), NORM), average=0.9)),
        "gradient_norm is not taken from the average",
    ),
    "no clean set": (lambda: call(Recipe(each_batch=Reads(needs=frozenset({"clean"})))), "pass clean="),
    "no column": (lambda: call(Recipe(each_batch=Reads(columns=frozenset({"age"})))), "with_columns"),
    "a wrong clock": (lambda: call(Recipe(each_batch=every(2, KEEP))), "put it into each_epoch"),
    "classes of real targets": (
        lambda: call(Recipe(each_batch=per_class(KEEP)), lambda: net(2), real_examples()),
        "choose another for regression",
    ),
    "a method of classes for real targets": (
        lambda: METHODS["crust-central"].train(trainer({"train": real_examples()})),
        "crust-central is defined for classification only",
    ),
    "margin of real targets": (
        lambda: call(Recipe(each_batch=KeepSmallest(by=signals.margin, count=2)), lambda: net(2), real_examples()),
        "choose another for regression",
    ),
    "balanced draws of real targets": (
        lambda: call(Recipe(draw=class_balanced), lambda: net(2), real_examples()),
        "real targets",
    ),
    "class by class in a step": (
        lambda: call(Recipe(each_batch=per_class(lambda evidence: torch.ones(len(evidence))))),
        "put it into each_epoch",
    ),
    "cross entropy of real targets": (
        lambda: call(Recipe(objective=CrossEntropy()), lambda: net(2), real_examples()),
        "choose another objective",
    ),
    "squared error of classes": (lambda: call(Recipe(objective=SquaredError())), "choose another objective"),
    "an objective that reduces": (lambda: call(Recipe(objective=functional.cross_entropy)), 'reduction="none"'),
    "an unknown layer": (lambda: call(Recipe(objective=Deep("nowhere"))), "nowhere"),
    "norms of an objective with a column": (
        lambda: call(Recipe(objective=Scaled(), each_batch=NORM)),
        "choose another objective, or a rule that ranks by loss",
    ),
    "agreement of an objective with a column": (
        lambda: call(Recipe(objective=Scaled(), each_batch=MetaGradient()), clean=examples(9)),
        "choose another objective, or a rule that ranks by loss",
    ),
    "views of vectors": (lambda: call(Recipe(views=(Flip(),)), flat, flat_examples()), "leave the views out"),
    "a view that changes the shape": (
        lambda: call(Recipe(views=(lambda images, generator: images[:, :, :2],))),  # noqa: ARG005
        "view",
    ),
    "mixed words": (lambda: call(Recipe(), words, word_examples(), mix="mixup"), "leave mix out"),
    "weights of a wrong shape": (
        lambda: call(Recipe(each_batch=lambda evidence: torch.ones(len(evidence), 1))),
        r"return \[",
    ),
    "weights that are no tensor": (lambda: call(Recipe(each_batch=lambda evidence: 1.0)), "weights"),  # noqa: ARG005
    "negative weights of an epoch": (
        lambda: call(Recipe(each_epoch=lambda evidence: -torch.ones(len(evidence)))),
        "non-negative",
    ),
    "NaN weights of an epoch": (
        lambda: call(Recipe(each_epoch=lambda evidence: torch.full((len(evidence),), float("nan")))),
        "finite",
    ),
    "an epoch of nobody": (
        lambda: call(Recipe(each_epoch=lambda evidence: torch.zeros(len(evidence))), steps=2),
        "keeps no example",
    ),
    # weigh()
    "weigh without a peer": (lambda: weigh(from_peer(KEEP), net(), *two()), "pass peer="),
    "weigh in epochs": (lambda: weigh(every(2, KEEP), net(), *two()), "each_epoch"),
}


def two() -> tuple[Tensor, Tensor]:
    return zeros(2, 1, 4, 4), ids(0, 1)


def flat() -> nn.Module:
    return nn.Linear(4, 3)


def flat_examples() -> Examples:
    return Examples(zeros(9, 4), torch.arange(9) % 3)


def words() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(4, 3))


def word_examples() -> Examples:
    return Examples(torch.ones(9, 2, dtype=torch.long), torch.arange(9) % 3)


def nan_stream() -> Examples:
    return Examples(Streamed(torch.full((9, 1, 4, 4), float("nan"))), torch.arange(9) % 3)


@pytest.mark.parametrize(("act", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_refused_before_the_first_step(act: Callable[[], object], sentence: str) -> None:
    Watched.steps = 0
    with pytest.raises(ThresherError, match=sentence) as caught:
        act()
    assert Watched.steps == 0
    assert "\n" not in str(caught.value), "one sentence"


def test_the_table_can_fail() -> None:
    """The same call with nothing wrong is accepted, and its steps are counted."""
    Watched.steps = 0
    call()
    assert Watched.steps == 5


def test_an_objective_with_a_column_is_accepted_where_no_rule_differentiates() -> None:
    call(Recipe(objective=Scaled(), each_batch=KEEP))


def test_norms_beside_an_average_are_there_in_a_step_and_those_of_one_in_a_loop_of_ones_own() -> None:
    call(Recipe(each_batch=product(from_average(KEEP), NORM), average=0.9))
    weights = weigh(from_average(NORM), net(), *two(), average=net())
    assert sorted(weights.tolist()) == [0.0, 1.0]


def test_a_folder_that_cannot_be_made_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    Watched.steps = 0
    with pytest.raises(ThresherError, match="choose"):
        call(out=tmp_path / "file" / "run")
    assert Watched.steps == 0


def test_a_loss_that_becomes_nan_is_said() -> None:
    with pytest.raises(ThresherError, match="lower the learning rate"):
        call(model=lambda: net(2), train=real_examples(), epochs=20, optimizer=lambda p: torch.optim.SGD(p, lr=1e9))


def test_an_objective_may_look_at_layers_where_an_epoch_leaves_a_remainder() -> None:
    """44 examples in batches of 8: four of them are not visited, and their rows need the objective too."""
    for recipe in (Recipe(objective=Deep("1")), Recipe(objective=Deep("1"), each_epoch=KEEP)):
        call(recipe)
