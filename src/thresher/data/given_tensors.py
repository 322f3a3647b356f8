"""What a caller gives as inputs and targets, as tensors; labels of any kind become class ids."""

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from thresher.core.errors import ThresherError
from thresher.core.trees import Tree, as_tree, in_single_precision


def target_tensor(targets: Any, name: str) -> tuple[Tensor, list[str] | None, str]:
    """Real targets as floats and no names; or class ids, with the names of the classes unless they are 0 ... k-1.

    Then what the labels were, as `Examples.label_kind` says it.
    """
    values = _array(unmixed(_padded(targets)), f"The targets of {name}", "give one value for each input")
    shape = list(values.shape)
    if not shape:
        raise ThresherError(f"The targets of {name} are a single value: give one value for each input.")
    if values.dtype.kind == "O":
        values = _of_one_kind(values, name)
    if values.dtype.kind == "f":
        return torch.as_tensor(values.astype(np.float32)), None, "text"
    if values.ndim > 1 and values.dtype.kind in "biu" and values.shape[1] > 1:  # labels, or classes at positions
        return torch.as_tensor(values.astype(np.int64)), None, "int"
    if values.ndim > 1:
        raise ThresherError(
            f"The targets of {name} are {_kind(values)} of shape {shape}: give one class each [{shape[0]}], or numbers."
        )
    if values.dtype.kind not in "biuU":
        raise ThresherError(f"The targets of {name} are {values.dtype}: give numbers, texts or truth values.")
    known, ids = np.unique(values, return_inverse=True)
    whole = values.dtype.kind in "iu" and (known == np.arange(len(known))).all()
    kind = {"b": "bool", "U": "text"}.get(values.dtype.kind, "int")
    return torch.as_tensor(ids.astype(np.int64)), [str(value) for value in known] if not whole else None, kind


def _padded(targets: Any) -> Any:
    """Rows of whole numbers of different lengths, as those of tokens are, filled up with -100, which is ignored."""
    if not isinstance(targets, list) or not targets or not isinstance(targets[0], list | Tensor | np.ndarray):
        return targets
    if len({len(each) for each in targets}) == 1:
        return targets
    rows = [torch.as_tensor(each) for each in targets]
    return pad_sequence(rows, batch_first=True, padding_value=-100) if rows[0].ndim == 1 else targets


def unmixed(targets: Any) -> Any:
    """A list of texts and others as objects: NumPy would write the others as texts too."""
    if not isinstance(targets, list | tuple) or len({isinstance(each, str) for each in targets}) < 2:
        return targets
    return np.array(targets, dtype=object)


def _of_one_kind(values: Any, name: str) -> Any:
    """Values of any type as an array of numbers or of texts; missing ones, and a mixture of the two, are refused."""
    each = values.ravel().tolist()
    missing = sum(_is_missing(value) for value in each)
    if missing:
        raise ThresherError(f"{name} has {missing} targets that are missing: remove or label those examples.")
    if all(isinstance(value, str) for value in each) or all(isinstance(value, Number) for value in each):
        return np.array(values.tolist())
    kinds = sorted({type(value).__name__ for value in each})
    raise ThresherError(f"The targets of {name} mix values of the types {', '.join(kinds)}: give one of them.")


def _is_missing(value: Any) -> bool:
    """None, NaN, and what stands for a missing value in pandas."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _array(values: Any, what: str, fix: str) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ThresherError(f"{what} are masked at {int(np.sum(values.mask))} places: fill those, or leave them out.")
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise ThresherError(f"{what} make no array ({error}): {fix}.") from None


def input_tensors(values: Any, name: str) -> Tree:
    """Inputs as floats; bytes where they are pixels, and whole numbers of a tensor or a tree, stay what they are."""
    if isinstance(values, Mapping) or (
        isinstance(values, tuple) and all(isinstance(part, Tensor | np.ndarray | Mapping) for part in values)
    ):
        return in_single_precision(as_tree(values, name))
    if isinstance(values, Tensor):
        made = values.detach().float() if values.is_floating_point() else values
    else:
        array = _array(values, f"The inputs of {name}", "give inputs of one shape")
        if array.dtype.kind == "O" and all(isinstance(value, Number) for value in array.flat):
            array = array.astype(np.float32)
        if array.dtype.kind not in "buif":
            raise ThresherError(
                f"The inputs of {name} are {_kind(array)}: encode them as numbers, or give a DataFrame with target=."
            )
        keeps = array.dtype == np.uint8 and array.ndim > 2
        made = torch.as_tensor(np.ascontiguousarray(array if keeps else array.astype(np.float32)))
    if made.ndim == 0 or (made.ndim == 1 and len(made)):
        raise ThresherError(
            f"The inputs of {name} have the shape {list(made.shape)}: give [n, ...], such as X[:, None]."
        )
    return made


def _kind(array: Any) -> str:
    """What an array holds, in a word."""
    return {"U": "texts", "S": "bytes", "O": "objects", "b": "truth values", "i": "whole numbers"}.get(
        array.dtype.kind, str(array.dtype)
    )
