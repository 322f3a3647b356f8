"""Distillation from end to end: sets and teachers of every kind, one start for many students, report and suite."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_predictions import write
from tiny import assert_same_tensors, examples, net, streamed
from torch import Tensor, nn

from thresher import Examples, Recipe, Run, ThresherError, signals
from thresher.bench.definition.grid import Job
from thresher.bench.run import distilled
from thresher.bench.run.jobs import jobs_of
from thresher.bench.run.task import load_task, run_task, summary
from thresher.bench.suites import SUITES
from thresher.bench.suites.distil_tables import COMPOSED, ONE_SHOT, TEMPERATURES
from thresher.data import Predictions
from thresher.methods import WEIGHTINGS, Lessons, distil, method, pairs_between, student_recipe, teach, weighting
from thresher.methods.separate_sets import surer_of
from thresher.objectives import Distillation, LayerPair, Variational
from thresher.report import write_report
from thresher.report.charts import Figure
from thresher.report.figures import run_figures
from thresher.report.run_record import read_run
from thresher.report.teacher import (
    accuracy_by_confidence,
    accuracy_figures,
    shared_figures,
    teacher_figures,
    weight_by_confidences,
)
from thresher.rules import Debias, Fidelity, KeepSmallest, OnlyCorrect, once, product

ALL = examples(150, corrupt=0.0)
LABELLED, KNOWN = ALL.subset(torch.arange(20)), ALL.subset(torch.arange(20, 50))
UNLABELLED = ALL.subset(torch.arange(50, 150)).with_columns(true_target=ALL.targets[50:])
QUICK: dict[str, Any] = {"epochs": 3, "batch": 10, "device": "cpu"}


def lessons(**changes: Any) -> Lessons:
    settings = {"teacher": lambda: net(), "unlabelled": UNLABELLED, "validation": KNOWN, **QUICK, **changes}
    return teach(lambda: net(), LABELLED, **settings)


def weights_of(run: Run, epoch: int = 1) -> Tensor:
    rows = run.ledger.to_pandas().query(f"epoch == {epoch}").sort_values("id")
    return torch.from_numpy(rows.weight.to_numpy().copy())


def test_the_union_has_its_labels_and_the_teacher_s() -> None:
    made = lessons()
    train, teacher = made.train, made.teacher
    assert teacher is not None
    assert train.ids.tolist() == [*LABELLED.ids.tolist(), *UNLABELLED.ids.tolist()]
    taught = train.columns["from_teacher"]
    assert taught.tolist() == [False] * 20 + [True] * 100
    assert torch.equal(train.targets[:20], torch.eye(3)[LABELLED.targets])
    with torch.no_grad():
        outputs = teacher.eval()(UNLABELLED.inputs)
    torch.testing.assert_close(train.targets[20:], outputs.softmax(1))
    wrong = outputs.argmax(1) != UNLABELLED.columns["true_target"]
    assert train.columns["is_corrupt"].tolist() == [False] * 20 + wrong.tolist()
    hard = made.learn(Recipe(), hard=True)
    rows = hard.ledger.to_pandas().query("epoch == 1 and id > 150")
    assert rows.target.tolist() == outputs.argmax(1).tolist()


def test_labelled_examples_keep_their_soft_labels() -> None:
    soft = 0.7 * torch.eye(3)[LABELLED.targets] + 0.1
    labelled = replace(LABELLED, targets=soft, checked=False)
    made = teach(lambda: net(), labelled, UNLABELLED, teacher=lambda: net(), **QUICK)
    torch.testing.assert_close(made.train.targets[:20], soft)
    silent = Predictions(UNLABELLED.ids, torch.full((100, 3), 1 / 3))
    said = teach(lambda: net(), labelled, UNLABELLED, teacher=silent, **QUICK).train.columns["teacher_output"]
    torch.testing.assert_close(said[:20].softmax(1), soft)


def test_the_targets_of_unlabelled_examples_are_never_looked_at() -> None:
    nonsense = replace(UNLABELLED, targets=torch.zeros(100, dtype=torch.long), classes=1, columns={}, checked=False)
    made, blind = lessons(), lessons(unlabelled=nonsense)
    assert_same_tensors([made.train.targets], [blind.train.targets])
    assert "is_corrupt" not in blind.train.columns
    assert "true_target" not in blind.train.columns


def test_every_student_starts_from_the_same_weights_and_they_stay() -> None:
    made = lessons()
    before = [value.clone() for value in made.students[0].state_dict().values()]
    first, other, again = (made.learn(recipe) for recipe in (Recipe(), Recipe(each_epoch=Fidelity()), Recipe()))
    assert_same_tensors(list(made.students[0].state_dict().values()), before)
    assert_same_tensors(list(first.model.state_dict().values()), list(again.model.state_dict().values()))
    assert not torch.equal(*(next(run.model.parameters()) for run in (first, other)))
    assert made.pretrained is not None
    assert_same_tensors(list(made.pretrained.model.state_dict().values()), before)


@pytest.mark.parametrize("name", WEIGHTINGS)
@pytest.mark.parametrize("hard", [False, True])
def test_every_weighting(name: str, hard: bool) -> None:
    run = distil(
        lambda: net(),
        LABELLED,
        UNLABELLED,
        KNOWN,
        teacher=lambda: net(),
        weights=name,
        hard=hard,
        temperature=2.0,
        **QUICK,
    )
    weights = weights_of(run)
    assert (weights[:20] == 1).all()
    assert (weights.unique().tolist() == [1.0]) == (name == "unweighted")
    if name == "oracle":
        assert set(weights.tolist()) == {0.0, 1.0}


def test_the_rules_that_names_stand_for() -> None:
    every = weighting("debias", by=signals.entropy, hard=True, temperature=2.0, every_epoch=True)
    assert every == Debias(signals.entropy, True, 2.0)
    assert weighting("composition") == product(Fidelity(), once(Debias()))
    assert weighting("unweighted") is None
    with pytest.raises(ThresherError, match="did you mean 'debias'"):
        weighting("debiass")
    recipe = student_recipe(every, method("prl-l").recipe(noise_rate=0.25), 2.0)
    assert isinstance(recipe.each_batch, KeepSmallest)
    assert (recipe.each_epoch, recipe.divide_by) == (every, "weights")
    assert isinstance(recipe.objective, Distillation)
    assert student_recipe(every, Recipe()).divide_by == "batch"
    assert student_recipe(every, Recipe(each_epoch=Fidelity())).each_epoch == product(Fidelity(), every)


@pytest.mark.parametrize("name", ["prl-l", "co-teaching", "bootstrap-soft"])
def test_a_student_trained_by_another_paper(name: str) -> None:
    recipe = method(name).recipe(noise_rate=0.2, classes=3, epochs=3)
    run = distil(lambda: net(), LABELLED, UNLABELLED, KNOWN, teacher=lambda: net(), recipe=recipe, **QUICK)
    assert len(run.models) == recipe.peers
    if recipe.peers > 1:
        assert not torch.equal(*(next(model.parameters()) for model in run.models))
        with pytest.raises(ThresherError, match="peers=2"):
            lessons().learn(recipe)


def test_the_validation_set_is_clean_where_a_recipe_asks_for_clean_examples() -> None:
    recipe = student_recipe(None, method("l2rw").recipe())
    made, own = lessons(recipes=[recipe]), ALL.subset(torch.arange(100, 130))
    soft = replace(KNOWN, targets=torch.eye(3)[KNOWN.targets], classes=3)
    other = replace(own, targets=torch.eye(3)[own.targets], classes=3)
    told = [made.learn(recipe), made.learn(recipe, clean=soft), made.learn(recipe, clean=other)]
    told.append(lessons(recipes=[recipe], clean=other).learn(recipe))
    asked, as_given, by_others, settled = (weights_of(run) for run in told)
    assert torch.equal(asked, as_given)
    assert torch.equal(by_others, settled)
    assert not torch.equal(asked, by_others)


def test_vid_by_the_teacher_s_layers() -> None:
    made = lessons()
    assert made.teacher is not None
    pairs = pairs_between(made.students[0], made.teacher, {"1": "1"}, UNLABELLED.inputs[:2])
    run = made.learn(student_recipe(once(Debias()), Recipe(objective=Variational(pairs))))
    assert run.history[-1]["loss"] < run.history[0]["loss"]


def test_validation_may_be_the_student_s_and_never_the_teacher_s() -> None:
    seen = lessons(student_sees_validation=True).train
    assert len(seen) == 150
    assert not seen.columns["from_teacher"][120:].any()
    with pytest.raises(ThresherError, match=r"2 validation examples .* are in the labelled set"):
        lessons(validation=ALL.subset(torch.arange(18, 50)))
    learnt = torch.isin(ALL.ids, KNOWN.ids[3:5])
    table = Predictions(ALL.ids, torch.full((150, 3), 1 / 3), learnt)
    with pytest.raises(ThresherError, match=f"2 validation examples .such as id {KNOWN.ids[3]}. are in what the table"):
        lessons(teacher=table)
    with pytest.raises(ThresherError, match=r"5 unlabelled examples .* are in the validation set too"):
        lessons(validation=ALL.subset(torch.arange(20, 55)))


def test_a_teacher_and_a_student_that_are_already_trained() -> None:
    first = lessons()
    assert first.teacher is not None
    student = net(seed=4)
    made = teach(student, LABELLED, UNLABELLED, KNOWN, teacher=first.teacher, **QUICK)
    assert (made.taught, made.pretrained) == (None, None)
    assert_same_tensors([made.train.targets], [first.train.targets])
    before = student[1].weight.clone()
    made.learn(Recipe())
    assert torch.equal(student[1].weight, before)


def test_streams_are_joined_too() -> None:
    one, many = streamed(LABELLED), streamed(UNLABELLED)
    made = teach(lambda: net(), one, many, KNOWN, teacher=lambda: net(), **QUICK)
    assert_same_tensors([made.train.targets], [lessons().train.targets])
    assert_same_tensors(
        list(made.learn(Recipe()).model.state_dict().values()),
        list(lessons().learn(Recipe()).model.state_dict().values()),
    )


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".npz"])
def test_a_table_is_a_teacher(tmp_path: Path, ending: str) -> None:
    first = lessons()
    asked = torch.cat([UNLABELLED.ids, KNOWN.ids])
    assert first.teacher is not None
    with torch.no_grad():
        chances = torch.cat([first.teacher.eval()(part.inputs) for part in (UNLABELLED, KNOWN)]).softmax(1)
    order = torch.randperm(len(asked), generator=torch.Generator().manual_seed(0))
    made = lessons(teacher=str(write(tmp_path / f"teacher{ending}", asked[order], chances[order])))
    torch.testing.assert_close(made.train.targets, first.train.targets)
    assert made.teacher is None
    runs = [each.learn(Recipe(each_epoch=Debias())) for each in (made, first)]
    torch.testing.assert_close(weights_of(runs[0]), weights_of(runs[1]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (Predictions(ALL.ids[:99], torch.full((99, 3), 1 / 3)), r"has no row for 51 of the unlabelled set"),
        (Predictions(ALL.ids, torch.full((150, 2), 1 / 2)), "one column for each of 3"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table: Predictions, what: str) -> None:
    with pytest.raises(ThresherError, match=what):
        lessons(teacher=table)


def never(stage: str, moment: Any) -> None:  # noqa: ARG001
    raise AssertionError(f"{stage} was trained")


def test_what_cannot_work_is_refused_before_anything_is_trained() -> None:
    narrow = Examples(torch.zeros(5, 1, 2, 2), torch.zeros(5, dtype=torch.long), ids=torch.arange(1000, 1005))
    bytes_ = replace(UNLABELLED, inputs=torch.zeros(100, 1, 4, 4, dtype=torch.uint8), checked=False)
    l2rw = method("l2rw").recipe()
    for changes, what in (
        ({"unlabelled": narrow}, "inputs of the unlabelled set"),
        ({"unlabelled": bytes_}, "torch.float32 and the unlabelled set of torch.uint8: bring them to one scale"),
        ({"validation": replace(narrow, classes=3)}, "inputs of the validation set"),
        ({"teacher": lambda: net(outputs=5)}, "outputs of shape"),
        ({"recipes": [student_recipe(None, l2rw)], "validation": None}, "reads 'clean', which is missing"),
        ({"recipes": [Recipe(objective=Variational((LayerPair("1", "9", 8, 3),)))]}, "teacher's layer '9'"),
        ({"recipes": [Recipe(each_epoch=OnlyCorrect())], "unlabelled": replace(UNLABELLED, columns={})}, "An oracle"),
    ):
        with pytest.raises(ThresherError, match=what):
            lessons(watch=never, **changes)
    with pytest.raises(ThresherError, match="pass validation="):
        distil(lambda: net(), LABELLED, UNLABELLED, teacher=lambda: net(), watch=never, **QUICK)


def test_labelled_examples_under_other_ids_are_found_in_the_validation_set() -> None:
    copies = replace(ALL.subset(torch.arange(14, 50)), ids=torch.arange(1000, 1036), checked=False)  # 6 are labelled
    with pytest.raises(
        ThresherError, match=r"6 validation examples .such as id 1000. have the same inputs as labelled"
    ):
        lessons(validation=copies, watch=never)


def test_a_teacher_that_has_learnt_the_validation_set_is_surer_of_it() -> None:
    draws = torch.Generator().manual_seed(0)
    known, others = (torch.randn(count, 3, generator=draws) for count in (200, 2000))
    assert abs(surer_of(known, others)) < 3
    assert surer_of(known * 3, others) > 10
    assert surer_of(others[:1].expand(5, 3), others[:1]) == pytest.approx(0, abs=1e-3)


def test_sets_that_repeat_inputs_by_nature_are_not_refused() -> None:
    few = torch.randint(3, (150,), generator=torch.Generator().manual_seed(0))  # three inputs in all
    plain = replace(ALL, inputs=few[:, None, None, None].expand(150, 1, 4, 4).float(), checked=False)
    sets = [plain.subset(range(*ends)) for ends in ((0, 20), (50, 150), (20, 50))]
    assert len(teach(lambda: net(), *sets, teacher=lambda: net(), **QUICK).train) == 120


def test_all_sets_are_seen_on_the_scale_of_the_labelled_one() -> None:
    def scaled(part: Examples, by: float) -> Examples:
        assert isinstance(part.inputs, Tensor)
        inputs = ((part.inputs + 5) * 20).to(torch.uint8)
        return replace(part, inputs=inputs, normalise=(torch.tensor(100.0), torch.tensor(by)), checked=False)

    sets = {"unlabelled": UNLABELLED, "validation": KNOWN}
    same, other = (
        teach(
            lambda: net(), scaled(LABELLED, 30.0), **{name: scaled(part, by) for name, part in sets.items()},
            teacher=lambda: net(), **QUICK,
        )
        for by in (30.0, 300.0)
    )  # fmt: skip
    assert_same_tensors([same.train.targets], [other.train.targets])
    assert_same_tensors([same.validation.columns["teacher_output"]], [other.validation.columns["teacher_output"]])


def test_real_targets_are_refused() -> None:
    real = Examples(torch.zeros(4, 1), torch.randn(4))
    with pytest.raises(ThresherError, match="classification only"):
        teach(lambda: net(), real, UNLABELLED, teacher=lambda: net(), **QUICK)


# the report


def test_the_figures_are_counted_as_by_hand() -> None:
    confidence, right = np.array([0.1, 0.2, 0.3, 0.9]), np.array([False, False, True, True])
    rows = accuracy_by_confidence(confidence, right, groups=2)
    assert [(row["accuracy"], row["examples"]) for row in rows] == [(0.0, 2), (1.0, 2)]
    assert rows[0]["confidence"] == pytest.approx(0.15)
    teacher, student = np.array([0.1, 0.15, 1.0, np.nan]), np.array([0.9, 0.95, 1.0, 0.1])
    cells = weight_by_confidences(teacher, student, np.array([0.5, 1.0, 0.25, 1.0]), cells=2)
    assert [(cell["left"], cell["low"], cell["weight"], cell["examples"]) for cell in cells] == [
        (0.0, 0.5, 0.75, 2), (0.5, 0.5, 0.25, 1),
    ]  # fmt: skip


def titles(figures: list[Figure]) -> set[str]:
    return {figure.title for figure in figures}


def test_students_of_one_teacher_are_shown_together(tmp_path: Path) -> None:
    blind = replace(UNLABELLED, columns={})
    made = lessons(unlabelled=blind, test=KNOWN, out=tmp_path)
    for name, rule in (("unweighted", None), ("debias", Debias(signals.entropy))):
        made.learn(student_recipe(rule, Recipe()), out=tmp_path / name)
    runs = [read_run(tmp_path / name) for name in ("unweighted", "debias")]
    students, accuracy = shared_figures(runs, {"unweighted": "red", "debias": "blue"})
    teacher, before = (made.taught.last(), made.pretrained.last())
    assert f"the teacher has {teacher:.1%}, the student had {before:.1%} before" in students.words
    levels = [row["at"] for layer in students.spec["layer"] if "data" in layer for row in layer["data"]["values"]]
    assert levels == pytest.approx([teacher, before])
    with torch.no_grad():
        right = (made.teacher.eval()(KNOWN.inputs).argmax(1) == KNOWN.targets).float().mean().item()
    assert accuracy.words.startswith(f"The teacher labels {right:.1%} of the validation examples rightly")
    assert "Teacher against its confidence" not in titles(run_figures(runs[1], teacher_shown=True))
    assert titles(teacher_figures(runs[1])) == {"Weight against both confidences", "Weights of the teacher's labels"}


def test_a_run_without_a_teacher_shows_none(tmp_path: Path) -> None:
    lessons().learn(Recipe(), out=tmp_path / "a")
    made = replace(lessons().train, columns={})
    from thresher import fit

    fit(Recipe(), lambda: net(), made, out=tmp_path / "b", **QUICK)
    one, other = (read_run(tmp_path / name) for name in "ab")
    assert [*teacher_figures(other), *accuracy_figures(other), *shared_figures([one, other], {})] == []
    assert titles(run_figures(one)) >= {"Teacher against its confidence", "Weights of the teacher's labels"}
    assert write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "report.html").exists()


# the suite

DISTIL, TEMPERATURE = SUITES["distil"], SUITES["distil-temperatures"]


def short(job: Job, **changes: Any) -> Job:
    how = job.setup.teaching
    assert how is not None
    return replace(job, setup=replace(job.setup, epochs=1, teaching=replace(how, epochs=2, **changes)))


def test_the_tables_are_whole() -> None:
    assert (len(ONE_SHOT), len(COMPOSED), len(TEMPERATURES)) == (15 * 3 + 5 * 5 + 2 * 5, 10 * 4, 8 * 2)
    assert ONE_SHOT["cifar10-7500", "debias"].value == 69.01
    assert COMPOSED["cifar10-7500-entropy", "composition"].value == 71.20
    assert TEMPERATURES["cifar100-temperature-2", "debias"].value == 57.8
    assert {number.score for suite in (DISTIL, TEMPERATURE) for number in suite.published.values()} == {"best"}


def test_the_paper_s_own_setting() -> None:
    cells = {cell.name: cell.changes["teaching"] for cell in DISTIL.scale("paper").cells}
    of_tables, of_figure_9, in_200_epochs, in_part = 5 * 5 + 5 + 2, 5 + 5, 1, 1
    assert len(cells) == of_tables + of_figure_9 + in_200_epochs + in_part
    assert (cells["cifar10-7500"].validation, cells["cifar10-7500"].by, cells["cifar10-7500"].every_epoch) == (
        2000, signals.margin, False,
    )  # fmt: skip
    for name, anew in (("cifar10-7500-entropy", True), ("cifar100-7500-entropy", False)):
        how = cells[name]
        assert (how.validation, how.by, how.every_epoch, how.student_sees_validation) == (
            500,
            signals.entropy,
            anew,
            True,
        )
    of_updates, whole = cells["svhn-7500-updates"], cells["cifar10-7500-entropy-in-200-epochs"]
    assert (of_updates.validation, of_updates.by, of_updates.student_sees_validation) == (500, signals.entropy, False)
    assert (whole.epochs, whole.every_epoch) == (200, True)
    assert all(how.labelled == int(name.split("-")[1]) for name, how in cells.items())
    for cell in TEMPERATURE.scale("paper").cells:
        how = cell.changes["teaching"]
        assert (how.labelled, how.validation, how.by) == (12500, 500, signals.entropy)
        assert cell.name.endswith(f"-{how.temperature:g}")


def test_rows_of_a_cell_share_one_start_and_other_seeds_do_not() -> None:
    jobs = {(job.entry.name, job.seed): short(job) for job in jobs_of(DISTIL, "small", cells=["digits-50"], seeds=2)}
    one, other, next_seed = (
        distilled.lessons_of(load_task(jobs[key], device="cpu"))
        for key in (("debias", 0), ("fidelity", 0), ("debias", 1))
    )
    assert one is other
    assert one is not next_seed
    assert len(one.pretrained.history) == 2
    labelled, unlabelled, validation = distilled.split_labelled(
        load_task(jobs["debias", 0], device="cpu").train, one_teaching(jobs["debias", 0]), 0
    )
    ids = [set(part.ids.tolist()) for part in (labelled, unlabelled, validation)]
    assert [len(each) for each in ids] == [50, 1438 - 350, 300]
    assert len(set.union(*ids)) == 1438


def one_teaching(job: Job) -> Any:
    return job.setup.teaching


@pytest.mark.parametrize("name", [entry.name for entry in DISTIL.methods])
def test_every_row_runs(name: str) -> None:
    (job,) = jobs_of(DISTIL, "small", cells=["digits-50"], methods=[name], seeds=1)
    found = summary(run_task(load_task(short(job), device="cpu")))
    assert len(found["scores"]) == (2 if name in ("standard", "teacher") else 1)
    assert (found["clean_share"] is None) == (name in ("standard", "teacher"))
    if name == "oracle":
        assert found["clean_share"] == 1.0


def test_a_module_is_no_factory_of_peers() -> None:
    made = teach(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), LABELLED, UNLABELLED, teacher=lambda: net(), **QUICK)
    with pytest.raises(ThresherError, match="needs as many students"):
        made.learn(Recipe(peers=2))
