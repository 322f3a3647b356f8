"""The names of a run folder's files are written down in one place."""

import ast
from pathlib import Path

import pytest

import thresher
from thresher.record import run_folder

SOURCE = Path(thresher.__file__).parent
NAMES = {value for name, value in vars(run_folder).items() if name.isupper() and isinstance(value, str)}
TEMPLATES = {"loop.html", "preview.html"}  # of pages, which lie beside the code
FILES = {name for name in NAMES - TEMPLATES if "." in name}


def test_no_two_names_are_the_same() -> None:
    assert len(NAMES) == sum(name.isupper() and isinstance(value, str) for name, value in vars(run_folder).items())


@pytest.mark.parametrize("folder", ["record", "report", "engine", "methods", "app", "."])
def test_file_names_are_written_nowhere_else(folder: str) -> None:
    for path in (SOURCE / folder).glob("*.py" if folder == "." else "**/*.py"):
        if path.name == "run_folder.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            written = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FILES
            assert not written, f"{path}:{getattr(node, 'lineno', 0)} writes a name of run_folder by hand"
