"""What the folder of a run says about its model, in model.json: read, and refused where it cannot be opened."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from thresher.core.errors import ThresherError
from thresher.core.files import damaged, read_json
from thresher.engine.store.about import FORMAT
from thresher.record.run_folder import CHECKPOINT, MODEL


class About(TypedDict):
    """What model.json holds, that of later additions apart."""

    format: int
    model: str | None
    input_shape: list[int] | None
    outputs: int
    classes: int | None
    class_names: list[str] | None
    target_scale: list[list[float]] | None
    preparation: dict[str, Any]
    method: NotRequired[str | None]
    noise_rate: NotRequired[float | str | None]
    epochs: NotRequired[float | None]
    task: NotRequired[str]
    label_kind: NotRequired[str | None]


def read_about(folder: Path) -> dict[str, Any]:
    """What the folder says about its model, or why it cannot be opened."""
    if not folder.is_dir():
        raise ThresherError(f"There is no folder {folder}: give the folder of a run.")
    path, fix = folder / MODEL, "restore it, or train the run again"
    try:
        number = read_json(path, dict[str, Any], fix).get("format", 0)
        if isinstance(number, int) and number > FORMAT:
            raise ThresherError(f"{folder} was written by a newer version of Thresher: install that version.")
        found: dict[str, Any] = read_json(path, About, fix)
    except FileNotFoundError:
        if (folder / CHECKPOINT).exists():
            raise ThresherError(
                f"{folder} was written by an earlier version of Thresher, which kept no {MODEL}: train the run again."
            ) from None
        raise ThresherError(
            f"{folder} holds no run: give a folder that `fit(out=...)` or thresher train wrote."
        ) from None
    outputs, names = found["outputs"], found["class_names"]
    sizes = {outputs, *(found["input_shape"] or ())}
    if min(sizes) < 1 or (names is not None and len(names) != found["classes"]):
        raise damaged(path, "its shapes and classes do not fit", fix)
    if found["target_scale"] is not None and [len(part) for part in found["target_scale"]] != [outputs] * 2:
        raise damaged(path, "its target_scale does not fit its outputs", fix)
    return found


def refuse_another_shape(about: Mapping[str, Any], made: Sequence[int]) -> None:
    """Refuse inputs that a run's preparation gives another shape than that of its training."""
    shape = about.get("input_shape")
    if shape is not None and list(made) != list(shape):
        raise ThresherError(
            f"The inputs become {list(made)}, and the run was trained on {list(shape)}: its model.json is not what was "
            "written, so restore it or train again."
        )
