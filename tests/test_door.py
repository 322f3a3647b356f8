"""fit takes what people have: methods by any form, models by any form, data by any form; and says what is wrong."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from tiny import assert_same_run, assert_same_tensors, by_id, tensors
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset

import thresher
from thresher import Examples, Recipe, Run, ThresherError, fit, method, rules, signals
from thresher.data import Splits, load
from thresher.methods import Trainer

DRAWS = np.random.default_rng(0)
ROWS = DRAWS.normal(size=(40, 3)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(int) + (ROWS[:, 1] > 0.5)
NAMES = np.array(["ape", "bee", "cat"])
EXPLICIT = Examples(torch.tensor(ROWS), torch.tensor(LABELS))
NAMED = replace(EXPLICIT, class_names=NAMES.tolist())
SHORT: dict[str, Any] = {"epochs": 1, "batch": 16, "device": "cpu"}


def run(data: Any, what: Any = "standard", model: Any = "mlp:4", **more: Any) -> Run:
    return fit(what, model, data, **(SHORT | more))


class Pairs(Dataset[tuple[Tensor, int]]):
    """A dataset of (input, target) pairs without anything else."""

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return torch.tensor(ROWS[place]), int(LABELS[place])


class Torchvision(Pairs):
    """Its targets beside the items, and the names of the classes, as torchvision has them."""

    targets = LABELS.tolist()
    classes = NAMES.tolist()
    target_transform: Callable[[int], int] | None = None

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        change = self.target_transform or int
        return torch.tensor(ROWS[place]), change(LABELS[place])


def own_rule(evidence: Any) -> Tensor:
    return (evidence.losses.detach() < 1.5).float()


def procedure(trainer: Trainer) -> Run:
    return trainer(Recipe(average=0.5))


KEEP = rules.KeepSmallest(by="loss", fraction=0.5)
EPOCH_ONLY = rules.per_class(by_id(lambda ids: ids % 2))
METHODS: dict[str, tuple[Any, Any]] = {
    "a name": ("spl", method("spl").recipe(noise_rate=0.4, classes=3, epochs=1)),
    "a method": (method("spl"), method("spl").recipe(noise_rate=0.4, classes=3, epochs=1)),
    "a rule": (KEEP, Recipe(each_batch=KEEP)),
    "a rule for epochs only": (EPOCH_ONLY, Recipe(each_epoch=EPOCH_ONLY)),
    "a function": (own_rule, Recipe(each_batch=own_rule)),
    "a procedure": (procedure, Recipe(average=0.5)),
    "a procedure by name": ("dmi", thresher.methods.determinant),
}


@pytest.mark.parametrize("form", METHODS)
def test_a_method_in_every_form(form: str) -> None:
    short, explicit = METHODS[form]
    told = {"noise_rate": 0.4} if short in ("spl", method("spl"), "dmi") else {}
    assert_same_run(run(EXPLICIT, short, **told), run(EXPLICIT, explicit))


def test_a_procedure_that_needs_a_function_for_models() -> None:
    ours = run((ROWS, LABELS), thresher.methods.incv, batch=4)
    assert_same_run(ours, run(EXPLICIT, "incv", batch=4))
    assert len(ours.models) == 2


class Net(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 3)


@pytest.mark.parametrize("model", [Net, lambda: Net(), partial(nn.Linear, 3, 3)])
def test_a_model_as_class_function_or_partial(model: Any) -> None:
    assert_same_tensors(tensors(run(EXPLICIT, model=model)), tensors(run(EXPLICIT, model=lambda: nn.Linear(3, 3))))


def test_a_module_is_trained_in_place_and_auto_chooses() -> None:
    module = Net()
    before = module.weight.detach().clone()
    assert run(EXPLICIT, model=module).model is module
    assert not torch.equal(module.weight, before)
    assert_same_run(run(EXPLICIT, model="auto"), run(EXPLICIT, model="mlp"))


FRAME = {"a": ROWS[:, 0], "b": ROWS[:, 1], "c": ROWS[:, 2]}
SAME: dict[str, Callable[[], Any]] = {
    "lists": lambda: (ROWS.tolist(), LABELS.tolist()),
    "a list of two": lambda: [ROWS, LABELS],
    "arrays": lambda: (ROWS, LABELS),
    "decimals of 64 bits": lambda: (ROWS.astype(np.float64), LABELS.astype(np.uint8)),
    "tensors": lambda: (torch.tensor(ROWS), torch.tensor(LABELS)),
    "tensors of 64 bits": lambda: (torch.tensor(ROWS).double(), torch.tensor(LABELS).int()),
    "a tensor with a gradient": lambda: (torch.tensor(ROWS).requires_grad_(), torch.tensor(LABELS)),
    "pandas": lambda: (pd.DataFrame(FRAME), pd.Series(LABELS)),
    "a column of objects": lambda: (pd.DataFrame(FRAME).astype(object), pd.Series(LABELS, dtype=object)),
    "polars": lambda: (pl.DataFrame(FRAME), pl.Series(LABELS)),
    "arrow": lambda: (pa.table(FRAME), pa.chunked_array([LABELS])),
    "examples": lambda: EXPLICIT,
    "splits": lambda: Splits(EXPLICIT, EXPLICIT),
}


@pytest.mark.parametrize("form", SAME)
def test_data_in_every_form_train_the_same(form: str) -> None:
    more = {} if form == "splits" else {"test": EXPLICIT}
    assert_same_run(
        run(SAME[form](), "prl-l", noise_rate=0.3, **more), run(EXPLICIT, "prl-l", noise_rate=0.3, test=EXPLICIT)
    )


@pytest.mark.parametrize("dataset", [Pairs(), Torchvision(), TensorDataset(EXPLICIT.inputs, EXPLICIT.targets)])
def test_datasets_are_streamed_and_train_the_same(dataset: Any) -> None:
    ours = run(dataset, test=dataset)
    assert_same_tensors(tensors(ours), tensors(run(EXPLICIT)))
    assert ours.class_names == (NAMES.tolist() if isinstance(dataset, Torchvision) else None)
    assert ours.scores == pytest.approx(run(EXPLICIT, test=EXPLICIT).scores)


def test_a_dataset_whose_labels_are_transformed_and_a_part_of_one() -> None:
    changed = Torchvision()
    changed.target_transform = lambda label: 2 - int(label)
    other = replace(EXPLICIT, targets=2 - EXPLICIT.targets)
    assert_same_tensors(tensors(run(changed)), tensors(run(other)))
    some = list(range(0, 40, 2))
    assert_same_tensors(tensors(run(Subset(Torchvision(), some))), tensors(run(EXPLICIT.subset(some))))


LABEL_FORMS: dict[str, tuple[Any, list[str] | None]] = {
    "text": (NAMES[LABELS], ["ape", "bee", "cat"]),
    "objects": (NAMES[LABELS].astype(object), ["ape", "bee", "cat"]),
    "numbers that begin at 3": (LABELS + 3, ["3", "4", "5"]),
    "numbers with gaps": (LABELS * 5, ["0", "5", "10"]),
    "negative": (LABELS - 1, ["-1", "0", "1"]),
    "a category": (pd.Categorical(NAMES[LABELS]), ["ape", "bee", "cat"]),
}


@pytest.mark.parametrize("form", LABEL_FORMS)
def test_labels_of_every_kind_are_classes_with_names(form: str) -> None:
    given, names = LABEL_FORMS[form]
    ours = run((ROWS, given))
    assert_same_run(ours, run(EXPLICIT))
    assert ours.class_names == names
    assert set(ours.predict(ROWS).tolist()) <= set(np.asarray(given).tolist())  # as they were given


def test_truth_values_are_two_classes() -> None:
    ours = run((ROWS, LABELS > 0))
    assert ours.class_names == ["False", "True"]
    assert_same_run(ours, run((ROWS, (LABELS > 0).astype(int))))


@pytest.mark.parametrize("targets", [ROWS[:, 0], ROWS[:, :1], ROWS[:, :2], LABELS.astype(float)])
def test_decimals_are_real_targets_even_where_they_are_whole(targets: Any) -> None:
    explicit = Examples(torch.tensor(ROWS), torch.tensor(targets, dtype=torch.float32))
    assert_same_run(run((ROWS, targets), test=(ROWS, targets)), run(explicit, test=explicit))


def frame(places: slice = slice(None)) -> pd.DataFrame:
    """Numbers with a gap, texts with a gap, and a class by name."""
    rows = pd.DataFrame({"size": ROWS[:, 0].astype(float), "town": np.array(["Bonn", "Rome"])[LABELS % 2]})
    rows["kind"] = NAMES[LABELS]
    rows["weight"] = 100 + 20 * ROWS[:, 1].astype(float)
    rows.loc[3, "size"], rows.loc[5, "town"] = None, None
    return rows.iloc[places]


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda rows: rows,
    "an index in disorder": lambda rows: rows.set_index(DRAWS.permutation(len(rows))),
    "a named index": lambda rows: rows.set_index(pd.Index(DRAWS.permutation(len(rows)), name="id")),
    "polars": pl.from_pandas,
    "arrow": lambda rows: pa.Table.from_pandas(rows, preserve_index=False),
}


@pytest.mark.parametrize("form", FRAMES)
@pytest.mark.parametrize("target", ["kind", "weight"])
def test_frames_train_the_same_and_read_further_rows_as_the_first(form: str, target: str) -> None:
    def trained(make: Callable[[pd.DataFrame], Any]) -> Run:
        first, rest = frame(slice(0, 30)), frame(slice(30, 40))
        return run(make(first), target=target, test=make(rest), validation=make(rest), keep="best_on_validation")

    ours, plain = trained(FRAMES[form]), trained(FRAMES["pandas"])
    assert_same_run(ours, plain)
    predicted = ours.predict(FRAMES[form](frame()))
    np.testing.assert_array_equal(predicted, plain.predict(frame()))
    columns = [each["column"] for each in ours.about["preparation"]["columns"]]
    assert columns == [name for name in ("size", "town", "kind", "weight") if name != target]
    if target == "weight":  # in its own unit, by the scale of the training rows
        assert 50 < predicted.mean() < 150
        mean, deviation = ours.about["target_scale"]
        expected = frame(slice(0, 30))["weight"]
        assert [mean[0], deviation[0]] == pytest.approx([expected.mean(), expected.std(ddof=0)])


def test_the_score_on_a_frame_is_that_of_its_predictions() -> None:
    rest = frame(slice(25, 40))
    ours = run(frame(slice(0, 25)), target="kind", test=rest, epochs=2)
    assert ours.scores[-1] == pytest.approx((ours.predict(rest) == rest["kind"]).mean())
    with pytest.raises(ThresherError, match="no class among the training examples 'cat'"):
        run(frame()[frame()["kind"] != "cat"], target="kind", test=rest)


def test_real_targets_beside_a_frame_are_in_their_own_unit() -> None:
    rows = frame()
    inputs = run(rows, target="weight").prepare(rows).inputs
    given = (inputs, torch.tensor(rows["weight"].to_numpy()))
    as_pair = run(rows, target="weight", test=given)
    assert as_pair.scores == pytest.approx(run(rows, target="weight", test=rows).scores, abs=1e-5)


@pytest.mark.parametrize("role", ["test", "clean", "validation"])
def test_further_data_are_matched_by_the_names_of_classes(role: str) -> None:
    """Given in another order and with a class missing, so that ids of their own would differ."""
    places = [place for place in range(39, -1, -1) if LABELS[place] != 1]
    explicit = NAMED.subset(places)
    if role == "clean":
        explicit = replace(explicit, ids=torch.arange(len(places)) + 40)
    else:
        explicit = replace(explicit, ids=torch.arange(len(places)))
    what = "l2rw" if role == "clean" else "standard"
    more = {"keep": "best_on_validation"} if role == "validation" else {}
    ours = run((ROWS, NAMES[LABELS]), what, **{role: (ROWS[places], NAMES[LABELS][places])}, **more)
    assert_same_run(ours, run(NAMED, what, **{role: explicit}, **more))
    numbers = run((ROWS, LABELS), what, **{role: (ROWS[places], LABELS[places])}, **more)
    assert_same_run(numbers, ours)


def test_pixels_of_further_data_are_normalised_as_the_training_pixels() -> None:
    pixels = DRAWS.integers(0, 256, (40, 1, 4, 4), dtype=np.uint8)
    scale = (torch.full((1, 1, 1), 99.0), torch.full((1, 1, 1), 55.0))
    explicit = Examples(torch.tensor(pixels), torch.tensor(LABELS), normalise=scale)
    assert_same_run(run(explicit, test=(pixels, LABELS)), run(explicit, test=explicit))


def test_defaults_fit_a_tiny_set() -> None:
    ours = fit("standard", "auto", (ROWS[:7], [0, 1] * 3 + [1]), device="cpu")
    assert (len(ours.history), ours.history[-1]["batch"]) == (60, 7)


def test_what_load_gives_is_tested_on_its_test_set() -> None:
    ours = fit("standard", "mlp:4", load("blobs:60,3"), epochs=1)
    assert ours.scores
    assert ours.predict(load("blobs:60,3").test.inputs).shape == (len(load("blobs:60,3").test),)


def test_the_noise_rate_by_folds_uses_batches_of_the_usual_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def folds(*_: Any, **settings: Any) -> Any:
        asked.update(settings)
        return type("Found", (), {"assumed": 0.2})

    monkeypatch.setattr("thresher.door.noise_rate_by_folds", folds)
    many = (DRAWS.normal(size=(600, 3)), DRAWS.integers(0, 2, 600))
    ours = fit("spl", "mlp:4", many, noise_rate="folds", epochs=1)
    assert asked["batch"] == 128
    assert ours.about["noise_rate"] == 0.2


PAIR = (ROWS, LABELS)
GAPS = np.array([None, *NAMES[LABELS][1:]], dtype=object)
NOT_A_NUMBER = np.where(np.arange(40) == 3, np.nan, LABELS)
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a misspelt method": (lambda: run(PAIR, "prl-ll"), "no method 'prl-ll': did you mean 'prl-l'"),
    "an acquisition": (lambda: run(PAIR, "badge"), "badge chooses from a pool and trains nothing: pass by='badge'"),
    "a weighting": (lambda: run(PAIR, "debias"), "trains nothing: pass weights='debias' to distil"),
    "a rule's class": (lambda: run(PAIR, rules.KeepSmallest), "KeepSmallest is a class: make a rule of it"),
    "a function of nothing": (lambda: run(PAIR, lambda: 1), "takes no argument"),
    "model and method swapped": (lambda: fit(Net(), "spl", PAIR), "by a method, not by a Net"),
    "no method": (lambda: run(PAIR, None), "by a method, not by a NoneType"),
    "a rule for rounds only": (lambda: run(PAIR, rules.MetaGradient()), "reads 'clean', which is missing: pass clean="),
    "a method that needs clean": (lambda: run(PAIR, "l2rw"), "pass clean="),
    "a misspelt setting": (lambda: run(PAIR, epoch=3), "no setting 'epoch': did you mean 'epochs'"),
    "epochs and steps": (lambda: run(PAIR, steps=3), "epochs and steps both say how long"),
    "a loader with a sampler": (
        lambda: run(DataLoader(Pairs(), sampler=SubsetRandomSampler(range(4)))),
        "draws by a SubsetRandomSampler .*: pass its dataset",
    ),
    "a loader without batches to test on": (
        lambda: run(PAIR, test=DataLoader(Pairs(), batch_size=None)),
        "The DataLoader given as the test set draws by .*: pass its dataset",
    ),
    "a name as data": (lambda: run("digits"), "pass thresher.load\\('digits'\\)"),
    "a path as data": (lambda: run(Path("photos")), "pass thresher.load\\('photos'\\)"),
    "a dict": (lambda: run({"x": ROWS, "y": LABELS}), "the data has x, y and no labels: say which is the target"),
    "a generator": (lambda: run(each for each in PAIR), "type generator is given"),
    "None": (lambda: run(None), "type NoneType is given"),
    "inputs alone": (lambda: run(ROWS), "The item at position 0 of the data is a ndarray"),
    "a frame without target": (lambda: run(frame()), "say which column to predict, as target='label'"),
    "a frame without that column": (lambda: run(frame(), target="kid"), "did you mean 'kind'"),
    "unequal lengths": (lambda: run((ROWS, LABELS[1:])), "40 inputs and 39 targets"),
    "ragged lists": (lambda: run(([[1, 2], [3]], [0, 1])), "make no array"),
    "text": (lambda: run((["a", "b"], [0, 1])), "inputs of the data are texts: encode them"),
    "a column of text": (lambda: run((frame()[["size", "town"]], LABELS)), "give a DataFrame with target="),
    "flat inputs": (lambda: run((ROWS[:, 0], LABELS)), "have the shape \\[40\\]: give \\[n, ...\\]"),
    "missing inputs": (lambda: run((np.where(ROWS > 1, np.nan, ROWS), LABELS)), "NaN or infinite inputs"),
    "missing labels": (lambda: run((ROWS, NOT_A_NUMBER)), "NaN or infinite"),
    "missing names": (lambda: run((ROWS, GAPS)), "1 targets that are missing"),
    "mixed labels": (
        lambda: run((ROWS, np.array([1, *NAMES[LABELS][1:]], dtype=object))),
        "mix values of the types int, str",
    ),
    "one target": (lambda: run((ROWS, 3)), "single value"),
    "dates as labels": (lambda: run((ROWS, LABELS.astype("datetime64[s]"))), "are datetime64"),
    "nothing": (lambda: run(([], [])), "the data is empty"),
    "no examples": (lambda: run((ROWS[:0], LABELS[:0])), "the data is empty"),
    "one class": (lambda: run((ROWS, LABELS * 0)), "one class only"),
    "a column of whole numbers": (lambda: run((ROWS, LABELS[:, None])), "whole numbers of shape \\[40, 1\\]"),
    "whole numbers in columns": (lambda: run((ROWS, np.stack([LABELS, LABELS + 1], 1))), "or give targets as floats"),
    "targets of three dimensions": (lambda: run((ROWS, np.zeros((40, 2, 2)))), "reshape them"),
    "real targets for classes": (lambda: run((ROWS, LABELS * 1.0), "gce"), "defined for classification only"),
    "a class that training lacks": (
        lambda: run(PAIR, test=(ROWS, LABELS + 1)),
        "has the class '3', which the training",
    ),
    "other numbers": (lambda: run((ROWS, LABELS + 1), test=(ROWS, LABELS)), "has the class '0', which the training"),
    "real targets to test on": (lambda: run(PAIR, test=(ROWS, ROWS[:, 0])), "real targets, and the training data have"),
    "names to test real targets": (lambda: run((ROWS, ROWS[:, 0]), test=(ROWS, NAMES[LABELS])), "give numbers"),
    "a number as model": (lambda: run(PAIR, model=3), "A int is no model"),
    "a misspelt model": (lambda: run(PAIR, model="mpl"), "did you mean 'mlp'"),
    "a model class with arguments": (lambda: run(PAIR, model=nn.Linear), "lambda: MyModel"),
    "a function without return": (lambda: run(PAIR, model=lambda: None), "made a NoneType"),
    "one module for two networks": (lambda: run(PAIR, "co-teaching", Net()), "needs a function that makes a model"),
    "a module for folds": (lambda: run(PAIR, "spl", Net(), noise_rate="folds"), "pass a function that makes"),
    "a name as teacher": (lambda: run(PAIR, teacher="mlp"), "pass a trained torch.nn.Module"),
    "a rate beside a recipe": (lambda: run(PAIR, Recipe(), noise_rate=0.2), "noise_rate= is for methods by name"),
    "train= beside the data": (lambda: run(PAIR, "spl", train=PAIR), "did you mean 'data'"),
    "a setting by another library's name": (lambda: run(PAIR, "spl", lr=0.1), "did you mean 'learning_rate'"),
    "a misspelt rate": (lambda: run(PAIR, "spl", noise_rate="atuo"), "a share of the data"),
    "nothing to validate on": (lambda: run(PAIR, keep="best_on_validation"), "needs a validation set"),
}
WRONG_SETTINGS: dict[str, tuple[Any, str]] = {
    "optimizer": ("sdg", "did you mean 'sgd'"),
    "schedule": ("cosin", "did you mean 'cosine'"),
    "precision": ("half", "no precision 'half'"),
    "device": ("gpu", "no device 'gpu' here"),
    "batch": (0, "batch=0 does not fit 40"),
    "learning_rate": ("0.1", "learning_rate must be a number, not '0.1'"),
    "weight_decay": ("1", "weight_decay must be a number"),
    "epochs": ("3", "epochs must be a whole number, not '3'"),
    "seed": (0.5, "seed must be a whole number"),
    "compiled": ("yes", "compiled must be True or False"),
    "keep": ("best", "best_on_validation"),
    "augment": ("week", "did you mean 'weak'"),
    "momentum": (0.9, "adam takes no momentum"),
    "workers": (-1, "workers must be at least 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_likely_mistake_gets_one_sentence(mistake: str) -> None:
    act, sentence = MISTAKES[mistake]
    with pytest.raises(ThresherError, match=sentence) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", WRONG_SETTINGS)
def test_a_wrong_setting_gets_one_sentence(name: str) -> None:
    value, sentence = WRONG_SETTINGS[name]
    with pytest.raises(ThresherError, match=sentence):
        run(PAIR, **{name: value})


def test_a_made_optimizer_and_a_number_as_schedule_get_one_sentence() -> None:
    module = Net()
    with pytest.raises(ThresherError, match="not a SGD that is made already") as caught:
        run(PAIR, model=module, optimizer=torch.optim.SGD(module.parameters(), lr=0.1))
    assert "\n" not in str(caught.value)
    with pytest.raises(ThresherError, match="schedule must be a name"):
        run(PAIR, schedule=3)


def test_numbers_of_numpy_are_numbers() -> None:
    settings: dict[str, Any] = {"epochs": np.int64(1), "batch": np.int32(16), "learning_rate": np.float32(0.001)}
    assert len(run(PAIR, **settings).history) == 1


def test_a_signal_by_name_is_the_signal() -> None:
    assert rules.KeepSmallest(by=signals.loss, fraction=0.5) == KEEP
