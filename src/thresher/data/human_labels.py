"""Labels that people gave, some of them wrong: CIFAR-10N and CIFAR-100N (arXiv 2110.12088) as training targets."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from thresher.core.errors import ThresherError, refuse_endless
from thresher.data.arrays import known_images
from thresher.data.splits import Splits

FILES = {
    "cifar10": ("cifar10n_labels.npz", "CIFAR-10_human.pt"),
    "cifar100": ("cifar100n_labels.npz", "CIFAR-100_human.pt"),
}


def human_labels(images: str, key: str, folder: Path) -> Splits:
    """cifar10 or cifar100 with the human labels `key` (worse_label, noisy_label, ...) as the training targets.

    The official labels are kept in `true_target`; the test set stays clean.
    """
    path = next((folder / file for file in FILES[images] if (folder / file).exists()), None)
    if path is None:
        raise ThresherError(
            f"{folder} has neither {FILES[images][0]} nor {FILES[images][1]}: get the human labels of "
            f"{images} from the CIFAR-N project and put the file there."
        )
    columns = read_human_labels(path)
    absent = [name for name in (key, "clean_label") if name not in columns]
    if absent:
        raise ThresherError(
            f"{path} has no {' and no '.join(absent)}: it has {', '.join(columns)}; get the file again."
        )
    train, test = known_images(images, folder)
    given, clean = (torch.as_tensor(np.asarray(columns[name]), dtype=torch.long) for name in (key, "clean_label"))
    if given.shape != train.targets.shape or not torch.equal(clean, train.targets):
        raise ThresherError(f"The order of {path} is not that of the {images} training images: get both files again.")
    return Splits(train.with_targets(given, true_target=clean, is_corrupt=given != clean), test)


def read_human_labels(path: Path) -> Mapping[str, Any]:
    """The label columns of a .npz file, or of the .pt file of the CIFAR-N project, read without running any code."""
    refuse_endless(path)
    try:
        if path.suffix == ".npz":
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                return {key: file[key] for key in file.files}
        with torch.serialization.safe_globals(_numpy_parts()):
            columns: Mapping[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            return columns
    except Exception as error:  # a broken or foreign file makes the two readers raise many kinds
        raise ThresherError(f"{path} cannot be read as label columns ({error}): get the file again.") from error


def _numpy_parts() -> list[Any]:
    """What a pickled numpy array of integers is made of, under its names before and since numpy 2."""
    rebuild = np.empty(0).__reduce__()[0]
    names = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
    integers = [type(np.dtype(kind)) for kind in ("i1", "i2", "i4", "i8", "u1")]
    return [*((rebuild, name) for name in names), np.ndarray, np.dtype, *integers]
