"""`thresher sensitivity`: how a method's score depends on the noise rate it is told."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thresher.app.commands import options

if TYPE_CHECKING:
    from thresher.bench.definition.suite import Suite
    from thresher.bench.run.runner import RunOptions

Methods = Annotated[str, typer.Option("--method", help="The method, or several separated by commas.")]
Rates = Annotated[
    str,
    typer.Option(help="Two or more noise rates to tell it, such as 0.3,0.4,0.5; if not given, around the true one."),
]


def sensitivity(
    data: Annotated[str, typer.Option(help="What to train on, as for thresher train.")] = "digits",
    corruption: options.Corruption = None,
    method: Methods = "co-prl-l",
    rates: Rates = "",
    seeds: Annotated[int, typer.Option(help="Seeds for each rate.")] = 3,
    out: Annotated[Path, typer.Option(help="The folder of the results and the page.")] = Path("runs/sensitivity"),
    model: options.Model = None,
    epochs: Annotated[int, typer.Option(help="Epochs of each run.")] = 60,
    batch: Annotated[int | None, typer.Option(help="Examples a step (128, or all of a smaller set).")] = None,
    learning_rate: Annotated[float, typer.Option(help="The learning rate of Adam.")] = 1e-3,
    data_dir: Annotated[Path | None, typer.Option(help="The folder of the data; THRESHER_DATA if not given.")] = None,
    device: options.Device = None,
    jobs: Annotated[int, typer.Option(help="Runs at the same time.")] = 1,
) -> None:
    """Draw how a method's score depends on the noise rate it is told.

    Example: thresher sensitivity --data digits --corrupt symmetric:0.4 --method co-prl-l --rates 0.3,0.4,0.5

    The true rate of real data is not known. Finished runs are kept: the same command goes on from there, and more
    seeds or rates add to it.
    """
    from thresher.bench.definition.setup import Setup
    from thresher.bench.run.jobs import jobs_of
    from thresher.bench.run.runner import RunOptions
    from thresher.bench.suites.sensitivity import SCALE, rates_around, sensitivity_suite
    from thresher.corruption import corrupt
    from thresher.data import load
    from thresher.engine.device.placement import find_device
    from thresher.engine.plan import make_plan
    from thresher.engine.settings import DEFAULT_BATCH
    from thresher.models import NamedModel, model_for

    train = load(data, data_dir=data_dir).train
    if corruption is not None:
        corrupt(train, corruption)  # so that a wrong one is refused before the first run
    where = find_device(device)
    name = model_for(train, where) if model is None else model
    batch = min(DEFAULT_BATCH, len(train)) if batch is None else batch
    setup = Setup(model=name, batch=batch, learning_rate=learning_rate, epochs=epochs, seeds=seeds)
    suite = sensitivity_suite(
        data,
        corruption,
        _parts(method),
        _numbers(rates) if rates else rates_around(corruption),
        setup=setup,
        metric="r2" if train.is_regression else "accuracy",
    )
    jobs_of(suite, SCALE, seeds=seeds)  # refuses a wrong number of seeds
    make_plan(setup, train, None)  # and of epochs, or a batch that does not fit
    NamedModel(name, train.input_shape, train.outputs)()
    _run_and_show(suite, out, RunOptions(device, jobs, data_dir))


def _run_and_show(suite: "Suite", out: Path, options: "RunOptions") -> None:
    from rich.table import Table

    from thresher.app.terminal import plain_console
    from thresher.bench.pages.sensitivity import HEADS, write_sensitivity
    from thresher.bench.pages.terminal import run_and_show
    from thresher.bench.run.jobs import jobs_of, missing_jobs
    from thresher.bench.run.results import read, results_file
    from thresher.bench.suites.sensitivity import SCALE

    console = plain_console()
    path = results_file(out, suite.name, SCALE)
    left = missing_jobs(jobs_of(suite, SCALE), read(path)[0], retry_failed=True)
    done = run_and_show(left, path, options, console)
    page = out / "sensitivity.html"
    table = Table(*HEADS, box=None, padding=(0, 2, 0, 0))
    for line in write_sensitivity(suite, SCALE, read(path)[0], page):
        table.add_row(*line)
    console.print(table)
    console.print(f"\nPage: {page}", soft_wrap=True)
    if failed := sum(result["status"] != "ok" for result in done):
        console.print(f"{failed} failed and are not drawn; the same command runs them again.", soft_wrap=True)
        raise typer.Exit(1)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str) -> list[float]:
    from thresher.core.errors import ThresherError

    try:
        return [float(part) for part in _parts(text)]
    except ValueError:
        raise ThresherError(f"--rates {text} is not a list of numbers: write it like 0.3,0.4,0.5.") from None
