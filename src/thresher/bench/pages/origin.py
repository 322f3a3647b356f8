"""Where the numbers of a page come from: machines, versions and commits."""

from collections.abc import Sequence
from typing import Any

from thresher.bench.compare.rows import Row
from thresher.bench.run.identity import Result


def origin_of(results: Sequence[Result], rows: Sequence[Row]) -> str:
    """The machines, versions and commits of the results on the page, in one paragraph."""
    used = [result for row in rows for result in row.results]
    if not used:
        return f"Of {len(results)} stored results none belongs to this page yet."
    machines = sorted({_machine(result["machine"]) for result in used})
    versions = sorted({", ".join(f"{name} {v}" for name, v in result["versions"].items()) for result in used})
    commits = sorted({_commit(result) for result in used})
    return f"Machine: {'; '.join(machines)}. Versions: {'; '.join(versions)}. Commit: {'; '.join(commits)}."


def _machine(machine: dict[str, Any]) -> str:
    """The processors, and how many cores each run had."""
    at_once = f", {machine['jobs']} runs side by side" if machine["jobs"] > 1 else ""
    cpu = f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores a run{at_once}"
    return cpu if machine["gpu"] is None else f"{machine['gpu']} ({cpu})"


def _commit(result: Result) -> str:
    if result["commit"] is None:
        return "none"
    return str(result["commit"])[:10] + (" with changes" if result["dirty"] else "")
