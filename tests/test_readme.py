"""The README speaks of what is there."""

from pathlib import Path

import pytest

from thresher.recipes import METHODS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", METHODS)
def test_the_table_has_every_method(name: str) -> None:
    method = METHODS[name]
    assert f"| [{name}](docs/methods/{name}.md) | {method.summary} | {method.paper} |" in README


def test_the_table_has_no_other_method() -> None:
    rows = [line for line in README.splitlines() if line.startswith("| ") and not line.startswith("| name ")]
    assert len(rows) == len(METHODS)
