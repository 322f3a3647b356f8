"""What grows with the data: CRUST's selections from 10,000 to 800,000 rows, and a table of texts, in time and memory.

    python benchmarks/sizes.py --out results/sizes.jsonl

Each figure comes from a process of its own. The rows are of one class, the worst case, as outputs of ten classes.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from timing import peak_memory, write
from torch import nn

from thresher import Examples, acquire, load
from thresher.rules import Centrality, FacilityLocation

SELECTIONS = {"crust-central": Centrality, "crust": FacilityLocation}
ROWS = (10_000, 40_000, 200_000, 800_000)
TEXT_ROWS = (60_000, 480_000)  # 480,000 rows of three texts are 8 MB


def selected(who: str, rows: int) -> dict[str, Any]:
    """One selection of half of the rows."""
    draws = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(rows, 10, generator=draws), torch.arange(rows) % 10
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        chosen = acquire(SELECTIONS[who](count=rows // 2), nn.Identity(), Examples(inputs, targets, classes=10))
    taken = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    return {"chosen": len(chosen), "said": " ".join(str(each.message) for each in said), **taken}


def texts(rows: int) -> dict[str, Any]:
    """A table of three columns of 900 texts each, loaded as examples."""
    draws = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.csv"
        lines = [",".join(f"{name}{draws.randrange(900)}" for name in "abc") + f",{place % 2}" for place in range(rows)]
        path.write_text("\n".join(["a,b,c,label", *lines]) + "\n")
        del lines
        began, cpu = time.perf_counter(), time.process_time()
        train, test = load(f"{path}:label")
        taken = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
        held = sum(each.inputs.numel() * 4 for each in (train, test) if isinstance(each.inputs, torch.Tensor))
        return {"file_mb": path.stat().st_size / 1e6, "inputs_mb": held / 1e6, **taken}


def measured(what: str, rows: int) -> dict[str, Any]:
    """One figure, from a process of its own."""
    told = [sys.executable, __file__, "--one", what, "--rows", str(rows)]
    found: dict[str, Any] = json.loads(subprocess.run(told, check=True, capture_output=True, text=True).stdout)
    print(what, rows, found, flush=True)
    return {"what": what, "rows": rows, **found}


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path)
    options.add_argument("--one")
    options.add_argument("--rows", type=int)
    asked = options.parse_args()
    torch.set_num_threads(1)
    if asked.one:
        before = peak_memory()
        one = texts(asked.rows) if asked.one == "texts" else selected(asked.one, asked.rows)
        print(json.dumps(one | {"mib_before": before, "mib": peak_memory()}))
    else:
        sizes = [("texts", rows) for rows in TEXT_ROWS] + [(who, rows) for who in SELECTIONS for rows in ROWS]
        sizes.sort(key=lambda each: each[1])  # the short ones first
        done: list[dict[str, Any]] = []
        for what, rows in sizes:
            done.append(measured(what, rows))
            write(done, asked.out, threads=1)
