"""The notebooks of the site run, cell by cell, in a kernel of their own."""

import json
import os
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from website.executed import Outcome
from website.notebooks import PAGES, notebook

ROOT = Path(__file__).parent.parent


@pytest.mark.filterwarnings("ignore")  # of the kernel's own libraries
@pytest.mark.parametrize("page", PAGES)
def test_a_notebook_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    written = nbformat.reads(notebook((ROOT / "docs" / page).read_text(encoding="utf-8")), as_version=4)
    nbformat.validate(written)
    client = nbclient.NotebookClient(written, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    said = "".join(output.get("text", "") for cell in written.cells for output in cell.get("outputs", []))
    assert said
    assert "Error" not in said
    if "altair" in str(written.cells):
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
