"""Packages that only some parts need: `import thresher` leaves them alone, and a missing one is named in a sentence."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_run import write_fake_run
from PIL import Image

from thresher.app.annotate.question import write_question
from thresher.app.annotate.tasks import Answers
from thresher.core.errors import ThresherError
from thresher.data import image_folder, load
from thresher.models import build
from thresher.report import check_installed, filled_in, write_loop_report, write_report

LATE = ["sklearn", "altair", "jinja2", "vl_convert", "typer", "rich", "pandas", "PIL", "torchvision", "timm"]


def photos(folder: Path) -> None:
    for label in "ab":
        for place in range(5):
            (folder / label).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(folder / label / f"{place}.png")


def report(folder: Path) -> Any:
    return write_report([write_fake_run(folder / "run", epochs=1)], folder / "report.html")


def loop_report(folder: Path) -> Any:
    return write_loop_report([folder], folder / "loop.html")


def question(folder: Path) -> Any:
    return write_question(folder, [3], [{"row": {"age": 4}}], Answers(["cat", "dog"]))


def resnet(_: Path) -> Any:
    return build("timm:resnet18", input_shape=(3, 32, 32), outputs=2)


MISSING: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "report: vl-convert": ("vl_convert", report, "The report needs vl-convert-python: pip install 'thresher[report]'."),
    "report: jinja2": ("jinja2", report, "The report needs jinja2: pip install 'thresher[report]'."),
    "report: pillow": ("PIL", report, "The report needs pillow: pip install 'thresher[report]'."),
    "loop report": ("jinja2", loop_report, "The report needs jinja2: pip install 'thresher[report]'."),
    "before training": (
        "jinja2",
        lambda _: check_installed(),
        "The report needs jinja2: pip install 'thresher[report]'.",
    ),
    "a page": (
        "jinja2",
        lambda _: filled_in("report", "page.html"),
        "The page page.html needs jinja2: pip install 'thresher[report]'.",
    ),
    "a question": ("jinja2", question, "The page preview.html needs jinja2: pip install 'thresher[report]'."),
    "images": (
        "PIL",
        lambda folder: image_folder(folder / "photos"),
        "Reading images needs pillow: pip install 'thresher[vision]'.",
    ),
    "a download": (
        "torchvision",
        lambda folder: load("svhn", data_dir=folder),
        "svhn needs torchvision: pip install 'thresher[vision]', or put svhn.npz into {folder}.",
    ),
    "timm": ("timm", resnet, "timm:resnet18 needs timm: pip install 'thresher[vision]'."),
    "timm's torchvision": ("torchvision", resnet, "timm:resnet18 needs torchvision: pip install 'thresher[vision]'."),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_missing_package_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    module, use, sentence = MISSING[case]
    photos(tmp_path / "photos")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ThresherError) as refused:
        use(tmp_path)
    assert str(refused.value) == sentence.format(folder=tmp_path)


def test_import_thresher_imports_none_of_them() -> None:
    code = f"import sys, thresher, thresher.data, thresher.models; print(*(set({LATE}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


BLOCKED = f"""
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, *where):
        known = name.partition(".")[0] not in {[name for name in LATE if name != "sklearn"]}
        return self.finder.find_spec(name, *where) if known else None
sys.meta_path[:] = map(Without, sys.meta_path)
"""
TRAINED = """
from thresher import Recipe, fit
from thresher.data import blobs
from thresher.models import MLP
train, test = blobs(60, classes=3)
run = fit(Recipe(), MLP(train.input_shape, 3), train, test=test, epochs=2, batch=20, device="cpu", out=sys.argv[1])
print(len(run.history))
"""


def test_training_and_its_report_import_neither_the_compiler_nor_a_library_of_charts(tmp_path: Path) -> None:
    late = {"torch._dynamo", "sympy", "altair"}
    code = f"import sys\n{TRAINED}\nrun.report(sys.argv[1] + '/report.html'); print(*({late} & set(sys.modules)))"
    ended = [sys.executable, "-c", code, str(tmp_path / "run")]
    done = subprocess.run(ended, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"]


def test_thresher_trains_without_any_of_them(tmp_path: Path) -> None:
    words = [sys.executable, "-c", BLOCKED + TRAINED, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"
