"""Inputs that are more than one tensor, and how a model is called with them.

They are dicts, tuples and lists of tensors, each leaf [n, ...] with a row an example. A single tensor is the tree of
one leaf, and every function here returns it at once. torch keeps its tree functions private, and those of other
packages take a Hugging Face `BatchEncoding` for a leaf: hence this recursion.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from thresher.core.errors import ThresherError

Tree: TypeAlias = Any  # a Tensor, or a dict, tuple or list of trees
_KNOWN: WeakKeyDictionary[nn.Module, inspect.Signature] = WeakKeyDictionary()
FRAMES = ("pandas", "polars", "pyarrow")  # whose tables have rows and columns


def mapped(function: Callable[..., Any], tree: Tree, *others: Tree) -> Any:
    """The tree of function(leaf, leaf of each of the others), which have the same branches.

    >>> mapped(torch.add, {"a": torch.tensor(1)}, {"a": torch.tensor(2)})
    {'a': tensor(3)}
    """
    if isinstance(tree, Tensor):
        return function(tree, *others)
    if isinstance(tree, Mapping):
        return {name: mapped(function, part, *(other[name] for other in others)) for name, part in tree.items()}
    if isinstance(tree, tuple | list):
        parts = [mapped(function, *each) for each in zip(tree, *others, strict=True)]
        return tuple(parts) if isinstance(tree, tuple) else parts
    return function(tree, *others)


def named_leaves(tree: Tree, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every leaf with its place, such as `text.input_ids`; the name of a single tensor is empty."""
    if isinstance(tree, Tensor):
        yield name, tree
        return
    parts = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    for key, part in parts:
        yield from named_leaves(part, f"{name}.{key}" if name else str(key))


def leaves(tree: Tree) -> list[Tensor]:
    """The tensors of a tree, in order."""
    return [tree] if isinstance(tree, Tensor) else [leaf for _, leaf in named_leaves(tree)]


def rows(tree: Tree, places: Tensor | slice) -> Tree:
    """The examples at these places: of every leaf the rows.

    >>> rows({"ids": torch.arange(6).view(3, 2)}, torch.tensor([2, 0]))["ids"].tolist()
    [[4, 5], [0, 1]]
    """
    return tree[places] if isinstance(tree, Tensor) else mapped(lambda leaf: leaf[places], tree)


def selected(tree: Tree, places: Tensor) -> Tree:
    """The same by index_select, which a captured step needs."""
    if isinstance(tree, Tensor):
        return tree.index_select(0, places)
    return mapped(lambda leaf: leaf.index_select(0, places), tree)


def moved(tree: Tree, device: torch.device | str, non_blocking: bool = False) -> Tree:
    """Every leaf on this device."""
    if isinstance(tree, Tensor):
        return tree.to(device, non_blocking=non_blocking)
    return mapped(lambda leaf: leaf.to(device, non_blocking=non_blocking), tree)


def concatenated(trees: Sequence[Tree]) -> Tree:
    """The rows of all of these as one tree."""
    if isinstance(trees[0], Tensor):
        return torch.cat(list(trees))
    return mapped(lambda *parts: torch.cat(parts), *trees)


def is_tree(value: Any) -> bool:
    """Whether this is a tensor, or a mapping or tuple, which are trees; a list is a list of examples."""
    return isinstance(value, Tensor | Mapping | tuple)


def in_single_precision(tree: Tree) -> Tree:
    """The tree with float64 leaves as float32, in which models compute."""
    if isinstance(tree, Tensor):
        return tree.float() if tree.dtype == torch.float64 else tree
    return mapped(in_single_precision, tree)


def blendable(tree: Tree) -> bool:
    """Whether inputs can be mixed: real numbers can, and whole numbers such as token ids cannot."""
    return all(leaf.is_floating_point() for leaf in leaves(tree))


def image_leaves(tree: Tree) -> list[Tensor]:
    """The leaves that are batches of images [n, c, h, w]."""
    return [leaf for leaf in leaves(tree) if leaf.ndim == 4]


def shapes(tree: Tree) -> str:
    """The shapes in words, for messages.

    >>> shapes(torch.zeros(2, 3)), shapes({"ids": torch.zeros(2, 5), "mask": torch.zeros(2, 5)})
    ('[2, 3]', 'ids [2, 5], mask [2, 5]')
    """
    return ", ".join(f"{name} {list(leaf.shape)}".strip() for name, leaf in named_leaves(tree))


def as_tree(value: Any, name: str) -> Tree:
    """What a caller gives as inputs, with tensors as leaves; mappings of any kind become dicts.

    >>> as_tree({"ids": [[1, 2], [3, 4]], "mask": np.ones((2, 2))}, "the data")["ids"].tolist()
    [[1, 2], [3, 4]]
    """
    if isinstance(value, Mapping):
        if not value:
            raise ThresherError(f"{name} has an empty mapping as inputs: give at least one tensor in it.")
        return {str(key): as_tree(part, f"{name}, '{key}',") for key, part in value.items()}
    if isinstance(value, tuple) and not all(isinstance(part, Number) for part in value):
        return tuple(as_tree(part, name) for part in value)
    if isinstance(value, list) and value and all(isinstance(part, Tensor | Mapping | np.ndarray) for part in value):
        return [as_tree(part, name) for part in value]
    return as_leaf(value, name)


def as_leaf(value: Any, name: str) -> Tensor:
    """One tensor of a tensor, an array, nested lists of numbers or a table, whose rows are the examples."""
    if isinstance(value, Tensor):
        return value
    if is_frame(value) or is_column(value):
        value = value.to_pandas().to_numpy() if _library(value) == "pyarrow" else value.to_numpy()
        if value.dtype.kind == "O" and any(isinstance(each, str) for each in value.flat):
            raise ThresherError(
                f"{name} holds texts: encode them as numbers, or give the DataFrame to fit() with target=."
            )
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
        return torch.as_tensor(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise ThresherError(
            f"{name} holds a {type(value).__name__} that makes no tensor ({why}): give numbers of one shape, or a list "
            "of inputs and collate= where they differ in length."
        ) from None


def is_frame(value: Any) -> bool:
    """Whether this is a DataFrame of pandas or polars, or a table of pyarrow; none of which has to be installed."""
    return type(value).__name__ in ("DataFrame", "Table") and _library(value) in FRAMES


def is_column(value: Any) -> bool:
    """Whether this is a column of such a table."""
    return type(value).__name__ in ("Series", "ChunkedArray") and _library(value) in FRAMES


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def call(model: nn.Module, inputs: Tree, through: nn.Module | None = None) -> Tensor:
    """The outputs of a model: a tensor goes in as it is, a mapping by keyword, a tuple by position.

    A model whose `forward` has no argument of any of the mapping's names, or one argument only for a tuple, gets the
    mapping or the tuple whole. `through` is what is called in its place where something has wrapped it.
    """
    called = model if through is None else through
    if isinstance(inputs, Tensor):
        return one_tensor(called(inputs))
    given, named = arguments(model, inputs)
    return one_tensor(called(*given, **named))


def call_with(model: nn.Module, values: Any, inputs: Tree) -> Tensor:
    """The same with these values in place of its parameters and buffers."""
    given, named = arguments(model, inputs)
    return one_tensor(functional_call(model, values, given, named))


def arguments(model: nn.Module, inputs: Tree) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a model is called with for these inputs: arguments by position and by keyword."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return ((), dict(inputs)) if _takes_names(model, inputs) else ((inputs,), {})
    return (tuple(inputs), {}) if _takes_several(model) else ((inputs,), {})


def _takes_names(model: nn.Module, inputs: Mapping[str, Any]) -> bool:
    parameters = _signature(model).parameters.values()
    return any(each.kind is each.VAR_KEYWORD or each.name in inputs for each in parameters)


def _takes_several(model: nn.Module) -> bool:
    parameters = _signature(model).parameters.values()
    placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(placed) > 1 or any(each.kind is each.VAR_POSITIONAL for each in parameters)


def _signature(model: nn.Module) -> inspect.Signature:
    inner = getattr(model, "_orig_mod", model)  # which torch.compile has wrapped
    if inner not in _KNOWN:
        _KNOWN[inner] = inspect.signature(inner.forward)
    return _KNOWN[inner]


def one_tensor(outputs: object) -> Tensor:
    """What a model returned, or its `logits` where it returned more; refused where there is no one tensor in it."""
    if isinstance(outputs, Tensor):
        return _real(outputs)
    logits = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
    if isinstance(logits, Tensor):
        return _real(logits)
    kind = type(outputs).__name__
    raise ThresherError(
        f"The model returns a {kind}: let it return its outputs alone, as one tensor [n, ...], or an object with "
        "them as .logits."
    )


def _real(outputs: Tensor) -> Tensor:
    if not outputs.is_floating_point():
        kind = "complex" if outputs.is_complex() else str(outputs.dtype)
        raise ThresherError(f"The model gives outputs that are {kind} numbers: let it give real ones, as floats.")
    return outputs
