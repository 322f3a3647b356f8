"""Pages of benchmarks about texts are made of what is stored."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["texts", "finetune"])
def test_a_page_about_texts_says_what_is_stored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    rows = runpy.run_path(str(ROOT / "benchmarks" / "timing.py"))["rows_of"](ROOT / "results" / f"{name}.jsonl")
    made = runpy.run_path(str(ROOT / "benchmarks" / f"{name}_page.py"))["page"]
    methods = ["standard", "prl-l", "prl-g", "l2rw", "selected", "oracle"]
    text = made(rows) if name == "texts" else made(rows, methods) + "\n"
    assert text == (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8"), f"benchmarks/{name}.py"


def test_half_a_line_of_figures_is_passed_over(tmp_path: Path) -> None:
    rows_of = runpy.run_path(str(ROOT / "benchmarks" / "timing.py"))["rows_of"]
    (tmp_path / "rows.jsonl").write_text('{"who": "a"}\n{"who": "b"\n')
    assert rows_of(tmp_path / "rows.jsonl") == [{"who": "a"}]
    assert rows_of(tmp_path / "none.jsonl") == []
