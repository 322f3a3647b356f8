"""Run folders with invented numbers, in the format that `fit` writes, for the tests of the report."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits


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
    inputs = digits.images[:count, None] * 15.9375
    stored = inputs.astype(np.uint8) if pictures else digits.data[:count, :20].astype(np.float32)
    names = {} if pictures else {"feature_names": np.array([f"pixel {place}" for place in range(20)])}
    np.savez(folder / "previews.npz", ids=least * 3, inputs=stored[least], **names)
    return folder


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
                **_targets("prediction", prediction),
                **_targets("target", given),
            }
            if teacher:
                columns |= {f"{who}_confidence": random.random(count) for who in ("teacher", "student")}
            parts.append(pa.table(columns))
        pq.write_table(pa.concat_tables(parts), folder / "ledger" / f"part-{epoch:05d}.parquet")
