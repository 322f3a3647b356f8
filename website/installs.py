"""What was installed where: a row for each clean environment in which a wheel was used (`make dist`, `make lowest`)."""

import json
from pathlib import Path
from typing import Any

from thresher.bench.pages.markdown import table
from website.made import Made

SHOWN = ("torch", "numpy", "scikit-learn", "pyarrow", "pillow")
RESOLUTIONS = {"highest": "newest", "lowest-direct": "lowest"}


def installs_part(root: Path) -> Made:
    """The latest row of every environment, by Python, extras and resolution."""
    lines = (root / "results" / "install.jsonl").read_text(encoding="utf-8").splitlines()
    latest = {_environment(row): row for row in map(json.loads, lines)}
    heads = ["Python", "extras", "versions", *SHOWN, "import thresher", "thresher --version"]
    return Made(table(heads, [_line(latest[key]) for key in sorted(latest)]))


def _environment(row: dict[str, Any]) -> tuple[str, tuple[int, ...], str]:
    python = tuple(map(int, row["versions"]["python"].split(".")[:2]))
    return row["resolution"], python, row["extras"]


def _line(row: dict[str, Any]) -> list[str]:
    versions, seconds = row["versions"], row["cpu_seconds"]
    return [
        versions["python"],
        row["extras"].strip("[]") or "none",
        RESOLUTIONS[row["resolution"]],
        *(versions.get(name, "").partition("+")[0] for name in SHOWN),
        f"{seconds['import_beyond_torch']:.2f} s",
        f"{seconds['version']:.2f} s" if "version" in seconds else "",
    ]
