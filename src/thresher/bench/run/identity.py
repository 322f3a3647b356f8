"""What makes a stored result this result and no other."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any

from torch import nn

from thresher.bench.definition.grid import Job
from thresher.bench.definition.setup import Setup
from thresher.core.errors import ThresherError
from thresher.core.evidence import Signal
from thresher.engine.store.about import describe
from thresher.methods import MethodFacts

Result = Mapping[str, Any]  # one line of a results file
HOW = frozenset(field.name for field in fields(Setup) if not field.metadata.get("identifies", True))
VARIANTS = ("early_stop", "fine_tune", "clean_inside")  # of a row
DATA_FIELDS = ("data", "corruption", "options", "noise_rate", "clean", "validation", "prepare")  # of a cell


def head_of(job: Job) -> dict[str, Any]:
    """How the line of a result begins."""
    return {
        "suite": job.suite,
        "scale": job.scale,
        "cell": job.cell.name,
        "method": job.entry.name,
        "seed": job.seed,
        "settings": settings_of(job),
    }


def key_of(result: Result) -> str:
    """A string that two results share if and only if they answer the same question, however they were computed."""
    parts = [result[name] for name in ("suite", "scale", "cell", "method", "seed")]
    asked = {name: value for name, value in result["settings"].items() if name not in HOW}
    return json.dumps([*parts, asked], sort_keys=True)


def key_of_job(job: Job) -> str:
    return key_of(head_of(job))


def settings_of(job: Job) -> dict[str, Any]:
    """Everything a result depends on but the seed, as JSON holds it: another value is another result."""
    settings: dict[str, Any] = json.loads(json.dumps(as_json(_parts_of(job))))
    return settings


def _parts_of(job: Job) -> dict[str, Any]:
    cell, entry, setup = job.cell, job.entry, job.setup
    # Recipes may read the number of classes; any fixed one tells two recipes apart without loading the data.
    facts = MethodFacts(cell.noise_rate, 10 if cell.metric == "accuracy" else None, setup.epochs or 1)
    tuning_steps = setup.tuning_steps if entry.fine_tune else Setup.tuning_steps
    return {
        **{name: value for name, value in non_default_fields(cell).items() if name in DATA_FIELDS},
        **non_default_fields(replace(setup, seeds=Setup.seeds, tuning_steps=tuning_steps)),
        **{name: value for name, value in non_default_fields(entry).items() if name in VARIANTS},
        "method": entry.recipe_or_procedure(facts),
    }


def as_json(value: Any) -> Any:
    """A value as JSON can hold it, without the fields that are at their defaults.

    A slot that a recipe gains later, with a default that changes nothing, thus leaves stored results valid.

    >>> from thresher import Recipe
    >>> from thresher.rules import KeepSmallest
    >>> from thresher.core.signals import loss
    >>> as_json(Recipe(clip=1.0, each_batch=KeepSmallest(by=loss, fraction=0.6)))
    {'Recipe': {'each_batch': {'KeepSmallest': {'by': 'loss', 'fraction': 0.6}}, 'clip': 1.0}}
    """
    if isinstance(value, Signal):
        return value.name
    if _is_named_function(value):
        return value.__qualname__  # without its module, so that a file may be moved
    if isinstance(value, partial):
        return [as_json(value.func), as_json(value.args), as_json(value.keywords)]
    if _is_settings(value):
        return {type(value).__qualname__: as_json(non_default_fields(value))}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return describe(value)


def non_default_fields(value: Any) -> dict[str, Any]:
    found = {}
    for item in fields(value):
        now, default = getattr(value, item.name), item.default
        if type(now) is not type(default) or now != default:
            found[item.name] = now
    return found


def refuse_shared_names(jobs: Sequence[Job]) -> None:
    """Refuse jobs in which two functions or classes have one name, because `as_json` could not tell them apart."""
    known: dict[str, Any] = {}
    for job in jobs:
        for part in _named_parts(_parts_of(job)):
            other = known.setdefault(part.__qualname__, part)
            if other is not part:
                raise ThresherError(
                    f"The suite {job.suite} uses {other.__module__}.{other.__qualname__} and "
                    f"{part.__module__}.{part.__qualname__}: rename one of them, or their results would be mixed up."
                )


def _named_parts(value: Any) -> Iterator[Any]:
    """The functions and classes whose bare names `as_json` writes."""
    if isinstance(value, Signal):
        return
    if _is_named_function(value):
        yield value
    elif isinstance(value, partial):
        yield from _named_parts((value.func, value.args, value.keywords))
    elif _is_settings(value):
        yield type(value)
        yield from _named_parts(non_default_fields(value))
    elif isinstance(value, Mapping):
        yield from _named_parts(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named_parts(item)


def _is_named_function(value: Any) -> bool:
    """Whether the name of a function identifies it: lambdas and nested functions may share theirs."""
    return isinstance(value, FunctionType) and "<" not in value.__qualname__


def _is_settings(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type | nn.Module)
