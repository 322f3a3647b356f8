"""Run folders with invented numbers, in the format that `fit` writes, for the tests of the report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sklearn.datasets import load_digits

from thresher.core.examples import Examples
from thresher.record.issues import REASONS, Issues
from thresher.record.previews import save_previews


def write_fake_run(
    folder: Path,
    *,
    method: str = "prl-l",
    seed: int = 0,
    epochs: int = 30,
    peers: int = 1,
    regression: int = 0,
    pictures: bool = True,
    truth: bool = True,
    teacher: bool = False,
    files: bool = False,
    class_names: Sequence[str] | None = None,
    count: int = 600,
) -> Path:
    """Write a run of `count` digits, 40% of them mislabelled, or of `regression` real targets an example."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    digits = load_digits()
    corrupt = random.random(count) < 0.4
    if regression:
        true = random.normal(size=(count, regression)).astype(np.float32)
        given = np.where(corrupt[:, None], -true, true)
    else:
        true = digits.target[:count].astype(np.int32)
        given = np.where(corrupt, (true + random.integers(1, 10, count)) % 10, true).astype(np.int32)
    trust = np.where(corrupt, random.beta(1.5, 7, count), random.beta(7, 2, count)).astype(np.float32)
    columns = {"id": np.arange(count) * 3, "trust": trust, **_targets("target", given)}
    if files:
        columns["file"] = [f"photos/<b>/{place}.png" for place in range(count)]
    if truth:
        columns |= {"is_corrupt": corrupt, **_targets("true_target", true)}
    if teacher:
        columns |= {"from_teacher": np.arange(count) > 50, "teacher_margin": np.linspace(0, 1, count)}
    table = pa.table(columns)
    if class_names is not None:
        table = table.replace_schema_metadata({"class_names": json.dumps(list(class_names))})
    pq.write_table(table, folder / "examples.parquet")
    (folder / "run.toml").write_text(
        f'method = {json.dumps(method)}\ndata = "digits"\ncorruption = "symmetric:0.4"\nseed = {seed}\n'
        f'epochs = {epochs}\nbatch = 64\nmodel = "mlp"\nnoise_rate = 0.4\nhidden = [256, 256]\n'
    )
    _write_history(folder, method, epochs, random, truth, "r2" if regression else "accuracy")
    _write_ledger(folder, method, epochs, peers, random, true, given, corrupt, teacher)
    least = np.argsort(trust)[:40]
    inputs = (digits.images[:, None] * 15.9375).astype(np.uint8) if pictures else digits.data[:, :20].astype(np.float32)
    shown = Examples(
        torch.from_numpy(inputs[least % len(inputs)]), torch.zeros(len(least)), ids=torch.from_numpy(least * 3)
    )
    save_previews(folder / "previews.npz", shown)
    return folder


def write_fake_issues(folder: Path, names: Sequence[str] | None = None, rate: float | None = 0.25) -> Issues:
    """Write the findings of an audit of the run in this folder, with the labels called by these names."""
    facts = pq.read_table(folder / "examples.parquet").sort_by("trust")
    trust, count = facts["trust"].to_numpy(), len(facts)
    found = trust < 0.3
    columns: dict[str, Any] = {"id": facts["id"]}
    columns |= {"file": facts["file"]} if "file" in facts.column_names else {"row": np.arange(count)}
    kinds = np.array(REASONS)[np.arange(count) % len(REASONS)]
    if "target" in facts.column_names:
        names = list(names or [f"digit {place}" for place in range(10)])
        said = {
            side: np.array(names)[facts[column].to_numpy()]
            for side, column in (("label", "target"), ("suggested", "true_target"))
        }
        columns |= said | {"probability": 1 - trust / 2}
        issues = np.array(found & (said["label"] != said["suggested"]))
        matrix = np.full((10, 10), 0.03) + 0.7 * np.eye(10)
        more = {
            "class_names": names,
            "noise_matrix": matrix.tolist(),
            "class_noise": np.linspace(0.1, 0.4, 10).tolist(),
        }
    else:
        value = facts["target_0"].to_numpy()
        columns |= {"label": value, "expected": -value, "low": -value - 1, "high": -value + 1}
        issues, more = found, {"class_names": None}
    columns |= {"trust": trust, "is_issue": issues, "reason": np.where(issues, kinds, ""), "weight": trust}
    told = {"rate": rate, "low": rate and rate - 0.02, "high": rate and rate + 0.02, "why": "the network is too weak"}
    groups = [{"ids": [0, 3], "exact": True, "across": "labels"}, {"ids": [6, 9, 12], "exact": False, "across": None}]
    summary = {"examples": count, "issues": int(issues.sum()), "noise_rate": told, "duplicates": groups, **more}
    made = Issues(pa.table(columns), {**summary, "method": "prl-l", "why": "it suits few classes"})
    made.write(folder)
    return made


def _targets(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{place}": values[:, place] for place in range(values.shape[1])}


def _write_history(
    folder: Path, method: str, epochs: int, random: np.random.Generator, truth: bool, metric: str
) -> None:
    robust = method != "standard"
    lines = []
    for epoch in range(1, epochs + 1):
        progress = 1 - np.exp(-epoch / 4)
        score = (0.93 if robust else 0.9) * progress - (0 if robust else 0.15 * epoch / epochs)
        row = {
            "epoch": epoch,
            "steps": 10,
            "loss": 2.3 * float(np.exp(-epoch / 8)) + 0.02 * random.random(),
            "score": float(score + 0.008 * random.normal()),
            "metric": metric,
            "train_score": None if metric == "r2" else 0.5 + 0.4 * epoch / epochs,
            "scores": {}
            if metric == "r2"
            else {f"recall_{digit}": (digit + epoch) / (9 + epochs) for digit in range(10)},
            "kept": 0.6 if robust else 1.0,
            "clean_share": (0.6 + 0.38 * progress if robust else 0.6) if truth else None,
            "effective": 0.6 if robust else 1.0,
            "skipped": 0,
            "seconds": 0.25,
            "learning_rate": 0.001,
        }
        lines.append(json.dumps(row))
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")


def _write_ledger(
    folder: Path,
    method: str,
    epochs: int,
    peers: int,
    random: np.random.Generator,
    true: np.ndarray,
    given: np.ndarray,
    corrupt: np.ndarray,
    teacher: bool,
) -> None:
    count = len(true)
    (folder / "ledger").mkdir()
    for epoch in range(1, epochs + 1):
        parts = []
        for peer in range(peers):
            right = random.random(count) < 0.93
            weight = {
                "standard": np.ones(count),
                "l2rw": random.exponential(size=count) * ~corrupt + 0.2 * random.random(count) * corrupt,
            }.get(method, np.where(corrupt, random.random(count) < 0.05, random.random(count) < 0.97))
            if true.ndim == 1:
                prediction = np.where(right, true, (true + random.integers(1, 10, count)) % 10).astype(np.int32)
            else:
                prediction = (true + 0.2 * random.normal(size=true.shape)).astype(np.float32)
            columns = {
                "id": np.arange(count) * 3,
                "epoch": np.full(count, epoch, np.int32),
                "peer": np.full(count, peer, np.int8),
                "visited": np.ones(count, bool),
                "signal": random.random(count).astype(np.float32),
                "weight": weight.astype(np.float32),
                "kept": weight > 0,
                "loss": random.random(count).astype(np.float32),
                "p_given": random.random(count).astype(np.float32),
                "belief": np.where(corrupt, 0.2, 0.8 * (1 - np.exp(-epoch / 4))).astype(np.float32),
                **_targets("prediction", prediction),
                **_targets("target", given),
            }
            if teacher:
                columns |= {f"{who}_confidence": random.random(count) for who in ("teacher", "student")}
            parts.append(pa.table(columns))
        pq.write_table(pa.concat_tables(parts), folder / "ledger" / f"part-{epoch:05d}.parquet")
