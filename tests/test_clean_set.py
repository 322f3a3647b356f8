"""The clean set: taken out of a set whose truth is known, or read from files as the training set was read."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_cli import thresher
from tiny import examples, net, streamed, trainer, trusted
from torch import Tensor

from thresher import Examples, Ledger, Recipe, ThresherError, fit
from thresher.corruption import corrupt
from thresher.data import load, load_clean, take_clean
from thresher.data.image_files import files_of
from thresher.data.loading import digits
from thresher.engine.loop.history import measure
from thresher.methods import clean_only, fine_tune, with_clean


def test_taken_clean_examples_are_balanced_and_true() -> None:
    lopsided = corrupt(digits().train, "imbalance:50", seed=0)
    noisy = corrupt(lopsided, "symmetric:0.5", seed=0)
    rest, clean = take_clean(noisy, 40)
    assert len(rest) + len(clean) == len(noisy)
    assert not set(rest.ids.tolist()) & set(clean.ids.tolist())
    assert torch.equal(clean.targets, clean.columns["true_target"])
    sizes, there = clean.labels.bincount(minlength=10), noisy.columns["true_target"].bincount(minlength=10)
    assert sizes.max() - sizes[there >= 2 * sizes.max()].min() <= 1, "classes that are large enough give equally many"
    assert (sizes <= (there + 1) // 2).all(), "and none more than half"
    assert (sizes > 0).all()
    assert not torch.equal(take_clean(noisy, 40, seed=1)[1].ids, clean.ids)


def test_no_more_can_be_taken_than_there_is_and_nothing_without_the_truth() -> None:
    with pytest.raises(ThresherError, match="give 1 to 43"):
        take_clean(examples(), 44)
    with pytest.raises(ThresherError, match="give clean examples of your own"):
        take_clean(digits().train, 10)


# From files.


def save_images(folder: Path, *colours: str, each: int = 5, first: int = 0) -> Path:
    for colour in colours:
        (folder / colour).mkdir(parents=True)
        for number in range(first, first + each):
            Image.new("RGB", (20 + number, 24), colour).save(folder / colour / f"{number}.png")
    return folder


def test_a_folder_with_one_image_of_the_last_class(tmp_path: Path) -> None:
    data = str(save_images(tmp_path / "photos", "blue", "green", "red")) + ":16"
    train, trust = load(data).train, save_images(tmp_path / "trusted", "red", each=1, first=50)
    clean = load_clean(str(trust), load(data), data)
    assert clean.targets.tolist() == [2], "classes go by their names"
    assert (clean.classes, clean.input_shape) == (3, (3, 16, 16))
    (picture,) = clean.batches([torch.tensor([0])])
    (known,) = train.batches([(train.targets == 2).nonzero()[:1, 0]])
    torch.testing.assert_close(picture, known)
    assert not set(clean.ids.tolist()) & set(train.ids.tolist())
    save_images(tmp_path / "more", "darkred", each=1)
    with pytest.raises(ThresherError, match="no class among the training examples 'darkred': did you mean 'red'"):
        load_clean(str(tmp_path / "more"), load(data), data)
    with pytest.raises(ThresherError, match="has real targets"):
        load_clean(str(trust), load("regression"), "regression")


def test_own_images_from_the_command_line(tmp_path: Path) -> None:
    photos, trust = (
        save_images(tmp_path / "photos", "blue", "red"),
        save_images(tmp_path / "trusted", "red", each=1, first=50),
    )
    words = ["--data", f"{photos}:8", "--clean", trust, "--model", "mlp:8", "--batch", 4, "--epochs", 2]
    for method in ("l2rw", "clean-only"):
        more = ["--fine-tune", "--fine-tune-steps", 5, "--method", method, "--out", tmp_path / method]
        result = thresher("train", *words, *more)
        assert result.exit_code == 0, result.output
        assert "1 clean ones" in result.output
    table = Ledger.read(tmp_path / "clean-only").to_pandas()
    assert table["target"][table["weight"] > 0].tolist() == [1, 1], "one red image in each epoch"


TABLE = """age,town,label
10,rome,no
20,rome,yes
30,oslo,no
40,oslo,yes
50,bonn,maybe
"""
ROWS = TABLE + "".join(TABLE.split("\n", 1)[1] for _ in range(7))


def test_rows_of_a_table_are_scaled_as_the_training_rows(tmp_path: Path) -> None:
    data, trust = f"{tmp_path / 'rows.csv'}:label", tmp_path / "trusted.csv"
    (tmp_path / "rows.csv").write_text(ROWS)
    trust.write_text("label,town,age\nyes,rome,20.0\nmaybe,atlantis,\n")  # other columns first, and no number
    train = load(data).train
    clean = load_clean(str(trust), load(data), data)
    assert train.class_names == ["maybe", "no", "yes"]
    assert clean.targets.tolist() == [2, 0]
    assert isinstance(train.inputs, Tensor)
    assert isinstance(clean.inputs, Tensor)
    ages, twenty = train.inputs[:, 0], train.inputs[train.targets == 2].unique(dim=0)[0]  # the other is forty
    torch.testing.assert_close(clean.inputs[0], twenty)
    assert clean.inputs[1, 1:].tolist() == [0, 0, 0], "no training row is from there"
    assert clean.inputs[1, 0] == ages.sort().values[len(ages) // 2], "a missing number is the training rows' median"


def test_clean_rows_that_are_test_rows_are_warned_of(tmp_path: Path) -> None:
    rows = [f"{number},{number % 2}" for number in range(50)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,label", *rows]))
    data = f"{tmp_path / 'rows.csv'}:label"
    known = load(data)
    first = min(known.test.ids.tolist())
    with pytest.warns(
        UserWarning, match=rf"{len(known.test)} examples of .* are test ex.* number {first}, .*remove them"
    ):
        load_clean(data, known, data)
    checked = "".join(f"{number},{number % 2}\n" for number in known.train.ids.tolist())
    (tmp_path / "checked.csv").write_text("x,label\n" + checked)
    assert len(load_clean(str(tmp_path / "checked.csv"), known, data)) == len(known.train)


def test_clean_images_that_are_test_images_are_warned_of(tmp_path: Path) -> None:
    photos, trust = save_images(tmp_path / "photos", "blue", "red", each=20), tmp_path / "trusted"
    data = f"{photos}:8"
    known = load(data)
    learnt, tested = (files_of(each.inputs) for each in known)
    for number, file in enumerate([learnt[0], tested[0], tested[1]]):
        (trust / file.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, trust / file.parent.name / f"{number}.png")
    with pytest.warns(UserWarning, match=r"2 examples of .*trusted are test examples.*first is .*\.png"):
        load_clean(str(trust), known, data)


def test_clean_arrays_that_are_test_images_are_warned_of(tmp_path: Path) -> None:
    images, labels = np.random.default_rng(0).integers(0, 200, (60, 4, 4, 3), dtype=np.uint8), np.arange(60) % 3
    whole = {"train_images": images[:40], "train_targets": labels[:40]}
    np.savez(tmp_path / "all.npz", **whole, test_images=images[40:], test_targets=labels[40:])
    np.savez(tmp_path / "few.npz", train_images=images[38:43], train_targets=labels[38:43])
    with pytest.warns(UserWarning, match="3 examples of few are test examples.*the first is number 2"):
        load_clean("few", load("all", data_dir=tmp_path), "all", data_dir=tmp_path)


WRONG_ROWS = {
    "label,town,age\nnever,rome,20\n": "no class among the training examples 'never'",
    "label,town\nyes,rome\n": "no column 'age' in trusted.csv",
    "label,town,age\nyes,rome,old\n": "Column age of trusted.csv holds string where the training rows hold numbers",
    "label,town,age\n,rome,20\nyes,rome,20\n": "1 rows without a target",
}


@pytest.mark.parametrize(("text", "sentence"), WRONG_ROWS.items())
def test_rows_that_do_not_go_with_the_training_table(tmp_path: Path, text: str, sentence: str) -> None:
    data = f"{tmp_path / 'rows.csv'}:label"
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "trusted.csv").write_text(text)
    with pytest.raises(ThresherError, match=sentence):
        load_clean(str(tmp_path / "trusted.csv"), load(data), data)


def test_real_targets_columns_of_another_name_and_files_of_another_kind(tmp_path: Path) -> None:
    data, trust = f"{tmp_path / 'rows.csv'}:age", tmp_path / "trusted.csv"
    (tmp_path / "rows.csv").write_text(ROWS.replace("0,", "0.5,"))
    trust.write_text("age,town,label\n7,rome,yes\n")
    train = load(data).train
    ages = torch.arange(5)[train.ids % 5] * 10 + 10.5
    scaled = (7 - ages.mean()) / ages.std(correction=0)
    assert load_clean(f"{trust}:age", load(data), data).targets.flatten().tolist() == pytest.approx([scaled.item()])
    with pytest.raises(ThresherError, match="in its column age"):
        load_clean(f"{trust}:label", load(data), data)
    with pytest.raises(ThresherError, match="of another kind than digits"):
        load_clean(str(trust), load("digits"), "digits")


def test_arrays_are_scaled_as_the_training_images_and_none_is_held_out(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    images, labels = draws.integers(0, 200, (60, 4, 4, 3), dtype=np.uint8), np.arange(60) % 3
    np.savez(tmp_path / "all.npz", train_images=images, train_targets=labels)
    np.savez(tmp_path / "few.npz", train_images=images[:3] // 2, train_targets=labels[:3])
    known = load("all", data_dir=tmp_path)
    clean = load_clean("few", known, "all", data_dir=tmp_path)
    assert clean.normalise is known.train.normalise
    assert clean.targets.tolist() == [0, 1, 2]
    two = load("all:2,1", data_dir=tmp_path)
    assert load_clean("few:2,1", two, "all:2,1", data_dir=tmp_path).targets.tolist() == [1, 0]


# What is done with it.


def test_a_clean_set_joins_a_stream() -> None:
    train = streamed(examples(20, corrupt=0.4))
    clean = trusted(examples(20, seed=1), 3)
    both = with_clean(train, Examples(clean.inputs, clean.targets, ids=clean.ids + 1000))
    assert len(both) == 23
    assert both.columns["is_clean"].tolist() == [False] * 20 + [True] * 3
    (last,) = both.batches([torch.tensor([22])])
    assert isinstance(clean.inputs, Tensor)
    assert torch.equal(last[0], clean.inputs[2])
    corrected = with_clean(train, trusted(examples(20), 3))
    assert not corrected.columns["is_corrupt"][corrected.columns["is_clean"]].any()


def test_clean_only_learns_from_nobody_else() -> None:
    train = examples(60, corrupt=0.4)
    clean = trusted(train, 6)
    elsewhere = Examples(clean.inputs, clean.targets, ids=clean.ids + 1000)
    for given, rows in ((clean, 60), (elsewhere, 66)):
        settings = {"model": net(seed=1), "train": train, "clean": given, "epochs": 3, "batch": 8, "device": "cpu"}
        run = clean_only(trainer(settings))
        table = run.ledger.to_pandas()
        assert len(table) == 3 * rows
        assert set(table["id"][table["weight"] > 0]) == set(given.ids.tolist())
        assert run.clean_share(3) == 1.0
        assert sum(record["steps"] for record in run.history) >= 3 * rows // 8 - 1
    assert measure(run.model.eval()(clean.inputs), clean)["accuracy"] > 0.6


def test_fine_tuning_goes_on_from_a_run(tmp_path: Any) -> None:
    train = examples(60, corrupt=0.4)
    clean = trusted(train, 9)
    run = fit(Recipe(peers=2), net, train, epochs=1, batch=8, device="cpu")
    before = measure(run.model.eval()(clean.inputs), clean)["accuracy"]
    adam = partial(torch.optim.Adam, lr=0.02)
    tuned = fine_tune(run, clean, steps=200, batch=4, test=clean, device="cpu", optimizer=adam, out=tmp_path / "tuned")
    assert tuned.models[0] is run.models[0]
    assert tuned.models[1] is run.models[1]
    assert sum(record["steps"] for record in tuned.history) == 200
    assert 15 <= len(tuned.history) <= 25
    assert tuned.scores[-1] == 1.0 > before
