"""Teachers that are tables: what is read from Parquet, CSV and npz, by ids or by files, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import Tensor

from thresher import Examples, ThresherError
from thresher.data import Predictions, image_folder, read_predictions
from thresher.data.image_files import ImageFiles

PETS = Examples(
    torch.zeros(4, 1), torch.tensor([0, 1, 2, 0]), ids=torch.tensor([7, 2, 9, 4]), class_names=["cat", "dog", "eel"]
)
CHANCES = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])


def write(path: Path, ids: Tensor, chances: Tensor, **more: Any) -> Path:
    """A table in the file's own kind, with columns "class 0", "class 1", ..."""
    columns = {"id": ids.numpy(), **{f"class {c}": chances[:, c].numpy() for c in range(chances.shape[1])}, **more}
    if path.suffix == ".npz":
        np.savez(path, ids=ids.numpy(), probabilities=chances.numpy(), **more)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        pyarrow.csv.write_csv(pa.table(columns), path)
    return path


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".npz"])
def test_probabilities_are_found_by_id(tmp_path: Path, ending: str) -> None:
    ids = torch.tensor([9, 4, 100, 7])
    learnt = np.array([True, False, True, False])
    said = read_predictions(write(tmp_path / f"t{ending}", ids, CHANCES, trained_on=learnt), PETS)
    chances, known = said.of(PETS)
    assert known.tolist() == [True, False, True, True]
    torch.testing.assert_close(chances[known], CHANCES[[3, 0, 1]])
    assert (chances[~known] == 0).all()
    assert said.learnt_from(PETS).tolist() == [9]


def test_columns_are_found_by_the_names_of_the_classes(tmp_path: Path) -> None:
    path, ids = tmp_path / "t.csv", PETS.ids
    path.write_text("eel,id,cat,dog\n" + "".join(f"0.7,{int(id_)},0.1,0.2\n" for id_ in ids))
    torch.testing.assert_close(read_predictions(path, PETS).probabilities[0], torch.tensor([0.1, 0.2, 0.7]))
    path.write_text("id,a,b,c\n2,0.7,0.1,0.2\n")
    torch.testing.assert_close(read_predictions(path, PETS).probabilities[0], torch.tensor([0.7, 0.1, 0.2]))
    for header, what in (("id,cat,dog,ant", "lacks a column for the class 'eel'"), ("id,cat,dog,eel,ant", "'ant'")):
        path.write_text(f"{header}\n2{',0.25' * header.count(',')}\n")
        with pytest.raises(ThresherError, match=what):
            read_predictions(path, PETS)


def test_arrays_and_lists_are_as_good_as_tensors() -> None:
    ids, chances = [4, 2], [[0.25, 0.75], [1.0, 0.0]]
    tensors = Predictions(torch.tensor(ids), torch.tensor(chances), torch.tensor([True, False]))
    for made in (np.array, list):
        given = Predictions(made(ids), made(chances), made([True, False]))  # type: ignore[arg-type]
        assert torch.equal(given.ids, tensors.ids)
        assert torch.equal(given.probabilities, tensors.probabilities)
        assert given.probabilities.dtype == torch.float32
        assert given.trained_on is not None
        assert given.trained_on.tolist() == [True, False]


def test_rounded_probabilities_are_scaled_to_sum_one() -> None:
    said = Predictions(torch.tensor([1]), torch.tensor([[0.33, 0.33, 0.33]]))
    torch.testing.assert_close(said.probabilities, torch.full((1, 3), 1 / 3))


def pictures(folder: Path) -> Examples:
    """Two classes of two images, whose names repeat."""
    for kind in ("cat", "dog"):
        (folder / kind).mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (4, 4), (number, ord(kind[0]), 0)).save(folder / kind / f"{number}.png")
    return image_folder(folder, size=4).train


@pytest.mark.parametrize("full", [False, True])
def test_images_are_found_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    monkeypatch.chdir(tmp_path)
    train, table = pictures(Path("pets")), Path("t.csv")
    place = tmp_path / "pets" if full else Path()
    files = [place / kind / f"{number}.png" for number in range(5) for kind in ("dog", "cat")]
    lines = [
        f"{file},{0.9 if file.parent.name == 'cat' else 0.1},{0.1 if file.parent.name == 'cat' else 0.9}"
        for file in files
    ]
    table.write_text("\n".join(["file,cat,dog", *lines]))
    chances, known = read_predictions(table, train.subset([0, 1]), train.subset(torch.arange(2, len(train)))).of(train)
    assert known.all()
    assert chances.argmax(1).tolist() == train.targets.tolist()
    table.write_text("file,cat,dog\n1.png,0.5,0.5\n")
    with pytest.raises(ThresherError, match="several images"):
        read_predictions(table, train)
    with pytest.raises(ThresherError, match="names files, and examples is not made of files"):
        read_predictions(table, Examples(torch.zeros(2, 1), torch.tensor([0, 1])))


def test_a_set_of_files_beside_one_without(tmp_path: Path) -> None:
    train = pictures(tmp_path / "pets")
    assert isinstance(train.inputs.dataset, ImageFiles)
    table = tmp_path / "t.csv"
    table.write_text("file,cat,dog\ncat/0.png,0.5,0.5\nelsewhere/0.png,0.5,0.5\n,0.5,0.5\n")
    plain = Examples(torch.zeros(2, 3, 4, 4), torch.tensor([0, 1]), ids=torch.tensor([900, 901]))
    assert len(read_predictions(table, train, plain).ids) <= 1


IDS, THIRDS = torch.arange(3), torch.full((3, 3), 1 / 3)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: Predictions(IDS, torch.full((3, 3), 0.5)), "not probabilities"),
        (lambda: Predictions(IDS, torch.full((3, 3), torch.nan)), "not probabilities"),
        (lambda: Predictions(IDS, torch.tensor([[1.5, -0.5, 0.0]] * 3)), "not probabilities"),
        (lambda: Predictions(IDS[:2], THIRDS), "give whole numbers"),
        (lambda: Predictions(IDS.float(), THIRDS), "give whole numbers"),
        (lambda: Predictions(IDS[:0], THIRDS[:0]), "give whole numbers"),
        (lambda: Predictions(IDS, THIRDS[0]), "give whole numbers"),
        (lambda: Predictions(torch.zeros(3).long(), THIRDS), "repeat"),
        (lambda: Predictions(IDS, THIRDS, torch.ones(2, dtype=torch.bool)), "not one boolean an example"),
        (lambda: Predictions(IDS, THIRDS, torch.ones(3)), "not one boolean an example"),
    ],
)
def test_what_is_no_table_of_probabilities_is_refused(wrong: Callable[[], Predictions], what: str) -> None:
    with pytest.raises(ThresherError, match=what):
        wrong()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("p\n1.0\n", "lacks the column 'id'"),
        ("id\n1\n", "0 columns of probabilities"),
        ("id,a,a,b\n1,0.5,0.25,0.25\n", "some with the same name"),
        ("id,a,b,c\nx,0.5,0.25,0.25\n", "'id' .* is string: let it hold whole numbers"),
        ("id,a,b,c\n1.5,0.5,0.25,0.25\n", "'id' .* is double: let it hold whole numbers"),
        ("id,a,b,c\n1,0.5,0.25,0.25\n,0.5,0.25,0.25\n", "with 1 gaps"),
        ("id,a,b,c\n1,high,0.25,0.25\n", "'a' .* is string: let it hold probabilities"),
        ("id,a,b,c,trained_on\n1,0.5,0.25,0.25,perhaps\n", "'trained_on' .* true or false"),
        ("id,a,b,c\n1,0.5\n", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_a_csv_that_says_something_else_is_refused(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ThresherError, match=what):
        read_predictions(tmp_path / "t.csv", PETS)


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "text.npz").write_text("x")
    np.savez(tmp_path / "half.npz", ids=np.arange(3))
    np.savez(tmp_path / "words.npz", ids=np.array(["a"]), probabilities=np.ones((1, 1)))
    np.savez(tmp_path / "real.npz", ids=np.array([0.5]), probabilities=np.ones((1, 1)))
    (tmp_path / "text.parquet").write_text("x")
    for name, what in (
        ("a.txt", "not a table"),
        ("half.npz", "lacks the array 'probabilities'"),
        ("words.npz", "'ids' .* save int64"),
        ("real.npz", "'ids' .* save int64"),
        ("text.npz", "cannot be read"),
        ("text.parquet", "cannot be read"),
        ("none.csv", "There is no file"),
        ("none.npz", "There is no file"),
    ):
        with pytest.raises(ThresherError, match=what):
            read_predictions(tmp_path / name, PETS)
