"""The settings of a distillation, and how `thresher distil` is told them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from thresher.app.cli import options_for
from thresher.app.settings import Settings
from thresher.core.errors import ThresherError
from thresher.engine.settings import TRAINING, option

TEACHER = "The teacher and its labels"


@dataclass(frozen=True)
class DistilSettings(Settings):
    """What `thresher distil` is told beside what `thresher train` is; `method` trains the student."""

    method: str = option("", TRAINING, "One of those that thresher methods lists; it trains the student.")
    pool: bool = option(
        False,
        TEACHER,
        "Unlabelled are those of --data without a label: empty cells of a table, or images in a folder unlabelled.",
    )
    validation: float | None = option(
        None, TEACHER, "Labelled examples kept apart to estimate weights: how many, or a share (0.1)."
    )
    weights: str = option(
        "debias",
        TEACHER,
        "unweighted, debias, consistent, fidelity, composition, oracle; several with commas (debias).",
    )
    labelled: int | None = option(None, TEACHER, "How many training examples are labelled; the others are not.")
    unlabelled: str | None = option(
        None, TEACHER, "A folder of unlabelled images, or a data set; all of --data is then labelled."
    )
    teacher: str = option(
        "auto",
        TEACHER,
        "A model, trained on the labelled examples (as the student), or a table: teacher.parquet, .csv, .npz.",
    )
    match: str | None = option(
        None,
        TEACHER,
        "Also train layers of the student to predict the teacher's (VID): body=body, or several with commas, each "
        "student=teacher.",
    )
    teacher_epochs: int | None = option(None, TEACHER, "Epochs of the teacher (as --epochs).")
    pretraining_epochs: int | None = option(None, TEACHER, "Epochs of the student on labelled examples (as --epochs).")
    hard: bool = option(False, TEACHER, "The teacher's likeliest class as label, not its probabilities.")
    temperature: float = option(1.0, TEACHER, "Of the teacher's probabilities and of the student's (1).")
    confidence: str = option("margin", TEACHER, "margin or entropy (margin).")
    every_epoch: bool = option(False, TEACHER, "Estimate the weights every epoch, not once.")
    student_sees_validation: bool = option(False, TEACHER, "Train the student on the validation examples, too.")


UNUSED = ("test", "corruption", "steps", "clean", "clean_batch", "early_stop", "fine_tune", "fine_tune_steps")
OPTIONS: Mapping[str, Any] = options_for(DistilSettings, without=UNUSED)


def refuse_unused(settings: DistilSettings) -> None:
    """Refuse settings of a training, in a file, that no distillation looks at."""
    for field in fields(settings):
        if field.name in UNUSED and getattr(settings, field.name) != field.default:
            raise ThresherError(f"thresher distil takes no {field.name}: remove it from the settings.")


def is_table(teacher: str) -> bool:
    """Whether the teacher is a file of probabilities.

    >>> is_table("teacher.csv.gz"), is_table("mlp:256")
    (True, False)
    """
    from thresher.data.table_files import TABLE_SUFFIXES

    return teacher.endswith((*TABLE_SUFFIXES, ".npz"))
