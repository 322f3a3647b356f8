"""thresher distil"""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from thresher.commands import options

if TYPE_CHECKING:
    from rich.console import Console

    from thresher.commands.distilling import DistilJob
    from thresher.engine.fit import Moment
    from thresher.engine.run import Run
    from thresher.procedures import Lessons

_teaching = partial(Option, rich_help_panel="The teacher and its labels")

Labelled = Annotated[int | None, _teaching(help="How many training examples are labelled; the others are not.")]
Unlabelled = Annotated[str | None, _teaching(help="Unlabelled data of its own; the training set is then all labelled.")]
Validation = Annotated[
    float | None, _teaching(help="Labelled examples kept apart to estimate weights: how many, or a share (0.1).")
]
Teacher = Annotated[
    str | None,
    _teaching(
        help="A model, trained on the labelled examples (as the student), or a table: teacher.parquet, .csv, .npz."
    ),
]
Weights = Annotated[
    str | None,
    _teaching(help="unweighted, debias, consistent, fidelity, composition, oracle; several with commas (debias)."),
]
Hard = Annotated[
    bool | None, _teaching("--hard", help="The teacher's likeliest class as label, not its probabilities.")
]
Temperature = Annotated[float | None, _teaching(help="Of the teacher's probabilities and of the student's (1).")]
Confidence = Annotated[str | None, _teaching(help="margin or entropy (margin).")]
EveryEpoch = Annotated[bool | None, _teaching("--every-epoch", help="Estimate the weights every epoch, not once.")]
SeesValidation = Annotated[
    bool | None, _teaching("--student-sees-validation", help="Train the student on the validation examples, too.")
]
TeacherEpochs = Annotated[int | None, _teaching(help="Epochs of the teacher (as --epochs).")]
PretrainingEpochs = Annotated[int | None, _teaching(help="Epochs of the student on labelled examples (as --epochs).")]


def distil(
    data: options.Data = None,
    labelled: Labelled = None,
    unlabelled: Unlabelled = None,
    validation: Validation = None,
    teacher: Teacher = None,
    weights: Weights = None,
    hard: Hard = None,
    temperature: Temperature = None,
    confidence: Confidence = None,
    every_epoch: EveryEpoch = None,
    student_sees_validation: SeesValidation = None,
    teacher_epochs: TeacherEpochs = None,
    pretraining_epochs: PretrainingEpochs = None,
    data_dir: options.DataDir = None,
    augment: options.Augment = None,
    method: options.Method = None,
    noise_rate: options.NoiseRate = None,
    model: options.Model = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    optimizer: options.Optimizer = None,
    learning_rate: options.LearningRate = None,
    momentum: options.Momentum = None,
    weight_decay: options.WeightDecay = None,
    schedule: options.Schedule = None,
    seed: options.Seed = None,
    out: options.Out = None,
    from_: options.From = None,
    device: options.Device = None,
    precision: options.Precision = None,
    deterministic: options.Deterministic = None,
    workers: options.Workers = None,
    as_json: options.Json = False,
    commit_every: options.CommitEvery = 30.0,
) -> None:
    """Let a teacher label what nobody has, and train a student that believes it as far as it should.

    Example: thresher distil --data digits --labelled 100 --weights unweighted,debias --teacher mlp:512x512 --out runs/d

    A teacher and a student are trained on the labelled examples; the teacher labels the others; a copy of the student
    learns from all of them by each weighting. What was stopped goes on when the same command is given again.
    """
    words = locals()
    from dataclasses import fields

    from thresher.commands.distilling import DistilSettings, prepare_distil
    from thresher.commands.folders import numbered, usual_name
    from thresher.settings import make_settings, read_toml

    stored = {} if from_ is None else read_toml(from_, DistilSettings)
    names = [field.name for field in fields(DistilSettings)]
    given = {name: words[name] for name in names if words.get(name) is not None}
    told = make_settings({"method": "standard", **given} if "method" not in stored else given, stored, DistilSettings)
    job = prepare_distil(told)
    base = Path("runs") / f"{usual_name(told)}-distil"
    folder = next(each for each in numbered(base) if not (each / "report.html").exists()) if out is None else out
    _distil_and_tell(job, folder, commit_every, as_json)


def _distil_and_tell(job: "DistilJob", folder: Path, commit_every: float, as_json: bool) -> None:
    from rich.console import Console

    from thresher.commands.results import side_by_side
    from thresher.report import write_report

    console, aside = Console(highlight=False), Console(stderr=True, highlight=False)
    lessons, runs = _watched(job, folder, commit_every, aside)
    found = _found(job, lessons, runs, folder)
    page = write_report([folder / name for name in runs], folder / "report.html")
    if as_json:
        print(json.dumps({**found, "report": str(page)}))
        return
    console.print(_about_teacher(found), soft_wrap=True)
    console.print(side_by_side(found["students"]))
    console.print(f"\nReport: {page}", soft_wrap=True)


def _watched(job: "DistilJob", folder: Path, commit_every: float, aside: "Console") -> "tuple[Lessons, dict[str, Run]]":
    from thresher.commands.distilling import STAGES, is_table, run_distil
    from thresher.commands.progress import progress

    settings = job.settings
    aside.print(
        f"{settings.model} learns from {len(job.labelled):,} labels of {settings.data} and from what "
        f"{settings.teacher} says of {len(job.unlabelled):,} other examples; {len(job.validation):,} for estimating "
        f"weights, {len(job.test):,} to test on",
        soft_wrap=True,
    )
    stages = [stage for stage in STAGES if not (stage == "teacher" and is_table(settings.teacher))]
    labels = [*stages, *job.recipes]
    with progress(labels, aside) as watchers:
        by_stage = dict(zip(labels, watchers, strict=True))

        def watch(stage: str, moment: "Moment") -> None:
            by_stage[stage](moment)

        return run_distil(job, folder, watch, commit_every)


def _found(job: "DistilJob", lessons: "Lessons", runs: "dict[str, Run]", folder: Path) -> dict[str, Any]:
    from dataclasses import replace

    from thresher.commands.distilling import title
    from thresher.commands.results import result

    settings, corrupt = job.settings, lessons.train.columns.get("is_corrupt")
    wrong = None if corrupt is None else float(corrupt[lessons.train.columns["from_teacher"]].float().mean())
    taught, before = lessons.taught, lessons.pretrained
    return {
        "data": settings.data,
        "seed": settings.seed,
        "labelled": len(job.labelled),
        "unlabelled": len(job.unlabelled),
        "validation": len(job.validation),
        "teacher": None if taught is None else {"last": taught.last(), "best": taught.best()},
        "teacher_wrong": wrong,
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
        parts.append(f"The teacher has an accuracy of {percent(found['teacher']['last'])}")
    if found["teacher_wrong"] is not None:
        parts.append(f"{percent(found['teacher_wrong'])} of its labels are wrong")
    if found["before"] is not None:
        parts.append(f"the student had {percent(found['before']['last'])} before it met the teacher")
    sentence = ", ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}.\n" if sentence else ""
