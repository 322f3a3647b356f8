"""thresher export: what the files hold, and that they predict without Thresher what the run predicts."""

import ast
import json
import math
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner, Result

import thresher as th
import thresher.app
import thresher.core.errors
from thresher.__main__ import app
from thresher.app.export import describe, export_run
from thresher.app.exported_cells import EncodedCells
from thresher.app.loaders.images import in_colour
from thresher.data.arrays import read_arrays
from thresher.data.column_encoders import Categories, Dates, Numbers, days_in
from thresher.data.image_pixels import Ranges, as_colour

DRAWS = np.random.default_rng(0)
SHORT = {"epochs": 2, "device": "cpu", "learning_rate": 0.01}

ALONE = """
import csv, runpy, sys
import numpy as np

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "thresher":
            raise ImportError("Thresher is not here")

sys.meta_path.insert(0, Block())
place = sys.argv[1]
rows = list(csv.DictReader(open(f"{place}/rows.csv", newline="")))
inputs = {
    "rows": rows, "several": rows, "real": rows, "bytes": np.load(f"{place}/bytes.npy"),
    "images": [f"{place}/photos/{kind}/{n}.png" for kind in ("blue", "red") for n in range(6)],
}
found = {}
for name, given in inputs.items():
    sys.path.insert(0, f"{place}/{name}-export")  # as `python load.py` has it
    found[name] = runpy.run_path(f"{place}/{name}-export/load.py")["predict"](given)
assert "thresher" not in sys.modules
np.savez(f"{place}/alone.npz", **{name: each.numpy() for name, each in found.items()})
"""


def told(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of every kind in a folder, and their exports beside them."""
    folder = tmp_path_factory.mktemp("exports")
    rows = pd.DataFrame({"length": DRAWS.normal(3, 2, 60), "home": np.array(["", "wet", "dry"])[np.arange(60) % 3]})
    rows.loc[::7, "length"] = None
    rows["open"] = np.where(np.arange(60) % 2, "true", "false")
    rows["born"] = pd.Timestamp("1999-12-30") + pd.to_timedelta(np.arange(60) % 20 * 41, "D")
    rows["seen"] = pd.Timestamp("2024-02-28 21:07:30") + pd.to_timedelta(np.arange(60) % 17 * 5000, "min")
    rows.loc[::9, "born"] = None
    rows["kind"], rows["price"] = np.arange(60) % 3 + 3, DRAWS.normal(500, 40, 60)
    rows.drop(columns=["kind", "price"]).to_csv(folder / "rows.csv", index=False)
    rows.to_csv(folder / "all.csv", index=False)
    for name, at in (("blue", 2), ("red", 0)):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = DRAWS.integers(0, 60, (20 + number, 12, 3), dtype=np.uint8)
            pixels[..., at] += 150
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
        deep = DRAWS.integers(0, 4000, (12, 12)).astype(np.uint16)
        Image.fromarray(deep).save(folder / "photos" / name / "4.png")
        clear = np.dstack([pixels, DRAWS.integers(0, 255, pixels.shape[:2], dtype=np.uint8)])
        Image.fromarray(clear).save(folder / "photos" / name / "5.png")
    pixels = DRAWS.integers(0, 255, (40, 3, 8, 8), dtype=np.uint8)
    np.save(folder / "bytes.npy", pixels)
    table = pd.read_csv(folder / "all.csv", keep_default_na=True, parse_dates=["born", "seen"])
    kinds, prices = table.drop(columns="price"), table.drop(columns="kind")
    th.fit("standard", "mlp:16", kinds, target="kind", out=folder / "rows", **SHORT)
    th.fit("co-teaching", "mlp:16", kinds, target="kind", noise_rate=0.2, out=folder / "several", **SHORT)
    th.fit("standard", "mlp:16", prices, target="price", out=folder / "real", **SHORT)
    with pytest.warns(UserWarning, match="16-bit"), pytest.warns(UserWarning, match="transparent"):
        images = th.load(f"{folder}/photos:8")
    th.fit("standard", "mlp:8", images, out=folder / "images", **SHORT)
    th.fit("standard", "mlp:8", (pixels, np.arange(40) % 2), out=folder / "bytes", **SHORT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresher.core.errors, "find_spec", lambda name: None if "onnx" in name else name)
        for name in ("several", "real", "images", "bytes"):
            assert export_run(th.open_run(folder / name, device="cpu"), folder / f"{name}-export") == [
                "Without model.onnx, which needs onnx: pip install 'thresher[export]'."
            ]
    result = told("export", folder / "rows", "--out", folder / "rows-export")
    assert result.exit_code == 0, result.output
    return folder


def of_run(place: Path, name: str) -> np.ndarray:
    raw = {"images": place / "photos", "bytes": np.load(place / "bytes.npy")}.get(name, place / "rows.csv")
    run = th.open_run(place / name, device="cpu")
    return run.predict(raw) if name == "real" else run.predict_proba(raw)


def test_the_loaders_predict_the_same_without_thresher(place: Path) -> None:
    subprocess.run([sys.executable, "-I", "-c", ALONE, str(place)], check=True, capture_output=True, text=True)
    alone = read_arrays(place / "alone.npz")
    for name in ("rows", "several", "real", "images", "bytes"):
        expected = of_run(place, name)
        assert expected.std() > 1e-3  # which constant outputs would not have
        np.testing.assert_allclose(alone[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_onnx_predicts_the_same_from_cells(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    session = runtime.InferenceSession(place / "rows-export" / "model.onnx")
    run = th.open_run(place / "rows", device="cpu")
    monkeypatch.syspath_prepend(place / "rows-export")
    load = runpy.run_path(str(place / "rows-export" / "load.py"))
    columns, rows = load["about"]()["preprocessing"]["columns"], load["rows_of"](str(place / "rows.csv"))
    cells = np.array([[load["number"](row[column["column"]], **column) for column in columns] for row in rows])
    for count in (1, 7, len(cells)):
        (found,) = session.run(None, {"inputs": cells[:count]})
        np.testing.assert_allclose(found, run.predict_proba(place / "rows.csv")[:count], rtol=1e-5, atol=1e-5)


def test_what_a_folder_holds(place: Path) -> None:
    from safetensors.torch import load_file

    names = {path.name for path in (place / "rows-export").iterdir()}
    assert {"export.json", "load.py", "model.pt2", "model.safetensors"} <= names
    weights = load_file(place / "rows-export" / "model.safetensors")
    model = th.open_run(place / "rows", device="cpu").model
    model.load_state_dict(weights)  # under the names that the network has
    assert {name.partition(".")[0] for name in load_file(place / "several-export" / "model.safetensors")} == {"0", "1"}
    about = json.loads((place / "rows-export" / "export.json").read_text())
    assert about["class_names"] == ["3", "4", "5"]
    assert [column["column"] for column in about["preprocessing"]["columns"]] == [
        "length",
        "home",
        "open",
        "born",
        "seen",
    ]
    about = json.loads((place / "images-export" / "export.json").read_text())
    assert about["preprocessing"]["size"] == 8
    assert about["preprocessing"]["crop"] == "centre"
    assert np.array(about["preprocessing"]["mean"]).ravel().tolist() == pytest.approx([123.675, 116.28, 103.53])
    for name in ("rows", "images", "bytes"):
        assert [path.name for path in (place / f"{name}-export").glob("*.py")] == ["load.py"]
        code = (place / f"{name}-export" / "load.py").read_text()
        assert "import thresher" not in code
        assert "from thresher" not in code


def odd_images() -> dict[str, Image.Image]:
    """Images of every mode, as programs, scanners and microscopes write them."""
    colours = DRAWS.integers(0, 255, (9, 9, 4), dtype=np.uint8)
    made = {mode: Image.fromarray(colours[..., :3]).convert(mode) for mode in ("1", "L", "P", "CMYK", "LAB", "YCbCr")}
    made |= {mode: Image.fromarray(colours).convert(mode) for mode in ("RGBA", "LA", "RGBa", "PA")}
    for name, colour, opacity in (("opaque", 90, 255), ("white ink", 250, 99), ("nothing", 250, 0), ("ink", 223, 9)):
        made[name] = Image.fromarray(np.dstack([np.full((9, 9, 3), colour, np.uint8), np.full((9, 9), opacity, "u1")]))
    made["one transparent colour"] = made["P"].copy()
    made["one transparent colour"].info["transparency"] = int(np.asarray(made["P"])[0, 0])
    made["deep"] = Image.fromarray(DRAWS.integers(0, 65535, (9, 9)).astype(np.uint16))
    made["deeper"] = Image.fromarray(DRAWS.integers(-5, 99_999, (9, 9)).astype(np.int32))
    made["real"] = Image.fromarray(DRAWS.normal(0.5, 1, (9, 9)).astype(np.float32))
    values = np.array([[0.2, np.nan, np.inf, -np.inf, 1.0]] * 5, np.float32)
    return made | {"not finite": Image.fromarray(values)}


def test_the_loader_of_images_sees_the_same_colours() -> None:
    flat = Ranges((7.0, 7.0), (0.3, 0.3))
    for name, image in odd_images().items():
        for ranges in (Ranges(), Ranges((-5.0, 4095.0), (-2.0, 2.0)), flat):
            found = in_colour(image.copy(), list(ranges.integers), list(ranges.reals))
            assert found.mode == "RGB"
            np.testing.assert_array_equal(np.asarray(found), np.asarray(as_colour(image, ranges)), err_msg=name)


def test_whoever_can_read_one_file_of_an_export_can_read_all(place: Path) -> None:
    modes = {path.name: path.stat().st_mode for path in (place / "rows-export").iterdir()}
    assert set(modes.values()) == {modes["export.json"]}, modes


def test_a_place_in_use_and_no_run_are_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for words, sentence in (
        ([place / "rows", "--out", place], "is not empty: choose a new folder for the export"),
        ([place / "rows", "--out", tmp_path / "file"], "is a file"),
        ([place / "photos", "--out", tmp_path / "new"], "holds no run"),
        ([place / "rows"], "give --out, a new folder"),
    ):
        result = told("export", *words)
        assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
        assert sentence in result.output
    assert not (tmp_path / "new").exists()


class Branching(nn.Module):
    """A network whose steps depend on values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs) if inputs.sum() > 0 else -self.layer(inputs)


def test_a_network_that_is_no_program_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    data = (DRAWS.normal(size=(40, 2)), np.arange(40) % 2)
    run = th.fit("standard", Branching(), data, device="cpu", epochs=1)
    with pytest.raises(th.ThresherError, match="its steps must not depend on values"):
        export_run(run, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_columns_that_the_loader_does_not_know_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thresher.app.export.COLUMNS", ("numbers",))
    with pytest.raises(th.ThresherError, match="Column home holds categories"):
        describe(th.open_run(place / "rows", device="cpu"))


def test_the_loader_reads_a_table_as_it_was_told_to(tmp_path: Path) -> None:
    """Another separator, a byte order mark, and words for missing cells, also among numbers that name categories."""
    rows = pd.DataFrame({"age": DRAWS.integers(18, 80, 60), "zip": DRAWS.choice([1010, 2020], 60)}).astype(object)
    rows["town"], rows["code"] = np.array(["Bonn", "NA", "unknown"])[np.arange(60) % 3], DRAWS.choice(["?", "x"], 60)
    rows.loc[::7, "age"], rows.loc[::5, "zip"], rows.loc[::11, "age"] = "unknown", "?", "NA"
    rows["kind"] = np.arange(60) % 2
    rows.to_csv(tmp_path / "all.csv", sep=";", index=False, encoding="utf-8-sig")
    told_so = th.data.TableOptions(na=("unknown",), categorical=("zip",))
    run = th.fit(
        "standard", "mlp:16", th.load(f"{tmp_path}/all.csv:kind", options=told_so), out=tmp_path / "run", **SHORT
    )
    export_run(run, tmp_path / "export")
    code = "import load, numpy; numpy.save('found.npy', load.predict(load.rows_of('../all.csv')).numpy())"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path / "export")
    found = np.load(tmp_path / "export" / "found.npy")
    np.testing.assert_allclose(found, run.predict_proba(tmp_path / "all.csv"), rtol=1e-5, atol=1e-5)


def test_a_loader_is_less_than_thirty_lines_of_code() -> None:
    for path in (Path(thresher.app.__file__).parent / "loaders").glob("[a-z]*.py"):
        text, counted = path.read_text(), set[int]()
        for node in ast.walk(ast.parse(text)):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.stmt) and not is_text and not isinstance(node, ast.Import | ast.ImportFrom):
                inside = getattr(node, "body", None)
                counted |= set(range(node.lineno, inside[0].lineno if inside else (node.end_lineno or 0) + 1))
        assert len(counted) < 30, f"{path.name} has {len(counted)} lines of code"


def test_cells_of_a_table_are_encoded_by_the_program_as_by_the_encoders() -> None:
    days = np.concatenate([np.arange(-800_000, 400_000, 97.3), np.arange(-30_000, 60_000), [np.nan]])
    dates = pa.array([None if np.isnan(day) else int(day * 86_400e6) for day in days], pa.timestamp("us"))
    for has_times, marks_gaps in ((True, True), (False, False)):
        born = Dates("born", mean=1e4, deviation=2e3, has_times=has_times, marks_gaps=marks_gaps)
        found = EncodedCells([born])(torch.tensor(days_in(dates))[:, None])
        np.testing.assert_allclose(found, born(dates), rtol=1e-6, atol=1e-6)
    age, texts = Numbers("age", 30.0, 41.0, 7.0, True), ["", "wet", "dry"]
    towns = [Categories("home", tuple(texts)), Categories("home", tuple(texts[1:]))]
    cells = torch.tensor([[12.5, 0, -1], [math.nan, math.nan, math.nan], [1e20, 2, 1], [-3, -1, 0]]).double()
    columns = [[12.5, None, float(cells[2, 0]), -3.0], ["", None, "dry", "hot"], ["hot", None, "dry", "wet"]]
    expected = [each(pa.array(column)) for each, column in zip([age, *towns], columns, strict=True)]
    np.testing.assert_allclose(EncodedCells([age, *towns])(cells), np.concatenate(expected, 1), rtol=1e-6)


def test_what_is_missing_depends_on_the_kind_of_a_column(tmp_path: Path) -> None:
    """NA is a gap among numbers and an unknown text among texts, but for words that were said to be gaps."""
    rows = {"size": ["1", "2", "4"] * 12, "home": ["", "wet", "dry"] * 12, "kind": [0, 1] * 18}
    pd.DataFrame(rows).to_csv(tmp_path / "all.csv", index=False)
    run = th.fit("standard", "mlp:16", th.load(f"{tmp_path}/all.csv:kind"), out=tmp_path / "run", **SHORT)
    export_run(run, tmp_path / "export")
    new = [{"size": size, "home": home} for size in ("NA", " 3", "?") for home in ("NA", "?", " wet", "wet", "")]
    pd.DataFrame(new).to_csv(tmp_path / "new.csv", index=False)
    code = "import load, numpy; numpy.save('found.npy', load.predict(load.rows_of('../new.csv')).numpy())"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path / "export")
    expected = run.predict_proba(tmp_path / "new.csv")
    np.testing.assert_allclose(np.load(tmp_path / "export" / "found.npy"), expected, rtol=1e-5, atol=1e-5)
    assert len(np.unique(expected.round(5), axis=0)) > 3
