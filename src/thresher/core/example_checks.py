"""Checks of a set of examples: parts of a wrong kind, and values that cannot be trained on, are refused."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from thresher.core.errors import ThresherError, is_whole, refuse_unless
from thresher.core.tasks import LABELS, POSITIONS, TASKS
from thresher.core.trees import leaves, named_leaves

if TYPE_CHECKING:
    from thresher.core.examples import Examples

AT_ONCE = 2**22  # numbers that are looked at together, so that the check takes no memory of its own


def check_example_parts(
    name: object, inputs: Any, targets: Any, ids: Any, classes: Any, columns: Any, class_names: Any, normalise: Any,
    collated: bool,
) -> None:  # fmt: skip
    """Refuse parts of a set of examples that cannot become tensors, or have no meaning."""
    refuse_unless("name", name, isinstance(name, str), "a text")
    _check_inputs(str(name), inputs, collated)
    _check_array(f"The targets of {name}", targets, "one class, or real targets, for each input")
    if ids is not None:
        _check_array(f"The ids of {name}", ids, "a whole number for each input")
        made = torch.as_tensor(ids)
        if made.is_floating_point() or made.dtype == torch.bool or made.ndim != 1:
            raise ThresherError(f"The ids of {name} are no whole numbers [n]: give a whole number for each input.")
        if made.dtype == torch.uint64 and int(made.cpu().numpy().max(initial=0)) > torch.iinfo(torch.long).max:
            raise ThresherError(f"The ids of {name} are above 2^63, which none may be: give smaller numbers.")
    if classes is not None:
        refuse_unless("classes", classes, is_whole(classes, 1), "a whole number of at least 1")
    refuse_unless("columns", columns, isinstance(columns, Mapping), "a dictionary of names and tensors")
    for column, values in columns.items():
        refuse_unless("columns", column, isinstance(column, str), "a text as the name of each column")
        _check_array(f"Column {column} of {name}", values, "a number for each input")
    _check_names(str(name), class_names)
    _check_scale(str(name), normalise, inputs)


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
        check_tensor(f"The inputs of {name}", leaf)
        if leaf.ndim == 0:
            raise ThresherError(f"The inputs of {name} are a single number: give a tensor [n, ...].")
    first = inputs[0] if isinstance(inputs, np.ndarray | list) and len(inputs) else None
    if collated:
        return  # its own function makes tensors of the items
    if isinstance(first, str) or (isinstance(inputs, np.ndarray) and inputs.dtype.kind in "OUS"):
        kind = "texts" if isinstance(first, str) else "objects"
        raise ThresherError(f"The inputs of {name} are {kind}: encode them as numbers first.")


def takes_items(value: object) -> bool:
    """Whether items of this can be looked up by position."""
    return callable(getattr(value, "__getitem__", None))


def check_tensor(what: str, tensor: Tensor) -> None:
    """Refuse a tensor that is not made of plain real numbers."""
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
    check_tensor(what, made)
    if made.ndim == 0:
        raise ThresherError(f"{what} are a single value: give {wanted}.")


def _check_names(name: str, class_names: Any) -> None:
    if class_names is None:
        return
    if isinstance(class_names, str) or not all(isinstance(each, str) for each in class_names):
        raise ThresherError(f"The class_names of {name} are no list of texts: give one text for each class.")
    if len(set(class_names)) < len(class_names):
        raise ThresherError(f"{name} has class_names that repeat: give every class a name of its own.")


def _check_scale(name: str, normalise: Any, inputs: Any) -> None:
    if normalise is None:
        return
    if not isinstance(normalise, tuple | list) or len(normalise) != 2:
        raise ThresherError(f"normalise= of {name} is no pair: give (mean, standard deviation).")
    mean, deviation = (torch.as_tensor(part) for part in normalise)
    if not (torch.isfinite(mean).all() and torch.isfinite(deviation).all() and (deviation > 0).all()):
        raise ThresherError(f"normalise= of {name} divides by what is not above 0: give finite deviations above 0.")
    if isinstance(inputs, Tensor):
        try:
            fits = np.broadcast_shapes(inputs.shape, mean.shape, deviation.shape) == tuple(inputs.shape)
        except ValueError:
            fits = False
        if not fits:
            shapes = f"{list(mean.shape)} and {list(deviation.shape)}"
            raise ThresherError(
                f"normalise= of {name} has shapes {shapes}, for inputs {list(inputs.shape)}: give one value, or one a "
                "channel in the shape [channels, 1, 1]."
            )


def as_positions(given: Any, n: int, name: str) -> Tensor:
    """Positions in n examples, or a mask of them, as a tensor; refused where they are neither."""
    try:
        found = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        wrong = f"are a {type(given).__name__}"
        raise ThresherError(f"The positions of the subset of {name} {wrong}: give whole numbers, or a mask.") from error
    if found.dtype == torch.bool:
        fits = found.ndim == 1 and len(found) == n
    else:
        fits = found.ndim == 1 and not (found.is_floating_point() and len(found)) and not found.is_complex()
        fits = fits and bool(((found >= -n) & (found < n)).all())
    if not fits:
        raise ThresherError(
            f"The positions of the subset of {name} are not among its {n} examples: give whole numbers below {n}, or a "
            f"mask [{n}]."
        )
    return found


def check_examples(examples: "Examples") -> None:
    """Refuse a set of examples that cannot be trained on."""
    name, targets, n = examples.name, examples.targets, len(examples.targets)
    if n == 0:
        raise ThresherError(f"{name} is empty: give at least one example.")
    if examples.in_memory:
        sizes_of = {leaf_name: len(leaf) if leaf.ndim else 0 for leaf_name, leaf in named_leaves(examples.inputs)}
        if len(set(sizes_of.values())) > 1:
            told = ", ".join(f"{size} of {leaf_name}" for leaf_name, size in sizes_of.items())
            raise ThresherError(f"{name} has inputs of different lengths ({told}): give every leaf one row an example.")
    count = len(leaves(examples.inputs)[0]) if examples.in_memory else len(examples.inputs)
    if count != n or len(examples.ids) != n:
        sizes = f"{count} inputs, {n} targets and {len(examples.ids)} ids"
        raise ThresherError(f"{name} has {sizes}: give one target and one id for each input.")
    if len(torch.unique(examples.ids)) != n:
        raise ThresherError(f"{name} has ids that repeat: give every example an id of its own.")
    shapes_of = {key: list(each.shape) for key, each in examples.columns.items()}
    shapes_of |= {key: list(each.shape) for key, each in examples.brought.items()}
    for column, shape in shapes_of.items():
        if shape[:1] != [n]:
            raise ThresherError(f"Column {column} of {name} has shape {shape} for {n} examples: give one value each.")
    if targets.is_floating_point() and not torch.isfinite(targets).all():
        raise ThresherError(f"{name} has targets that are NaN or infinite: remove or correct those examples.")
    for leaf in leaves(examples.inputs) if examples.in_memory else []:
        if not leaf.numel():
            raise ThresherError(f"{name} has inputs of shape {list(leaf.shape)}, without a number: give some.")
        at_once = max(1, AT_ONCE * n // max(1, leaf.numel()))
        some = torch.split(leaf, at_once) if leaf.is_floating_point() else ()
        bad = sum(int((~torch.isfinite(each).reshape(len(each), -1).all(1)).sum()) for each in some)
        if bad:
            raise ThresherError(f"{name} has {bad} examples with NaN or infinite inputs: remove or fill them first.")
    if examples.target_scale is not None:
        shapes = [tuple(part.shape) for part in examples.target_scale]
        if examples.classes is not None or shapes != 2 * [tuple(targets.shape[1:])]:
            raise ThresherError(f"{name} has a target_scale of another shape than its targets: give (mean, deviation).")
        if not (examples.target_scale[1] > 0).all():
            raise ThresherError(f"{name} has a target_scale with deviations that are not above 0: correct it.")
    if examples.task not in TASKS:
        raise ThresherError(f"{name} has the task {examples.task!r}: choose one of {', '.join(TASKS)}.")
    if targets.ndim > 2 and examples.task != POSITIONS:
        raise ThresherError(f"{name} has targets of shape {list(targets.shape)}: reshape them to [n] or [n, d].")
    if examples.task == LABELS and (targets.min() < 0 or targets.max() > 1):
        raise ThresherError(f"{name} has labels outside 0 to 1: give 1 for each label that is true, and 0 for others.")
    if examples.task == POSITIONS and targets.max() < 0:
        raise ThresherError(f"{name} has no target of 0 or above, so that nothing counts: check its targets.")
    _check_classes(examples)


def _check_classes(examples: "Examples") -> None:
    name, targets, classes = examples.name, examples.targets, examples.classes
    if classes is None:
        return
    if examples.class_names is not None and len(examples.class_names) < classes:
        raise ThresherError(
            f"{name} has {classes} classes and {len(examples.class_names)} class_names: give one for each class."
        )
    if targets.ndim == 1 and targets.is_floating_point():
        raise ThresherError(f"{name} has classes={classes} but real labels: give whole numbers, or leave classes= out.")
    if targets.ndim == 1 and (targets.min() < 0 or targets.max() >= classes):
        low, high = int(targets.min()), int(targets.max())
        if low < 0:
            raise ThresherError(f"{name} has labels from {low} to {high}: renumber the labels from 0 on.")
        raise ThresherError(
            f"{name} has labels from {low} to {high} but {classes} classes: "
            f"renumber the labels to 0..{classes - 1} or raise classes=."
        )
    if targets.ndim == 2 and targets.shape[1] != classes:
        raise ThresherError(
            f"{name} has soft labels of width {targets.shape[1]} but classes={classes}: make them equal."
        )
    if targets.ndim == 2 and (targets.min() < 0 or not torch.allclose(targets.sum(1), targets.new_ones(()), atol=1e-3)):
        raise ThresherError(f"{name} has soft labels that are not probabilities: make rows non-negative with sum 1.")
