"""How raw data become inputs: the numbers that training saw, exactly, also after a way through JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.corruption import corrupt
from thresher.data import Preparation, Splits, in_memory, load, load_with_pool, preparation_of, table
from thresher.data.column_encoders import encoder_from_record, inputs_of
from thresher.data.column_fitting import fit_columns
from thresher.data.preparation_record import preparation_from_record

ROWS = 40
DRAWS = np.random.default_rng(0)
COLUMNS: dict[str, list[Any]] = {
    "age": [None if place % 7 == 0 else float(value) for place, value in enumerate(DRAWS.normal(40, 12, ROWS))],
    "rooms": [int(value) for value in DRAWS.integers(1, 6, ROWS)],
    "old": [bool(value) for value in DRAWS.random(ROWS) < 0.5],
    "town": [None if place % 5 == 0 else "ABC"[place % 3] for place in range(ROWS)],
    "constant": [3] * ROWS,
    "bought": ["no", "yes"] * (ROWS // 2),
}


def through_json(preparation: Preparation) -> Preparation:
    text = json.dumps(preparation.record(), allow_nan=False)
    read = preparation_from_record(json.loads(text))
    assert json.dumps(read.record(), allow_nan=False) == text
    return read


def same_bits(one: Any, other: Any) -> bool:
    assert isinstance(one, Tensor)
    assert isinstance(other, Tensor)
    return one.dtype == other.dtype and one.shape == other.shape and one.numpy().tobytes() == other.numpy().tobytes()


def encoded_before(column: Any, train: np.ndarray) -> Callable[[Any], np.ndarray]:
    """What encodes a column, written as a closure over arrays."""

    def numbers(column: Any) -> np.ndarray:
        return np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)

    def texts(column: Any) -> np.ndarray:
        return np.array([value or "" for value in column.to_pylist()])

    if pa.types.is_string(column.type):
        known = np.unique(texts(column)[train])
        return lambda column: np.asarray(texts(column)[:, None] == known[None, :])
    values = numbers(column)
    missing = np.isnan(values)
    median = np.median(values[train][~missing[train]])
    filled = np.where(missing, median, values)[train]
    mean, deviation = filled.mean(), filled.std() or 1.0

    def encode(column: Any) -> np.ndarray:
        gaps = np.isnan(numbers(column))
        standard = (np.where(gaps, median, numbers(column)) - mean) / deviation
        return np.stack([standard, gaps] if missing.any() else [standard], 1)

    return encode


CELLS = st.one_of(
    st.lists(st.none() | st.floats(-1e12, 1e12), min_size=12, max_size=12),
    st.lists(st.none() | st.integers(-(10**9), 10**9), min_size=12, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.lists(st.none() | st.sampled_from(["", "a", "b", "ü", "a "]), min_size=12, max_size=12),
)


@given(st.lists(CELLS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=150)
def test_encoders_give_the_very_numbers_of_closures_over_arrays(columns: list[list[Any]]) -> None:
    rows = pa.table({f"c{place}": cells for place, cells in enumerate(columns)})
    train = torch.arange(8)  # the last four rows may have gaps and texts that no training row has
    usable = [n for n in rows.column_names if rows.column(n).slice(0, 8).null_count < 8]
    usable = [n for n in usable if not pa.types.is_null(rows.column(n).type)]
    if not usable:
        return
    rows = rows.select(usable)
    encoders = fit_columns(rows, (), train, "t.csv").encoders
    wanted = []
    for name in usable:
        column = rows.column(name).combine_chunks()
        wanted.append(torch.as_tensor(encoded_before(column, train.numpy())(column)).float())
    assert same_bits(inputs_of(rows, encoders), torch.cat(wanted, 1))
    again = [encoder_from_record(json.loads(json.dumps(encoder.as_record()))) for encoder in encoders]
    assert tuple(again) == encoders


def raw_rows(tmp_path: Path) -> dict[str, Any]:
    """One table in every form that is read."""
    whole = pa.table(COLUMNS)
    pq.write_table(whole, tmp_path / "t.parquet")
    frame = whole.to_pandas()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    return {
        "csv": str(tmp_path / "t.csv"),
        "tsv": tmp_path / "t.tsv",
        "parquet": tmp_path / "t.parquet",
        "pandas": frame,
        "pandas with an index": frame.set_index(frame.index + 5),
        "pandas categories": frame.astype({"town": "category"}),
        "polars": pl.DataFrame(COLUMNS, strict=False),
        "arrow": whole,
        "dicts": whole.to_pylist(),
        "dicts without missing values": [{k: v for k, v in row.items() if v is not None} for row in whole.to_pylist()],
        "without the target, in another order": whole.select(["constant", "town", "old", "rooms", "age"]),
    }


FORMS = [
    "csv", "tsv", "parquet", "pandas", "pandas with an index", "pandas categories", "polars", "arrow", "dicts",
    "dicts without missing values", "without the target, in another order",
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_every_form_become_the_inputs_of_training(tmp_path: Path, form: str) -> None:
    forms = raw_rows(tmp_path)
    assert list(forms) == FORMS
    splits = load(f"{forms['csv']}:bought")
    seen = torch.empty(ROWS, *splits.train.input_shape)
    for side in splits:
        assert isinstance(side.inputs, Tensor)
        seen[side.ids] = side.inputs
    for preparation in (preparation_of(splits), through_json(preparation_of(splits.test))):
        assert same_bits(preparation(forms[form]), seen)
    assert preparation_of(splits).record()["targets"] == ["bought"]


def test_a_loaded_table_keeps_its_preparation_on_every_way(tmp_path: Path) -> None:
    forms = raw_rows(tmp_path)
    train = load(f"{forms['csv']}:bought").train
    wanted = preparation_of(train).record()
    for changed in (train.subset([3, 1]), corrupt(train, "symmetric:0.4"), train.with_columns(extra=train.ids)):
        assert preparation_of(changed).record() == wanted
    assert preparation_of(table(forms["pandas"], "bought")).record() == wanted


def test_the_rows_of_a_pool_keep_their_preparation(tmp_path: Path) -> None:
    frame = pa.table(COLUMNS).to_pandas()
    frame.loc[20:, "bought"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    pooled = load_with_pool(f"{tmp_path / 't.csv'}:bought")
    made = preparation_of(pooled.examples)(tmp_path / "t.csv")
    assert isinstance(made, Tensor)
    assert same_bits(made[pooled.examples.ids], pooled.examples.inputs)


WRONG_ROWS: dict[str, tuple[Any, str]] = {
    "a missing column": (
        [{"age": 3.0}],
        "There is no column 'rooms' in the given table.* or rename one of age",
    ),
    "a text among numbers": ([{"age": "old", "rooms": 1}], "Column age of the given table holds string .* numbers"),
    "a list in a cell": ([{"age": [1, 2], "rooms": 1}], "Column age of the given table holds list"),
    "infinite": ([{"age": float("inf"), "rooms": 1}], "Column age has infinite values"),
    "mixed": ([{"age": 1.5, "rooms": 1}, {"age": "x", "rooms": 1}], "mixes kinds of values"),
    "no rows": ([], "There are no rows in the given table"),
    "a number": (3, "A int cannot be read as a table .*: give a path to a table, a data frame"),
    "a tensor": (torch.zeros(2, 2), "A Tensor cannot be read as a table"),
    "a lost file": ("gone.csv", "There is no file gone.csv"),
    "a column twice": (pa.table([[1], [2]], names=["age", "age"]), "The column age is twice in the given table"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_rows_that_do_not_fit_are_refused_in_a_sentence(case: str) -> None:
    raw, sentence = WRONG_ROWS[case]
    rows = pa.table({name: COLUMNS[name] for name in ("age", "rooms", "bought")})
    with pytest.raises(ThresherError, match=sentence) as refused:
        preparation_of(table(rows, "bought"))(raw)
    assert "\n" not in str(refused.value)


def test_a_category_that_looks_like_numbers_in_new_rows_is_a_text_still() -> None:
    rows = {"code": ["1", "2", "x", "1"] * 5, "y": ["a", "b"] * 10}
    preparation = preparation_of(table(pa.table(rows), "y"))
    assert torch.equal(preparation([{"code": 1}, {"code": 2}]), torch.eye(3)[:2])  # type: ignore[arg-type]
    assert torch.equal(preparation([{"code": None}]), torch.zeros(1, 3))  # type: ignore[arg-type]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for label in ("cat", "dog"):
        for place in range(5):
            path = tmp_path / "photos" / label / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng([place, ord(label[0])]).integers(0, 255, (20 + place, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path)
    return tmp_path / "photos"


def test_image_files_become_the_inputs_of_training(photos: Path) -> None:
    train = load(f"{photos}:16").train
    files = sorted(photos.rglob("*.png"))
    wanted = torch.cat(list(train.batches(torch.arange(len(train))[:, None])))
    for streamed in (train, in_memory(train), in_memory(train).subset([0, 1]), train.subset([2])):
        preparation = through_json(preparation_of(streamed))
        assert preparation.record()["kind"] == "images"
        for raw in (photos, str(photos), files, [str(file) for file in files]):
            made = preparation.examples(raw)
            seen = torch.cat(list(made.batches(torch.arange(10)[:, None])))
            assert same_bits(seen[train.ids], wanted)
        assert len(preparation(files[3])) == 1
    with pytest.raises(ThresherError, match=r"There is no file .*gone\.png"):
        preparation([files[0], photos / "gone.png"])
    with pytest.raises(ThresherError, match=r"There is no file .*nowhere"):
        preparation(photos / "nowhere")
    with pytest.raises(ThresherError, match="Images cannot be read from a Tensor: give a path"):
        preparation(torch.zeros(1, 3, 16, 16))
    (photos / "empty").mkdir()
    with pytest.raises(ThresherError, match="empty has no images"):
        preparation(photos / "empty")
    (photos / "text.png").write_text("no image")
    with pytest.raises(ThresherError, match=r"text\.png cannot be read as an image"):
        next(preparation.examples(photos / "text.png").batches(torch.zeros(1, 1, dtype=torch.long)))


class Streamed:
    """Three examples of a dataset of one's own."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        return torch.full((2, 2), float(position)), position


LABELS = torch.tensor([0, 1, 0])
SCALE = (torch.rand(3, 1, 1), torch.rand(3, 1, 1) + 0.1)
SETS: dict[str, Examples] = {
    "floats": Examples(torch.rand(3, 4), LABELS),
    "doubles": Examples(torch.rand(3, 4, dtype=torch.float64), LABELS),
    "bytes": Examples(torch.randint(0, 256, (3, 3, 2, 2), dtype=torch.uint8), LABELS, normalise=SCALE),
    "bytes without statistics": Examples(torch.randint(0, 256, (3, 3, 2, 2), dtype=torch.uint8), LABELS),
    "words": Examples(torch.randint(0, 999, (3, 5)), LABELS),
    "streamed": Examples(Streamed(), LABELS),
}


@pytest.mark.parametrize("kind", SETS)
def test_arrays_become_the_inputs_of_training(kind: str) -> None:
    known = SETS[kind]
    order = torch.arange(3)[:, None]
    wanted = torch.cat(list(known.batches(order)))
    raw = in_memory(known).inputs
    assert isinstance(raw, Tensor)
    preparation = through_json(preparation_of(Splits(known, known)))
    for form in (raw, raw.numpy(), raw.tolist(), pd.DataFrame(raw.flatten(1).numpy()) if raw.ndim == 2 else raw):
        assert same_bits(torch.cat(list(preparation.examples(form).batches(order))), wanted)
    assert same_bits(torch.cat(list(preparation_of(in_memory(known)).examples(raw).batches(order))), wanted)
    with pytest.raises(ThresherError, match=r"shape \[3, 9\], and the model was trained on \[n, .*: reshape them"):
        preparation(torch.zeros(3, 9))
    with pytest.raises(ThresherError, match=r"shape \[\]"):
        preparation(3)
    with pytest.raises(ThresherError, match="makes no tensor"):
        preparation([[1, 2], [3]])
    with pytest.raises(ThresherError, match="makes no tensor"):
        preparation(["a", "b"])


def test_numbers_that_would_be_cut_to_whole_ones_are_refused() -> None:
    images, words = preparation_of(SETS["bytes"]), preparation_of(SETS["words"])
    assert images(np.full((1, 3, 2, 2), 255).tolist()).dtype == torch.uint8  # type: ignore[union-attr]
    for preparation, raw in ((images, torch.rand(1, 3, 2, 2)), (images, torch.full((1, 3, 2, 2), 256))):
        with pytest.raises(ThresherError, match="trained on uint8: give whole numbers of its range"):
            preparation(raw)
    with pytest.raises(ThresherError, match="trained on int64"):
        words(torch.rand(1, 5))


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"kind": "sounds"},
        {"kind": "rows", "columns": [{"kind": "numbers", "column": "age"}], "targets": []},
        {"kind": "rows", "columns": [{"kind": "dates", "column": "age"}], "targets": []},
        {"kind": "arrays", "shape": [3], "dtype": "load", "normalise": None},
        {"kind": "images", "normalise": None},
    ],
)
def test_a_damaged_record_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ThresherError, match="is damaged"):
        preparation_from_record(record)
