"""Inputs of several tensors: they train, weigh, predict and resume exactly as one tensor of the same numbers does."""

from collections import UserDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strict import strictly
from tiny import assert_same_run, examples, real_examples, trusted
from torch import Tensor, nn

from thresher import Examples, Recipe, Run, acquire, fit, open_run, signals, weigh
from thresher.core.errors import ThresherError
from thresher.core.joining import join
from thresher.core.trees import call
from thresher.engine.store.about import checksum
from thresher.methods import acquisition, method
from thresher.rules import KeepSmallest, MetaGradient
from thresher.slots import Mixup, weak

RULE = KeepSmallest(by=signals.output_gradient_norm, fraction=0.6)


class Joined(nn.Module):
    """A network of inputs in two parts, with the parameters of one that gets them in one."""

    def __init__(self, outputs: int = 3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, outputs))

    def both(self, left: Tensor, right: Tensor) -> Tensor:
        return self.body(torch.cat([left.flatten(1), right.flatten(1)], 1))


class ByName(Joined):
    def forward(self, *, left: Tensor, right: Tensor) -> Tensor:
        return self.both(left, right)


class ByPlace(Joined):
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.both(first, second)


class Whole(Joined):
    def forward(self, batch: Any) -> Tensor:
        return self.both(*(batch.values() if isinstance(batch, dict) else batch))


class Nested(Joined):
    def forward(self, text: Any, right: Tensor) -> Tensor:
        return self.both(text["left"][0], right)


class One(Joined):
    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs.flatten(1))


class Logits(ByName):
    """Its answer is an object, as those of Hugging Face models are."""

    def forward(self, *, left: Tensor, right: Tensor) -> Any:  # type: ignore[override]
        return type("Answer", (), {"logits": self.both(left, right)})()


class Encoding(UserDict[str, Tensor]):
    """A mapping that is no dict, as Hugging Face's BatchEncoding."""


def halves(inputs: Tensor) -> tuple[Tensor, Tensor]:
    return inputs[:, :, :2], inputs[:, :, 2:]


def as_dict(inputs: Tensor) -> dict[str, Tensor]:
    left, right = halves(inputs)
    return {"left": left, "right": right}


def nested(inputs: Tensor) -> Any:
    left, right = halves(inputs)
    return {"text": {"left": [left]}, "right": right}


KINDS: dict[str, tuple[Callable[[Tensor], Any], type[Joined]]] = {
    "dict": (as_dict, ByName),
    "mapping": (lambda inputs: Encoding(as_dict(inputs)), ByName),
    "tuple": (halves, ByPlace),
    "whole dict": (as_dict, Whole),
    "whole tuple": (halves, Whole),
    "nested": (nested, Nested),
    "logits": (as_dict, Logits),
}


def made(kind: type[nn.Module]) -> Callable[[], nn.Module]:
    return lambda: kind()


def in_parts(whole: Examples, split: Callable[[Tensor], Any] = as_dict) -> Examples:
    return replace(whole, inputs=split(whole.inputs), checked=False)


def run(what: Any, network: type[Joined], train: Examples, **changes: Any) -> Run:
    return fit(what, made(network), train, epochs=3, batch=11, device="cpu", **changes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tree_trains_as_one_tensor_does(kind: str) -> None:
    split, network = KINDS[kind]
    train, test = examples(), examples(seed=1)
    one = run(Recipe(each_batch=RULE), One, train, test=test)
    parts = run(Recipe(each_batch=RULE), network, in_parts(train, split), test=in_parts(test, split))
    assert_same_run(one, parts)
    assert np.array_equal(one.predict(test.inputs), parts.predict(split(test.inputs)))


METHODS = (
    "standard",
    "prl-l",
    "prl-g",
    "co-teaching",
    "l2rw",
    "crust",
    "crust-central",
    "reclaim",
    "mixup",
    "decouple",
)


@pytest.mark.parametrize("name", METHODS)
def test_methods_train_on_a_tree_as_on_one_tensor(name: str) -> None:
    train = examples()
    known = {"noise_rate": 0.25} if "noise_rate" in method(name).needs else {}
    clean = trusted(train, 6) if "clean" in method(name).needs else None
    one = run(name, One, train, clean=clean, **known)
    parts = run(name, ByName, in_parts(train), clean=None if clean is None else in_parts(clean), **known)
    assert_same_run(one, parts)


@pytest.mark.parametrize(
    "rule", [RULE, KeepSmallest(by="gradient_norm", fraction=0.5), KeepSmallest(by="loss", count=3)]
)
def test_weigh_takes_trees(rule: Any) -> None:
    train = examples()
    torch.manual_seed(0)
    one, parts = One(), ByName()
    parts.load_state_dict(one.state_dict())
    expected = weigh(rule, one, train.inputs, train.targets)
    assert torch.equal(weigh(rule, parts, as_dict(train.inputs), train.targets), expected)
    clean = (as_dict(train.inputs[:4]), train.targets[:4])
    ours = weigh(MetaGradient(), parts, as_dict(train.inputs), train.targets, clean=clean)
    theirs = weigh(MetaGradient(), one, train.inputs, train.targets, clean=(train.inputs[:4], train.targets[:4]))
    torch.testing.assert_close(ours, theirs)


def test_models_without_formulas_take_trees_too() -> None:
    """vmap(grad) for norms, and forward mode for agreements, where a layer has no factored formula."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.head = nn.Parameter(torch.ones(16)), nn.Linear(16, 3)

        def forward(self, **parts: Tensor) -> Tensor:
            return self.head(self.scale * torch.cat([part.flatten(1) for part in parts.values()], 1))

    train, model = examples(12), Odd()
    inputs = as_dict(train.inputs)
    found = weigh(KeepSmallest(by="gradient_norm", count=6), model, inputs, train.targets)
    norms = []
    for place in range(12):
        losses = nn.functional.cross_entropy(
            model(**{k: v[place, None] for k, v in inputs.items()}), train.targets[place, None]
        )
        grads = torch.autograd.grad(losses, list(model.parameters()))
        norms.append(torch.cat([grad.flatten() for grad in grads]).norm())
    assert torch.equal(found > 0, torch.stack(norms).argsort().argsort() < 6)
    clean = (as_dict(train.inputs[:4]), train.targets[:4])
    assert weigh(MetaGradient(), model, inputs, train.targets, clean=clean).sum() > 0


@pytest.mark.parametrize("by", ["margin", "badge", "coreset"])
def test_acquire_takes_trees(by: str) -> None:
    pool, one, parts = examples(), One(), ByName()
    parts.load_state_dict(one.state_dict())
    labelled = pool.subset(torch.arange(5))
    rule = acquisition(by).rule(7)
    expected = acquire(rule, one, pool, labelled=labelled, average=one)
    assert torch.equal(acquire(rule, parts, in_parts(pool), labelled=in_parts(labelled), average=parts), expected)


class Items:
    """A dataset that gives mappings, with the target among them."""

    def __init__(self, whole: Examples):
        self.whole = whole

    def __len__(self) -> int:
        return len(self.whole)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {
            **{name: part[place] for name, part in as_dict(self.whole.inputs).items()},
            "label": self.whole.targets[place],
        }


@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_of_mappings_trains_as_one_tensor_does(workers: int) -> None:
    train = examples()
    plain = Examples(train.inputs, train.targets, classes=3)
    one, parts = (run("prl-l", net, data, noise_rate=0.25) for net, data in ((One, plain), (ByName, Items(train))))
    if workers:
        parts = run("prl-l", ByName, Items(train), noise_rate=0.25, workers=workers)
    assert_same_run(one, parts)


def test_a_mapping_with_labels_is_data_by_itself() -> None:
    train = examples()
    data = {**as_dict(train.inputs), "labels": train.targets}
    one = run(Recipe(), One, Examples(train.inputs, train.targets, classes=3))
    assert_same_run(one, run(Recipe(), ByName, data))
    with pytest.raises(ThresherError, match=r"has left, right, labels and no given: say which is the target"):
        run(Recipe(), ByName, data, target="given")


def test_views_augment_the_images_of_a_tree_and_nothing_else() -> None:
    train = examples()
    with_age = replace(train, inputs={"image": train.inputs, "age": train.inputs[:, 0, 0, 0]}, checked=False)

    class Both(One):
        def forward(self, image: Tensor, age: Tensor) -> Tensor:
            assert age.shape == image.shape[:1]
            return super().forward(image)

    views = (weak(),)
    assert_same_run(run(Recipe(views=views), One, train), run(Recipe(views=views), Both, with_age))
    flat = replace(train, inputs={"left": train.inputs.flatten(1)[:, :8], "right": train.inputs.flatten(1)[:, 8:]})
    with pytest.raises(ThresherError, match=r"Views augment images, and the inputs have none \(left \[2, 8\]"):
        run(Recipe(views=views), ByName, flat)


def test_a_run_on_a_tree_is_a_folder_that_opens_resumes_and_tells_other_leaves_apart(tmp_path: Path) -> None:
    train = in_parts(examples())
    whole = run("prl-l", ByName, train, noise_rate=0.25)
    stop = [0]

    def stopping(moment: Any) -> None:  # noqa: ARG001
        stop[0] += 1
        if stop[0] == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("prl-l", ByName, train, noise_rate=0.25, out=tmp_path / "a", watch=stopping, commit_every=0.0)
    again = run("prl-l", ByName, train, noise_rate=0.25, out=tmp_path / "a", commit_every=0.0)
    assert_same_run(whole, again)
    opened = open_run(tmp_path / "a", model=ByName)
    new = {"right": torch.ones(2, 1, 2, 4), "left": torch.zeros(2, 1, 2, 4), "labels": torch.zeros(2)}
    assert np.array_equal(opened.predict(new), whole.predict({name: new[name] for name in ("left", "right")}))
    with pytest.raises(ThresherError, match=r"The new data have left, and the model was trained on left, right"):
        opened.predict({"left": new["left"]})
    with pytest.raises(ThresherError, match=r"trained on left, right, and this is a Tensor"):
        opened.predict(new["left"])
    for leaf in ("left", "right"):
        changed = replace(train, inputs={**train.inputs, leaf: train.inputs[leaf] + 1}, checked=False)
        assert checksum(changed) != checksum(train)
    named = replace(train, inputs={"a": train.inputs["left"], "b": train.inputs["right"]}, checked=False)
    assert checksum(named) != checksum(train)
    with pytest.raises(ThresherError, match=r"its train set differs"):
        run("prl-l", ByName, changed, noise_rate=0.25, out=tmp_path / "a")


def test_a_step_on_a_tree_makes_the_host_wait_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with strictly(monkeypatch) as notes:
        run("prl-l", ByName, in_parts(examples()), noise_rate=0.25)
    assert notes


def test_subsets_and_joins_keep_the_leaves_together() -> None:
    train = in_parts(examples())
    some = train.subset([3, 1])
    assert torch.equal(some.inputs["right"], train.inputs["right"][[3, 1]])
    both = join(some, replace(train.subset([5]), ids=torch.tensor([99])))
    assert torch.equal(both.inputs["left"], train.inputs["left"][[3, 1, 5]])


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"a": torch.zeros(4, 2), "b": torch.zeros(3, 2)}, r"inputs of different lengths \(4 of a, 3 of b\)"),
        ({}, r"an empty mapping as inputs"),
        ({"a": torch.zeros(3, 2)}, r"3 inputs, 4 targets"),
        ({"a": [[1.0], [2.0, 3.0], [1.0], [2.0]]}, r"a list that makes no tensor .*collate="),
        ({"a": torch.tensor([[0.0], [torch.nan], [0.0], [0.0]])}, r"1 examples with NaN"),
    ],
)
def test_wrong_trees_are_refused_in_a_sentence(inputs: Any, said: str) -> None:
    with pytest.raises(ThresherError, match=said):
        Examples(inputs, torch.tensor([0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("mlp:8", r"inputs of several tensors \(left, right\).*pass a torch.nn.Module"),
        (nn.Linear(2, 3), r"The model cannot take inputs of shape left \[2, 1, 2, 4\], right \[2, 1, 2, 4\]"),
    ],
)
def test_models_that_cannot_take_a_tree_say_so(model: Any, said: str) -> None:
    with pytest.raises(ThresherError, match=said):
        fit("standard", model, in_parts(examples()), epochs=1)


def test_real_targets_and_mixing_work_on_trees() -> None:
    train = real_examples()
    one = fit(Recipe(mix=Mixup()), lambda: One(2), train, epochs=2, batch=11, device="cpu")
    parts = fit(Recipe(mix=Mixup()), lambda: ByName(2), in_parts(train), epochs=2, batch=11, device="cpu")
    assert_same_run(one, parts)


def test_call_says_what_it_does_with_an_answer_it_does_not_know() -> None:
    with pytest.raises(ThresherError, match=r"returns a list.*or an object with them as \.logits"):
        call(type("Odd", (nn.Module,), {"forward": lambda self, x: [x]})(), torch.zeros(1))  # noqa: ARG005
    assert call(type("Named", (nn.Module,), {"forward": lambda self, x: {"logits": x}})(), torch.ones(1)) == 1  # noqa: ARG005
