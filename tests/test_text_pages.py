"""Pages of benchmarks about texts are made of what is stored."""

import runpy
import sys
from pathlib import Path

import pytest

from thresher.bench.run.results import read_lines

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["texts", "finetune"])
def test_a_page_about_texts_says_what_is_stored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    rows, damaged = read_lines(ROOT / "results" / f"{name}.jsonl")
    assert damaged == 0
    made = runpy.run_path(str(ROOT / "benchmarks" / f"{name}_page.py"))["page"]
    methods = ["standard", "prl-l", "prl-g", "l2rw", "selected", "oracle"]
    text = made(rows) if name == "texts" else made(rows, methods) + "\n"
    assert text == (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8"), f"benchmarks/{name}.py"
