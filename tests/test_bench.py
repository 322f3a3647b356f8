"""The bench: every result is stored once, whatever happens to its process, and the tables show what is stored."""

import fcntl
import io
import json
import math
import os
import pickle
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import make_dataclass, replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from thresher import Recipe, ThresherError, fit
from thresher.bench.commands.bench import app
from thresher.bench.compare.rows import compare, left_out
from thresher.bench.definition.grid import Cell, Entry, Job, Measured, Task
from thresher.bench.definition.published import Published, published
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Scale, Suite
from thresher.bench.pages.curves import panel_height
from thresher.bench.pages.page import write_page
from thresher.bench.pages.terminal import print_tables
from thresher.bench.run.identity import as_json, head_of
from thresher.bench.run.jobs import jobs_of, latest_by_key, missing_jobs
from thresher.bench.run.processes import Events, Worker, relay_messages
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import read, results_file
from thresher.bench.run.runner import RunOptions, next_index, run_jobs
from thresher.bench.run.task import load_task, run_task, summary
from thresher.bench.suites import SUITES
from thresher.corruption import corrupt
from thresher.data import load, only_classes
from thresher.engine.train import Moment
from thresher.methods import MethodFacts, method
from thresher.models import build
from thresher.slots.views import Flip


def constant(_task: Task) -> Measured:
    """A procedure that prints, which must not disturb the messages of its process."""
    print("noise on the output stream")
    return Measured("accuracy", [0.25, 0.5], seconds=1.0, columns={"purity": [0.5, 1.0]})


def broken(task: Task) -> Measured:
    raise RuntimeError(f"no luck with seed {task.job.seed}")


def crash(_task: Task) -> Measured:
    os._exit(3)


def killed(_task: Task) -> Measured:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def linger(task: Task) -> Measured:
    """Write its process id into a file that is locked as long as it lives, then never end."""
    assert task.data_dir is not None
    assert task.watch is not None
    with (task.data_dir / "pid").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(str(os.getpid()))
        file.flush()
        task.watch(Moment(0, 2, 1, 1, record={}))
        time.sleep(600)
    raise AssertionError


SETUP = Setup(model="mlp:8", batch=32, learning_rate=1e-3, epochs=2, seeds=2)
CELL = Cell("blobs-40", "blobs:120,3,4", "symmetric:0.4", noise_rate=0.4)
TINY = Suite(
    name="tiny",
    title="A tiny suite",
    paper="An invented paper",
    methods=(Entry("standard", "Standard"), Entry("prl-l", "PRL(L)")),
    scales={"small": Scale((CELL,), SETUP)},
    published=published("Table 9", ["blobs-40"], {"standard": [70.0], "prl-l": [80.0]}),
    columns=("clean_share", "kept"),
)


class Silent:
    """A watcher that only remembers."""

    def __init__(self) -> None:
        self.epochs: list[tuple[str, int]] = []
        self.names: list[str] = []

    def started(self, job: Job) -> None:
        self.names.append(job.name)

    def moved(self, job: Job, epoch: int, epochs: float) -> None:  # noqa: ARG002
        self.epochs.append((job.name, epoch))

    def ended(self, job: Job, result: dict[str, Any]) -> None: ...


def with_procedures(**procedures: Any) -> Suite:
    entries = tuple(Entry(name, procedure=procedure) for name, procedure in procedures.items())
    return replace(TINY, methods=(*TINY.methods, *entries))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Suite, Path, Silent]:
    """A whole suite run once: two real methods and a constant, and three that fail in their own ways."""
    suite = with_procedures(crash=crash, broken=broken, killed=killed, constant=constant)
    once = [
        replace(entry, changes={"seeds": 1}) if entry.name in ("crash", "killed") else entry for entry in suite.methods
    ]
    suite = replace(suite, methods=tuple(once))
    path = results_file(tmp_path_factory.mktemp("results"), suite.name, "small")
    watcher = Silent()
    run_jobs(jobs_of(suite, "small"), path, RunOptions("cpu", at_once=2), watcher)
    return suite, path, watcher


def of(path: Path, name: str) -> list[dict[str, Any]]:
    return sorted((line for line in read(path)[0] if line["method"] == name), key=lambda line: line["seed"])


def made_up(job: Job, **values: Any) -> dict[str, Any]:
    """A stored result with these numbers."""
    origin = {
        "commit": "0123456789abcdef",
        "dirty": False,
        "versions": {"thresher": "0"},
        "machine": {"cpu": "a cpu", "cores": 4, "gpu": None, "threads": 2, "jobs": 1},
    }
    numbers = {"metric": "accuracy", "last": 0.5, "best": 0.5, "clean_share": 0.6, "seconds": 2.0}
    history = {"scores": [0.5], "columns": {}}
    return {**head_of(job), "status": "ok", "reason": None, **numbers, **history, **origin, **values}


# running


def test_results_are_those_of_fit(stored: tuple[Suite, Path, Silent]) -> None:
    train, test = load(CELL.data)
    train = corrupt(train, "symmetric:0.4", seed=1)
    recipe = method("prl-l").recipe(noise_rate=0.4, classes=3, epochs=2)

    def model() -> torch.nn.Module:
        return build("mlp:8", input_shape=(4,), outputs=3)

    run = fit(recipe, model, train, test=test, epochs=2, batch=32, seed=1, device="cpu")
    line = of(stored[1], "prl-l")[1]
    assert line["status"] == "ok"
    assert line["scores"] == [round(score, 4) for score in run.scores]
    assert line["last"] == pytest.approx(run.last(), abs=1e-6)
    assert line["best"] == pytest.approx(run.best(), abs=1e-6)
    assert line["clean_share"] == pytest.approx(run.clean_share(), abs=1e-6)
    assert line["columns"]["kept"] == [round(record["kept"], 4) for record in run.history]
    assert line["examples_per_second"] > 0
    assert (line["settings"]["model"], line["settings"]["noise_rate"], line["seed"]) == ("mlp:8", 0.4, 1)
    assert {"thresher", "torch", "python"} == set(line["versions"])


def test_every_cell_has_its_line_whatever_happened(stored: tuple[Suite, Path, Silent]) -> None:
    suite, path, watcher = stored
    assert len(read(path)[0]) == len(jobs_of(suite, "small")) == len(watcher.names) == 10
    assert [line["reason"] for line in of(path, "broken")] == [
        "RuntimeError: no luck with seed 0",
        "RuntimeError: no luck with seed 1",
    ]
    assert ["exit status 3" in line["reason"] for line in of(path, "crash")] == [True]
    assert ["SIGKILL" in line["reason"] for line in of(path, "killed")] == [True]
    assert [line["status"] for line in of(path, "constant")] == ["ok", "ok"]
    assert [line["status"] for line in of(path, "standard")] == ["ok", "ok"]
    assert ("blobs-40 standard seed 0", 2) in watcher.epochs


def test_procedures_bring_columns_of_their_own(stored: tuple[Suite, Path, Silent]) -> None:
    line = of(stored[1], "constant")[0]
    assert (line["last"], line["best"], line["columns"]) == (0.375, 0.5, {"purity": [0.5, 1.0]})


def test_the_seconds_of_a_procedure_are_those_of_all_its_trainings() -> None:
    suite = replace(TINY, methods=(*TINY.methods, Entry("dmi")))
    (job,) = jobs_of(suite, "small", methods=["dmi"], seeds=1)
    spent: list[float] = []

    def watch(moment: Moment) -> None:
        if moment.record is not None:
            spent.append(moment.record["seconds"])

    found = run_task(load_task(job, device="cpu", watch=watch))
    assert len(spent) == 2 == len(found.scores) + 1, "one epoch of each training"
    assert found.seconds >= sum(spent)


def test_a_second_call_runs_only_what_is_missing(stored: tuple[Suite, Path, Silent]) -> None:
    suite, path, _ = stored
    lines = read(path)[0]
    assert missing_jobs(jobs_of(suite, "small"), lines) == []
    again = missing_jobs(jobs_of(suite, "small"), lines, retry_failed=True)
    assert sorted({job.entry.name for job in again}) == ["broken", "crash", "killed"]
    assert [job.seed for job in missing_jobs(jobs_of(suite, "small", seeds=3), lines)] == [1, 1, *[2] * 6]


@pytest.mark.parametrize(
    "other",
    [
        replace(TINY, scales={"small": Scale((CELL,), replace(SETUP, epochs=3))}),
        replace(TINY, scales={"small": Scale((CELL,), replace(SETUP, augment=(Flip(),)))}),
        replace(TINY, scales={"small": Scale((replace(CELL, clean=3),), SETUP)}),
        replace(TINY, methods=(Entry("standard", changes={"optimizer": "sgd", "learning_rate": 0.1}), TINY.methods[1])),
        replace(TINY, methods=(Entry("standard", recipe=method("spl").make), TINY.methods[1])),
        replace(TINY, scales={"small": Scale((replace(CELL, prepare=partial(only_classes, wanted=[0, 1])),), SETUP)}),
    ],
    ids=["epochs", "views", "clean", "optimizer", "recipe", "prepare"],
)
def test_a_changed_setting_is_another_result(other: Suite) -> None:
    lines = [made_up(job) for job in jobs_of(TINY, "small")]
    assert missing_jobs(jobs_of(TINY, "small"), lines) == []
    assert {job.seed for job in missing_jobs(jobs_of(other, "small"), lines)} == {0, 1}
    assert left_out(other, "small", lines) == len(missing_jobs(jobs_of(other, "small"), lines))


def test_how_a_result_is_computed_makes_it_no_other(stored: tuple[Suite, Path, Silent]) -> None:
    suite, path, _ = stored
    jobs = jobs_of(suite, "small")
    compiled = [replace(job, setup=replace(job.setup, compiled=True, workers=2)) for job in jobs]
    assert missing_jobs(compiled, read(path)[0]) == []
    precise = [replace(job, setup=replace(job.setup, precision="bfloat16")) for job in jobs]
    assert missing_jobs(precise, read(path)[0]) == precise


def test_a_new_slot_at_its_default_changes_no_stored_result() -> None:
    old = make_dataclass("Rule", [("fraction", float)])
    new = make_dataclass("Rule", [("fraction", float), ("bias", float, 0.0)])
    assert as_json(old(0.5)) == as_json(new(0.5)) != as_json(new(0.5, 0.1))


def test_two_functions_or_classes_of_one_name_are_refused_in_a_suite() -> None:
    namesake = FunctionType(constant.__code__, globals(), "constant")
    assert as_json(namesake) == as_json(constant)
    with pytest.raises(ThresherError, match=r"test_bench\.constant and test_bench\.constant: rename one"):
        jobs_of(with_procedures(one=constant, two=partial(namesake)), "small")
    assert jobs_of(with_procedures(one=constant, two=partial(constant)), "small")
    asked = {"__call__": lambda rule, evidence: rule.fraction * torch.ones_like(evidence.losses)}
    rules = [make_dataclass("Rule", [("fraction", float)], namespace=asked, frozen=True)(0.5) for _ in range(2)]
    recipes = {f"row-{n}": partial(with_rule, rule) for n, rule in enumerate(rules)}
    suite = replace(TINY, methods=(*TINY.methods, *(Entry(name, recipe=make) for name, make in recipes.items())))
    with pytest.raises(ThresherError, match=r"types\.Rule and types\.Rule: rename one"):
        jobs_of(suite, "small")
    assert jobs_of(suite, "small", methods=["standard", "row-0"])


def with_rule(rule: Any, facts: MethodFacts) -> Recipe:  # noqa: ARG001
    return Recipe(each_batch=rule)


def test_functions_without_a_name_of_their_own_are_told_apart() -> None:
    one, same, other = (lambda epoch: epoch + 1), (lambda epoch: epoch + 1), (lambda epoch: epoch + 2)
    assert as_json(one) == as_json(same) != as_json(other)


def test_a_good_result_outlives_a_later_failure() -> None:
    job = jobs_of(TINY, "small")[0]
    good, bad = made_up(job), made_up(job, status="failed", reason="no")
    assert list(latest_by_key([good, bad]).values()) == [good]
    assert list(latest_by_key([bad, good]).values()) == [good]


def test_an_interrupt_keeps_what_is_finished_and_ends_the_process(tmp_path: Path) -> None:
    suite = with_procedures(constant=constant, linger=linger)
    jobs = jobs_of(suite, "small", methods=["constant", "linger"], seeds=1)

    class Interrupting(Silent):
        def moved(self, job: Job, epoch: int, epochs: float) -> None:  # noqa: ARG002
            if job.entry.name == "linger":
                raise KeyboardInterrupt  # as Ctrl-C does, wherever the program is

    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, tmp_path / "r.jsonl", RunOptions("cpu", data_dir=tmp_path), Interrupting())
    assert [line["method"] for line in read(tmp_path / "r.jsonl")[0]] == ["constant"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """They notice that their input is closed, in the middle of a job."""
    program = """if True:
        import sys
        from test_bench import *

        jobs = jobs_of(with_procedures(linger=linger), "small", methods=["linger"], seeds=1)
        run_jobs(jobs, Path(sys.argv[1], "r.jsonl"), RunOptions("cpu", data_dir=Path(sys.argv[1])), Silent())
    """
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    starter = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env={**os.environ, **paths})
    try:
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        assert is_locked(tmp_path / "pid")
    finally:
        starter.terminate()
        starter.wait()
    eventually(lambda: not is_locked(tmp_path / "pid"))


def eventually(true: Callable[[], Any], seconds: float = 300) -> Any:
    """What this function gives as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"still not so after {seconds} s")


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_half_a_message_does_not_hang(tmp_path: Path) -> None:
    program = [sys.executable, "-c", """print('{"epoch": 1}'); print('{"epoch"', end="")"""]
    with (
        open(tmp_path / "errors", "wb+") as errors,
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        events, worker = Events(), Worker(process, errors)
        relay_messages(worker, events)
        assert [events.get(timeout=300) for _ in range(2)] == [(worker, {"epoch": 1}), (worker, None)]


def test_a_suite_that_cannot_travel_is_refused(tmp_path: Path) -> None:
    suite = with_procedures(here=lambda _task: Measured("accuracy", [0.0], 0.0))
    with pytest.raises(ThresherError, match="can be imported"):
        run_jobs(jobs_of(suite, "small", methods=["here"]), tmp_path / "r.jsonl", RunOptions("cpu"), Silent())


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thresher.bench.run.runner.cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [RunOptions(at_once=jobs).threads for jobs in (1, 3, 16)] == [8, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [RunOptions(at_once=jobs).threads for jobs in (1, 4)] == [3, 2]
    with pytest.raises(ThresherError, match="--jobs must be at least 1"):
        RunOptions(at_once=0)


def test_the_clean_set_is_taken_out_before_the_corruption() -> None:
    cell = replace(CELL, clean=12, corruption="symmetric:0.9")
    job = replace(jobs_of(TINY, "small")[0], cell=cell)
    task = load_task(job)
    assert task.clean is not None
    whole = load(CELL.data).train
    assert task.clean.labels.bincount().tolist() == [4, 4, 4]
    assert torch.equal(task.clean.targets, whole.targets[task.clean.ids])
    assert sorted([*task.clean.ids.tolist(), *task.train.ids.tolist()]) == whole.ids.tolist()
    with pytest.raises(ThresherError, match="give 1 to 119"):
        load_task(replace(job, cell=replace(cell, clean=121)))


def test_regression_cells_run() -> None:
    cell = Cell("linadv", "regression:200,4,2", "linadv:0.2", noise_rate=0.2, metric="r2")
    suite = replace(TINY, scales={"small": Scale((cell,), SETUP)}, published={})
    found = summary(run_task(load_task(jobs_of(suite, "small", methods=["prl-l"])[0], device="cpu")))
    assert found["metric"] == "r2"
    assert len(found["scores"]) == 2


def test_the_score_is_the_mean_of_the_last_ten_epochs() -> None:
    found = summary(Measured("accuracy", [0.9, *[0.5] * 5, *[0.7] * 5], seconds=1.0))
    assert (found["last"], found["best"], found["spread"]) == (0.6, 0.9, pytest.approx(0.105409, abs=1e-6))
    with pytest.raises(ThresherError, match="not finite"):
        Measured("accuracy", [float("nan")], seconds=1.0)


# tables


def numbers() -> list[dict[str, Any]]:
    """Standard: 0.6 and 0.7, so 65 ± 7.07; PRL(L): one seed, and one that failed."""
    standard0, prl0, standard1, prl1 = jobs_of(TINY, "small")
    return [
        made_up(standard0, last=0.6, best=0.8, clean_share=0.5, seconds=1.0, columns={"kept": [0.0, *[0.5] * 10]}),
        made_up(standard1, last=0.7, best=0.9, clean_share=0.7, seconds=2.0, columns={"kept": [0.9]}),
        made_up(prl0, last=0.825, best=0.85, scores=[0.8, 0.85]),
        {**head_of(prl1), "status": "failed", "reason": "out | of memory"},
    ]


def test_a_row_is_computed_as_by_hand() -> None:
    standard, prl = compare(TINY, "small", numbers())
    assert standard.last is not None
    assert standard.best is not None
    assert standard.last.value == pytest.approx(65.0)
    assert standard.last.spread == pytest.approx(50**0.5)
    assert standard.best.value == pytest.approx(85.0)
    assert standard.gap == pytest.approx(-5.0)
    assert standard.clean_share == pytest.approx(0.6)
    assert standard.seconds == pytest.approx(1.5)
    assert (standard.seeds, standard.wanted, standard.reasons) == (2, 2, ())
    assert prl.last is not None
    assert (prl.last.spread, prl.seeds, prl.wanted, prl.reasons) == (None, 1, 2, ("out | of memory",))


def test_the_gap_is_to_the_score_the_paper_reports() -> None:
    best = {("blobs-40", "standard"): Published(80.0, "Figure 5", score="best")}
    assert compare(replace(TINY, published=best), "small", numbers())[0].gap == pytest.approx(5.0)


def test_a_process_stays_with_its_cell_and_seed_and_away_from_those_of_others() -> None:
    first, second = jobs_of(TINY, "small"), jobs_of(TINY, "small", methods=["standard"])
    assert [(job.entry.name, job.seed) for job in first] == [
        ("standard", 0),
        ("prl-l", 0),
        ("standard", 1),
        ("prl-l", 1),
    ]
    zero, one = second
    assert next_index(first, None, []) == 0
    assert next_index(first, None, [zero]) == 2  # a new process takes a seed that no other has
    assert next_index(first, one, [zero]) == 2
    assert next_index(first[1:], zero, [one]) == 0
    assert next_index(first[:2], one, [zero, None]) == 0  # nothing else is left
    assert next_index(first[:2], None, [zero, one]) == 0


def test_seeds_beyond_the_suite_count_too() -> None:
    jobs = jobs_of(TINY, "small", methods=["standard"], seeds=4)
    row = compare(TINY, "small", [made_up(job) for job in jobs])[0]
    assert (row.seeds, row.wanted) == (4, 2)


def test_the_page_is_written_from_stored_results(tmp_path: Path) -> None:
    page = write_page(TINY, "small", numbers(), tmp_path / "docs", Path("results/tiny-small.jsonl")).read_text()
    assert "| Standard | 70 (Table 9) | 65.0 ± 7.1 | -5.0 | 85.0 ± 7.1 | 0.600 | 1.5 | 2 |" in page
    assert "| PRL(L) | 80 (Table 9) | 82.5 | +2.5 | 85.0 | 0.600 | 2.0 | 1 of 2 |" in page
    assert "prl-l failed: out | of memory" in page
    assert "`thresher bench run tiny --scale small`" in page
    assert "told a noise rate of 0.4" in page
    assert "| Standard | 0.700 |" in page  # kept: 0.5 over its last ten epochs, and 0.9
    assert "0123456789" in page
    svg = (tmp_path / "docs" / "tiny-small.svg").read_text()
    assert "(tiny-small.svg)" in page
    assert svg.startswith("<svg")
    assert "PRL(L)" in svg


def test_what_was_not_run_says_so(tmp_path: Path) -> None:
    page = write_page(TINY, "small", [], tmp_path, Path("r.jsonl")).read_text()
    assert "Nothing was run here of blobs-40." in page
    assert "| method | blobs-40 |\n|---|---|\n| Standard | 70 |" in page
    assert not list(tmp_path.glob("*.svg"))
    page = write_page(TINY, "small", numbers()[:1], tmp_path, Path("r.jsonl")).read_text()
    assert "| PRL(L) | 80 (Table 9) | not run here |" in page


def test_pictures_that_a_page_no_longer_shows_are_removed(tmp_path: Path) -> None:
    for name in ("tiny-small.svg", "tiny-small-blobs.svg", "tiny-rates-small.svg", "tiny-small-blobs.png"):
        (tmp_path / name).write_text("old")
    write_page(TINY, "small", numbers(), tmp_path, Path("r.jsonl"))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["tiny-rates-small.svg", "tiny-small-blobs.png", "tiny-small.md", "tiny-small.svg"]
    assert (tmp_path / "tiny-small.svg").read_text() != "old"


def test_the_terminal_has_tables_of_what_was_run_and_names_the_rest() -> None:
    other = replace(TINY.scale("small").cells[0], name="blobs-60")
    two = replace(TINY, scales={"small": replace(TINY.scale("small"), cells=(*TINY.scale("small").cells, other))})
    console = Console(width=200, record=True, file=io.StringIO())
    print_tables(two, "small", numbers()[:1], console)
    shown = console.export_text()
    assert "Not run here: PRL(L)." in shown
    assert "tiny · blobs-40" in shown
    assert "tiny · blobs-60" not in shown
    assert "Nothing was run here of blobs-60." in shown


def test_a_panel_begins_where_the_curves_come_to_and_not_where_they_start() -> None:
    def curve(method: str, scores: list[float]) -> list[dict[str, Any]]:
        return [{"method": method, "epoch": epoch, "low": score} for epoch, score in enumerate(scores, 1)]

    values = [*curve("long", [5.0, 20.0, 40.0, 50.0, 60.0, 55.0]), *curve("short", [10.0, 70.0, 72.0])]
    assert panel_height(values, -math.inf, late=True).domainMin == 40.0
    assert panel_height(values, -math.inf, late=False).domainMin == 5.0
    assert panel_height(values, 45.0, late=True).domainMin == 50.0


# suites


def smoke(suite: Suite) -> Suite:
    """The suite cut down to its baseline on its first cell of the small scale, two epochs and one seed: does it run?"""
    scale = suite.scale("small")
    first = next(cell for cell in scale.cells if cell.methods is None or suite.baseline in cell.methods)
    changes = {**first.changes, "epochs": 2, "steps": None, "seeds": 1}
    if (teaching := changes.get("teaching")) is not None:
        changes["teaching"] = replace(teaching, epochs=2)
    if scale.setup.queries is not None:
        changes["queries"] = replace(scale.setup.queries, rounds=1)
    cell = replace(first, changes=changes)
    entries = tuple(replace(entry, changes={}) for entry in suite.methods if entry.name == suite.baseline)
    small = {"small": Scale((cell,), scale.setup)}
    return replace(suite, methods=entries, scales=small, published={}, shares={}, claims=(), questions=())


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_the_smoke_cell_of_every_suite_runs(suite: Suite) -> None:
    (job,) = jobs_of(smoke(suite), "small")
    found = summary(run_task(load_task(job, device="cpu")))
    assert len(found["scores"]) == 2
    assert found["metric"] == job.cell.metric


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_every_suite_can_travel_and_be_told_apart(suite: Suite) -> None:
    for scale in suite.scales:
        jobs = jobs_of(suite, scale)
        assert len({json.dumps(head_of(job)) for job in jobs}) == len(jobs) > 0
        assert [job.name for job in pickle.loads(pickle.dumps(jobs))] == [job.name for job in jobs]


def test_a_suite_without_standard_or_with_strange_numbers_is_refused() -> None:
    with pytest.raises(ThresherError, match="lacks its baseline standard"):
        replace(TINY, methods=TINY.methods[1:])
    with pytest.raises(ThresherError, match="its grid lacks"):
        replace(TINY, published=published("Table 1", ["other"], {"standard": [1.0]}))
    with pytest.raises(ThresherError, match="did you mean 'prl-l'"):
        replace(TINY, methods=(*TINY.methods, Entry("prl-1")))


def test_a_result_does_not_name_the_computer() -> None:
    found = provenance("cpu")
    assert platform.node() not in json.dumps(found)
    assert found["machine"]["cores"] >= 1


# the command line


def test_run_list_and_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: tuple[Suite, Path, Silent]) -> None:
    suite, path, _ = stored
    monkeypatch.setitem(SUITES, "tiny", suite)
    monkeypatch.setenv("COLUMNS", "200")
    before = path.read_bytes()
    folder = ["--results", str(path.parent)]
    ran = CliRunner().invoke(app, ["run", "tiny", "--device", "cpu", *folder])
    assert ran.exit_code == 0
    assert "0 of 10 results are missing" in ran.output
    assert path.read_bytes() == before
    listed = CliRunner().invoke(app, ["list", *folder])
    assert re.search(r"tiny .* 10 of 10", listed.output)
    shown = CliRunner().invoke(app, ["show", "tiny", "--docs", str(tmp_path), *folder])
    assert shown.exit_code == 0, shown.output
    assert "killed failed: The process was ended by SIGKILL" in shown.output
    assert "37.5 ± 0.0" in shown.output
    assert "37.5 ± 0.0" in (tmp_path / "tiny-small.md").read_text()


def test_failures_are_told_and_tried_again_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "tiny", with_procedures(broken=broken))
    command = ["run", "tiny", "--methods", "broken", "--seeds", "1", "--device", "cpu", "--results", str(tmp_path)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 1
    assert "no luck with seed 0" in first.output
    assert CliRunner().invoke(app, command).exit_code == 0
    assert len(read(tmp_path / "tiny-small.jsonl")[0]) == 1
    assert CliRunner().invoke(app, [*command, "--retry-failed"]).exit_code == 1
    assert len(read(tmp_path / "tiny-small.jsonl")[0]) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "demmo"], "did you mean 'demo'"),
        (["run", "demo", "--scale", "paper"], "give --scale small"),
        (["run", "demo", "--methods", "prl-k"], "did you mean 'prl-"),
        (["run", "demo", "--cells", "symetric-40"], "did you mean 'symmetric-40'"),
        (["run", "demo", "--seeds", "0"], "--seeds must be at least 1"),
        (["run", "demo", "--device", "toaster"], "such as cpu"),
        (["show", "demo", "--scale", "paper"], "give --scale small"),
    ],
)
def test_wrong_words_get_a_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(app, [*words, "--results", str(tmp_path)])
    assert said.exit_code == 2
    assert sentence in said.output
