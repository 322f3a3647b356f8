"""Images of every kind keep their pixels; they are decoded once, and a scan tells what is wrong with a folder."""

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from thresher.__main__ import app
from thresher.app.commands import train as train_command
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.data import (
    ImageFiles,
    Splits,
    in_memory,
    load,
    load_clean,
    load_with_pool,
    preparation_of,
    scan,
)
from thresher.data import decoded as decoded_images
from thresher.data.image_files import files_of, open_image, usual_size
from thresher.data.preparation_record import preparation_from_record
from thresher.engine.store.about import checksum

RAMP = np.linspace(0, 1, 32 * 32).reshape(32, 32)


def ramp16(top: int = 65535) -> Image.Image:
    return Image.fromarray((RAMP * top).astype(np.uint16))


def real(top: float = 1.0) -> Image.Image:
    return Image.fromarray((RAMP * top).astype(np.float32))


def bytes_of(values: np.ndarray) -> np.ndarray:
    return (values * 255).round().astype(np.uint8)


def ink(colour: int) -> Image.Image:
    """A drawing in the alpha channel only, in one colour."""
    alpha = np.zeros((32, 32), np.uint8)
    alpha[8:24, 8:24] = 255
    return Image.fromarray(np.dstack([np.full((32, 32, 3), colour, np.uint8), alpha]))


# The file and its picture, and the mean brightness that it has to have, from 0 to 255.
KINDS: dict[str, tuple[str, Image.Image, float]] = {
    "16-bit png": ("x.png", ramp16(), 127.5),
    "16-bit tiff": ("x.tif", ramp16(), 127.5),
    "12 of 16 bits": ("x.png", ramp16(4095), 127.5),
    "32-bit integers": ("x.tif", Image.fromarray((RAMP * 65535).astype(np.int32)), 127.5),
    "float to 1": ("x.tif", real(), 127.5),
    "float to 255": ("x.tif", real(255), 127.5),
    "float to 3000": ("x.tif", real(3000), 127.5 * 3000 / 4095),
    "float below 0": ("x.tif", Image.fromarray((RAMP * 6 - 3).astype(np.float32)), 127.5),
    "black ink in alpha": ("x.png", ink(0), 255 * 0.75),
    "white ink in alpha": ("x.png", ink(255), 255 * 0.25),
    "grey and alpha": ("x.png", Image.fromarray(bytes_of(np.dstack([RAMP, 0 * RAMP + 1])), "LA"), 127.5),
    "one bit": ("x.png", Image.fromarray(RAMP > 0.5), 127.5),
    "palette": ("x.png", Image.fromarray(bytes_of(RAMP)).convert("RGB").quantize(256), 127.5),
    "cmyk": ("x.jpg", Image.fromarray(bytes_of(RAMP)).convert("RGB").convert("CMYK"), 127.5),
    "grey": ("x.png", Image.fromarray(bytes_of(RAMP)), 127.5),
}


@pytest.mark.filterwarnings("ignore:'mode' parameter:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_pixels_of_every_kind_keep_their_brightness(kind: str, tmp_path: Path) -> None:
    name, picture, mean = KINDS[kind]
    picture.save(tmp_path / name)
    seen = np.asarray(open_image(tmp_path / name), np.float64)
    assert seen.mean() == pytest.approx(mean, abs=3)
    assert np.ptp(seen) > 180, "neither white nor black all over"


def folder_of(
    root: Path, save: Callable[[Path, int], None], suffix: str = ".png", each: int = 5, kinds: str = "ab"
) -> Path:
    for at, kind in enumerate(kinds):
        (root / kind).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            save(root / kind / f"{number}{suffix}", at * each + number)
    return root


def grey(path: Path, number: int) -> None:
    Image.new("L", (20, 20), number).save(path)


def test_all_files_of_a_set_are_scaled_alike_and_it_is_said(tmp_path: Path) -> None:
    """One dark and one bright 12-bit scan: neither is stretched, and new files are read by the same range."""
    root = folder_of(
        tmp_path / "scans", lambda path, number: Image.fromarray(np.full((8, 8), 400 * number, np.uint16)).save(path)
    )
    with pytest.warns(UserWarning, match=r"10 of 10 files are 16-bit: 0 to 4095 became 0 to 255 \(scaled by 1/16.0588"):
        train, test = load(f"{root}:8")
    seen = {int(file.stem) + 5 * (file.parent.name == "b"): int(pixels[0, 0, 0])
            for side in (train, test)
            for file, pixels in zip(files_of(side.inputs), in_memory(side).inputs, strict=True)}  # fmt: skip
    assert seen == {number: round(400 * number / 4095 * 255) for number in range(10)}
    again = preparation_from_record(preparation_of(train).record()).examples(root / "b" / "1.png")
    assert int(in_memory(again).inputs[0, 0, 0, 0]) == seen[6]
    with pytest.warns(UserWarning, match="2 examples of .* are test examples"):
        clean = load_clean(f"{root}", Splits(train, test), f"{root}:8")
    assert int(in_memory(clean).inputs[6, 0, 0, 0]) == seen[6]


@pytest.mark.parametrize(
    ("save", "suffix", "words"),
    [
        (lambda path, number: real((number + 1) / 10).save(path), ".tif", "float: 0 to 1 "),
        (lambda path, number: ink(number).save(path), ".png", "partly transparent: composed over white"),
        (
            lambda path, number: Image.new("L", (8, 8), number).save(
                path, save_all=True, append_images=[Image.new("L", (8, 8), 200)]
            ),
            ".tif",
            "several frames: the first is used",
        ),
    ],
)  # fmt: skip
def test_what_is_done_to_pixels_is_said(
    save: Callable[[Path, int], None], suffix: str, words: str, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match=f"10 of 10 files (are|have) {words}"):
        load(str(folder_of(tmp_path, save, suffix)))


def test_files_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder_of(tmp_path / "photos", grey)
    first = load(f"{root}:16").train
    with monkeypatch.context() as patch:
        patch.setattr(decoded_images, "open_image", lambda *_, **__: pytest.fail("decoded again"))
        again = load(f"{root}:16").train
    slow = ImageFiles(files_of(again.inputs), 16)
    assert torch.equal(in_memory(first).inputs, in_memory(again).inputs)
    assert torch.equal(in_memory(again).inputs, torch.stack([slow[place] for place in range(len(slow))]))
    order = torch.tensor([[3, 0, 3], [7, 1, 2]])
    for quick, plain in zip(again.batches(order), in_memory(again).batches(order), strict=True):
        assert torch.equal(quick, plain)
    Image.new("L", (20, 20), 200).save(root / "a" / "0.png")
    os.utime(root / "a" / "0.png", (1, 1))
    changed = torch.cat([in_memory(side).inputs for side in load(f"{root}:16")])
    assert changed.max() == 200, "a file that changed is decoded again"


def test_where_the_cache_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder_of(tmp_path / "photos", grey)
    cached = load(f"{root}:16").train
    wanted = in_memory(cached).inputs
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("THRESHER_CACHE", str(tmp_path / "file"))
    held = load(f"{root}:16").train
    monkeypatch.setattr(decoded_images, "IN_MEMORY", 0)
    with pytest.warns(UserWarning, match="decoded again in every epoch"):
        streamed = load(f"{root}:16").train
    for train in (held, streamed):
        assert checksum(train) == checksum(cached), "a run goes on, whether its images are cached or not"
        assert torch.equal(in_memory(train).inputs, wanted)
        assert torch.equal(next(iter(train.batches(torch.tensor([[1, 2]])))), train.as_model_input(wanted[1:3]))


def test_a_damaged_cache_is_made_again_and_an_old_one_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THRESHER_CACHE", str(tmp_path / "cache"))
    root = folder_of(tmp_path / "photos", grey)
    wanted = in_memory(load(f"{root}:16").train).inputs
    [facts] = (tmp_path / "cache").glob("*/facts.json")
    facts.write_text("{")
    assert torch.equal(in_memory(load(f"{root}:16").train).inputs, wanted)
    long_ago = time.time() - decoded_images.FORGET - 10
    os.utime(facts, (long_ago, long_ago))
    load(f"{root}:8")
    assert len(list((tmp_path / "cache").glob("*/pixels.npy"))) == 1
    assert not facts.exists()


def test_broken_files_are_named_all_at_once_or_left_out(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "photos", grey)
    (root / "a" / "text.jpg").write_text("not a picture")
    (root / "a" / "none.png").write_bytes(b"")
    whole = (root / "b" / "4.png").read_bytes()
    (root / "b" / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ThresherError, match=r"3 of 13 files .*none.png \(empty\), .*text.jpg \(no image\), .*cut.png"):
        load(str(root))
    with pytest.warns(UserWarning, match="3 of 13 files cannot be read and are left out"):
        train, test = load(str(root), skip_broken=True)
    assert len(train) + len(test) == 10
    kept = [file.name for side in (train, test) for file in files_of(side.inputs)]
    assert not {"text.jpg", "none.png", "cut.png"} & set(kept)
    brightness = {file.parent.name + file.stem: float(pixels.float().mean())
                  for side in (train, test)
                  for file, pixels in zip(files_of(side.inputs), in_memory(side).inputs, strict=True)}  # fmt: skip
    assert brightness == {f"{kind}{number}": 5 * (kind == "b") + number for kind in "ab" for number in range(5)}


def test_a_scan_tells_everything_at_once(tmp_path: Path) -> None:
    root = tmp_path / "set"
    folder_of(root / "train", grey)
    folder_of(root / "test", lambda path, number: grey(path, 100 + number), each=2)
    for part in ("train", "test"):
        (root / part / "empty").mkdir()
        (root / part / "rare").mkdir()
        grey(root / part / "rare" / "one.png", 200 + len(part))
    (root / "__MACOSX" / "train").mkdir(parents=True)
    (root / "__MACOSX" / "train" / "._0.png").write_text("left by an archive")
    (root / "train" / "a" / "Thumbs.db").write_text("left by a system")
    (root / "train" / "a" / ".DS_Store").write_text("left by a system")
    (root / "train" / "a" / "notes.txt").write_text("a note")
    (root / "train" / "a" / "phone.heic").write_text("another format")
    (root / "train" / "a" / "cut.jpg").write_text("cut")
    (root / "train" / "b" / "again.png").write_bytes((root / "train" / "a" / "0.png").read_bytes())
    (root / "test" / "a" / "again.png").write_bytes((root / "train" / "a" / "1.png").read_bytes())
    found = scan(root, 16)
    told = "\n".join(found.lines())
    for words in [
        "train: 13 images, 3 classes", "test: 6 images, 3 classes", "20 x 20 to 20 x 20 pixels", "15 kB in memory",
        "1 __MACOSX", "1 Thumbs.db", "1 hidden", "1 .txt", "1 .heic", "train/a/cut.jpg (no image)",
        "Classes with no image in", "Classes with one image only in", "train/a/0.png = train/b/again.png",
        "train/a/1.png = test/a/again.png",
    ]:  # fmt: skip
        assert words in told, words
    assert len(found.across("labels")) == len(found.across("sets")) == 1
    assert [path.name for path in found.broken] == ["cut.jpg"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train, _ = load(str(root), skip_broken=True)
    assert [str(each.message) for each in said] == found.warnings()
    assert "__MACOSX" not in (train.class_names or [])


@pytest.mark.parametrize(("sides", "size"), [((20, 20, 30), 20), ((90, 300, 20), 64), ((None, None, None), 64)])
def test_images_have_the_size_of_most_files_and_at_most_64_pixels(
    sides: tuple[int | None, ...], size: int, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(len(sides))]
    for path, side in zip(paths, sides, strict=True):
        if side is None:
            path.write_text("cut")
        else:
            Image.new("L", (side, side // 2)).save(path)
    assert usual_size(paths) == size


def test_a_folder_name_with_a_colon_is_read(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "lab:3" / "set:64", grey)
    assert load(str(root)).train.input_shape == (3, 20, 20)
    assert load(f"{root}:12").train.input_shape == (3, 12, 12)
    folder_of(root, grey, kinds=("unlabelled",))  # type: ignore[arg-type]
    (root / "unlabelled" / "0.png").write_text("cut")
    with pytest.raises(ThresherError, match=r"1 files in .* cannot be read .*unlabelled/0.png"):
        load_with_pool(f"{root}:8")
    pooled = load_with_pool(f"{root}:8", skip_broken=True)
    assert [shown["image"].name for shown in pooled.show(pooled.pool_ids())] == [
        f"{number}.png" for number in (1, 2, 3, 4)
    ]
    order = torch.arange(len(pooled.examples))[None]
    [batch] = pooled.examples.batches(order)
    assert torch.equal(batch, pooled.examples.as_model_input(in_memory(pooled.examples).inputs))  # type: ignore[arg-type]


def test_a_long_decoding_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_images, "LONG", 0.0)
    with pytest.warns(UserWarning, match=r"Decoding 10 images takes about .* once; they are kept in .* \(1.9 kB\)"):
        load(f"{folder_of(tmp_path, grey)}:8")


@pytest.mark.filterwarnings("ignore:1 of 11 files cannot be read")
def test_the_command_scans_and_trains_without_broken_files(
    tmp_path: Path,
) -> None:
    root = folder_of(tmp_path / "photos", grey)
    (root / "a" / "[red]cut.jpg").write_text("cut")
    run = CliRunner().invoke(app, ["scan", f"{root}:12"])
    assert run.exit_code == 0
    assert "a/[red]cut.jpg (no image)" in run.output
    assert CliRunner().invoke(app, ["scan", f"{root}:no"]).exit_code == 2
    train = ["train", "--data", f"{root}:32", "--method", "standard", "--epochs", "1", "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, train).exit_code == 2
    said = CliRunner().invoke(app, [*train, "--skip-broken"])
    assert said.exit_code == 0
    assert "There is no GPU, so small-cnn is trained on images of 32 x 32 pixels" in said.output
    assert "skip_broken = true" in (tmp_path / "run" / "run.toml").read_text()


def test_a_heavy_model_on_a_cpu_is_announced_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    train, cpu = Examples(torch.zeros(5000, 3, 32, 32), torch.arange(5000) % 2), torch.device("cpu")
    seconds = {"resnet18": 0.3, "small-cnn": 0.003}
    monkeypatch.setattr(train_command, "seconds_an_example", lambda name, _: seconds[name])
    said = train_command.about_time("resnet18", train, 60, cpu)
    assert said is not None
    assert "resnet18 on 32 x 32 pixels takes about 25 hours, --model small-cnn about 15 minutes" in said
    assert train_command.about_time("resnet18", train, 60, torch.device("cuda")) is None
    assert train_command.about_time("resnet18", train.subset([0, 1]), 1, cpu) is None


def test_the_time_of_an_example_is_measured() -> None:
    some = Examples(torch.zeros(2, 3, 32, 32), torch.tensor([0, 1]))
    state = torch.get_rng_state()
    small, large = (train_command.seconds_an_example(name, some) for name in ("small-cnn", "resnet32"))
    assert 0 < small < large
    assert torch.equal(torch.get_rng_state(), state)
