"""Where a step of a method spends its time: kernels, gaps between them, and the host.

    python benchmarks/profile_step.py prl-g                       (on CUDA where there is one, else on the CPU)
    python benchmarks/profile_step.py l2rw --model resnet18 --batch 512 --device cuda

On the CPU: of a step's wall time, what torch's operations take, and what is left for the host's own code; and the
functions of the library that take most of it. On CUDA, of replayed steps: the time in which kernels run, the gaps in
between, and the largest kernels. (A file called profile.py would stand for the module of Python that torch imports.)
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import thresher
from thresher import Examples
from thresher.core.rule import needs_of
from thresher.engine.loop.training import Training
from thresher.engine.plan import make_plan
from thresher.engine.settings import TrainSettings
from thresher.methods import method
from thresher.models import build

SOURCE = str(Path(thresher.__file__).parent)
STEPS = 40


def examples(count: int, shape: tuple[int, ...], seed: int) -> Examples:
    draws = torch.Generator().manual_seed(seed)
    return Examples(
        torch.randn(count, *shape, generator=draws), torch.randint(0, 10, (count,), generator=draws), classes=10
    )


def steps_of(name: str, model: str, batch: int, device: str) -> Iterator[object]:
    """Steps of the engine, without end."""
    shape = (64,) if model.startswith("mlp") else (3, 32, 32)
    recipe = method(name).recipe(noise_rate=0.4, classes=10, epochs=100)
    sets = {"train": examples(STEPS * batch, shape, 0)}
    if "clean" in needs_of(recipe):
        sets["clean"] = examples(batch, shape, 1)
    plan = make_plan(TrainSettings(epochs=100, batch=batch, device=device), sets["train"], sets.get("clean"))
    placed = {key: each.to(plan.device) for key, each in sets.items()}
    models = [build(model, input_shape=shape, outputs=10).to(plan.device) for _ in range(recipe.peers)]
    training = Training(recipe, models, placed, plan)
    while True:
        yield from training.run_epoch()


def taken(steps: Iterator[object], count: int) -> float:
    """Seconds of so many steps."""
    started = time.perf_counter()
    for _ in range(count):
        next(steps)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def host_share(steps: Iterator[object]) -> list[str]:
    """The functions of the library that take most time themselves, in microseconds a step."""
    profiler = cProfile.Profile()
    profiler.enable()
    taken(steps, STEPS)
    profiler.disable()
    own: list[tuple[float, str]] = []
    found: dict[Any, Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for (path, line, function), (_, _, itself, _, _) in found.items():
        if path.startswith(SOURCE):
            own.append((itself, f"{path.removeprefix(SOURCE)[1:]}:{line} {function}"))
    return [f"  {1e6 * itself / STEPS:8.1f} us  {where}" for itself, where in sorted(own, reverse=True)[:12]]


def busy_time(spans: list[tuple[float, float]]) -> float:
    """The length of the union of these spans.

    >>> busy_time([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def report(name: str, model: str, batch: int, device: str) -> None:
    steps = steps_of(name, model, batch, device)
    taken(steps, STEPS + 5)  # captured and warm
    wall = min(taken(steps, STEPS) for _ in range(5)) / STEPS
    on_device = device.startswith("cuda")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_device else [])]
    with profile(activities=activities) as seen:
        taken(steps, STEPS)
    events = seen.events() or []
    kind = torch.autograd.DeviceType.CUDA if on_device else torch.autograd.DeviceType.CPU
    spans = [(each.time_range.start, each.time_range.end) for each in events if each.device_type == kind]
    busy = 1e-6 * busy_time(spans) / STEPS
    print(f"{name} on {model}, batch {batch}, {device}, {torch.get_num_threads()} threads: {1e6 * wall:.0f} us a step")
    what, rest = ("kernels", "gaps") if on_device else ("operations", "host code between them")
    print(f"  {what}: {1e6 * busy:.0f} us (traced), {rest}: {max(0.0, 1e6 * (wall - busy)):.0f} us")
    column = "self_cuda_time_total" if on_device else "self_cpu_time_total"
    print(seen.key_averages().table(sort_by=column, row_limit=12, max_name_column_width=48))
    print("Of the library's own functions, under a profiler:", *host_share(steps), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    told = parser.parse_args()
    torch.set_num_threads(told.threads)
    report(told.method, told.model, told.batch, told.device)


if __name__ == "__main__":
    main()
