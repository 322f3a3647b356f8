"""From the settings of a distillation to its sets: labelled, unlabelled, validation and test."""

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from thresher.app.distil_settings import DistilSettings, is_table
from thresher.app.settings import table_options
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import expanded
from thresher.core.seeding import generator
from thresher.data import Predictions, load, names, read_predictions
from thresher.data.image_files import ImageFiles, image_format, images_in
from thresher.data.image_pixels import Ranges
from thresher.data.pools import load_with_pool
from thresher.data.splits import path_and_option
from thresher.data.table_files import TABLE_SUFFIXES

VALIDATION = 0.1  # the share that is kept apart where none is chosen


class Parts(NamedTuple):
    """What the student, its weights and its test are made from, and the teacher where it is a table."""

    labelled: Examples
    unlabelled: Examples
    validation: Examples
    test: Examples
    table: Predictions | None


def load_parts(settings: DistilSettings) -> Parts:
    """Load and split the data, by the seed; a teacher that is a table is never judged by what it has learnt."""
    train, others, test = _loaded(settings)
    if train.classes is None:
        raise ThresherError("Distillation is defined for classification only: choose data with classes.")
    table, seen = None, torch.zeros(len(train), dtype=torch.bool)
    if is_table(settings.teacher):
        table = read_predictions(settings.teacher, train, *([] if others is None else [others]))
        seen = torch.isin(train.ids, table.learnt_from(train))
    validation, labelled, rest = _split(settings, seen, all_labelled=others is not None)
    if others is None:
        others = train.subset(rest).with_columns(true_target=train.labels[rest])
    return Parts(train.subset(labelled), others, train.subset(validation), test, table)


def _loaded(settings: DistilSettings) -> tuple[Examples, Examples | None, Examples]:
    """(training set, unlabelled examples where they are given apart, test set)."""
    chosen = [settings.labelled is not None, settings.unlabelled is not None, settings.pool]
    if sum(chosen) != 1:
        raise ThresherError(
            "Say which examples are unlabelled, in one way: --labelled 500 (all others), --pool (those without a "
            "label), or --unlabelled with a folder of images or a data set."
        )
    if settings.pool:
        pooled = load_with_pool(settings.data, table_options(settings), settings.skip_broken)
        train, pool = pooled.with_answers({})
        return train, pool, pooled.test
    splits = load(
        settings.data,
        data_dir=settings.data_dir,
        seed=settings.seed,
        options=table_options(settings),
        skip_broken=settings.skip_broken,
    )
    others = None if settings.unlabelled is None else _others(settings.unlabelled, splits.train, settings)
    return splits.train, others, splits.test


def _others(name: str, train: Examples, settings: DistilSettings) -> Examples:
    """Unlabelled examples of their own, with ids after those of the training set."""
    base, size = path_and_option(name)
    path, pixels = expanded(base), train.input_shape[-1]
    if path.name.endswith(TABLE_SUFFIXES):
        raise ThresherError(
            f"The rows of {path.name} would be scaled by themselves: put them into the table of --data, with an empty "
            "label, and give --pool."
        )
    if base not in names() and path.is_dir():
        if size not in ("", str(pixels)):
            raise ThresherError(
                f"The images of {path} get the {pixels} pixels of those of --data: leave out ':{size}'."
            )
        files = images_in(path)
        if not files:
            raise ThresherError(f"{path} has no images: give a folder that has some.")
        no_label = torch.zeros(len(files), dtype=torch.long)
        scaled = image_format(train.inputs) or (pixels, Ranges())
        others = Examples(ImageFiles(files, *scaled), no_label, classes=train.classes)
    else:
        others = load(name, data_dir=settings.data_dir, seed=settings.seed).train
    return replace(others, ids=torch.arange(len(others)) + int(train.ids.max()) + 1, columns={}, name=Path(name).name)


def _split(settings: DistilSettings, seen: Tensor, all_labelled: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Positions for validation, labels and the rest; what the teacher has `seen` is labelled, where there is room."""
    n, wanted = len(seen), VALIDATION if settings.validation is None else settings.validation
    if not (0 < wanted < 1 or (wanted >= 1 and math.isfinite(wanted) and wanted == int(wanted))):
        raise ThresherError(f"--validation {wanted:g} is no share and no count: give 0.1, or a whole number from 1 on.")
    known = round(wanted * n) if wanted < 1 else int(wanted)
    count = n - known if all_labelled else settings.labelled or 0
    if count < 1 or known < 1 or count + known > n - (not all_labelled):
        raise ThresherError(
            f"{count} labelled and {known} validation examples of {n} do not fit: give --labelled and --validation of "
            "at least 1 that leave some over."
        )
    if known > (new := int((~seen).sum())):
        fix = f"lower --validation to {new}" if new else "add some that it has not seen"
        raise ThresherError(f"The teacher has learnt from all but {new} examples: {fix}.")
    if count < 2:
        raise ThresherError("From one labelled example no class can be told from another: give --labelled of more.")
    order = torch.randperm(n, generator=generator(settings.seed, "distil"))
    order = order[seen[order].long().argsort(stable=True)]
    validation, rest = order[:known], order[known:]
    rest = rest[(~seen[rest]).long().argsort(stable=True)]
    return validation, rest[:count], rest[count:]
