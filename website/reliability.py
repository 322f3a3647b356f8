"""What fuzzing and soaking found, from the newest stored line of each."""

import json
from pathlib import Path
from typing import Any

from thresher.bench.pages.markdown import table
from website.made import Made


def reliability_part(root: Path) -> Made:
    """A table of damaged files, and a table of faults."""
    lines = (root / "results/reliability.jsonl").read_text(encoding="utf-8").splitlines()
    newest: dict[str, dict[str, Any]] = {}
    for line in map(json.loads, lines):
        newest[line["kind"]] = line
    parts = [_fuzzed(newest["fuzz"])]
    if "soak" in newest:
        parts.append(_soaked(newest["soak"]))
    return Made("\n\n".join(parts))


def _fuzzed(line: dict[str, Any]) -> str:
    rows = [
        [f"`{name}`", *(f"{counts[key]:,}" for key in ("read", "refused", "bad"))]
        for name, counts in line["readers"].items()
    ]
    bad = sum(counts["bad"] for counts in line["readers"].values())
    tried = sum(sum(counts.values()) for counts in line["readers"].values())
    said = f"Fuzzing, commit {line['commit'][:9]}: {tried:,} commands on damaged files, of which {bad:,} ended in "
    said += "anything else than a result or a sentence."
    return said + "\n\n" + table(["file", "read", "refused", "anything else"], rows)


def _soaked(line: dict[str, Any]) -> str:
    bad = ("hangs", "did not end well", "left behind")
    faults = {name: count for name, count in line["faults"].items() if name not in bad}
    rows = [[name, f"{count:,}"] for name, count in faults.items()]
    rows += [[f"**{name}**", f"{line['faults'].get(name, 0):,}"] for name in bad]
    rows += [["**files that differ from the twin's**", f"{len(line['different files']):,}"]]
    said = f"Soaking for {line['took'] / 60:.0f} minutes, commit {line['commit'][:9]}: {line['commands']:,} commands, "
    said += f"{sum(faults.values()):,} faults."
    return said + "\n\n" + table(["what happened", "times"], rows)
