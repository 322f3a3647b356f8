"""The settings of a distillation, and how `thresher distil` is told them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any

from typer import Option

from thresher.app.commands import options
from thresher.app.settings import Settings
from thresher.core.errors import ThresherError


@dataclass(frozen=True)
class DistilSettings(Settings):
    """What `thresher distil` is told beside what `thresher train` is.

    method     how the student is trained otherwise: standard, prl-l, ...
    weights    unweighted, debias, consistent, fidelity, composition, oracle; several separated by commas
    labelled   how many training examples are labelled; the others are the unlabelled ones
    unlabelled  a folder of images or a data set of its own: then all of the training set is labelled
    pool       the unlabelled ones are those of the data that have no label yet
    validation  how many examples are kept apart to estimate the weights, or their share if below 1
    teacher    a model, trained on the labelled examples, or a table of probabilities; auto: as the student
    match      layers of the student that should tell the teacher's, by VID: student=teacher, several with commas
    confidence  margin or entropy
    every_epoch  estimate the weights anew every epoch, instead of once
    """

    weights: str = "debias"
    labelled: int | None = None
    unlabelled: str | None = None
    teacher: str = "auto"
    match: str | None = None
    teacher_epochs: int | None = None
    pretraining_epochs: int | None = None
    hard: bool = False
    temperature: float = 1.0
    confidence: str = "margin"
    every_epoch: bool = False
    student_sees_validation: bool = False


UNUSED = ("corruption", "steps", "clean", "clean_batch", "early_stop", "fine_tune", "fine_tune_steps")
_teaching = partial(Option, rich_help_panel="The teacher and its labels")

TEACHING: Mapping[str, Any] = {
    "labelled": Annotated[int | None, _teaching(help="How many training examples are labelled; the others are not.")],
    "unlabelled": Annotated[
        str | None, _teaching(help="A folder of unlabelled images, or a data set; all of --data is then labelled.")
    ],
    "pool": Annotated[
        bool | None,
        _teaching(
            "--pool",
            help="Unlabelled are those of --data without a label: empty cells of a table, or images in a folder named "
            "unlabelled.",
        ),
    ],
    "validation": Annotated[
        float | None, _teaching(help="Labelled examples kept apart to estimate weights: how many, or a share (0.1).")
    ],
    "teacher": Annotated[
        str | None,
        _teaching(
            help="A model, trained on the labelled examples (as the student), or a table: teacher.parquet, .csv, .npz."
        ),
    ],
    "weights": Annotated[
        str | None,
        _teaching(help="unweighted, debias, consistent, fidelity, composition, oracle; several with commas (debias)."),
    ],
    "hard": Annotated[
        bool | None, _teaching("--hard", help="The teacher's likeliest class as label, not its probabilities.")
    ],
    "temperature": Annotated[float | None, _teaching(help="Of the teacher's probabilities and of the student's (1).")],
    "match": Annotated[
        str | None,
        _teaching(
            help="Also train layers of the student to predict the teacher's (VID): body=body, or several with commas, "
            "each student=teacher."
        ),
    ],
    "confidence": Annotated[str | None, _teaching(help="margin or entropy (margin).")],
    "every_epoch": Annotated[
        bool | None, _teaching("--every-epoch", help="Estimate the weights every epoch, not once.")
    ],
    "student_sees_validation": Annotated[
        bool | None, _teaching("--student-sees-validation", help="Train the student on the validation examples, too.")
    ],
    "teacher_epochs": Annotated[int | None, _teaching(help="Epochs of the teacher (as --epochs).")],
    "pretraining_epochs": Annotated[
        int | None, _teaching(help="Epochs of the student on labelled examples (as --epochs).")
    ],
}
OPTIONS: Mapping[str, Any] = {
    **{name: each for name, each in options.SETTINGS.items() if name not in (*UNUSED, *TEACHING)},
    **TEACHING,
}


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
