"""Verdicts that a longer run turned: prints docs/results/lengths.md.

    python benchmarks/lengths.py > docs/results/lengths.md

results/lengths.jsonl keeps rows of shorter runs that the suites gave up for longer ones, as they were stored; the
longer ones are in the files of their suites. Nothing is measured here.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
AFTER = {"growing": "patient"}  # reclaim for mostly wrong labels, which now also waits longer
HEAD = """\
# Verdicts that a longer run turned

<!-- Made from results/lengths.jsonl and the results of the suites by `python benchmarks/lengths.py`. -->

**What holds here** depends on how long everything trains. The same cells, methods and seeds in a shorter and a longer
run, every method alike; one seed each, so that a difference of a point or two says nothing. Accuracy in percent, last
ten epochs or last round.
"""


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def key(row: Row) -> tuple[str, str, int]:
    return row["cell"], row["method"], row["seed"]


def longer(short: Row) -> Row | None:
    """The stored row of the same cell, method and seed; of cells that were dropped, the row of what came after."""
    path = Path("results") / f"{short['suite']}-{short['scale']}.jsonl"
    cell, method, seed = key(short)
    wanted = cell.removesuffix("-short"), AFTER.get(method, method), seed
    return next((row for row in read(path) if key(row) == wanted and row["status"] == "ok"), None)


def turned(pairs: list[tuple[Row, Row]]) -> list[str]:
    """Every two methods of a cell whose order the longer run turned round."""
    found = []
    for place, (one, one_long) in enumerate(pairs):
        for other, other_long in pairs[place + 1 :]:
            before, after = one["last"] - other["last"], one_long["last"] - other_long["last"]
            if before * after < 0:
                above, below = (one, other) if after > 0 else (other, one)
                how = f"{100 * abs(before):.1f} below, then {100 * abs(after):.1f} above"
                found.append(f"{above['method']} above {below['method']} ({how})")
    return found


def page() -> str:
    rows = read(Path("results/lengths.jsonl"))
    parts = [HEAD]
    for cell in dict.fromkeys((row["suite"], row["cell"]) for row in rows):
        here = [row for row in rows if (row["suite"], row["cell"]) == cell]
        pairs = [(row, other) for row in here if (other := longer(row)) is not None]
        lengths = {row["settings"]["epochs"] for row in here}
        after = {other["settings"]["epochs"] for _, other in pairs}
        parts.append(f"## {cell[0]}: {cell[1]}\n")
        parts.append(f"| method | {min(lengths)} epochs | {min(after) if after else 'longer'} epochs |\n|---|---|---|")
        for row in here:
            other = longer(row)
            words = "not run longer" if other is None else f"{100 * other['last']:.1f}"
            if other is not None and other["method"] != row["method"]:
                words += f" ({other['method']})"
            parts.append(f"| {row['method']} | {100 * row['last']:.1f} | {words} |")
        order = turned(pairs)
        parts.append("\nTurned round: " + ("; ".join(order) + "." if order else "nothing.") + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page())
