"""The benchmark that takes an epoch on a GPU apart: the functions of the engine that it wraps are where it looks."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_the_functions_that_are_timed_stand_where_the_engine_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    parts = importlib.import_module("gpu_parts")
    missing = [
        name for name, (owner, attribute) in {**parts.OF_EPOCH, **parts.OF_STEP}.items() if attribute not in vars(owner)
    ]
    assert not missing
