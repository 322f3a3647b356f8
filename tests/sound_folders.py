"""Sound files for every reader, made by the commands themselves, and for each file the commands that read it."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from typer.testing import CliRunner

from thresher.__main__ import app

Command = Sequence[str]  # its words; paths are relative to the folder
QUICK = ["--epochs", "1", "--batch", "16", "--model", "mlp:4"]
RUN = ["train", "--data", "rows.csv:label", "--method", "prl-l", "--noise-rate", "0.2", *QUICK, "--out", "run"]
LONGER = [each if each != "1" else "2" for each in RUN]  # which goes on from the checkpoint
POOL = ["train", "--data", "pool.csv:label", "--pool", "--method", "standard", *QUICK, "--out", "pool"]
AUDIT = ["audit", "rows.csv:label", "--method", "standard", *QUICK, "--out", "audit"]
DISTIL = ["distil", "--data", "pool.npz", "--labelled", "20", "--teacher", "predictions.parquet", "--weights", "debias"]
QUERY, LABEL = ["query", "pool", "--count", "2", "--by", "margin"], ["label", "pool", "answers.json"]
REPORT, PREDICT = ["report", "run", "--out", "page.html"], ["predict", "run", "rows.csv", "--out", "predicted.csv"]
LOOP, EXPORT = ["label", "pool"], ["export", "run", "--out", "exported"]
CORRECT, REVIEW = ["correct", "audit", "--out", "corrected"], ["review", "audit", "--count", "3"]
AUDIT_PAGE, ANSWER = ["report", "audit", "--out", "page.html"], ["label", "audit", "reviewed.csv"]


def train_on(data: str) -> Command:
    return ["train", "--data", data, "--method", "standard", *QUICK, "--out", "new"]


READ: dict[str, list[Command]] = {
    "rows.csv": [train_on("rows.csv:label"), PREDICT, CORRECT, REVIEW],
    "rows.parquet": [train_on("rows.parquet:label")],
    "rows.npz": [train_on("rows.npz")],
    "images/a/0.png": [train_on("images")],
    "images/a/1.jpg": [train_on("images")],
    "images/b/0.gif": [train_on("images")],
    "features.npy": [[*train_on("rows.npz"), "--features", "features.npy"]],
    "predictions.parquet": [[*DISTIL, *QUICK, "--out", "new"]],
    "run/run.toml": [RUN, REPORT, ["train", "--from", "run/run.toml", "--out", "new"]],
    "run/model.json": [PREDICT, RUN, EXPORT],
    "run/history.jsonl": [REPORT, RUN],
    "run/checkpoint.pt": [PREDICT, RUN, LONGER],
    "run/ledger/part-00000.parquet": [REPORT, PREDICT, RUN],
    "run/examples.parquet": [REPORT, RUN],
    "run/previews.npz": [REPORT, RUN],
    "pool/answers.csv": [QUERY, LOOP],
    "pool/loop.json": [QUERY, LOOP],
    "pool/picks/0.npz": [LOOP],
    "pool/queries/0-margin-2/tasks.json": [LOOP],
    "pool/rounds/1/history.jsonl": [LOOP],
    "pool/rounds/1/checkpoint.pt": [LOOP],
    "pool/rounds/1/model.json": [LOOP],
    "pool/run.toml": [QUERY, LOOP],
    "pool/model.json": [QUERY, LOOP],
    "pool/checkpoint.pt": [QUERY],
    "pool/ledger/part-00000.parquet": [[*QUERY, "--avoid", "trust"]],
    "pool.csv": [QUERY, LOOP],
    "answers.json": [LABEL],
    "audit/issues.parquet": [CORRECT, REVIEW, AUDIT_PAGE, ANSWER],
    "audit/issues.json": [CORRECT, REVIEW, AUDIT_PAGE],
    "audit/previews.npz": [REVIEW, AUDIT_PAGE],
    "audit/audit/about.json": [AUDIT],
    "audit/audit/forest.npz": [AUDIT],
    "audit/audit/network.npz": [AUDIT],
    "audit/audit/fold-0/checkpoint.pt": [AUDIT],
    "audit/audit/fold-0/ledger/part-00000.parquet": [AUDIT_PAGE],
    "audit/run.toml": [CORRECT, REVIEW, AUDIT_PAGE],
    "audit/model.json": [CORRECT, REVIEW, ANSWER],
    "audit/checkpoint.pt": [AUDIT],
    "reviewed.csv": [ANSWER],
    "copy/rows.csv": [["correct", "copy", "--undo"]],
    "copy/changes.csv": [["correct", "copy", "--undo"]],
    "copy/correction.json": [["correct", "copy", "--undo"]],
    "results/demo-small.jsonl": [["bench", "show", "demo", "--results", "results", "--docs", "pages"]],
}


def run_command(command: Command) -> tuple[int, str, BaseException | None]:
    """The exit code, what was said, and the error that ended it, if that was not an exit."""
    result = CliRunner().invoke(app, list(command))
    raised = None if isinstance(result.exception, SystemExit) else result.exception
    return result.exit_code, result.output, raised


def write_sound_folder(folder: Path, results: Path) -> None:
    """Write all sound files; the working directory has to be this folder."""
    draws = np.random.default_rng(0)
    inputs, labels = draws.normal(size=(60, 3)).astype(np.float32), np.arange(60) % 2
    inputs[:, 0] += labels
    columns = {f"x{place}": inputs[:, place] for place in range(3)} | {"label": [f"c{each}" for each in labels]}
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    lines = [f"{x:.3f},{y:.3f},{z:.3f},c{label}" for (x, y, z), label in zip(inputs, labels, strict=True)]
    head = "x0,x1,x2,label"
    (folder / "rows.csv").write_text("\n".join([head, *lines]) + "\n")
    some = [line if place < 40 else line.rpartition(",")[0] + "," for place, line in enumerate(lines)]
    (folder / "pool.csv").write_text("\n".join([head, *some]) + "\n")
    for name in ("rows.npz", "pool.npz"):
        np.savez(folder / name, train_images=inputs, train_targets=labels)
    np.save(folder / "features.npy", inputs[:48])
    chances = np.full((60, 2), 0.5)
    said = {"id": np.arange(60), "0": chances[:, 0], "1": chances[:, 1]}
    pq.write_table(pa.table(said), folder / "predictions.parquet")
    for name in ("a", "b"):
        (folder / "images" / name).mkdir(parents=True)
        for place, suffix in enumerate(("jpg", "png", "gif") * 4):
            pixels = draws.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / name / f"{place // 3}.{suffix}")
    (folder / "results").mkdir()
    (folder / "results" / "demo-small.jsonl").write_bytes(results.read_bytes())
    for command in (RUN, POOL, QUERY):
        _succeed(command)
    tasks = json.loads((folder / "pool/queries/0-margin-2/tasks.json").read_text())
    for place, task in enumerate(tasks):
        chosen = [{"type": "choices", "value": {"choices": [f"c{place % 2}"]}}]
        task["annotations"] = [{"completed_by": {"id": 1}, "result": chosen, "updated_at": "2026-01-01"}]
    (folder / "answers.json").write_text(json.dumps(tasks))
    (folder / "reviewed.csv").write_text("id,label\n3,c0\n4,c1\n")
    for command in (LABEL, AUDIT, ["correct", "audit", "--count", "5", "--out", "copy"]):
        _succeed(command)


def _succeed(command: Command) -> None:
    code, said, raised = run_command(command)
    if code:
        raise AssertionError(f"{command}: {said} {raised!r}")
