"""The options of commands, derived from the settings that they set."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from thresher.app.settings import Settings, options_of, words_of
from thresher.engine.settings import RUN, TrainSettings

Out = Annotated[
    Path | None, Option(rich_help_panel=RUN, help="The folder of the run; if not given, a new one in runs/.")
]
From = Annotated[
    Path | None,
    Option("--from", rich_help_panel=RUN, help="Repeat the run of this run.toml; options beside it change it."),
]
Json = Annotated[bool, Option("--json", rich_help_panel=RUN, help="Print one JSON object as the last line.")]
OwnModel = Annotated[
    str | None, Option("--model", help="package.module:factory, where the run was trained with code of your own.")
]
Audited = Annotated[Path, Argument(metavar="RUN", help="The folder of an audit.")]
Where = Annotated[str | None, Option("--data", help="Where the data lie now, if not where they were audited.")]
CommitEvery = Annotated[float, Option(hidden=True)]


def options_for(kind: type[TrainSettings], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The annotation of each option: its type, its name, its panel and its help, as the setting's field has them."""
    types = words_of(kind)
    return {
        field.name: _annotation(field, types[field.name]) for field in options_of(kind) if field.name not in without
    }


def _annotation(field: dataclasses.Field[Any], types: tuple[type, ...]) -> Any:
    word = next(each for each in (bool, str, int, float) if each in types)
    names = [field.metadata["flag"]] if "flag" in field.metadata else []
    if word is bool and not names:
        name = field.name.replace("_", "-")
        names = [f"--{name}/--no-{name}" if field.default is None else f"--{name}"]  # None decides by itself
    about = Option(*names, rich_help_panel=field.metadata["panel"], help=field.metadata["help"])
    return Annotated[word | None, about]


SETTINGS: Mapping[str, Any] = options_for(Settings)
Corruption, Model, Device = SETTINGS["corruption"], SETTINGS["model"], SETTINGS["device"]


def taking(settings: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take these options beside its own; its first argument is then what was given, by name.

    >>> @taking({"epochs": SETTINGS["epochs"]})
    ... def show(given: dict[str, Any], as_json: Json = False) -> None:
    ...     print(given, as_json)
    >>> show(epochs=3, as_json=True)
    {'epochs': 3} True
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def told(**words: Any) -> None:
            given = {name: words.pop(name) for name in settings}
            command({name: value for name, value in given.items() if value is not None}, **words)

        _, *own = signature(command).parameters.values()
        options = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=settings[name]) for name in settings
        ]
        options += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]
        told.__signature__ = Signature(options)  # type: ignore[attr-defined]  # which is what Typer reads
        return told

    return decorate
