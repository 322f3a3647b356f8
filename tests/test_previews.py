"""Previews keep what examples look like: true colours, small sizes, and every kind of input."""

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import Tensor

from thresher.core.examples import Examples
from thresher.data.image_files import ImageFiles, images_in
from thresher.record import outcome, previews
from thresher.record.ledger import Ledger
from thresher.record.outcome import LONGEST, keep_rows, write_outcome
from thresher.record.previews import CRISP, SIDE, save_previews, stored_picture


def shown(folder: Path, examples: Examples) -> list[np.ndarray[Any, Any]]:
    """The pictures that are stored of these examples."""
    save_previews(folder / "previews.npz", examples)
    with np.load(folder / "previews.npz") as stored:
        arrays = dict(stored)
    assert arrays["ids"].tolist() == examples.ids.tolist()
    found = [stored_picture(arrays, place) for place in range(len(examples))]
    return [np.asarray(Image.open(io.BytesIO(encoded))) if encoded else np.empty(0) for encoded in found]


def of(inputs: Tensor, **more: Any) -> Examples:
    return Examples(inputs, torch.arange(len(inputs)) % 2, ids=torch.arange(len(inputs)) * 7, **more)


def test_bytes_are_shown_as_they_are_whatever_normalises_them(tmp_path: Path) -> None:
    inputs = torch.randint(0, 256, (5, 3, 9, 7), dtype=torch.uint8)
    mean = torch.tensor([100.0, 120.0, 90.0])[:, None, None]
    for picture, image in zip(shown(tmp_path, of(inputs, normalise=(mean, mean))), inputs, strict=True):
        assert np.array_equal(picture, image.permute(1, 2, 0).numpy())


@pytest.mark.parametrize("kind", ["0 to 1", "0 to 255", "normalised"])
def test_grey_stays_grey(tmp_path: Path, kind: str) -> None:
    grey = torch.rand(6, 1, 8, 8)
    grey[0, 0, 0, :2] = torch.tensor([0.0, 1.0])  # so that the range is whole
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    given = {
        "0 to 1": grey.expand(-1, 3, -1, -1),
        "0 to 255": 255 * grey.expand(-1, 3, -1, -1),
        "normalised": (grey - mean[:, None, None]) / deviation[:, None, None],
    }[kind]
    for picture, image in zip(shown(tmp_path, of(given)), grey, strict=True):
        expected = (255 * image[0]).numpy()[:, :, None]
        assert np.abs(picture - expected).max() <= 1


def test_files_are_shown_in_their_own_colours_and_proportions(tmp_path: Path) -> None:
    for name, colour, size in (("a", (90, 90, 90), (400, 200)), ("b", (200, 30, 60), (20, 30))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", size, colour).save(tmp_path / "photos" / name / "1.png")
    examples = Examples(ImageFiles(images_in(tmp_path / "photos"), 16), torch.tensor([0, 1]))
    large, small = shown(tmp_path, examples)
    assert large.shape == (SIDE // 2, SIDE, 3)
    assert np.abs(large.astype(int) - 90).max() <= 3
    assert small.shape == (30, 20, 3)
    assert (small == (200, 30, 60)).all()
    (tmp_path / "photos" / "a" / "1.png").unlink()
    assert [len(picture) for picture in shown(tmp_path, examples)] == [0, 30]


def test_large_arrays_shrink_and_without_pillow_to_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.full((2, 1, 300, 600), 7, dtype=torch.uint8)
    assert shown(tmp_path, of(inputs))[0].shape[:2] == (SIDE // 2, SIDE)
    find = importlib.util.find_spec
    monkeypatch.setattr(previews, "find_spec", lambda name: None if name == "PIL" else find(name))
    picture = shown(tmp_path, of(inputs))[0]
    assert picture.shape == (CRISP // 2, CRISP)
    assert (picture == 7).all()


def test_rows_keep_their_first_values(tmp_path: Path) -> None:
    inputs = torch.randn(4, 100)
    save_previews(tmp_path / "previews.npz", of(inputs))
    with np.load(tmp_path / "previews.npz") as stored:
        assert np.array_equal(stored["inputs"], inputs[:, :64])
        assert int(stored["width"]) == 100
    table = pa.table({"text": ["short", "x" * 1000, "y", "z"], "n": [1, 2, 3, 4], "vector": [[0.5] * 300] * 4})
    examples = Examples(inputs, torch.arange(4) % 2, ids=torch.tensor([1, 0, 3, 2]))
    save_previews(tmp_path / "previews.npz", examples)
    keep_rows(tmp_path, table, examples.ids)
    with np.load(tmp_path / "previews.npz") as stored:
        rows = [json.loads(str(row)) for row in stored["row"]]
    assert [row["n"] for row in rows] == [2, 1, 4, 3]
    assert rows[0]["text"] == "x" * LONGEST + "…"
    assert rows[1]["text"] == "short"
    assert rows[1]["vector"] == "0.5, 0.5, 0.5, 0.5, … (300)"


def test_of_an_audited_set_the_worst_issues_have_previews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "PREVIEW_COUNT", 5)
    examples = of(torch.rand(20, 3))
    ledger = Ledger()
    ledger.add(pa.table({"id": examples.ids.numpy(), "belief": np.linspace(0, 1, 20)}))
    for ids in (examples.ids[:5].tolist(), [133, 7, 70, 14, 0]):
        write_outcome(tmp_path, examples, ledger)
        with np.load(tmp_path / "previews.npz") as stored:
            assert stored["ids"].tolist() == ids
        pq.write_table(pa.table({"id": [133, 7, 70, 14, 0, 21]}), tmp_path / "issues.parquet")
