"""About a run: what makes it this run and no other, and what its folder says of its model."""

import dataclasses
import json
import re
import types
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import fields
from functools import partial
from hashlib import blake2b
from numbers import Number
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from thresher.core.datasets import as_input
from thresher.core.examples import Examples
from thresher.core.files import write_whole
from thresher.core.recipe import Recipe
from thresher.core.rule import needs_of
from thresher.core.seeding import derive
from thresher.core.trees import leaves, named_leaves
from thresher.data import Splits, is_held_out, preparation_of
from thresher.data.image_files import files_of
from thresher.engine.plan import Plan
from thresher.engine.step.learner import Learner
from thresher.engine.step.optimizer import ABOUT_DEVICE
from thresher.models import NamedModel
from thresher.record.run_folder import MODEL

FORMAT = 2  # of run folders; those of 1 have no model.json
AT_ONCE = 64 * 2**20  # bytes that are hashed at a time
_STARTS: MutableMapping[nn.Module, str] = WeakKeyDictionary()  # what modules were before they were trained in place


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


def identity(recipe: Recipe, sets: Mapping[str, Examples], plan: Plan, learner: Learner) -> dict[str, Any]:
    """What makes this run this run and no other, for telling whether a folder may be continued."""
    names = "\n".join(sets["train"].class_names or ())
    needs, optimizer = needs_of(recipe), learner.optimizer
    held = dict(learner.objective.named_buffers())  # such as the weights of classes
    hidden = ("params", "lr", *ABOUT_DEVICE)
    groups = [{k: describe(v) for k, v in group.items() if k not in hidden} for group in optimizer.param_groups]
    settled: dict[str, Any] = {
        "precision": str(plan.precision),
        "schedule": plan.schedule,
        "batch": plan.batch,
        "epochs": plan.epochs,
    }
    settled |= {"augment": None, "average": None, "mix": None}  # which are in the recipe
    settled["optimizer"] = [type(optimizer).__name__, learner.base_rates, groups]
    if "clean" in needs:
        settled["clean_batch"] = plan.clean_batch
    told = {each.name: getattr(plan.settings, each.name) for each in fields(plan.settings) if _identifies(each)}
    return {
        "format": FORMAT,
        "recipe": describe(recipe),
        "model": derive(learner.text),
        **{f"{name} set": checksum(examples) for name, examples in sets.items()},
        **({"objective": describe(held)} if held else {}),
        **({"list of classes": blake2b(names.encode(), digest_size=16).hexdigest()} if names else {}),
        **{name: describe(value) for name, value in (told | settled).items()},
    }


def _identifies(setting: dataclasses.Field[Any]) -> bool:
    """Whether another value of this setting is another run; rates are in the optimizer, the objective in the recipe."""
    elsewhere = ("learning_rate", "momentum", "weight_decay", "objective")
    return setting.metadata["identifies"] and setting.name not in elsewhere


def checksum(examples: Examples) -> str:
    """A hash of all ids, targets, columns and inputs; of image files their names, sizes and times."""
    digest = blake2b(digest_size=16)
    parts = [examples.ids, examples.targets, *(examples.target_scale or ()), *(examples.normalise or ())]
    for name in sorted(examples.columns):
        digest.update(name.encode())
        parts.append(examples.columns[name])
    if examples.in_memory:
        for name, leaf in named_leaves(examples.inputs):
            digest.update(name.encode())
            parts.append(leaf)
    else:
        for file in files_of(examples.inputs):
            found = file.stat()
            digest.update(f"{file.parent.name}/{file.name} {found.st_size} {found.st_mtime_ns}\n".encode())
        digest.update(f"{type(examples.inputs).__name__} {len(examples)}".encode())
        if examples.collate is not None:
            digest.update(json.dumps(describe(examples.collate)).encode())
        parts += _held(examples.inputs) or _listed(examples.inputs)
    for part in parts:
        digest.update(f"{part.dtype} {list(part.shape)}".encode())
        _add(digest, part)
    return digest.hexdigest()


def _add(digest: Any, part: Tensor) -> None:
    """Hash the bytes of a tensor, some of its rows at a time."""
    rows = max(1, AT_ONCE // max(part[:1].numel() * part.element_size(), 1)) if part.ndim else 1
    for block in torch.split(part, rows) if part.ndim else [part]:
        digest.update(block.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)


def _listed(items: Any) -> list[Tensor]:
    """The tensors of a list of inputs that are more than one tensor each, or lists of numbers."""
    return [leaf for item in items for leaf in leaves(as_input(item))] if isinstance(items, list) else []


def _held(value: Any, depth: int = 4) -> list[Tensor]:
    """The numbers and lists of texts that a dataset holds, also inside what it is made of; not what it caches."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, np.ndarray):
        return [torch.as_tensor(np.ascontiguousarray(value))] if value.dtype.kind in "biuf" else []
    if isinstance(value, list | tuple) and value and isinstance(value[0], Number | str):
        return [torch.frombuffer(bytearray(repr(value), "utf-8", "surrogatepass"), dtype=torch.uint8)]
    if isinstance(value, list | tuple):
        inside = list(value)
    elif depth:
        named = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        inside = [named[name] for name in named if "cache" not in str(name)]
    else:
        inside = []
    return [tensor for each in inside for tensor in _held(each, depth - 1)] if depth else []


def start_of(models: Sequence[nn.Module], trained_in_place: bool) -> str:
    """A hash of the parameters, buffers and plain attributes that networks begin with.

    A module that is trained in place keeps that of its first time, so that the same call goes on from its folder.
    """
    if trained_in_place and models[0] in _STARTS:
        return _STARTS[models[0]]
    digest = blake2b(digest_size=16)
    for model in models:
        for name, tensor in model.state_dict().items():
            if isinstance(tensor, Tensor) and not is_lazy(tensor):
                digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
                _add(digest, tensor)
        for name, layer in model.named_modules():
            digest.update(f"{name} {_plain_attributes(layer)}".encode())
    if trained_in_place:
        _STARTS[models[0]] = digest.hexdigest()
    return digest.hexdigest()


def _plain_attributes(value: object) -> dict[str, Any]:
    """What an object holds that is a number or a text, private names and the mode of a module apart."""
    named = sorted(getattr(value, "__dict__", {}).items())
    hidden = [name for name, _ in named if name.startswith("_") or name == "training"]
    return {name: each for name, each in named if isinstance(each, int | float | str) and name not in hidden}


def describe(value: Any) -> Any:
    """A value in words that stay the same from one process to the next, for telling two runs apart."""
    if isinstance(value, Tensor):
        exact = value.detach().cpu().double()
        return [
            list(value.shape),
            float(exact.sum()),
            float((exact * torch.arange(1, exact.numel() + 1).view_as(exact)).sum()),
        ]
    if isinstance(value, nn.Module):
        held = [_plain_attributes(layer) for layer in value.modules()] if _is_foreign(value) else []
        return [repr(value), held] if any(held) else repr(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value) if field.repr}
        return {type(value).__qualname__: fields}
    if isinstance(value, partial):
        return {"partial": [describe(each) for each in (value.func, value.args, value.keywords)]}
    if isinstance(value, types.FunctionType):
        return _describe_function(value)
    if isinstance(value, types.MethodType | types.BuiltinFunctionType | type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    settings = _plain_attributes(value) if _is_foreign(value) else {}
    return {type(value).__qualname__: settings} if settings else type(value).__qualname__


def _is_foreign(value: object) -> bool:
    """Whether this is of a class of the user's own, whose settings its repr may not show."""
    return type(value).__module__.partition(".")[0] not in ("thresher", "torch", "builtins", "numpy")


def same_description(one: Any, other: Any) -> bool:
    """Whether two descriptions say the same; a function of Thresher may have moved to another file between them.

    >>> same_description({"draw": "thresher.core.recipe.shuffled"}, {"draw": "thresher.slots.draw.shuffled"})
    True
    """
    first, second = (re.sub(r'"thresher\.[\w.]*\.(\w+)"', r'"\1"', json.dumps(each)) for each in (one, other))
    return first == second


def _describe_function(function: types.FunctionType, around: tuple[types.FunctionType, ...] = ()) -> Any:
    """A function's name; where several may share it, as lambdas do, also what it does and the values it holds."""
    name = f"{function.__module__}.{function.__qualname__}"
    if "<" not in function.__qualname__ or function in around:
        return name
    held: list[Any] = [function.__defaults__, function.__kwdefaults__]
    held += [cell.cell_contents for cell in function.__closure__ or ()]
    inside = (*around, function)
    told = [_describe_function(e, inside) if isinstance(e, types.FunctionType) else describe(e) for e in held]
    return {name: [_digest(function.__code__), *told]}


def _digest(code: types.CodeType) -> int:
    """A number for what this code does, wherever it stands."""
    constants = [
        str(_digest(each)) if isinstance(each, types.CodeType)
        else repr(sorted(map(repr, each))) if isinstance(each, frozenset)  # whose order is another in every process
        else repr(each)
        for each in code.co_consts
    ]  # fmt: skip
    return derive(code.co_code.hex(), *code.co_names, *constants)
