"""What makes a run this run and no other."""

import dataclasses
import types
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import needs_of
from thresher.core.seeding import derive
from thresher.engine.plan import Plan
from thresher.engine.step.learner import Learner
from thresher.engine.step.optimizer import ABOUT_DEVICE
from thresher.engine.step.teacher import TEACHER_OUTPUT

SAMPLED = 64  # examples whose inputs are looked at


def identity(recipe: Recipe, sets: Mapping[str, Examples], plan: Plan, learner: Learner) -> dict[str, Any]:
    """What makes this run this run and no other, for telling whether a folder may be continued."""
    needs, train, optimizer = needs_of(recipe), sets["train"], learner.optimizer
    clean = sets["clean"] if "clean" in needs else None
    teachers = [sets[name] for name in ("train", "validation") if name == "train" or name in needs]
    said = {"teacher": describe([each.columns[TEACHER_OUTPUT] for each in teachers])} if "teacher" in needs else {}
    held = dict(learner.objective.named_buffers())  # such as the weights of classes
    hidden = ("params", "lr", *ABOUT_DEVICE)
    groups = [{k: describe(v) for k, v in group.items() if k not in hidden} for group in optimizer.param_groups]
    return {
        "recipe": describe(recipe),
        "model": derive(repr(learner.model)),
        "data": _data(train),
        "length": [plan.epochs, plan.steps],
        "batch": plan.batch,
        "clean": None if clean is None else [_data(clean), plan.clean_batch],
        **said,
        **_checked_by(recipe, sets, plan),
        **({"objective": describe(held)} if held else {}),
        "seed": plan.seed,
        "optimizer": [type(optimizer).__name__, learner.base_rates, groups],
        "keep": "best_on_validation" if plan.keep_best else "last",
        "schedule": describe(plan.schedule),
        "precision": str(plan.precision),
    }


def _checked_by(recipe: Recipe, sets: Mapping[str, Examples], plan: Plan) -> dict[str, Any]:
    used = plan.keep_best or "validation" in needs_of(recipe)
    return {"validation": _data(sets["validation"])} if used else {}


def _data(examples: Examples) -> list[Any]:
    """Ids, targets, and a number that other inputs would hardly give, rounded so that the same always give it."""
    found = describe([examples.ids, examples.targets])
    if examples.target_scale is not None:
        found += describe(examples.target_scale)
    if not isinstance(examples.inputs, Tensor):
        return [*found, None]
    some = examples.inputs[:: max(1, len(examples) // SAMPLED)].cpu().double()
    shares = (torch.arange(some.numel(), dtype=some.dtype) * 0.618 % 1).view_as(some)  # neighbours differ
    return [*found, f"{float(((some + 1).square() * shares).mean()):.4g}"]


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
        return repr(value)
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
    return value if isinstance(value, (str, int, float, bool, type(None))) else type(value).__qualname__


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
