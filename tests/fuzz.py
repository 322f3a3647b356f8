"""Mutated bytes for every reader: each file is read, or refused in one sentence, and never anything else.

`make fuzz` runs `python tests/fuzz.py --rounds 400` and appends a line to results/reliability.jsonl.
"""

import argparse
import json
import platform
import random
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

from thresher import Recipe, ThresherError, fit, load, open_run

ROOT = Path(__file__).parent.parent
Reader = Callable[[Path], object]


def sound_files(folder: Path) -> dict[str, tuple[Path, Reader]]:
    """One sound file for each reader, and what reads it."""
    draws = np.random.default_rng(0)
    inputs, labels = draws.normal(size=(40, 2)).astype(np.float32), np.arange(40) % 2
    columns = {"x": inputs[:, 0], "z": inputs[:, 1], "label": labels.astype(str)}
    (folder / "rows.csv").write_text(
        "x,z,label\n" + "".join(f"{x},{z},{y}\n" for (x, z), y in zip(inputs, labels, strict=True))
    )
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    np.savez(folder / "rows.npz", inputs=inputs, targets=labels)
    run = folder / "run"
    fit(Recipe(), lambda: nn.Linear(2, 2), (torch.tensor(inputs), torch.tensor(labels)), epochs=1, batch=20, out=run)
    files = {f"table {suffix}": (folder / f"rows.{suffix}", _table) for suffix in ("csv", "parquet")}
    files["arrays npz"] = (folder / "rows.npz", load)
    for name in ("checkpoint.pt", "about.json", "ledger"):
        path = run / name if name != "ledger" else next((run / "ledger").glob("*.parquet"))
        if path.exists():
            files[f"run {name}"] = (path, lambda _: _opened(run))
    return files


def _table(path: Path) -> object:
    return load(f"{path}:label")


def _opened(run: Path) -> object:
    return open_run(run, model=lambda: nn.Linear(2, 2)).ledger.to_pandas()


def mutated(content: bytes, draws: random.Random) -> bytes:
    """The bytes with some changed, cut off, doubled or replaced."""
    changed = bytearray(content)
    kind = draws.randrange(4)
    if kind == 0:
        for _ in range(draws.randint(1, 8)):
            changed[draws.randrange(len(changed))] = draws.randrange(256)
    elif kind == 1:
        del changed[draws.randrange(len(changed)) :]
    elif kind == 2:
        start = draws.randrange(len(changed))
        changed[start:start] = changed[start : start + draws.randint(1, 64)]
    else:
        start = draws.randrange(len(changed))
        changed[start : start + 16] = draws.randbytes(16)
    return bytes(changed)


def fuzz(rounds: int, seed: int) -> dict[str, dict[str, int]]:
    """For each reader how many mutated files were read, refused, and ended in another error."""
    found: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(made)
        for name, (path, read) in sound_files(folder).items():
            draws, sound = random.Random(f"{seed} {name}"), path.read_bytes()
            counts = found[name] = {"read": 0, "refused": 0, "bad": 0}
            read(path)  # the sound file has to be read, or refusals would show nothing
            for _ in range(rounds):
                path.write_bytes(mutated(sound, draws))
                try:
                    read(path)
                    counts["read"] += 1
                except ThresherError as error:
                    counts["refused" if "\n" not in str(error) else "bad"] += 1
                except Exception as error:
                    counts["bad"] += 1
                    print(f"{name}: {type(error).__name__}: {str(error)[:120]!r}")
            path.write_bytes(sound)
        shutil.rmtree(folder / "run")
    return found


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=400)
    options.add_argument("--seed", type=int, default=0)
    told = options.parse_args()
    began = time.perf_counter()
    counts = fuzz(told.rounds, told.seed)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    about = {"commit": commit.strip(), "python": platform.python_version(), "torch": torch.__version__}
    line = {
        "kind": "fuzz",
        **vars(told),
        **about,
        "machine": platform.machine(),
        "seconds": round(time.perf_counter() - began),
        "readers": counts,
    }
    with open(ROOT / "results" / "reliability.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line, indent=1))
