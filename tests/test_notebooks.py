"""The notebooks of the site hold the code of their pages, which test_site.py runs, and a kernel can run them."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

import thresher
from website.executed import Outcome, code_blocks
from website.notebooks import PAGES, notebook

ROOT = Path(__file__).parent.parent


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def words_after_thresher(line: str, folder: Path) -> list[str]:
    """What a shell makes of a line."""
    told = ["bash", "-c", f"thresher() {{ printf '%s\\n' \"$@\"; }}\n{line}"]
    return subprocess.run(told, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("page", PAGES)
def test_a_notebook_has_the_code_of_its_page_in_its_order(page: str, tmp_path: Path) -> None:
    written = nbformat.reads(notebook(text_of(page)), as_version=4)
    nbformat.validate(written)
    codes = [cell["source"] for cell in written.cells if cell["cell_type"] == "code"]
    codes = [code for code in codes if "display(SVG(" not in code]
    blocks = code_blocks(text_of(page))
    assert len(codes) == len(blocks) > 2
    for code, (kind, block, _) in zip(codes, blocks, strict=True):
        if kind == "python":
            assert code == block.rstrip()
            continue
        lines = block.replace("\\\n", " ").splitlines()
        assert code.splitlines() == [f"!{line}" for line in lines]
        for line in lines:  # which the site splits by itself, and a kernel gives to a shell after filling in {names}
            assert words_after_thresher(line, tmp_path) == shlex.split(line)[1:]
            assert not {"{", "$"} & set(line)


@pytest.mark.filterwarnings("ignore")  # of the kernel's own libraries
def test_a_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a page's Python, which defines parts of its own and draws, and with a command."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    text = text_of("guides/own-parts.md") + "\n```sh\nthresher --version\n```\n"
    written = nbformat.reads(notebook(text), as_version=4)
    nbformat.validate(written)
    client = nbclient.NotebookClient(written, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    said = "".join(output.get("text", "") for cell in written.cells for output in cell.get("outputs", []))
    assert said.split()[-2:] == ["thresher", thresher.__version__]
    assert "believed by the average" in said
    assert "Error" not in said
    drawn = [output for cell in written.cells for output in cell.get("outputs", []) if "data" in output]
    assert any("image/svg+xml" in output["data"] for output in drawn)


def test_outputs_stand_where_they_were_printed() -> None:
    text = '# A [link](other.md)\n\n```python\nchart.save("a.svg")\n```\n\n```sh\nthresher --version\n```\n'
    cells = json.loads(notebook(text, [Outcome("one", {"a.svg": b"<svg/>"}), Outcome("two", {})]))["cells"]
    assert "".join(cells[0]["source"]) == "# A link"
    assert cells[1]["outputs"][0]["text"] == ["one"]
    assert cells[2]["outputs"][0]["data"] == {"image/svg+xml": "<svg/>"}
    assert cells[3]["source"] == ["!thresher --version"]
    assert cells[3]["outputs"][0]["text"] == ["two"]
