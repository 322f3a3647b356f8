"""Data: every loader on small files of the real layout, and a sentence for every file that is missing or broken."""

import gzip
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from thresher import Recipe, fit
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples, join
from thresher.data import Splits, in_memory, load, load_clean, loading, names, standardise_targets
from thresher.data.arrays import channel_statistics
from thresher.data.splits import hold_out


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THRESHER_DATA", raising=False)


def images(count: int, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def save_cifar10(folder: Path) -> np.ndarray[Any, Any]:
    labels = np.arange(20) % 10
    np.savez(
        folder / "cifar10.npz",
        train_images=images(20, 32, 32, 3),
        train_targets=labels,
        test_images=images(10, 32, 32, 3, seed=1),
        test_targets=np.arange(10),
    )
    return labels


def save_image(path: Path, colour: tuple[int, int, int] = (10, 20, 30), size: tuple[int, int] = (40, 30)) -> None:
    """One of this colour, whose comment makes it another file than all others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, exif=comment(str(path)))


def comment(text: str) -> Image.Exif:
    exif = Image.Exif()
    exif[0x010E] = text
    return exif


def test_digits_are_split_class_by_class_in_the_same_way_for_every_seed() -> None:
    one, other = load("digits", seed=0), load("digits", seed=5)
    assert torch.equal(one.train.ids, other.train.ids)
    assert not set(one.train.ids.tolist()) & set(one.test.ids.tolist())
    share = one.test.targets.bincount() / (one.train.targets.bincount() + one.test.targets.bincount())
    assert torch.allclose(share, torch.tensor(0.2), atol=0.004)
    assert one.train.class_names is not None
    assert one.train.input_shape == (1, 8, 8)


def test_generated_sets_take_sizes_and_a_seed() -> None:
    train, test = load("blobs:200,3,5", seed=1)
    assert (len(train), len(test), train.classes, train.input_shape) == (200, 50, 3, (5,))
    assert torch.equal(train.inputs, load("blobs:200,3,5", seed=1).train.inputs)  # type: ignore[arg-type]
    assert not torch.equal(train.inputs, load("blobs:200,3,5", seed=2).train.inputs)  # type: ignore[arg-type]
    real = load("regression:100,6,2")
    assert (real.train.targets.shape, real.test.targets.shape) == ((100, 2), (25, 2))
    with pytest.raises(ThresherError, match="whole numbers"):
        load("blobs:many")
    with pytest.raises(ThresherError, match="at most 3"):
        load("blobs:1,2,3,4")
    with pytest.raises(ThresherError, match="at least 1"):
        load("blobs:0")


def test_generated_sets_can_be_learned() -> None:
    train, test = load("blobs")
    assert isinstance(train.inputs, torch.Tensor)
    means = torch.stack([train.inputs[train.targets == label].mean(0) for label in range(4)])
    nearest = torch.cdist(test.inputs, means).argmin(1)  # type: ignore[arg-type]
    assert (nearest == test.targets).float().mean() > 0.9
    real, held = load("regression")
    solution = torch.linalg.lstsq(real.inputs, real.targets).solution  # type: ignore[arg-type]
    assert (held.inputs @ solution - held.targets).var() < 0.4 * held.targets.var()  # type: ignore[operator]


def test_hold_out_of_real_targets_and_of_too_few() -> None:
    train, test = hold_out(torch.randn(50, 2))
    assert (len(train), len(test)) == (40, 10)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(50))
    with pytest.raises(ThresherError, match="too few"):
        hold_out(torch.tensor([0, 1]))


def test_npz_images_come_channels_first_with_training_statistics(tmp_path: Path) -> None:
    save_cifar10(tmp_path)
    train, test = load("cifar10", data_dir=tmp_path)
    raw = np.load(tmp_path / "cifar10.npz")
    assert isinstance(train.inputs, torch.Tensor)
    assert train.inputs.dtype == torch.uint8
    assert train.inputs[3, 2, 5, 7] == raw["train_images"][3, 5, 7, 2]
    assert train.class_names is not None
    assert train.class_names[9] == "truck"
    assert train.normalise is not None
    assert train.normalise[0].flatten().tolist() == pytest.approx(raw["train_images"].mean((0, 1, 2)), rel=1e-5)
    assert train.normalise[1].flatten().tolist() == pytest.approx(raw["train_images"].std((0, 1, 2)), rel=1e-5)
    assert test.normalise is not None
    assert torch.equal(test.normalise[0], train.normalise[0])
    assert train.as_model_input(train.inputs).mean().abs() < 1e-5


def test_statistics_of_a_constant_channel_do_not_divide_by_zero() -> None:
    assert channel_statistics(torch.full((2, 1, 3, 3), 7, dtype=torch.uint8))[1].item() == 1


def test_the_environment_names_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_cifar10(tmp_path)
    monkeypatch.setenv("THRESHER_DATA", str(tmp_path))
    assert len(load("cifar10").train) == 20


def test_some_classes_of_a_set() -> None:
    train, test = load("digits:9,4")
    assert train.classes == 2
    assert train.class_names == ["9", "4"]
    everything = torch.cat([train.targets, test.targets]).bincount().tolist()
    assert everything == [180, 181]
    with pytest.raises(ThresherError, match="does not have all the classes"):
        load("digits:4,11")
    with pytest.raises(ThresherError, match="two different"):
        load("digits:4")


def test_own_npz_by_name_and_by_path_with_real_targets_and_groups(tmp_path: Path) -> None:
    targets = np.random.default_rng(0).normal(size=(25, 10)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", train_images=images(25, 9, 9), train_targets=targets, train_groups=np.arange(25))
    by_name, by_path = load("mine", data_dir=tmp_path), load(str(tmp_path / "mine.npz"))
    assert by_name.train.is_regression
    assert (len(by_name.train), len(by_name.test), by_name.train.input_shape) == (20, 5, (1, 9, 9))
    assert torch.equal(by_name.test.columns["group"], by_name.test.ids)
    assert torch.equal(by_name.test.targets, by_path.test.targets)


def test_float_features_pass_as_they_are(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(10, 4))
    np.savez(tmp_path / "plain.npz", train_images=features, train_targets=np.arange(10) % 2)
    train, _ = load("plain", data_dir=tmp_path)
    assert train.normalise is None
    assert torch.equal(train.inputs, torch.as_tensor(features, dtype=torch.float32)[train.ids])  # type: ignore[arg-type]


def test_broken_npz_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cifar10.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ThresherError, match="cannot be read"):
        load("cifar10", data_dir=tmp_path)
    np.savez(tmp_path / "odd.npz", train_images=images(5, 4, 4))
    with pytest.raises(ThresherError, match="no train_targets"):
        load("odd", data_dir=tmp_path)
    np.savez(tmp_path / "half.npz", train_images=images(5, 4), train_targets=np.arange(5), test_images=images(5, 4))
    with pytest.raises(ThresherError, match="no test_targets"):
        load("half", data_dir=tmp_path)
    np.savez(tmp_path / "words.npz", train_images=images(5, 4), train_targets=np.array(list("abcde")))
    with pytest.raises(ThresherError, match="class numbers or floats"):
        load("words", data_dir=tmp_path)


@pytest.mark.parametrize("zipped", [False, True])
def test_fashion_mnist_from_idx_files(tmp_path: Path, zipped: bool) -> None:
    def save(name: str, array: np.ndarray[Any, Any]) -> None:
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        raw = head + array.astype(np.uint8).tobytes()
        (tmp_path / (name + ".gz" * zipped)).write_bytes(gzip.compress(raw) if zipped else raw)

    train = images(12, 28, 28)
    save("train-images-idx3-ubyte", train)
    save("train-labels-idx1-ubyte", np.arange(12) % 10)
    save("t10k-images-idx3-ubyte", images(4, 28, 28, seed=1))
    with pytest.raises(ThresherError, match="all four idx files"):
        load("fashion-mnist", data_dir=tmp_path)
    save("t10k-labels-idx1-ubyte", np.array([0, 9, 1, 2]))
    made = load("fashion-mnist", data_dir=tmp_path)
    assert torch.equal(made.train.inputs, torch.from_numpy(train)[:, None])  # type: ignore[arg-type]
    assert made.test.targets.tolist() == [0, 9, 1, 2]
    assert made.train.class_names is not None
    assert made.train.class_names[9] == "ankle boot"
    name = "t10k-labels-idx1-ubyte" + ".gz" * zipped
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-3])
    with pytest.raises(ThresherError, match="get the file again"):
        load("fashion-mnist", data_dir=tmp_path)


def test_cifar10_as_torchvision_stores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    folder = tmp_path / datasets.CIFAR10.base_folder
    folder.mkdir()
    batches = [*datasets.CIFAR10.train_list, *datasets.CIFAR10.test_list]
    for number, (file, _) in enumerate(batches):
        batch = {"data": images(4, 3072, seed=number), "labels": [0, 1, 2, 9]}
        (folder / file).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a"] * 10}))
    monkeypatch.setattr(datasets.CIFAR10, "_check_integrity", lambda _: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    train, test = load("cifar10", data_dir=tmp_path)
    assert (len(train), len(test), train.input_shape, train.classes) == (20, 4, (3, 32, 32), 10)
    assert torch.equal(test.inputs, torch.from_numpy(images(4, 3072, seed=5)).reshape(4, 3, 32, 32))  # type: ignore[arg-type]


def test_svhn_as_torchvision_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    held = images(6, 3, 4, 5)

    def fake(_root: str, *, split: str, download: bool) -> SimpleNamespace:
        assert download
        return SimpleNamespace(data=held, labels=np.arange(6) if split == "train" else np.arange(6)[::-1])

    monkeypatch.setattr(datasets, "SVHN", fake)
    train, test = load("svhn", data_dir=tmp_path)
    assert torch.equal(train.inputs, torch.from_numpy(held))  # type: ignore[arg-type]
    assert test.targets.tolist() == [5, 4, 3, 2, 1, 0]


def test_a_download_that_fails_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("torchvision.datasets")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no route")

    monkeypatch.setattr(datasets, "SVHN", fail)
    with pytest.raises(ThresherError, match=r"put svhn\.npz into"):
        load("svhn", data_dir=tmp_path)


def test_human_labels_from_npz(tmp_path: Path) -> None:
    clean = save_cifar10(tmp_path)
    with pytest.raises(ThresherError, match="CIFAR-N project"):
        load("cifar10n-worse", data_dir=tmp_path)
    worse = clean.copy()
    worse[:8] = (worse[:8] + 1) % 10
    np.savez(tmp_path / "cifar10n_labels.npz", clean_label=clean, worse_label=worse)
    train, test = load("cifar10n-worse", data_dir=tmp_path)
    assert train.targets.tolist() == worse.tolist()
    assert train.columns["true_target"].tolist() == clean.tolist()
    assert train.columns["is_corrupt"].tolist() == [True] * 8 + [False] * 12
    assert "is_corrupt" not in test.columns
    with pytest.raises(ThresherError, match="no aggre_label"):
        load("cifar10n-aggre", data_dir=tmp_path)
    np.savez(tmp_path / "cifar10n_labels.npz", clean_label=clean[::-1], worse_label=worse)
    with pytest.raises(ThresherError, match="order"):
        load("cifar10n-worse", data_dir=tmp_path)


def rewritten(path: Path, old: bytes, new: bytes) -> None:
    """Replace a name inside a file that torch.save wrote."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    assert any(old in part for part in parts.values())
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part.replace(old, new))


@pytest.mark.parametrize("module", [b"numpy._core.multiarray", b"numpy.core.multiarray"])
def test_human_labels_from_the_projects_own_file(tmp_path: Path, module: bytes) -> None:
    fine = np.arange(100)
    np.savez(
        tmp_path / "cifar100.npz",
        train_images=images(100, 4, 4, 3),
        train_targets=fine,
        test_images=images(2, 4, 4, 3),
        test_targets=fine[:2],
    )
    torch.save({"clean_label": fine, "noisy_label": fine[::-1].copy()}, tmp_path / "CIFAR-100_human.pt")
    written = np.empty(0).__reduce__()[0].__module__.encode()
    rewritten(tmp_path / "CIFAR-100_human.pt", written, module)  # the name depends on the numpy that wrote the file
    train, _ = load("cifar100n", data_dir=tmp_path)
    assert train.targets.tolist() == list(range(99, -1, -1))
    assert train.columns["is_corrupt"].all()


def test_a_label_file_with_code_in_it_is_refused(tmp_path: Path) -> None:
    save_cifar10(tmp_path)
    torch.save({"clean_label": Path("x"), "worse_label": [1]}, tmp_path / "CIFAR-10_human.pt")
    with pytest.raises(ThresherError, match="cannot be read as label columns"):
        load("cifar10n-worse", data_dir=tmp_path)


def test_image_folder_streams_scaled_and_cropped_images(tmp_path: Path) -> None:
    for number in range(5):
        save_image(tmp_path / "pets" / "cat" / f"{number}.png", (200, 0, number))
        save_image(tmp_path / "pets" / "dog" / f"{number}.png", (0, 200, number), size=(20, 50))
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("no image")
    train, test = load(f"{tmp_path / 'pets'}:16")
    assert (len(train), len(test), train.input_shape, train.classes) == (8, 2, (3, 16, 16), 2)
    assert list(train.class_names or []) == ["cat", "dog"]
    assert not train.in_memory
    held = in_memory(train)
    assert isinstance(held.inputs, torch.Tensor)
    assert held.inputs.dtype == torch.uint8
    reds = (held.inputs.float().mean((2, 3))[:, 0] > 100).long()
    assert torch.equal(1 - reds, train.targets)
    order = torch.arange(8).reshape(2, 4)
    for streamed, kept in zip(train.batches(order), held.batches(order), strict=True):
        assert torch.equal(streamed, kept)


def test_image_folder_crops_the_centre_and_turns_photographs_upright(tmp_path: Path) -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 255
    for label in "ab":
        for number in range(5):
            path = tmp_path / label / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            exif = comment(str(path))
            exif[0x0112] = 3  # upside down
            picture = wide.copy()
            picture[0] = [255, 0, 0]
            Image.fromarray(picture).save(path, exif=exif)
    first = in_memory(load(f"{tmp_path}:20").train).inputs[0]
    assert isinstance(first, torch.Tensor)
    assert first[:, :-1].float().mean() == 255
    assert first[:, -1].float().mean((1,)).tolist() == [255, 0, 0]


def test_a_broken_image_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ThresherError, match="has no subfolders"):
        load(str(tmp_path))
    (tmp_path / "a").mkdir()
    with pytest.raises(ThresherError, match="has no images"):
        load(str(tmp_path))
    for number in range(5):
        (tmp_path / "a" / f"{number}.jpg").write_text("not a picture")
    (tmp_path / "b").mkdir()
    with pytest.raises(ThresherError, match="images of one class only"):
        load(str(tmp_path))
    for number in range(5):
        save_image(tmp_path / "b" / f"{number}.jpg")
    with pytest.raises(ThresherError, match="cannot be read as an image"):
        in_memory(load(str(tmp_path)).train)


@pytest.mark.parametrize("parts", [("",), ("train", "test")])
def test_images_beside_the_subfolders_are_refused(tmp_path: Path, parts: tuple[str, ...]) -> None:
    for part in parts:
        for number in range(10):
            save_image(tmp_path / part / "ab"[number % 2] / f"{number}.png")
    assert load(str(tmp_path)).train.classes == 2
    save_image(tmp_path / parts[-1] / "loose.png")
    save_image(tmp_path / parts[-1] / ".hidden.png")
    with pytest.raises(ThresherError, match="1 images beside its subfolders"):
        load(str(tmp_path))


def test_imagenet_and_its_first_classes(tmp_path: Path) -> None:
    for number in range(60):
        for part in ("train", "val"):
            save_image(tmp_path / "imagenet" / part / f"n{number:08d}" / "x.JPEG")
    train, test = load("imagenet:32", data_dir=tmp_path)
    assert (len(train), len(test), train.classes, train.input_shape) == (60, 60, 60, (3, 32, 32))
    few = load("imagenet-50:32", data_dir=tmp_path)
    assert (len(few.test), few.test.classes, int(few.test.targets.max())) == (50, 50, 49)
    save_image(tmp_path / "imagenet" / "val" / "n99999999" / "x.JPEG")
    with pytest.raises(ThresherError, match="n99999999"):
        load("imagenet", data_dir=tmp_path)


def test_mini_webvision_reads_the_google_list_of_fifty_classes(tmp_path: Path) -> None:
    root = tmp_path / "webvision"
    (root / "info").mkdir(parents=True)
    with pytest.raises(ThresherError, match="train_filelist_google"):
        load("mini-webvision", data_dir=tmp_path)
    (root / "info" / "train_filelist_google.txt").write_text(
        "google/q0001/a.jpg 0\ngoogle/q0002/b.jpg 49\nq/c.jpg 50\n"
    )
    (root / "info" / "val_filelist.txt").write_text("val1.jpg 49\nval2.jpg 999\n")
    save_image(root / "google/q0001/a.jpg", (255, 0, 0))
    save_image(root / "google/q0002/b.jpg", (0, 0, 255))
    with pytest.raises(ThresherError, match="unpack the images"):
        load("mini-webvision", data_dir=tmp_path)
    save_image(root / "val_images_256/val1.jpg")
    train, test = load("mini-webvision:24", data_dir=tmp_path)
    assert (train.targets.tolist(), test.targets.tolist(), train.classes) == ([0, 49], [49], 50)
    held = in_memory(train).inputs
    assert isinstance(held, torch.Tensor)
    assert held[:, 0].float().mean((1, 2)).tolist() == pytest.approx([254, 0], abs=2)


def save_celeba(root: Path) -> None:
    files = [f"{number:06d}.jpg" for number in range(1, 7)]
    for number, file in enumerate(files):
        save_image(root / "img_align_celeba" / file, (number * 40, 0, 0), size=(178, 218))
    places = "lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y leftmouth_x leftmouth_y rightmouth_x rightmouth_y"
    points = [f"{file}  " + " ".join(str(10 * number + j) for j in range(10)) for number, file in enumerate(files)]
    (root / "list_landmarks_align_celeba.txt").write_text("\n".join(["6", places, *points]) + "\n")
    attributes = [f"{file} -1  {1 if number % 2 else -1}" for number, file in enumerate(files)]
    (root / "list_attr_celeba.txt").write_text("\n".join(["6", "Bald Male ", *attributes]) + "\n")
    partition = [f"{file} {part}" for file, part in zip(files, [0, 0, 0, 1, 2, 2], strict=True)]
    (root / "list_eval_partition.txt").write_text("\n".join(partition) + "\n")


def test_celeba_landmarks_and_gender(tmp_path: Path) -> None:
    save_celeba(tmp_path / "celeba")
    train, test = load("celeba-landmarks:32", data_dir=tmp_path)
    assert train.is_regression
    assert (train.targets.shape, train.input_shape) == ((3, 10), (3, 32, 32))
    assert test.targets[0].tolist() == [40.0 + j for j in range(10)]
    men = load("celeba-gender", data_dir=tmp_path)
    assert (men.train.targets.tolist(), men.test.targets.tolist()) == ([0, 1, 0], [0, 1])
    assert men.train.class_names == ["female", "male"]
    assert men.train.input_shape == (3, 64, 64)
    people = "".join(f"{number:06d}.jpg {number % 2}\n" for number in range(1, 7))
    (tmp_path / "celeba" / "identity_CelebA.txt").write_text(people)
    assert load("celeba-gender", data_dir=tmp_path).train.columns["group"].tolist() == [1, 0, 1]


def test_celeba_with_a_damaged_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ThresherError, match="list_landmarks_align_celeba"):
        load("celeba-landmarks", data_dir=tmp_path)
    save_celeba(tmp_path / "celeba")
    path = tmp_path / "celeba" / "list_landmarks_align_celeba.txt"
    text = path.read_text()
    path.write_text(text.replace("000002.jpg", "000009.jpg"))
    with pytest.raises(ThresherError, match=r"no target for 000002\.jpg"):
        load("celeba-landmarks", data_dir=tmp_path)
    path.write_text(text.replace("10 11 12", "10 eleven 12"))
    with pytest.raises(ThresherError, match="'eleven'"):
        load("celeba-landmarks", data_dir=tmp_path)
    path.write_text(text.replace("10 11 12", "10 11"))
    with pytest.raises(ThresherError, match="not the CelebA list"):
        load("celeba-landmarks", data_dir=tmp_path)


def save_table(path: Path, separator: str = ",") -> None:
    rows = [["age", "town", "target"]]
    rows += [
        [str(20 + number) if number % 7 else "", "ABC"[number % 3], ["no", "yes"][number % 2]] for number in range(40)
    ]
    text = "\n".join(separator.join(row) for row in rows) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize(
    ("name", "separator"), [("t.csv", ","), ("t.tsv", "\t"), ("t.tsv.gz", "\t"), ("t.csv.gz", ",")]
)
def test_tables_of_text_and_numbers(tmp_path: Path, name: str, separator: str) -> None:
    save_table(tmp_path / name, separator)
    train, test = load(str(tmp_path / name))
    assert (len(train), len(test), train.class_names) == (32, 8, ["no", "yes"])
    assert isinstance(train.inputs, torch.Tensor)
    assert isinstance(test.inputs, torch.Tensor)
    assert train.input_shape == (5,)  # age, age missing, three towns
    ages, missing, towns = train.inputs[:, 0], train.inputs[:, 1], train.inputs[:, 2:]
    assert ages.mean().item() == pytest.approx(0, abs=1e-5)
    assert ages.std(correction=0).item() == pytest.approx(1, abs=1e-5)
    assert torch.equal(missing == 1, train.ids % 7 == 0)
    known = train.ids[missing == 0].double()
    filled = torch.where(missing == 1, known.quantile(0.5), train.ids.double())  # the age is the row number plus 20
    assert torch.allclose(ages.double(), (filled - filled.mean()) / filled.std(correction=0), atol=1e-5)
    assert torch.equal(towns.argmax(1), train.ids % 3)
    assert torch.equal(towns.sum(1), torch.ones(32))
    assert torch.equal(train.targets, train.ids % 2)
    slope = (ages[1] - ages[2]) / (train.ids[1] - train.ids[2])
    both_known = (test.ids % 7 != 0) & (missing[1] == 0)
    assert torch.allclose(
        test.inputs[both_known, 0] - ages[1], slope * (test.ids[both_known] - train.ids[1]), atol=1e-4
    )


def test_parquet_with_real_targets_booleans_and_categories(tmp_path: Path) -> None:
    columns = {
        "size": list(range(20)),
        "old": [number % 2 == 0 for number in range(20)],
        "kind": pa.array(["x", "y"] * 10).dictionary_encode(),
        "price": [1000.5 * number for number in range(20)],
        "rent": [float(number) for number in range(20)],
    }
    pa.parquet.write_table(pa.table(columns), tmp_path / "homes.parquet")
    train, test = load(f"{tmp_path / 'homes.parquet'}:price")
    assert train.is_regression
    assert train.input_shape == (5,)  # size, old, kind x, kind y, rent
    learnt = train.ids.double()
    scaled = (test.ids - learnt.mean()) / learnt.std(correction=0)  # the price is the row number times 1000.5
    assert test.targets[:, 0].tolist() == pytest.approx(scaled.tolist(), abs=1e-5)
    both = load(f"{tmp_path / 'homes.parquet'}:price,rent")
    assert (both.train.targets.shape[1], both.train.input_shape) == (2, (4,))
    assert both.train.targets.mean(0).tolist() == pytest.approx([0, 0], abs=1e-5)
    assert both.train.targets.std(0, correction=0).tolist() == pytest.approx([1, 1], abs=1e-5)
    assert not torch.allclose(both.test.targets.mean(0), torch.zeros(2), atol=1e-4)


def test_real_targets_far_from_zero_keep_their_digits(tmp_path: Path) -> None:
    rows = [f"{number},{1.7e9 + number / 10:.1f}" for number in range(50)]
    (tmp_path / "t.csv").write_text("\n".join(["a,target", *rows]))
    train, _ = load(str(tmp_path / "t.csv"))
    assert isinstance(train.inputs, torch.Tensor)
    torch.testing.assert_close(train.targets, train.inputs, atol=1e-5, rtol=0)


def test_a_category_only_the_test_rows_have_is_all_zeros(tmp_path: Path) -> None:
    _, held = hold_out(torch.arange(20) % 2)
    rows = [f"{'rare' if number == held[0] else 'usual'},{number % 2}" for number in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["kind,target", *rows]))
    _, test = load(str(tmp_path / "t.csv"))
    assert isinstance(test.inputs, torch.Tensor)
    assert test.inputs.flatten().tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,targt\n" + "1,0\n2,1\n" * 5, "did you mean 'targt'"),
        ("a,target\n" + "1,0\n2,\n" * 5, "5 rows without a target"),
        ("target\n" + "0\n1\n" * 5, "no column beside target"),
        ("b,target\n" + ",0\n,1\n" * 5, "nothing to predict from in t.csv .Column b is empty"),
        ("a,target\n" + "inf,0\n2,1\n" * 5, "infinite"),
        ("a,target\n" + "12:30:00,0\n12:31:00,1\n" * 5, "turn them into numbers .* .--drop a"),
        ("a,target\n" + "1,2.5\n2,2.5\n" * 5, "Column target is 2.5 in all training rows"),
        ("a,target\n" + "1,inf\n2,2.5\n" * 5, "Column target has infinite values"),
        ("a,target\n1,2,3\n", "cannot be read as a table"),
        ("a,target\n" + "1,same\n2,same\n" * 5, "only the class 'same'"),
        ("a,target\n", "There are no rows in t.csv"),
        ("a,target\n" + "1,\n2,\n" * 5, "label a few rows of each class first"),
        ("a,a,target\n" + "1,2,0\n2,3,1\n" * 5, "The column a is twice in t.csv"),
        (
            "a,target\n" + "".join(f"name{number},{number % 2}\n" for number in range(1500)),
            "a has another value",
        ),
    ],
)
def test_tables_that_cannot_be_used_say_why(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ThresherError, match=sentence):
        load(str(tmp_path / "t.csv"))


def test_only_an_empty_cell_of_text_is_missing(tmp_path: Path) -> None:
    rows = [f"{'NA' if number == 3 else number},{'NA' if number % 2 else 'null'}" for number in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["a,target", *rows, "1,other", "2,other"]))
    train, _ = load(str(tmp_path / "t.csv"))
    assert train.class_names == ["NA", "null", "other"]
    assert train.input_shape == (2,)  # a, and where it is missing
    with (tmp_path / "t.csv").open("a") as file:
        file.write("\n1,\n2,")
    with pytest.raises(ThresherError, match="2 rows without a target"):
        load(str(tmp_path / "t.csv"))


@pytest.mark.parametrize("text", ["größe,target\n" + "1,0\n2,1\n" * 5, "a,target\n" + "1,groß\n2,klein\n" * 5])
def test_a_table_that_is_not_utf_8_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    with pytest.raises(ThresherError, match=r"t\.csv is not UTF-8"):
        load(str(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("digit", "did you mean 'digits'"),
        ("qqqq", "choose one of"),
        ("no/such/folder", "There is no file or folder"),
        ("gone.csv", "There is no file or folder"),
        (f"{Path(__file__).parent}:x", "'x' is not a size of images"),
        ("cifar10n-worse:3", "takes no option"),
        ("imagenet:64,64", "not a size of images"),
    ],
)
def test_unknown_names_and_paths(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        load(name, data_dir=tmp_path)


def test_a_file_of_another_kind_and_a_missing_data_folder(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(ThresherError, match="of no kind that Thresher reads"):
        load(str(tmp_path / "t.xlsx"))
    with pytest.raises(ThresherError, match="no data folder"):
        load("cifar10", data_dir=tmp_path / "nowhere")


def test_a_folder_that_is_named_like_a_known_set_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    with pytest.warns(UserWarning, match=r"write \./digits"):
        assert len(load("digits").train) == 1438
    with pytest.raises(ThresherError, match="digits"):
        load("./digits")  # the folder, which has no images


def test_records_show_real_targets_in_the_unit_in_which_they_came(tmp_path: Path) -> None:
    prices = 5e6 + 1000 * torch.arange(20, dtype=torch.float64)
    rows = "\n".join(f"{place % 7},{price:.1f},{-price:.1f}" for place, price in enumerate(prices.tolist()))
    (tmp_path / "homes.csv").write_text("rooms,price,loss\n" + rows)
    splits = load(f"{tmp_path / 'homes.csv'}:price,loss")
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(*splits.train.input_shape, 2))
    torch.nn.init.zeros_(model[1].weight)
    torch.nn.init.zeros_(model[1].bias)
    nothing = partial(torch.optim.SGD, lr=0.0)
    run = fit(Recipe(), model, splits.train, epochs=1, batch=4, optimizer=nothing, out=tmp_path / "run", device="cpu")
    given, seen = prices[splits.train.ids], run.ledger.to_pandas()
    stored = pa.parquet.read_table(tmp_path / "run" / "examples.parquet").to_pandas()
    for rows in (seen, stored):
        np.testing.assert_allclose(rows["target_0"], given, rtol=1e-6)
        np.testing.assert_allclose(rows["target_1"], -given, rtol=1e-6)
    np.testing.assert_allclose(seen["prediction_0"], np.full(len(given), float(given.mean())), rtol=1e-6)


def test_what_is_taken_out_of_targets_can_be_put_back(tmp_path: Path) -> None:
    prices = torch.linspace(90.0, 110.0, 20)
    known = Examples(torch.zeros(20, 1), prices + 1, columns={"true_target": prices})
    once = standardise_targets(Splits(known, known)).train
    twice = standardise_targets(Splits(replace(once, targets=once.targets + 3), once)).train
    for scaled in (once, twice):
        torch.testing.assert_close(scaled.as_given(scaled.columns["true_target"])[:, 0], prices)
    torch.testing.assert_close(once.as_given(once.targets)[:, 0], prices + 1)
    lengths = Examples(torch.zeros(2, 1), torch.tensor([-1.0, 1.0]), target_scale=(100, np.array([5])))  # type: ignore[arg-type]
    assert lengths.as_given(lengths.targets).tolist() == [[95.0], [105.0]]
    with pytest.raises(ThresherError, match="different scales"):
        join(lengths, replace(lengths, ids=torch.tensor([7, 8]), target_scale=None))
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(f"{place},{place + 0.5}" for place in range(40)))
    (tmp_path / "clean.csv").write_text("x,y\n1.5,1.5\n2.5,2.5")
    known = load(f"{tmp_path / 't.csv'}:y")
    clean = load_clean(str(tmp_path / "clean.csv"), known, f"{tmp_path / 't.csv'}:y")
    assert clean.as_given(clean.targets).flatten().tolist() == pytest.approx([1.5, 2.5])


@pytest.mark.parametrize(
    ("targets", "scale", "said"),
    [
        ([0.5, 1.5], (torch.zeros(3), torch.ones(3)), "another shape"),
        ([0.5, 1.5], (0.0, 0.0), "not above 0"),
        ([0, 1], (0.0, 1.0), "another shape"),
    ],
)
def test_a_scale_that_does_not_fit_is_refused_at_once(targets: list[float], scale: Any, said: str) -> None:
    with pytest.raises(ThresherError, match=said):
        Examples(torch.zeros(2, 1), torch.tensor(targets), target_scale=scale)


def test_standardising_classes_is_refused() -> None:
    classes = Examples(torch.zeros(2, 1), torch.tensor([0, 1]))
    with pytest.raises(ThresherError, match="only real targets"):
        standardise_targets(Splits(classes, classes))


def test_importing_the_package_stays_light() -> None:
    late = "{'sklearn', 'PIL', 'torchvision'}"
    code = f"import sys, thresher.data, thresher.corruption; print(sorted({late} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "digits" in names()


def test_digits_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = loading.digits()
    monkeypatch.setattr(loading, "find_spec", lambda name: None)  # noqa: ARG005
    for ours, theirs in zip(quick, loading.digits(), strict=True):
        assert torch.equal(ours.inputs, theirs.inputs)
        assert torch.equal(ours.labels, theirs.labels)


def test_a_training_on_digits_needs_no_scikit_learn() -> None:
    code = (
        "import sys, torch, thresher as th\n"
        "found = th.methods.choose(th.load('digits').train, torch.nn.Identity(), epochs=9)\n"
        "assert 'sklearn' not in sys.modules, found"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
