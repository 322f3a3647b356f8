"""What fuzzing and soaking found, from the newest stored line of each."""

import json
from pathlib import Path
from typing import Any

from thresher.bench.pages.markdown import table
from website.made import Made

ROUNDS = 40  # of `make fuzz`


def reliability_part(root: Path) -> Made:
    """Tables of cases, of damaged files, of faults, and of what grows with the data."""
    lines = (root / "results/reliability.jsonl").read_text(encoding="utf-8").splitlines()
    newest: dict[str, dict[str, Any]] = {}
    for line in map(json.loads, lines):
        newest[line["kind"]] = line
    fuzzed = [line for line in map(json.loads, lines) if line["kind"] == "fuzz" and line["rounds"] == ROUNDS]
    parts = [_cases(newest["cases"])] if "cases" in newest else []
    parts += [_fuzzed(newest["fuzz"]), _seeds(fuzzed)]
    if "soak" in newest:
        parts.append(_soaked(newest["soak"]))
    sizes = root / "results/sizes.jsonl"
    if sizes.exists():
        parts += _sized([json.loads(line) for line in sizes.read_text(encoding="utf-8").splitlines()])
    return Made("\n\n".join(parts))


def _cases(line: dict[str, Any]) -> str:
    rows = [[kind, f"{found['good']:,}", f"{found['bad']:,}"] for kind, found in line["kinds"].items()]
    said = f"Cases of each kind in the tests, commit {line['commit'][:9]} (`python tests/count_cases.py`)."
    return said + "\n\n" + table(["kind", "good", "bad"], rows)


def _sized(lines: list[dict[str, Any]]) -> list[str]:
    """What `benchmarks/sizes.py` measured: texts of a table, and selections."""
    texts = [line for line in lines if line["what"] == "texts"]
    chosen = sorted((line for line in lines if line["what"] != "texts"), key=lambda line: (line["what"], line["rows"]))
    commit = lines[0]["commit"][:9]
    parts = []
    if texts:
        rows = [
            [f"{line['rows']:,}", f"{line['file_mb']:.1f} MB", f"{line['inputs_mb']:,.0f} MB", _beside(line)]
            for line in texts
        ]
        said = f"A table of three columns of 900 texts each, loaded, commit {commit} (`python benchmarks/sizes.py`)."
        parts.append(said + "\n\n" + table(["rows", "file", "inputs", "memory at its peak"], rows))
    if chosen:
        rows = [
            [line["what"], f"{line['rows']:,}", f"{line['cpu_seconds']:,.1f} s", _beside(line), line["said"] or "-"]
            for line in chosen
        ]
        said = f"One selection of half of the rows, one thread, commit {commit}."
        parts.append(said + "\n\n" + table(["method", "rows", "CPU time", "memory at its peak", "what is said"], rows))
    return parts


def _beside(line: dict[str, Any]) -> str:
    """The memory beyond what the process had after its imports."""
    return f"{line['mib'] - line['mib_before']:,.0f} MiB"


def _fuzzed(line: dict[str, Any]) -> str:
    rows = [
        [f"`{name}`", *(f"{counts[key]:,}" for key in ("read", "refused", "bad"))]
        for name, counts in line["readers"].items()
    ]
    bad = sum(counts["bad"] for counts in line["readers"].values())
    tried = sum(map(_tried, line["readers"].values()))
    said = f"Fuzzing, commit {line['commit'][:9]}: {tried:,} commands on damaged files, of which {bad:,} ended in "
    said += "anything else than a result or a sentence."
    return said + "\n\n" + table(["file", "read", "refused", "anything else"], rows)


def _seeds(lines: list[dict[str, Any]]) -> str:
    """Every run of `make fuzz`, the oldest first: what one found was mended before the next."""
    counts = [list(line["readers"].values()) for line in lines]
    rows = [
        [str(line["seed"]), line["commit"][:9], f"{sum(map(_tried, each)):,}", f"{sum(one['bad'] for one in each):,}"]
        for line, each in zip(lines, counts, strict=True)
    ]
    said = f"All runs of {ROUNDS} rounds, the oldest first; what one found was mended before the next."
    return said + "\n\n" + table(["seed", "commit", "commands", "anything else"], rows)


def _tried(counts: dict[str, int]) -> int:
    return counts["read"] + counts["refused"] + counts["bad"]


def _soaked(line: dict[str, Any]) -> str:
    bad = ("hangs", "did not end well", "left behind")
    faults = {name: count for name, count in line["faults"].items() if name not in bad}
    rows = [[name, f"{count:,}"] for name, count in faults.items()]
    rows += [[f"**{name}**", f"{line['faults'].get(name, 0):,}"] for name in bad]
    rows += [["**files that differ from the twin's**", f"{len(line['different files']):,}"]]
    said = f"Soaking for {line['took'] / 60:.0f} minutes, commit {line['commit'][:9]}: {line['commands']:,} commands, "
    said += f"{sum(faults.values()):,} faults."
    return said + "\n\n" + table(["what happened", "times"], rows)
