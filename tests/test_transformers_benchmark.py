"""The benchmark of language models on its tiny model: every contestant takes part, and its rows say how it fared."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("peft")
ROOT = Path(__file__).resolve().parents[1]


def test_every_contestant_makes_steps(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    script = ROOT / "benchmarks" / "transformers.py"
    command = [sys.executable, "-W", "ignore", str(script), str(out), "--tiny", "--seconds", "900"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert not [row["failed"] for row in rows if "failed" in row]
    assert {(row["who"], row["lora"]) for row in rows} == {
        (who, lora)
        for who in ("by hand", "standard", "prl-l", "prl-g", "l2rw", "vmap(grad)", "opacus ghost")
        for lora in (False, True)
    }
    assert {row["turns"] for row in rows} == {3}
    assert all(row["seconds"] > 0 and row["against_hand"] > 0 for row in rows)
