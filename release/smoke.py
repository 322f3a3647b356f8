"""A first use of an installed Thresher, in a new folder: import in time, train, open the run.

With --extras also what the page *Start* does on a folder of images, up to the corrected copy, a report, an export and
one of timm's networks. The last line printed is what was measured, as JSON.
"""

import csv
import json
import platform
import re
import resource
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import torch  # noqa: F401  # its own import is not counted

start = time.process_time()  # of this process alone, whatever else the machine does
import thresher as th  # noqa: E402

th.fit  # noqa: B018  # names are imported when first asked for
IMPORTED = time.process_time() - start
COMMAND = str(Path(sys.executable).parent / "thresher")


def main() -> None:
    assert IMPORTED < 1.5, f"import thresher took {IMPORTED:.2f} s beyond torch"
    assert Path(th.__file__).is_relative_to(sys.prefix), f"{th.__file__} is not what was installed"
    assert (Path(th.__file__).parent / "py.typed").exists()
    train()
    seconds = {"import_beyond_torch": round(IMPORTED, 2)}
    if "--extras" in sys.argv:
        seconds["version"] = round(min(version_seconds() for _ in range(7)), 2)
        assert seconds["version"] < 0.3, f"thresher --version took {seconds['version']} s"
        use_commands()
        th.models.build("timm:test_resnet", input_shape=(3, 32, 32), outputs=4)
    else:
        told = subprocess.run([COMMAND, "--version"], capture_output=True, text=True)
        assert told.returncode == 2, told
        assert "thresher[cli]" in told.stderr, told.stderr
    print(json.dumps({"versions": {"python": platform.python_version(), **installed()}, "cpu_seconds": seconds}))


def train() -> None:
    digits = th.load("digits")
    noisy = th.corruption.corrupt(digits.train, "symmetric:0.4", seed=0)
    run = th.fit("prl-l", "mlp", noisy, test=digits.test, noise_rate=0.4, epochs=15, batch=64, out="runs/digits")
    score = run.last(1)
    assert score is not None
    assert score > 0.8, score
    assert len(th.open_run("runs/digits").predict(digits.test.inputs)) == len(digits.test)


def version_seconds() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command("--version")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def use_commands() -> None:
    """The way of *Start*: a folder with wrong labels to a corrected copy; then a report, an export."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for place, (pixels, label) in enumerate(zip(digits.images[:400], digits.target[:400], strict=True)):
        said = (label + 1) % 10 if place % 10 == 0 else label
        file = Path("photos") / str(said) / f"{place:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15.9).astype("uint8")).save(file)
    command("audit", "photos", "--out", "runs/photos")
    command("correct", "runs/photos", "--out", "corrected")
    with open("corrected/changes.csv", encoding="utf-8") as file:
        changed = [int(Path(row["file"]).stem) for row in csv.DictReader(file)]
    right = sum(place % 10 == 0 for place in changed)
    assert right >= 30, f"{right} of 40 wrong labels were changed"
    assert len(changed) - right <= 12, f"{len(changed) - right} right labels were changed"
    command("methods")
    command("report", "runs/digits")
    assert Path("runs/digits/report.html").stat().st_size > 100_000
    command("export", "runs/digits", "--out", "model")
    assert {"model.safetensors", "model.pt2", "model.onnx"} <= {file.name for file in Path("model").iterdir()}


def command(*words: str) -> None:
    subprocess.run([COMMAND, *words], check=True, stdout=subprocess.DEVNULL)


def installed() -> dict[str, str]:
    """The version of every package that Thresher names as a requirement and this environment has."""
    found = {}
    for name in sorted({re.split(r"[^\w-]", line)[0] for line in requires("thresher") or ()} - {"thresher"}):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


if __name__ == "__main__":
    main()
