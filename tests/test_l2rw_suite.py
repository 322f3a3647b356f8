"""The suite l2rw: the paper's tables as data, early stopping and fine-tuning of any method, pictures of numbers."""

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from thresher import ThresherError
from thresher.bench.compare.rows import compare
from thresher.bench.definition.grid import Cell, Entry, Job
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Scale, Suite
from thresher.bench.pages.number_plots import number_points, numbers_svg
from thresher.bench.pages.page import write_page
from thresher.bench.run.identity import head_of, settings_of
from thresher.bench.run.jobs import jobs_of
from thresher.bench.run.task import kept_scores, load_task, run_task, summary, trainer_of
from thresher.bench.suites import SUITES, l2rw, l2rw_tables
from thresher.data import load
from thresher.engine.run import Run
from thresher.methods import METHODS
from thresher.methods import l2rw as recipes

L2RW = SUITES["l2rw"]
CELL = Cell("tiny", "blobs:200,4,6", "backgroundflip:0.4", options=("1", "3"), clean=8, validation=0.2, noise_rate=0.4)
TINY = Suite(
    name="tiny",
    title="A tiny suite",
    methods=tuple(entry for entry in L2RW.methods if entry.name.partition("+")[0] in ("standard", "clean-only")),
    scales={
        "small": Scale(
            (CELL,),
            Setup(model="mlp:16", batch=32, learning_rate=1e-2, epochs=4, seeds=1, tuning_steps=60),
        )
    },
)


def test_the_tables_are_whole() -> None:
    assert (len(l2rw_tables.TABLE_1), len(l2rw_tables.TABLE_2)) == (2 * 10, 2 * 16)
    number = L2RW.published["cifar10-uniform-40", "l2rw"]
    assert (number.value, number.spread, number.table) == (86.92, 0.19, "Table 1")
    assert L2RW.published["cifar10-uniform-40", "mentornet+ft"].spread is None
    assert L2RW.published["cifar10-background-40", "s-model-conf+es+ft"].value == 85.86
    assert L2RW.published["cifar100-background-40", "l2rw"].value == 59.30
    # The slip in the paper, which the page speaks of.
    weighted, random = (
        L2RW.published["cifar100-background-40", name] for name in ("weighted-oracle", "random-weights")
    )
    assert weighted.value == random.value


def test_the_small_scale_is_what_was_asked_for() -> None:
    small = {cell.name: cell for cell in L2RW.scale("small").cells}
    for ratio in (10, 20, 50, 100):
        assert small[f"digits-imbalance-{ratio}"].clean == 10
    assert (small["digits-uniform-40"].clean, small["digits-pair-40"].clean) == (50, 50)
    assert small["digits-background-40"].clean == 100
    points = [(point.axis, point.value) for cell in small.values() for point in cell.points]
    assert sorted(value for axis, value in points if axis is l2rw.SIZE) == [10, 20, 50, 100, 200, 500]
    assert sorted(value for axis, value in points if axis is l2rw.LEVEL) == [0, 10, 20, 30, 40, 50, 60]
    for cell in small.values():
        asked = [(job.entry.name, job.seed) for job in jobs_of(L2RW, "small", cells=[cell.name])]
        assert {seed for _, seed in asked} == set(range(5))
        assert {"standard", "random-weights", "clean-only", "standard+ft", "l2rw"} <= {name for name, _ in asked}
    for name in ("digits-uniform-40", "digits-background-40"):
        assert set(small[name].methods or ()) == set(l2rw.NOISE)
    of_the_paper = {
        name for name, known in METHODS.items() if known.make is not None and known.make in vars(recipes).values()
    }
    of_the_paper |= {"clean-only", "s-model-conf"}
    asked = {entry.of or entry.name for entry in L2RW.methods}
    assert asked == of_the_paper | {"standard", "bootstrap-hard", "bootstrap-soft"}


@pytest.mark.parametrize("scale", L2RW.scales)
def test_every_job_is_one_of_its_own_and_can_be_sent(scale: str) -> None:
    jobs = jobs_of(L2RW, scale)
    assert pickle.loads(pickle.dumps(jobs)) == jobs
    assert len({str(head_of(job)) for job in jobs}) == len(jobs)
    for job in jobs:
        assert not job.entry.fine_tune or job.cell.clean
        assert not job.entry.early_stop or job.cell.validation


def test_a_digit_is_left_to_train_on_at_the_largest_ratio() -> None:
    (job,) = jobs_of(L2RW, "small", cells=["digits-imbalance-100"], methods=["l2rw"], seeds=1)
    task = load_task(job)
    assert task.clean is not None
    assert task.clean.labels.bincount().tolist() == [5, 5]
    few, many = task.train.labels.bincount().tolist()
    assert (few, many > 100) == (1, True)
    assert not set(task.clean.ids.tolist()) & set(task.train.ids.tolist())


def job_of(name: str, seed: int = 0, **changes: Any) -> Job:
    (job,) = (job for job in jobs_of(TINY, "small", methods=[name], seeds=seed + 1) if job.seed == seed)
    return replace(job, **changes)


def test_seeds_differ_by_the_background_and_leave_a_part_alone() -> None:
    for seed, background in ((0, 1), (1, 3)):
        task = load_task(job_of("standard", seed))
        wrong = task.train.columns["is_corrupt"]
        assert set(task.train.labels[wrong].tolist()) == {background}
        assert task.validation is not None
        assert task.clean is not None
        held = task.validation.columns["is_corrupt"].float().mean()
        assert held == pytest.approx(float(wrong.float().mean()), abs=0.1), "it is as corrupt as the rest"
        parts = [part.ids.tolist() for part in (task.train, task.validation, task.clean)]
        assert sorted(id_ for part in parts for id_ in part) == load(CELL.data).train.ids.tolist()


def test_stopping_early_scores_the_network_that_would_be_kept() -> None:
    history = [
        {"validation": validation, "score": score}
        for validation, score in ((0.5, 0.1), (0.7, 0.9), (0.6, 0.2), (0.7, 0.3), (0.8, 0.4))
    ]
    run = Run(None, [], [], history, None, chosen=5)  # type: ignore[arg-type]
    assert kept_scores(run) == [0.1, 0.9, 0.9, 0.9, 0.4]
    assert kept_scores(replace(run, chosen=None)) == [0.1, 0.9, 0.2, 0.3, 0.4]
    found = run_task(load_task(job_of("standard+es"), device="cpu"))
    assert len(found.scores) == 4


def test_fine_tuning_goes_on_where_training_has_ended() -> None:
    plain, tuned = (run_task(load_task(job_of(name), device="cpu")) for name in ("standard", "standard+ft"))
    assert list(tuned.scores[:4]) == list(plain.scores)
    assert 10 <= len(tuned.scores) - 4 <= 30
    assert tuned.clean_share == plain.clean_share
    assert tuned.seconds > 0
    assert summary(tuned)["last"] > summary(plain)["last"], "eight clean examples tell four blobs apart"


def test_settings_tell_variants_apart_and_only_the_tuned_ones_depend_on_its_steps() -> None:
    jobs = {name: job_of(name) for name in ("standard", "standard+es", "standard+ft", "clean-only")}
    assert len({str(settings_of(job)) for job in jobs.values()}) == 4
    longer = {name: replace(job, setup=replace(job.setup, tuning_steps=99)) for name, job in jobs.items()}
    changed = {name for name, job in jobs.items() if settings_of(job) != settings_of(longer[name])}
    assert changed == {"standard+ft"}
    assert settings_of(jobs["clean-only"])["method"] == "clean_only"


def test_what_a_variant_lacks_is_said() -> None:
    setup = TINY.scale("small").setup
    for lacks, names in (("validation", "standard[+]es stops"), ("clean", "standard[+]ft is trained")):
        with pytest.raises(ThresherError, match=f"{names} .*: give the cell tiny one"):
            replace(TINY, scales={"small": Scale((replace(CELL, **{lacks: None}),), setup)})
    with pytest.raises(ThresherError, match="none"):
        replace(TINY, methods=(*TINY.methods, Entry("none+ft", of="none", fine_tune=True)))


def test_clean_examples_may_be_inside_the_training_set() -> None:
    task = load_task(job_of("standard", cell=CELL), device="cpu")
    inside = replace(task, job=replace(task.job, entry=replace(task.job.entry, clean_inside=True)))
    assert task.clean is not None
    assert len(trainer_of(inside).train) == len(trainer_of(task).train) + len(task.clean)
    added = trainer_of(inside).train.subset(torch.isin(trainer_of(inside).train.ids, task.clean.ids))
    assert torch.equal(added.targets.sort().values, task.clean.targets.sort().values)
    assert not added.columns["is_corrupt"].any()


def results_of(score: Callable[[Job], float | None], seeds: int = 2) -> list[dict[str, Any]]:
    """Results of the small scale as if they had been measured; None where there is none."""
    origin = {"commit": None, "dirty": None, "versions": {"thresher": "0"}}
    machine = {"cpu": "a cpu", "threads": 1, "cores": 2, "jobs": 1, "gpu": None}
    made = []
    for job in jobs_of(L2RW, "small", seeds=seeds):
        value = score(job)
        if value is not None:
            value += 0.01 * job.seed
            kept = {"last": value, "best": value, "spread": 0.0, "clean_share": 0.9, "seconds": 1.0}
            known = {
                "status": "ok",
                "reason": None,
                "metric": "accuracy",
                "scores": [value],
                "columns": {"recall_0": [0.25]},
            }
            made.append({**head_of(job), **known, **kept, **origin, "machine": machine})
    return made


def test_scores_are_drawn_against_each_number_and_imbalance_as_errors() -> None:
    rows = compare(L2RW, "small", results_of(lambda job: 0.5 if job.entry.name == "l2rw" else 0.4))
    points = [
        point
        for point in number_points(rows)
        if point["axis"] is l2rw.RATIO and point["method"] == "L2RW, clean apart (code)"
    ]
    assert [point["at"] for point in points] == [10, 20, 50, 100]
    assert [points[0][name] for name in ("score", "low", "high")] == pytest.approx([49.5, 49.0, 50.0])
    pictures = numbers_svg(rows)
    assert list(pictures) == [l2rw.RATIO, l2rw.SIZE, l2rw.LEVEL]
    assert "error" in pictures[l2rw.RATIO]
    legend = set(re.findall(r">([^<>]+)</text>", pictures[l2rw.LEVEL]))
    assert {"Baseline", "Baseline +FT", "Random", "Clean only", "L2RW, clean apart (code)"} <= legend
    assert "Reed-soft" not in legend, "the table has all methods, the picture those that it names"


def test_the_page_shows_pictures_recalls_and_what_was_not_run(tmp_path: Path) -> None:
    results = results_of(
        lambda job: None if job.cell.data == "digits" and job.entry.name == "s-model" else 0.5, seeds=1
    )
    page = write_page(L2RW, "small", results, tmp_path, Path("results.jsonl")).read_text()
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        "l2rw-small-digits.svg", "l2rw-small-digits-4-9.svg", "l2rw-small-imbalance-common-to-rare.svg",
        "l2rw-small-clean-examples.svg", "l2rw-small-labels-flipped.svg",
    }  # fmt: skip
    imbalance, flips = page.split("## digits-imbalance-10\n")[1].split("## digits-uniform-40\n")
    assert "| method | balanced_accuracy | recall_0 |" in imbalance
    assert "| L2RW, clean apart (code) |  | 0.250 |" in imbalance
    assert "recall_0" not in flips
    assert "backgroundflip:0.4 to 0, 1, 3, 5, 7 by seed, 100 clean examples, 10% held out for early stopping" in page
    paper = write_page(L2RW, "paper", [], tmp_path, Path("results.jsonl")).read_text()
    assert " 59.3 ± 0.6 " in paper.split("## Not run here")[1].split("| L2RW, clean apart (code) |")[1].splitlines()[0]


def test_recalls_are_kept_of_the_cells_that_ask() -> None:
    cell = replace(CELL, columns=("recall_0",))
    found = run_task(load_task(job_of("standard", cell=cell, columns=("clean_share", "recall_0")), device="cpu"))
    assert len(found.columns["recall_0"]) == 4
    assert all(0 <= value <= 1 for value in found.columns["recall_0"] if value is not None)
    assert torch.tensor(found.columns["recall_0"]).isfinite().all()
