"""What a person sees when something goes wrong: one sentence, and an exit code."""

import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

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
