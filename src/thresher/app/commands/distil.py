"""thresher distil"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher.app.cli import taking
from thresher.app.commands import options
from thresher.app.distil_settings import OPTIONS, DistilSettings
from thresher.record.run_folder import REPORT

if TYPE_CHECKING:
    from rich.console import Console

    from thresher.app.distil_job import DistilJob
    from thresher.app.settings import Settings
    from thresher.engine.run import Run
    from thresher.engine.train import Moment
    from thresher.methods import Lessons

SURER = 4.0  # standard errors that chance does not explain


@taking(OPTIONS)
def distil(
    given: dict[str, Any],
    out: options.Out = None,
    from_: options.From = None,
    as_json: options.Json = False,
    commit_every: options.CommitEvery = 30.0,
) -> None:
    """Let a teacher label the unlabelled examples, and train a student that believes it only as far as it should.

    Example: thresher distil --data digits --labelled 100 --weights unweighted,debias --teacher mlp:512x512 --out runs/d

    A teacher and a student are trained on the labelled examples; the teacher labels the others; a copy of the student
    learns from all of them by each weighting. What was stopped goes on when the same command is given again.
    """
    from thresher.app.distil_job import prepare_distil
    from thresher.app.folders import free_folder, read_toml, usual_name
    from thresher.app.settings import make_settings
    from thresher.report import check_installed

    stored = {"method": "standard", **({} if from_ is None else read_toml(from_, DistilSettings))}
    told = make_settings(given, stored, DistilSettings)
    check_installed()  # before anything is trained
    job = prepare_distil(told)
    base = Path("runs") / f"{usual_name(told)}-distil"
    folder = free_folder(job.settings, base, _is_finished) if out is None else out
    _distil_and_tell(job, folder, commit_every, as_json)


def _is_finished(folder: Path, _: "Settings") -> bool:
    return (folder / REPORT).exists()


def _distil_and_tell(job: "DistilJob", folder: Path, commit_every: float, as_json: bool) -> None:
    from thresher.app.terminal import plain_console, side_by_side
    from thresher.report import write_report

    console, aside = plain_console(), plain_console(stderr=True)
    lessons, runs = _watched(job, folder, commit_every, aside)
    found = _found(job, lessons, runs, folder)
    page = write_report([folder / name for name in runs], folder / REPORT)
    if as_json:
        print(json.dumps({**found, "report": str(page)}))
        return
    console.print(_about_teacher(found), soft_wrap=True)
    console.print(side_by_side(found["students"]))
    console.print(f"\nReport: {page}", soft_wrap=True)


def _watched(job: "DistilJob", folder: Path, commit_every: float, aside: "Console") -> "tuple[Lessons, dict[str, Run]]":
    from thresher.app.distil_job import STAGES, run_distil
    from thresher.app.terminal import progress

    settings, parts = job.settings, job.parts
    aside.print(
        f"{settings.model} learns from {len(parts.labelled):,} labels of {settings.data} and from what "
        f"{settings.teacher} says of {len(parts.unlabelled):,} other examples; {len(parts.validation):,} for "
        f"estimating weights, {len(parts.test):,} to test on",
        soft_wrap=True,
    )
    stages = STAGES if parts.table is None else STAGES[1:]
    labels = [*stages, *job.recipes]
    with progress(labels, aside) as watchers:
        by_stage = dict(zip(labels, watchers, strict=True))

        def watch(stage: str, moment: "Moment") -> None:
            by_stage[stage](moment)

        return run_distil(job, folder, watch, commit_every)


def _found(job: "DistilJob", lessons: "Lessons", runs: "dict[str, Run]", folder: Path) -> dict[str, Any]:
    from dataclasses import replace

    from thresher.app.distil_job import title
    from thresher.app.terminal import result
    from thresher.methods.separate_sets import surer_of

    settings, train, known = job.settings, lessons.train, lessons.validation
    assert known is not None
    said, by_teacher = known.columns["teacher_output"], train.columns["from_teacher"]
    corrupt = train.columns.get("is_corrupt")
    taught, before = lessons.taught, lessons.pretrained
    return {
        "data": settings.data,
        "seed": settings.seed,
        **{name: len(getattr(job.parts, name)) for name in ("labelled", "unlabelled", "validation")},
        "teacher": None if taught is None else {"last": taught.last(), "best": taught.best()},
        "teacher_wrong": None if corrupt is None else float(corrupt[by_teacher].float().mean()),
        "teacher_wrong_on_validation": float((said.argmax(1) != known.labels).float().mean()),
        "surer_of_validation": surer_of(said, train.columns["teacher_output"][by_teacher]),
        "before": None if before is None else {"last": before.last(), "best": before.best()},
        "students": [
            result(run, replace(settings, method=title(settings, name)), folder / name) for name, run in runs.items()
        ],
        "out": str(folder),
    }


def _about_teacher(found: dict[str, Any]) -> str:
    """How good the teacher is, and the student was before it met the teacher."""
    from thresher.report.summary import percent

    parts = []
    if found["teacher"] is not None:
        parts.append(f"the teacher has an accuracy of {percent(found['teacher']['last'])}")
    parts.append(f"{percent(found['teacher_wrong_on_validation'])} of the teacher's labels for validation are wrong")
    if found["teacher_wrong"] is not None:
        parts.append(f"{percent(found['teacher_wrong'])} of those that the student learns from")
    if found["before"] is not None:
        parts.append(f"the student's accuracy was {percent(found['before']['last'])} before it met the teacher")
    words = ", ".join(parts)
    sentences = f"{words[0].upper()}{words[1:]}.\n"
    if found["surer_of_validation"] > SURER:
        sentences += (
            "The teacher is much surer of the validation examples than of the unlabelled ones: if it has learnt from "
            "them, its labels count too much.\n"
        )
    return sentences
