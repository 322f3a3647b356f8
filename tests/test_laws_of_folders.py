"""Laws 11 and 12: a run folder is enough, and what a user gives is never changed."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import thresher as th

SETTINGS = {"epochs": 2, "batch": 10, "device": "cpu"}


def photos(folder: Path) -> Path:
    draws = np.random.default_rng(0)
    for place in range(40):
        file = folder / ("cat" if place % 2 else "dog") / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draws.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(file)
    return folder


def sheet(folder: Path) -> Path:
    folder.mkdir()
    rows = "\n".join(
        f"{place % 7},{'red' if place % 3 else 'blue'},{'yes' if place % 2 else 'no'}" for place in range(40)
    )
    (folder / "sheet.csv").write_text(f"size,colour,answer\n{rows}\n")
    return folder / "sheet.csv"


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(("make", "option"), [(photos, ":8"), (sheet, ":answer")], ids=["images", "table"])
def test_law_11_a_run_folder_is_enough_and_law_12_the_data_stay(make, option, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    data = make(tmp_path / "data")
    before = contents(tmp_path / "data")
    run = th.fit("prl-l", "mlp:8", th.load(f"{data}{option}"), noise_rate=0.2, out=tmp_path / "run", **SETTINGS)
    again = th.open_run(tmp_path / "run", device="cpu")
    assert again.finished
    assert again.history == run.history
    assert again.class_names == run.class_names
    assert again.recipe == run.recipe
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(again.trust(), run.trust(), strict=True))
    assert (again.predict_proba(data) == run.predict_proba(data)).all()
    assert set(again.predict(data)) <= set(run.class_names or ())
    assert again.report().stat().st_size > 0
    assert contents(tmp_path / "data") == before


def test_law_12_arrays_and_tables_stay_as_they_were() -> None:
    inputs, targets = np.random.default_rng(0).random((40, 3), dtype=np.float32), np.arange(40) % 2
    kept = inputs.copy(), targets.copy()
    tensors = torch.from_numpy(inputs.copy()), torch.from_numpy(targets.copy())
    for data in ((inputs, targets), tensors):
        th.fit("reclaim", "mlp:8", data, noise_rate=0.2, **SETTINGS)
        assert all((np.asarray(ours) == theirs).all() for ours, theirs in zip(data, kept, strict=True))


def test_law_11_an_interrupted_run_is_opened_and_goes_on(tmp_path: Path) -> None:
    data = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2

    def stop(moment: th.Moment) -> None:
        if moment.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        th.fit("standard", "mlp:8", data, out=tmp_path, watch=stop, commit_every=0, **SETTINGS)
    opened = th.open_run(tmp_path, device="cpu")
    assert (len(opened.history), opened.finished) == (1, False)
    assert opened.predict(data[0]).shape == (40,)
    whole = th.fit("standard", "mlp:8", data, out=tmp_path, commit_every=0, **SETTINGS)
    assert len(whole.history) == 2
    assert sum(pq.read_table(part).num_rows for part in (tmp_path / "ledger").iterdir()) == 80
