"""Data that do not lie in memory, for the benchmark of several processes: a folder of images and an Arrow file."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from thresher import Examples, load
from thresher.core.datasets import Picked
from thresher.data.given import as_examples

PASSES = 5  # over the set, so that workers have been started for most of it
SOURCES = ("folder", "Arrow")
COUNT, CLASSES, WIDTH = 600, 10, 784


def make_sources(folder: Path) -> None:
    """Write both into a folder that all processes of a group read."""
    import datasets

    datasets.disable_progress_bars()
    draws = np.random.default_rng(0)
    labels = np.arange(COUNT) % CLASSES
    for place, label in enumerate(labels):
        file = folder / "images" / str(label) / f"{place:04}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draws.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(file)
    rows = {"row": draws.normal(size=(COUNT, WIDTH)).astype(np.float32), "label": labels}
    datasets.Dataset.from_dict(rows).save_to_disk(str(folder / "arrow"))


def source(name: str, folder: Path) -> Examples:
    if name == "folder":
        held = load(str(folder / "images")).train  # small enough to be decoded once and held: here files are to be read
        return replace(held, inputs=unheld(held.inputs), checked=False)
    import datasets

    return as_examples(datasets.load_from_disk(str(folder / "arrow")).with_format("torch"), target="label")


def unheld(inputs: Any) -> Any:
    """The same images, decoded whenever they are asked for."""
    if isinstance(inputs, Picked):
        return Picked(unheld(inputs.dataset), inputs.positions)
    return replace(inputs, held=None)


def read(examples: Examples, batch: int, workers: int, count: int, rank: int) -> float:
    """Examples a second of all processes, while this one reads its part of every batch."""
    some = min(batch, 100)
    order = torch.arange(len(examples) // some * some).view(-1, some).repeat(PASSES, 1)
    rows = [row.tensor_split(count)[rank] for row in order]
    begun = time.perf_counter()
    for _ in examples.batches(rows, workers=workers):
        pass
    return order.numel() / (time.perf_counter() - begun)
