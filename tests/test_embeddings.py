"""Embeddings from files: labels of any kind, what is carried along, the head that is trained, and predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

import thresher as th
from thresher.core.errors import ThresherError
from thresher.core.joining import join
from thresher.data import Splits, load, load_clean
from thresher.models import model_for

N, D = 60, 128
NAMES = np.array(["cat", "dog", "emu"])
CPU = torch.device("cpu")


def vectors(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three groups of vectors, and the number of each one's group."""
    draws = np.random.default_rng(seed)
    labels = np.arange(N) % 3
    return (np.eye(3)[labels] @ draws.normal(size=(3, D)) + 0.1 * draws.normal(size=(N, D))).astype(np.float32), labels


def save(folder: Path, kind: str) -> tuple[str, Any]:
    """A file of this kind, as `load` names it, and the names that its examples have."""
    inputs, labels = vectors()
    paths = np.array([f"img/{place:03d}.jpg" for place in range(N)])
    if kind == "npz":
        np.savez(folder / "v.npz", embeddings=inputs, labels=NAMES[labels], ids=paths)
        return f"{folder}/v.npz", ("ids", paths)
    if kind == "npy":
        for name, values in (("v", inputs), ("l", NAMES[labels]), ("i", np.arange(N) + 500)):
            np.save(folder / f"{name}.npy", values)
        return f"{folder}/v.npy:l.npy,i.npy", ("ids", np.arange(N) + 500)
    if kind == "numbers":
        np.savez(folder / "v.npz", X=inputs.astype(np.float64), y=labels, names=NAMES, path=paths)
        return f"{folder}/v.npz", ("path", paths)
    flat = pa.array(inputs.flatten())
    lists = {
        "fixed": pa.FixedSizeListArray.from_arrays(flat, D),
        "list": pa.ListArray.from_arrays(np.arange(0, N * D + 1, D), flat),
    }[kind]
    pq.write_table(pa.table({"path": paths, "vector": lists, "kind": NAMES[labels]}), folder / "v.parquet")
    return f"{folder}/v.parquet:kind", ("path", paths)


@pytest.mark.parametrize("kind", ["npz", "npy", "numbers", "fixed", "list"])
def test_files_of_embeddings_carry_their_names_along(kind: str, tmp_path: Path) -> None:
    name, (column, values) = save(tmp_path, kind)
    splits = load(name)
    whole = join(*splits)
    inputs, labels = vectors()
    assert (len(splits.train), len(splits.test)) == (48, 12)
    assert isinstance(whole.inputs, Tensor)
    np.testing.assert_array_equal(whole.inputs.numpy(), inputs[whole.ids.numpy()])
    assert whole.targets.tolist() == labels[whole.ids.numpy()].tolist()
    assert list(whole.class_names or []) == NAMES.tolist()
    assert list(whole.brought) == [column]
    assert whole.brought[column].tolist() == values[whole.ids.numpy()].tolist()
    assert model_for(splits.train, CPU) == "head"


def test_real_targets_are_standardised(tmp_path: Path) -> None:
    inputs, labels = vectors()
    np.savez(tmp_path / "v.npz", inputs=inputs, targets=labels * 1000.0)
    train, test = load(f"{tmp_path}/v.npz")
    assert train.is_regression
    assert abs(float(train.targets.mean())) < 1e-5
    assert test.as_given(test.targets).flatten().tolist() == pytest.approx(
        (labels * 1000.0)[test.ids.numpy()].tolist(), abs=1
    )


def test_clean_embeddings_get_the_classes_of_the_training_set(tmp_path: Path) -> None:
    known = load(save(tmp_path, "npz")[0])
    inputs, labels = vectors(1)
    np.savez(tmp_path / "clean.npz", inputs=inputs[2::3], labels=NAMES[labels[2::3]])  # emus only
    clean = load_clean(f"{tmp_path}/clean.npz", Splits(*known), "v.npz")
    assert set(clean.targets.tolist()) == {2}
    assert clean.class_names == known.train.class_names


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"inputs": np.zeros((4, 2))}, "no labels: save them as 'labels'"),
        ({"inputs": np.zeros((4, 2)), "labels": [0, 1, 0]}, "4 inputs and 3 targets"),
        ({"inputs": np.zeros((4, 2)), "labels": [0, 1, 0, 1], "ids": [1, 2, 2, 3]}, "ids that repeat"),
        ({"inputs": np.zeros(4), "labels": [0, 1, 0, 1]}, r"shape \[4\]: give numbers"),
        ({"inputs": np.array([["a"], ["b"]]), "labels": [0, 1]}, "give numbers"),
    ],
)
def test_wrong_arrays_are_refused(arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", **{name: np.asarray(values) for name, values in arrays.items()})
    with pytest.raises(ThresherError, match=words):
        load(f"{tmp_path}/v.npz")


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.zeros((4, 2)))
    with pytest.raises(ThresherError, match="holds no labels"):
        load(f"{tmp_path}/v.npy")
    with pytest.raises(ThresherError, match=r"no file .*gone.npy"):
        load(f"{tmp_path}/v.npy:gone.npy")
    ragged = pa.table({"v": [[1.0, 2.0], [3.0]], "target": ["a", "b"]})
    pq.write_table(ragged, tmp_path / "r.parquet")
    with pytest.raises(ThresherError, match="differ in length"):
        load(f"{tmp_path}/r.parquet")
    pq.write_table(ragged.append_column("w", ragged.column("v")), tmp_path / "two.parquet")
    with pytest.raises(ThresherError, match=r"several columns of lists \(v, w\)"):
        load(f"{tmp_path}/two.parquet")


class Pairs(Dataset[Any]):
    """A dataset of (input, target) pairs, or of inputs alone."""

    def __init__(self, inputs: np.ndarray, alone: bool = False):
        self.inputs, self.alone = inputs, alone

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, place: int) -> Any:
        made = torch.tensor(self.inputs[place])
        return made if self.alone else (made, 7)


class Endless(IterableDataset[Any]):
    """A dataset without items to look up."""

    def __iter__(self) -> Any:
        return iter(())


def test_a_run_on_embeddings_predicts_files_arrays_and_datasets(tmp_path: Path) -> None:
    splits = load(save(tmp_path, "npz")[0])
    run = th.fit("standard", "auto", splits, epochs=15, batch=16, learning_rate=0.01, out=tmp_path / "run")
    assert run.about["model"] == "head"
    inputs, labels = vectors()
    wanted = NAMES[labels].tolist()
    name, _ = save(tmp_path, "fixed")
    opened = th.open_run(tmp_path / "run")
    for raw in (inputs, tmp_path / "v.npz", name.partition(":")[0], Pairs(inputs), Pairs(inputs, alone=True)):
        assert opened.predict(raw).tolist() == wanted
    np.testing.assert_array_equal(run.predict_proba(Pairs(inputs)), run.predict_proba(inputs))
    with pytest.raises(ThresherError, match=r"inputs of shape \[5\], and the model was trained on \[128\]"):
        run.predict(Pairs(inputs[:, :5]))
    assert run.predict(DataLoader(Pairs(inputs), batch_size=7)).tolist() == wanted
    with pytest.raises(ThresherError, match="pass a map-style Dataset"):
        run.predict(Endless())


def test_the_head_is_indifferent_to_the_scale_of_embeddings() -> None:
    inputs, labels = vectors()
    shares = []
    for scale in (0.01, 1.0, 100.0):
        run = th.fit("standard", "head", (inputs * scale, labels), epochs=20, batch=20)
        shares.append((run.predict(inputs * scale) == labels).mean())
    assert min(shares) == max(shares) == 1.0
