"""A command line whose commands are imported when they are called, and whose errors are one sentence."""

import ast
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from thresher.core.errors import ThresherError

WRONG_INPUT, STOPPED = 2, 130


class PlainErrors(TyperGroup):
    """A group of commands whose warnings and errors are one sentence on stderr: exit code 2, or 130 after Ctrl-C."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: _say(f"Warning: {message}")
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            notes: list[str] = getattr(stop, "__notes__", [])
            _say(" ".join(notes) or "Stopped.")
            raise typer.Exit(STOPPED) from None
        except ThresherError as error:
            _say(str(error))
            raise typer.Exit(WRONG_INPUT) from None
        except BrokenPipeError:
            raise
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


def summary(module: str, name: str) -> str:
    """The first line of a command's or a group's help, read from its source."""
    source = Path(find_spec(module).origin).read_text(encoding="utf-8")  # type: ignore[union-attr,arg-type]
    tree = ast.parse(source)
    function = next((each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name), None)
    return (ast.get_docstring(tree if function is None else function) or "").splitlines()[0]


def in_words(error: OSError) -> str:
    """What the system refused, in one sentence.

    >>> in_words(PermissionError(13, "Permission denied", "runs/a"))
    'runs/a cannot be used (Permission denied): choose another path, or give yourself the right to it.'
    """
    if error.filename is None:
        return f"The system refused to go on ({error}): check the free space and the folders that were given."
    return f"{error.filename} cannot be used ({error.strerror}): choose another path, or give yourself the right to it."


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
