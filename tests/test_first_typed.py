"""What a new user types first: frames, arrays, loaders, lists of texts, float64, sgd, and help(fit)."""

import inspect
import pydoc
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from tiny import assert_same_run, examples, net
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from thresher import Examples, Recipe, Run, fit, weigh
from thresher.app.settings import Settings, make_settings
from thresher.core.errors import ThresherError
from thresher.engine.settings import TrainSettings
from thresher.engine.store.about import checksum
from thresher.rules import KeepSmallest
from thresher.slots import Mixup

X = np.random.default_rng(0).normal(size=(48, 16))
Y = (X[:, 0] > 0).astype(np.int64)
FRAME = pd.DataFrame(X, columns=[f"c{place}" for place in range(16)])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))


def run(data: Any, **changes: Any) -> Run:
    return fit("prl-l", network, data, **{"noise_rate": 0.2, "epochs": 2, "batch": 12, "device": "cpu"} | changes)


class Iterated(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return zip(X, Y, strict=True)


class Mapped(Dataset[Any]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, place: int) -> Any:
        return X[place], Y[place]


DATA: dict[str, Callable[[], Any]] = {
    "arrays": lambda: (X, Y),
    "float64 tensors": lambda: (torch.from_numpy(X), torch.from_numpy(Y)),
    "lists": lambda: (X.tolist(), Y.tolist()),
    "a frame and a series": lambda: (FRAME, pd.Series(Y)),
    "Examples of arrays": lambda: Examples(X, Y),
    "Examples of float64 tensors": lambda: Examples(torch.from_numpy(X), torch.from_numpy(Y)),
    "Examples of a frame and a series": lambda: Examples(FRAME, pd.Series(Y)),
    "Examples of polars": lambda: Examples(pl.DataFrame(X), pl.Series(Y)),
    "Examples of an Arrow table": lambda: Examples(pa.Table.from_pandas(FRAME), pa.chunked_array([Y])),
    "an iterable dataset": Iterated,
    "a map-style dataset": Mapped,
    "a loader of tensors": lambda: DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), 12),
    "a shuffled loader": lambda: DataLoader(Mapped(), batch_size=12, shuffle=True),
    "a loader of an iterable": lambda: DataLoader(Iterated(), batch_size=12),
}


@pytest.mark.parametrize("kind", DATA)
def test_the_same_data_give_the_same_run(kind: str) -> None:
    expected, found = run((X, Y)), run(DATA[kind]())
    assert_same_run(expected, found)
    for new in (X[:5], torch.from_numpy(X[:5]), FRAME[:5]):
        assert np.array_equal(found.predict(new), expected.predict(X[:5]))


def test_a_loader_says_its_batch_unless_it_is_said() -> None:
    loader = DataLoader(Mapped(), batch_size=16)
    assert fit("standard", network, loader, epochs=1).history[0]["batch"] == 16
    assert fit("standard", network, loader, epochs=1, batch=8).history[0]["batch"] == 8
    assert fit("standard", network, loader, test=loader, settings=TrainSettings(epochs=1)).history[0]["batch"] == 48


def test_a_double_model_gets_doubles() -> None:
    made = fit("standard", lambda: network().double(), Examples(X, Y), epochs=1, device="cpu")
    assert made.predict(X).shape == (48,)


def test_texts_in_a_frame_are_refused_with_the_way_to_train_on_them() -> None:
    with pytest.raises(
        ThresherError, match=r"holds texts: encode them as numbers, or give the DataFrame to fit\(\) with target="
    ):
        Examples(pd.DataFrame({"a": ["x", "y"]}), [0, 1])


@pytest.mark.parametrize("inputs", [X, X.astype(np.float32), torch.from_numpy(X), FRAME, X.tolist()])
@pytest.mark.parametrize("targets", [Y, torch.from_numpy(Y), pd.Series(Y), Y.tolist()])
def test_weigh_takes_arrays_frames_and_lists(inputs: Any, targets: Any) -> None:
    torch.manual_seed(0)
    rule, model = KeepSmallest(by="loss", count=5), network()
    expected = weigh(rule, model, torch.from_numpy(X).float(), torch.from_numpy(Y))
    assert torch.equal(weigh(rule, model, inputs, targets), expected)


def test_an_optimizer_by_name_or_class() -> None:
    assert run((X, Y), optimizer="sgd", learning_rate=0.05).history[-1]["learning_rate"] == pytest.approx(0.05)
    assert run((X, Y), optimizer=torch.optim.SGD).history[-1]["learning_rate"] == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lr": 0.1}, "There is no setting 'lr': did you mean 'learning_rate'"),
        ({"batch_size": 4}, "did you mean 'batch'"),
        ({"verbose": True}, "There is no setting 'verbose': pass watch="),
        ({"collate_fn": list}, r"There is no setting 'collate_fn': give it to Examples\(inputs, targets, collate="),
        ({"mixup": 0.2}, 'pass mix="mixup"'),
        ({"mix": "cutmix"}, "There is no mix 'cutmix'"),
    ],
)
def test_a_name_from_elsewhere_gets_the_one_it_has_here(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        run((X, Y), **change)


def test_help_lists_every_setting() -> None:
    shown, parameters = pydoc.render_doc(fit, renderer=pydoc.plaintext), inspect.signature(fit).parameters
    for setting in fields(TrainSettings):
        assert parameters[setting.name].default == setting.default
        assert f"    {setting.name}  {setting.metadata['help']}" in shown
    for name in ("test", "validation", "clean", "watch", "out", "noise_rate"):
        assert name in parameters
    assert "changes" not in parameters


# Texts of different lengths.


class Texts(nn.Module):
    """Word vectors, their mean over the words that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 6), nn.Linear(6, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        there = attention_mask[..., None].float()
        return self.head((self.words(input_ids) * there).sum(1) / there.sum(1))


def texts(count: int = 44) -> list[dict[str, Any]]:
    draws = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 8, (count,), generator=draws).tolist()
    return [
        {"input_ids": torch.randint(1, 9, (length,), generator=draws).tolist(), "label": place % 3}
        for place, length in enumerate(lengths)
    ]


def padded(items: list[dict[str, Any]], longest: int | None = None) -> dict[str, Tensor]:
    rows = [torch.tensor(item["input_ids"]) for item in items]
    ids = pad_sequence(rows, batch_first=True)
    if longest is not None:
        ids = nn.functional.pad(ids, (0, longest - ids.shape[1]))
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


def to_the_longest(items: list[dict[str, Any]]) -> dict[str, Tensor]:
    return padded(items)


def to_eight(items: list[dict[str, Any]]) -> dict[str, Tensor]:
    return padded(items, 8)


def with_labels(items: list[dict[str, Any]]) -> dict[str, Tensor]:
    """As collators of Hugging Face do: the labels are in the batch, too."""
    return {**padded(items, 8), "label": torch.tensor([item["label"] for item in items])}


def train_texts(data: Any, what: Any = "prl-l", **changes: Any) -> Run:
    settings = {"epochs": 7, "batch": 11, "device": "cpu"} | ({"noise_rate": 0.25} if what == "prl-l" else {})
    return fit(what, Texts, data, **settings | changes)


def whole() -> Examples:
    items = texts()
    return Examples(padded(items, 8), [item["label"] for item in items], classes=3)


def listed(collate: Any) -> Examples:
    items = texts()
    return Examples(items, [item["label"] for item in items], classes=3, collate=collate)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_list_of_texts_and_a_collate_train_as_padded_tensors_do(workers: int) -> None:
    assert_same_run(train_texts(whole()), train_texts(listed(to_eight), workers=workers))


def test_a_loader_brings_its_collate_function() -> None:
    loader = DataLoader(texts(), batch_size=11, collate_fn=with_labels)  # type: ignore[arg-type]
    assert_same_run(train_texts(whole()), fit("prl-l", Texts, loader, noise_rate=0.25, epochs=7, device="cpu"))


def test_a_loader_is_predicted_in_the_order_of_its_dataset() -> None:
    """Its collate function pads, and what it makes of the labels is left out."""
    items = texts()
    run_of_texts = train_texts(whole())
    expected = run_of_texts.predict(padded(items, 8))
    for collate in (with_labels, to_the_longest):
        loader = DataLoader(items, batch_size=5, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
        assert np.array_equal(run_of_texts.predict(loader), expected)
    plain = run((X, Y))
    assert np.array_equal(plain.predict(DataLoader(Mapped(), batch_size=7, shuffle=True)), plain.predict(X))
    with pytest.raises(ThresherError, match="or a DataLoader whose collate_fn makes such batches"):
        run_of_texts.predict(items)


def test_padding_to_the_batch_changes_only_the_last_digits() -> None:
    """Batches of different lengths, in steps and in sweeps."""
    expected, found = (
        train_texts(whole(), test=whole()),
        train_texts(listed(to_the_longest), test=listed(to_the_longest)),
    )
    for ours, theirs in zip(expected.model.parameters(), found.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert np.array_equal(found.predict(listed(to_the_longest)), expected.predict(whole()))


def test_items_of_different_lengths_without_a_collate_say_what_is_missing() -> None:
    items = [{"input_ids": item["input_ids"], "attention_mask": [1] * len(item["input_ids"])} for item in texts()]
    with pytest.raises(ThresherError, match=r"bring all to one shape, or give Examples a collate="):
        train_texts(Examples(items, [item["label"] for item in texts()]))


def test_other_items_are_another_run() -> None:
    items = texts()
    changed = [*items[:-1], {**items[-1], "input_ids": [1, 2]}]
    labels = [item["label"] for item in items]
    assert checksum(Examples(items, labels, collate=to_eight)) != checksum(Examples(changed, labels, collate=to_eight))


@pytest.mark.parametrize("what", ["crust-central", "reclaim", "mixup", Recipe(mix=Mixup())])
def test_methods_that_mix_leave_it_out_for_token_ids_and_say_so(what: Any) -> None:
    with pytest.warns(UserWarning, match=r"Mixup is left out: the inputs hold whole numbers"):
        found = train_texts(whole(), what)
    assert_same_run(found, train_texts(whole(), what, mix=None))


def test_mix_is_an_option_of_every_method() -> None:
    train = examples()
    settings: dict[str, Any] = {"epochs": 2, "batch": 11, "device": "cpu"}
    mixed = fit("standard", net, train, mix="mixup", **settings)
    assert_same_run(mixed, fit(Recipe(mix=Mixup()), net, train, **settings))
    assert_same_run(fit("mixup", net, train, mix=None, **settings), fit("standard", net, train, mix="none", **settings))
    assert make_settings({"method": "crust-central", "data": "digits", "mix": "none"}).mix == "none"
    assert Settings(method="crust-central", data="digits").mix == "own"
