"""thresher demo"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thresher.record.run_folder import REPORT

if TYPE_CHECKING:
    from rich.console import Console

    from thresher.app.settings import Settings
    from thresher.app.terminal import Result

METHODS = ("standard", "spl", "prl-l", "l2rw", "crust-central")
NOISE_RATE, CLEAN = 0.4, 50


def demo(
    out: Annotated[Path | None, typer.Option(help="The folder of the runs; if not given, a new one in runs/.")] = None,
    epochs: Annotated[int, typer.Option(hidden=True)] = 60,
) -> None:
    """Watch a model survive 40% wrong labels: a few methods side by side, in half a minute.

    Example: thresher demo

    Handwritten digits, 40% of the training labels flipped at random, the same network trained by each method.
    At the end there is a table, and a report to open in a browser.
    """
    from thresher.app.terminal import plain_console, side_by_side
    from thresher.report import check_installed, write_report

    check_installed()  # before anything is trained
    console = plain_console()
    folder = _unfinished_folder() if out is None else out
    results = _train_all(folder, epochs, plain_console(stderr=True))
    page = write_report([folder / name for name in METHODS], folder / REPORT)
    console.print(side_by_side(results))
    console.print(f"\nReport: {page}", soft_wrap=True)


def demo_settings(method: str, epochs: int = 60) -> "Settings":
    """One method of the demo: an MLP of two hidden layers of 256 units, Adam at 0.001, batches of 64."""
    from thresher.app.settings import Settings
    from thresher.methods import METHODS as KNOWN

    needs = KNOWN[method].needs
    return Settings(
        method=method,
        data="digits",
        corruption=f"symmetric:{NOISE_RATE}",
        noise_rate=NOISE_RATE if "noise_rate" in needs else None,
        clean=str(CLEAN) if "clean" in needs else None,
        model="mlp:256x256",
        epochs=epochs,
        batch=64,
        optimizer="adam",
        learning_rate=1e-3,
    )


def _unfinished_folder() -> Path:
    """The folder of a demo that was stopped, else a new one; the report is what ends a demo."""
    from thresher.app.folders import numbered

    return next(folder for folder in numbered(Path("runs/demo")) if not (folder / REPORT).exists())


def _train_all(folder: Path, epochs: int, aside: "Console") -> "list[Result]":
    from thresher.app.terminal import progress, result
    from thresher.app.train_job import prepare_job, start

    jobs = [prepare_job(demo_settings(name, epochs)) for name in METHODS]
    test = jobs[0].sets.test
    aside.print(
        f"{len(jobs[0].train):,} handwritten digits to learn from, {NOISE_RATE:.0%} of their labels wrong; "
        f"{0 if test is None else len(test)} with right labels to test on.\n"
        f"The methods are told how much is wrong (noise rate {NOISE_RATE}), and never which; "
        f"l2rw is given {CLEAN} examples with right labels instead, and crust-central is told nothing.\n",
    )
    with _one_thread(), progress(METHODS, aside) as watchers:
        runs = [start(job, folder / job.settings.method, watch) for job, watch in zip(jobs, watchers, strict=True)]
    aside.print()
    return [result(run, job.settings, folder / job.settings.method) for job, run in zip(jobs, runs, strict=True)]


@contextmanager
def _one_thread() -> Iterator[None]:
    """A step of so small a network gains nothing from a second core, and waits long for it where cores are busy."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
