"""What a run folder says about its model, so that the run can be opened without the program that made it."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import write_whole
from thresher.data import Splits, is_held_out, preparation_of
from thresher.models import NamedModel
from thresher.record.run_folder import CHECKPOINT, MODEL

FORMAT = 2  # of run folders; those of 1 have no model.json
REQUIRED = ("model", "input_shape", "outputs", "classes", "class_names", "target_scale", "preparation")


def describe_run(
    model: nn.Module | Callable[[], nn.Module], train: Examples, test: Examples | None, about: Mapping[str, Any]
) -> dict[str, Any]:
    """The model by name where it has one, the shapes, the classes and how raw inputs become inputs; as plain values."""
    return {
        "format": FORMAT,
        "model": model.name if isinstance(model, NamedModel) else None,
        "input_shape": list(first.shape) if isinstance(first := train.first_input(), Tensor) else None,
        "outputs": train.outputs,
        "classes": train.classes,
        "task": train.task,
        "class_names": None if train.class_names is None else list(train.class_names),
        "label_kind": train.label_kind,
        "target_scale": None if train.target_scale is None else [part.tolist() for part in train.target_scale],
        "preparation": preparation_of(train).record(),
        "test_is_held_out": test is not None and is_held_out(Splits(train, test)),
        **about,
    }


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    text = json.dumps(about, ensure_ascii=False, indent=1) + "\n"
    write_whole(folder / MODEL, partial(Path.write_text, data=text, encoding="utf-8"))


def read_about(folder: Path) -> dict[str, Any]:
    """What the folder says about its model, or why it cannot be opened."""
    if not folder.is_dir():
        raise ThresherError(f"There is no folder {folder}: give the folder of a run.")
    try:
        found: dict[str, Any] = json.loads((folder / MODEL).read_text(encoding="utf-8"))
        if found["format"] > FORMAT:
            raise ThresherError(f"{folder} was written by a newer version of Thresher: install that version.")
        for name in REQUIRED:
            found[name]
    except FileNotFoundError:
        if (folder / CHECKPOINT).exists():
            raise ThresherError(
                f"{folder} was written by an earlier version of Thresher, which kept no {MODEL}: train the run again."
            ) from None
        raise ThresherError(
            f"{folder} holds no run: give a folder that `fit(out=...)` or thresher train wrote."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ThresherError(f"{folder / MODEL} is damaged ({error!r}): restore it, or train the run again.") from error
    return found
