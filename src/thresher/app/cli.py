"""A command line: commands that are imported when called, options derived from settings, errors in one sentence."""

import ast
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from thresher.core.errors import ThresherError, printable, refuse_endless, shortened

if TYPE_CHECKING:
    from thresher.engine.settings import TrainSettings

WRONG_INPUT, STOPPED = 2, 130
NO_MEMORY = ("allocate", "failed to map segment")  # what torch says, and the loader of libraries
WRITTEN_TO = ("--out", "--results", "--docs", "--runs")  # options that name where a command writes


class PlainErrors(TyperGroup):
    """A group of commands whose warnings and errors are one sentence on stderr: exit code 2, or 130 after Ctrl-C."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: _say(f"Warning: {message}")
                _refuse_paths([*getattr(ctx, "_protected_args", ()), *ctx.args])
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            notes: list[str] = getattr(stop, "__notes__", [])
            _say(" ".join(notes) or str(stop) or "Stopped.")
            raise typer.Exit(STOPPED) from None
        except ThresherError as error:
            _say(str(error))
            raise typer.Exit(WRONG_INPUT) from None
        except BrokenPipeError:
            raise
        except (MemoryError, RuntimeError, ImportError) as error:
            if not isinstance(error, MemoryError) and not any(word in str(error) for word in NO_MEMORY):
                raise
            reason = str(error).splitlines()[0] if str(error) else "not enough memory"
            _say(f"This does not fit into memory ({reason}): choose a smaller model, or fewer examples or classes.")
            raise typer.Exit(WRONG_INPUT) from None
        except OSError as error:
            _say(in_words(error))
            raise typer.Exit(WRONG_INPUT) from None


class Commands(PlainErrors):
    """The commands by name, each with its module, in the order of the help: only the one that is called is imported.

    A module holds a function of the command's name, or `app`, a group of commands.
    """

    modules: Mapping[str, str] = {}
    first_lines_only = False  # for the help of the whole, which imports none of them

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [*self.modules]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.first_lines_only = True
        super().format_help(ctx, formatter)

    def get_command(self, ctx: Any, name: str) -> Any:  # noqa: ARG002
        if name not in self.modules:
            return None
        if self.first_lines_only:
            return TyperCommand(name, help=summary(self.modules[name], name))
        module = import_module(self.modules[name])
        group = getattr(module, "app", None)
        if group is None:
            group = typer.Typer(add_completion=False)
            group.command(name)(getattr(module, name))
        return typer.main.get_command(group)


def command_line(modules: Mapping[str, str]) -> typer.Typer:
    """The whole command line: these commands, and what it says of itself."""
    app = typer.Typer(
        name="thresher",
        cls=type("Thresher", (Commands,), {"modules": modules}),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(about)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        from thresher import __version__

        print(f"thresher {__version__}")
        raise typer.Exit


def about(
    version: Annotated[  # its callback answers
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train models on data you cannot fully trust, and keep a record of what was trusted.

    Start with: thresher demo
    """


def summary(module: str, name: str) -> str:
    """The first line of a command's or a group's help, read from its source."""
    source = Path(find_spec(module).origin).read_text(encoding="utf-8")  # type: ignore[union-attr,arg-type]
    tree = ast.parse(source)
    function = next((each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name), None)
    return (ast.get_docstring(tree if function is None else function) or "").splitlines()[0]


def options_for(kind: "type[TrainSettings]", without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The annotation of each option: its type, its name, its panel and its help, as the setting's field has them."""
    from thresher.app.settings import options_of, words_of  # which import torch

    types = words_of(kind)
    return {
        field.name: _annotation(field, types[field.name]) for field in options_of(kind) if field.name not in without
    }


def _annotation(field: Field[Any], types: tuple[type, ...]) -> Any:
    word = next(each for each in (bool, str, int, float) if each in types)
    names = [field.metadata["flag"]] if "flag" in field.metadata else []
    if word is bool and not names:
        name = field.name.replace("_", "-")
        names = [f"--{name}/--no-{name}" if field.default is None else f"--{name}"]  # None decides by itself
    about = typer.Option(*names, rich_help_panel=field.metadata["panel"], help=field.metadata["help"])
    return Annotated[word | None, about]


def taking(settings: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take these options beside its own; its first argument is then what was given, by name.

    >>> @taking({"epochs": int | None})
    ... def show(given: dict[str, Any], as_json: bool = False) -> None:
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


def in_words(error: OSError) -> str:
    """What the system refused, in one sentence.

    >>> in_words(PermissionError(13, "Permission denied", "runs/a"))
    'runs/a cannot be used (Permission denied): choose another path, or give yourself the right to it.'
    """
    if error.filename is None:
        return f"The system refused to go on ({error}): check the free space and the folders that were given."
    path = shortened(str(error.filename), 200)
    return f"{path} cannot be used ({error.strerror}): choose another path, or give yourself the right to it."


def _refuse_paths(words: Sequence[str]) -> None:
    """Refuse to read what may never end, and to write to a path that no message, page or settings file could name."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, _, told = word.partition("=")
        refuse_endless(told if option.startswith("--") else word)
        path = (told or following) if option in WRITTEN_TO else ""
        if path != printable(path):
            raise ThresherError(f"The path {printable(path)} has a name that is no plain text: choose another name.")


def _say(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)
