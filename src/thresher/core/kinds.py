"""What kinds of values are taken where programs give them: others are refused here, before anything is computed."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thresher.core.errors import ThresherError


def refuse_unless(name: str, value: object, fits: bool, wanted: str) -> None:
    """Refuse a value that is not what is wanted.

    >>> refuse_unless("until", 3, False, "a function of an epoch's record")
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: until=3 is a value of type int: give a function of an epoch's record.
    """
    if not fits:
        shown = repr(value)
        told = f"{name}={shown} is a value" if len(shown) <= 40 and "\n" not in shown else f"{name} is a value"
        raise ThresherError(f"{told} of type {type(value).__name__}: give {wanted}.")


def refuse_class(name: str, value: object) -> None:
    """Refuse a class where a value made by it is wanted."""
    if isinstance(value, type):
        raise ThresherError(f"{name}={value.__name__} is a class: make a value of it first, as {value.__name__}(...).")


def is_number(value: object) -> bool:
    """Whether this is a finite real number, NumPy's and truth values apart."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object, at_least: int) -> bool:
    """Whether this is a whole number of at least so much."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least


def takes(function: object, count: int) -> bool:
    """Whether this can be called with so many arguments, as far as its signature says."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some functions written in C say nothing
        return True
    return True


def check_call(
    *,
    until: object = None,
    watch: object = None,
    out: object = None,
    target: object = None,
    noise_rate: object = None,
    settings: object = None,
    settings_kind: type,
) -> None:
    """Refuse what `fit` is given beside data, method and model, where it is of another kind."""
    optional: tuple[tuple[str, object, Callable[[Any], bool], str], ...] = (
        ("until", until, lambda each: takes(each, 1), "a function of an epoch's record that says whether to stop"),
        ("watch", watch, lambda each: takes(each, 1), "a function of a Moment"),
        ("out", out, lambda each: isinstance(each, str | PathLike) and str(each) != "", "the path of a folder"),
        ("target", target, lambda each: isinstance(each, str), "the name of a column"),
        ("noise_rate", noise_rate, _is_rate, 'a share from 0 up to 1, "auto" or "folds"'),
        ("settings", settings, lambda each: isinstance(each, settings_kind), "TrainSettings(...)"),
    )
    for name, value, fits, wanted in optional:
        if value is not None:
            refuse_unless(name, value, fits(value), wanted)


def _is_rate(value: object) -> bool:
    return isinstance(value, str) or is_number(value)


def check_schedule(schedule: Callable[[float, float], Any], epochs: float, steps: int = 100) -> None:
    """Refuse a schedule of the learning rate that is not a finite number of at least 0 everywhere in a run."""
    refuse_unless("schedule", schedule, takes(schedule, 2), "a function of the epoch and the number of epochs")
    for step in range(steps):
        epoch = epochs * step / steps
        factor = schedule(epoch, epochs)
        if not (is_number(factor) and factor >= 0):
            raise ThresherError(
                f"The schedule of the learning rate gives {factor!r} in epoch {int(epoch) + 1}: let it give a finite "
                "number of at least 0."
            )


def text_labels(targets: Any) -> tuple[Tensor, list[str]] | None:
    """Class ids and the names of the classes, where the targets are texts; else None.

    >>> text_labels(["cat", "dog", "cat"])
    (tensor([0, 1, 0]), ['cat', 'dog'])
    """
    if isinstance(targets, Tensor) or not isinstance(targets, Sequence | np.ndarray) or isinstance(targets, str):
        return None
    if not len(targets) or not all(isinstance(each, str) for each in targets):
        return None
    names, ids = np.unique(np.asarray(targets, dtype=str), return_inverse=True)
    return torch.as_tensor(ids.astype(np.int64)), [str(name) for name in names]


def check_example_parts(
    name: object, inputs: Any, targets: Any, ids: Any, classes: Any, columns: Any, class_names: Any, normalise: Any,
    collated: bool,
) -> None:  # fmt: skip
    """Refuse parts of a set of examples that no tensors of it can be made of, or that mean nothing."""
    refuse_unless("name", name, isinstance(name, str), "a text")
    _check_inputs(str(name), inputs, collated)
    _check_array(f"The targets of {name}", targets, "one class, or real targets, for each input")
    if ids is not None:
        _check_array(f"The ids of {name}", ids, "a whole number for each input")
        made = torch.as_tensor(ids)
        if made.is_floating_point() or made.dtype == torch.bool or made.ndim != 1:
            raise ThresherError(f"The ids of {name} are no whole numbers [n]: give a whole number for each input.")
    if classes is not None:
        refuse_unless("classes", classes, is_whole(classes, 1), "a whole number of at least 1")
    refuse_unless("columns", columns, isinstance(columns, Mapping), "a dictionary of names and tensors")
    for column, values in columns.items():
        _check_array(f"Column {column} of {name}", values, "a number for each input")
    _check_names(str(name), class_names)
    _check_scale(str(name), normalise)


def _leaves(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from _leaves(each)


def _check_inputs(name: str, inputs: Any, collated: bool) -> None:
    if isinstance(inputs, str | bytes) or not (
        isinstance(inputs, Tensor | Mapping) or (takes_items(inputs) and callable(getattr(inputs, "__len__", None)))
    ):
        raise ThresherError(
            f"The inputs of {name} are of type {type(inputs).__name__}: give a tensor [n, ...] or a map-style dataset."
        )
    for leaf in _leaves(inputs):
        _check_tensor(f"The inputs of {name}", leaf)
        if leaf.ndim == 0:
            raise ThresherError(f"The inputs of {name} are a single number: give a tensor [n, ...].")
    first = inputs[0] if isinstance(inputs, np.ndarray | list) and len(inputs) else None
    if collated:
        return  # its own function makes tensors of the items
    if isinstance(first, str) or (isinstance(inputs, np.ndarray) and inputs.dtype.kind in "OUS"):
        kind = "texts" if isinstance(first, str) else "objects"
        raise ThresherError(f"The inputs of {name} are {kind}: encode them as numbers first.")


def takes_items(value: object) -> bool:
    """Whether items of this can be had by position."""
    return callable(getattr(value, "__getitem__", None))


def _check_tensor(what: str, tensor: Tensor) -> None:
    if tensor.layout != torch.strided:
        raise ThresherError(f"{what} are a sparse tensor: pass .to_dense() of it.")
    if tensor.is_meta:
        raise ThresherError(f"{what} are on the device meta, which holds no numbers: make them on another device.")
    if tensor.is_complex():
        raise ThresherError(f"{what} are complex numbers: give real ones, such as torch.view_as_real of them.")
    if tensor.is_quantized:
        raise ThresherError(f"{what} are quantized: pass .dequantize() of them, which are floats.")


def _check_array(what: str, values: Any, wanted: str) -> None:
    """Refuse what does not become a tensor of one dimension or more."""
    try:
        made = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ThresherError(f"{what} cannot become a tensor: give {wanted}.") from None
    _check_tensor(what, made)
    if made.ndim == 0:
        raise ThresherError(f"{what} are a single value: give {wanted}.")


def _check_names(name: str, class_names: Any) -> None:
    if class_names is None:
        return
    if isinstance(class_names, str) or not all(isinstance(each, str) for each in class_names):
        raise ThresherError(f"The class_names of {name} are no list of texts: give one text for each class.")
    if len(set(class_names)) < len(class_names):
        raise ThresherError(f"{name} has class_names that repeat: give every class a name of its own.")


def _check_scale(name: str, normalise: Any) -> None:
    if normalise is None:
        return
    if not isinstance(normalise, tuple | list) or len(normalise) != 2:
        raise ThresherError(f"normalise= of {name} is no pair: give (mean, standard deviation).")
    mean, deviation = (torch.as_tensor(part) for part in normalise)
    if not (torch.isfinite(mean).all() and torch.isfinite(deviation).all() and (deviation > 0).all()):
        raise ThresherError(f"normalise= of {name} divides by what is not above 0: give finite deviations above 0.")
