"""Sets of which only a part is labelled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset

from thresher.core.datasets import Picked
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import expanded
from thresher.data.cells import plain_value
from thresher.data.decoded import read_images
from thresher.data.image_files import image_format, images_in, size_of
from thresher.data.image_folders import labelled_images, unlabelled_images
from thresher.data.overlap import digest
from thresher.data.splits import path_and_option
from thresher.data.table_files import TABLE_SUFFIXES, read_table
from thresher.data.table_options import TableOptions
from thresher.data.tables import table_with_pool

# What is shown of the examples of these ids: {"image": its file} or {"row": {column: value}}.
Show = Callable[[Sequence[int]], list[dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class Pooled:
    """Examples to learn from, of which some are labelled [n] and the rest are the pool; and those to test on."""

    examples: Examples
    labelled: Tensor
    test: Examples
    show: Show
    fingerprint: str  # a checksum: it changes when rows or files are added, removed, changed or relabelled

    def with_answers(self, answers: Mapping[int, int]) -> tuple[Examples, Examples | None]:
        """The examples to train on once these ids have these classes, and the rest of the pool."""
        targets, labelled = self.examples.targets.clone(), self.labelled.clone()
        place = {id_: at for at, id_ in enumerate(self.examples.ids.tolist())}
        for id_, label in answers.items():
            if id_ not in place:
                raise ThresherError(f"The answers name id {id_}, which is not in the data: restore them from a copy.")
            targets[place[id_]], labelled[place[id_]] = label, True
        given = replace(self.examples, targets=targets)
        return given.subset(labelled), None if labelled.all() else given.subset(~labelled)

    def pool_ids(self) -> list[int]:
        """The ids of the examples that had no label at the start."""
        ids: list[int] = self.examples.ids[~self.labelled].tolist()
        return ids


def load_with_pool(name: str, options: TableOptions | None = None, skip_broken: bool = False) -> Pooled:
    """A table with empty cells in its target column (table.csv:COLUMN), or a folder of images with one `unlabelled`."""
    base, option = path_and_option(name)
    path, options = expanded(base), TableOptions() if options is None else options
    if path.is_dir():
        options.refuse_if_given(path.name)
        return _folder(path, size_of(option), skip_broken)
    if path.name.endswith(TABLE_SUFFIXES):
        return _table(path, option or "target", options)
    raise ThresherError(
        f"'{name}' cannot have a pool: give a table with empty cells in its target column (table.csv:COLUMN), "
        "or a folder of images with a subfolder unlabelled."
    )


def _table(path: Path, target: str, options: TableOptions) -> Pooled:
    (examples, test), labelled = table_with_pool(path, target, options)

    def show(ids: Sequence[int]) -> list[dict[str, Any]]:
        rows = read_table(path, options.na, options.sep).drop_columns([target]).take(list(ids)).to_pylist()
        return [{"row": {name: plain_value(value) for name, value in row.items()}} for row in rows]

    assert isinstance(examples.inputs, Tensor)
    assert isinstance(test.inputs, Tensor)
    content = [examples.inputs, examples.targets, labelled, test.inputs, test.targets]
    return Pooled(examples, labelled, test, show, digest(b"".join(part.numpy().tobytes() for part in content)).hex())


def _folder(path: Path, size: int | None, skip_broken: bool) -> Pooled:
    (train, test), found = labelled_images(path, size, skip_broken), unlabelled_images(path)
    scaled = image_format(train.inputs)
    assert scaled is not None
    read, facts = read_images(found, *scaled)
    if facts.broken and not skip_broken:
        first_broken = found[min(facts.broken)]
        raise ThresherError(
            f"{len(facts.broken)} files in {path} cannot be read as an image (the first is {first_broken}): replace or "
            "remove them, or leave them out with --skip-broken."
        )
    whole = [place for place in range(len(found)) if place not in facts.broken]
    files, unlabelled = [found[place] for place in whole], Picked(read, whole)
    first = 1 + max(int(train.ids.max()), int(test.ids.max()))
    examples = replace(
        train,
        inputs=ConcatDataset([train.inputs, unlabelled]),  # type: ignore[list-item]
        targets=torch.cat([train.targets, torch.zeros(len(files), dtype=torch.long)]),
        ids=torch.cat([train.ids, torch.arange(len(files)) + first]),
        checked=False,
    )
    labelled = torch.arange(len(examples)) < len(train)
    told = [(file.relative_to(path), file.stat()) for file in images_in(path) if file.exists()]
    names = "\n".join(f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in told)

    def show(ids: Sequence[int]) -> list[dict[str, Any]]:
        return [{"image": files[id_ - first]} for id_ in ids]

    return Pooled(examples, labelled, test, show, digest(names.encode()).hex())
