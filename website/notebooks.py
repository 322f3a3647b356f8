"""Some pages as notebooks: the same Markdown, cut at its blocks, with what the build of the site printed and drew."""

import json
import re
from typing import Any

from website.executed import BLOCK, Outcome

PAGES = ("index.md", "guides/rare-classes.md", "guides/own-parts.md")
SAVED = re.compile(r"\.save\(\"([\w-]+\.svg)\"\)")
Cell = dict[str, Any]


def notebook(text: str, outcomes: list[Outcome] | None = None) -> str:
    """The page as the JSON of a notebook; without outcomes its cells have no outputs.

    >>> cells = json.loads(notebook("# Title\\n\\n```python\\nprint(1)\\n```\\n"))["cells"]
    >>> [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    [('markdown', '# Title'), ('code', 'print(1)')]
    """
    cells, end = [], 0
    waiting = iter(outcomes or [])
    for found in BLOCK.finditer(text):
        cells += _words(text[end : found.start()])
        cells += _code(found[1], found[2].rstrip(), next(waiting, Outcome("", {})))
        end = found.end()
    cells += _words(text[end:])
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    page = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"


def _words(text: str) -> list[Cell]:
    """Text without what only the site understands: links to its pages, and boxes."""
    text = re.sub(r"^<.*>\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text).strip()
    return [{"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}] if text else []


def _code(kind: str, code: str, outcome: Outcome) -> list[Cell]:
    if kind == "sh":
        code = "\n".join(f"!{line}" for line in code.replace("\\\n", " ").splitlines())
    printed = outcome.printed.splitlines(keepends=True)
    outputs: list[Cell] = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    cells = [_cell(code, outputs)]
    for name in SAVED.findall(code):
        drawn = {"image/svg+xml": outcome.files[name].decode()} if name in outcome.files else {}
        shown = {"output_type": "display_data", "data": drawn, "metadata": {}}
        cells.append(
            _cell(f'from IPython.display import SVG, display\n\ndisplay(SVG("{name}"))', [shown] if drawn else [])
        )
    return cells


def _cell(code: str, outputs: list[Cell]) -> Cell:
    source = code.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": outputs, "source": source}
