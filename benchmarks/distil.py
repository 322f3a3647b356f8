"""What it costs on the CPU to weigh 100,000 teacher labels, once and every epoch, against the student's training.

    python benchmarks/distil.py [--steps 30] [--out results/distil-cpu.jsonl]
    python benchmarks/distil.py --show results/distil-cpu.jsonl > docs/results/distil-cpu.md

A training step is the engine's own, ledger included, on soft labels, in batches of 128; its median over some steps
stands for all steps of an epoch. Estimating weights is a sweep of the student over all examples, one over the
validation set, and the search for neighbours. Figures are CPU seconds of one thread, which other work on the machine
disturbs least.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from timing import write
from torch import Tensor

from thresher import Examples, Recipe
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.loop.training import Training
from thresher.engine.plan import make_plan
from thresher.engine.settings import TrainSettings
from thresher.models import build
from thresher.objectives import CrossEntropy, Distillation
from thresher.rules import debias_weights

COUNT, BATCH, CLASSES, EPOCHS = 100_000, 128, 10, 200  # the paper trains students for 200 epochs
STUDENTS = {"mobilenet": (3, 32, 32), "lenet": (1, 28, 28)}  # the paper's student, and about the smallest there is
VALIDATIONS = (500, 2000)  # the paper's sizes


def taught(count: int, shape: tuple[int, ...], seed: int) -> Examples:
    """Random images with soft labels."""
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randint(0, 256, (count, *shape), generator=draws, dtype=torch.uint8)
    return Examples(inputs, torch.randn(count, CLASSES, generator=draws).softmax(1), classes=CLASSES)


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def step_seconds(name: str, shape: tuple[int, ...], steps: int) -> float:
    """The median of a training step; the first few are not counted."""
    torch.manual_seed(0)
    model = build(name, input_shape=shape, outputs=CLASSES)
    sets = {"train": taught((steps + 5) * BATCH, shape, 0)}
    plan = make_plan(TrainSettings(epochs=1, batch=BATCH, device="cpu"), sets["train"], None)
    training = Training(Recipe(objective=Distillation()), [model], sets, plan)
    found, start = [], time.process_time()
    for _ in training.run_epoch():
        found.append(time.process_time() - start)
        start = time.process_time()
    return statistics.median(found[5:])


def sweep_seconds(name: str, shape: tuple[int, ...], count: int) -> float:
    model, examples = build(name, input_shape=shape, outputs=CLASSES), taught(count, shape, 1)
    return cpu_seconds(lambda: Sweeper()(model, CrossEntropy(), examples))


def search_seconds(validation: int) -> float:
    """The median of five searches; confidences crowd near 1, as those of trained networks do."""
    draws = torch.Generator().manual_seed(0)

    def confidences(count: int) -> Tensor:
        return 1 - torch.rand(count, 2, generator=draws) ** 4

    known, asked = confidences(validation), confidences(COUNT)
    wrong, distortions = torch.rand(validation, generator=draws) < 0.3, 3 * torch.rand(validation, generator=draws)
    return statistics.median(cpu_seconds(lambda: debias_weights(known, wrong, distortions, asked)) for _ in range(5))


def measured(name: str, validation: int, step: float, sweep: float, search: float) -> dict[str, Any]:
    epoch, looks = step * COUNT / BATCH, sweep * (COUNT + validation) / COUNT
    return {
        "student": name,
        "examples": COUNT,
        "validation": validation,
        "epoch_seconds": epoch,
        "sweep_seconds": looks,
        "search_seconds": search,
        "once_share_of_training": (looks + search) / (EPOCHS * epoch),
        "sweep_share_of_epoch": looks / epoch,
        "search_share_of_epoch": search / epoch,
        "epochs": EPOCHS,
    }


def page(found: Sequence[Mapping[str, Any]]) -> str:
    """The figures as a page."""
    heads = (
        "student", "validation examples", "an epoch of training, s", "sweeps, s", "search, s",
        "once, of all training", "every epoch: sweeps", "every epoch: search",
    )  # fmt: skip
    rows = [
        f"| {each['student']} | {each['validation']:,} | {each['epoch_seconds']:.1f} | {each['sweep_seconds']:.1f} "
        f"| {each['search_seconds']:.3f} | {each['once_share_of_training']:.2%} | {each['sweep_share_of_epoch']:.0%} "
        f"| {each['search_share_of_epoch']:.2%} |"
        for each in found
    ]
    once = max(each["once_share_of_training"] for each in found)
    search = max(each["search_share_of_epoch"] for each in found)
    sweeps = [each["sweep_share_of_epoch"] for each in found]
    return f"""# What it costs to weigh a teacher's labels

**What holds here.** The paper says that computing weights takes less than 1% of a training, even in every epoch. Once
it takes up to {once:.2%}. In every epoch the search takes up to {search:.2%} of it, but to evaluate the student on
all examples {min(sweeps):.0%} to {max(sweeps):.0%}, which the paper does not count or does not need. One run, on a CPU.

{found[0]["examples"]:,} unlabelled examples, CPU seconds of one thread. Once: the sweeps of the student over all
examples and the validation set and the search for neighbours, against a training of {found[0]["epochs"]} epochs. Every
epoch: the same against one epoch of training.

| {" | ".join(heads)} |
|{"---|" * len(heads)}
{chr(10).join(rows)}

Made by `python benchmarks/distil.py --show results/distil-cpu.jsonl`."""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--steps", type=int, default=30)
    words.add_argument("--swept", type=int, default=4000, help="examples swept; the time for all is in proportion")
    words.add_argument("--out", type=Path)
    words.add_argument("--show", type=Path, help="print the page of these stored rows")
    told = words.parse_args()
    if told.show is not None:
        print(page([json.loads(line) for line in told.show.read_text().splitlines()]))
        return
    torch.set_num_threads(1)
    searches = {validation: search_seconds(validation) for validation in VALIDATIONS}
    found = []
    for name, shape in STUDENTS.items():
        step = step_seconds(name, shape, told.steps)
        sweep = sweep_seconds(name, shape, told.swept) * COUNT / told.swept
        found += [measured(name, validation, step, sweep, seconds) for validation, seconds in searches.items()]
    print(page(found))
    write(found, told.out, torch.get_num_threads())


if __name__ == "__main__":
    main()
