"""Both sides of every bound that the pages of theory check: runs their code and writes docs/theory/bounds.md.

python benchmarks/theory.py
"""

import contextlib
import io
import re
from pathlib import Path

PAGES = {"prl": "PRL", "l2rw": "L2RW", "crust": "CRUST", "distillation": "weighted distillation"}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
HEAD = """# Both sides of the bounds

<!-- Made by `python benchmarks/theory.py` from the code in the pages of this folder. -->

Each line is a small case of a statement in [PRL](prl.md), [L2RW](l2rw.md), [CRUST](crust.md) or
[weighted distillation](distillation.md): what was found there, what the statement says it is at most, and the
first as a share of the second. A share far below 1 means that the bound holds with much room, and that this case says
little about how tight it is; the pages name the bounds that are attained. The tests run the same code.

| paper | statement | found | at most | share |
|---|---|---|---|---|
"""


def bounds(page: Path) -> list[str]:
    """The lines `statement | left | right` that the code of a page prints."""
    code, printed = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8"))), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page.name, "exec"), {"__name__": "__main__"})
    return [line for line in printed.getvalue().splitlines() if line.count(" | ") == 2]


def share(line: str) -> str:
    """The left side as a share of the right one, of a line `statement | left | right`.

    >>> share("Lemma 1 | 0.25 | 2")
    '0.12'
    """
    left, right = map(float, line.split(" | ")[1:])
    return f"{left / right:.2g}"


def main() -> None:
    folder = Path("docs/theory")
    lines = [
        f"| {paper} | {line} | {share(line)} |"
        for name, paper in PAGES.items()
        for line in bounds(folder / f"{name}.md")
    ]
    (folder / "bounds.md").write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
