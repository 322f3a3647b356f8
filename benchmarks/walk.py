"""How many files of the library a reader passes: on the way of one prl-l step, and of `thresher train`.

    python benchmarks/walk.py

A file counts once a function of it runs; what merely is imported does not. The step is one after the first epoch,
when everything is settled; the command trains two epochs on digits and writes its report.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch import nn

import thresher
from thresher import fit, load
from thresher.engine.step.step import Step

SOURCE = Path(thresher.__file__).parent


@contextmanager
def watched() -> Iterator[list[str]]:
    """The files of the library in which functions are called inside, in the order of their first call."""
    seen: dict[str, None] = {}
    known: dict[int, CodeType] = {}  # by id, because it takes long to tell code by what it holds

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or id(code) in known:
            return
        known[id(code)] = code
        path = Path(code.co_filename)
        if path.suffix == ".py" and path.is_relative_to(SOURCE) and code.co_name != "<module>":
            seen.setdefault(str(path.relative_to(SOURCE)))

    files: list[str] = []
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)
        files += seen


def files_of_a_step() -> list[str]:
    """From the batch to the ledger's note: what one call of the step runs through."""
    calls, found = 0, list[str]()
    step: Callable[..., None] = Step.__call__

    def watched_step(*given: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls != 40:
            step(*given, **named)
            return
        with watched() as files:
            step(*given, **named)
        found.extend(files)

    Step.__call__ = watched_step  # type: ignore[method-assign]
    try:
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))  # so that no file of ours is the network's
        fit("prl-l", network, load("digits"), noise_rate=0.4, epochs=2, batch=64, device="cpu")
    finally:
        Step.__call__ = step  # type: ignore[method-assign]
    return found


def files_of_a_command() -> list[str]:
    """What `thresher train` runs through, its report included."""
    from thresher.__main__ import app

    with tempfile.TemporaryDirectory() as folder, watched() as files:
        words = ["train", "--data", "digits", "--method", "prl-l", "--noise-rate", "0.4", "--epochs", "2"]
        app([*words, "--out", f"{folder}/run"], standalone_mode=False)
    return files


def main() -> None:
    for title, files in (("one prl-l step", files_of_a_step()), ("thresher train", files_of_a_command())):
        print(f"{title}: {len(files)} files")
        print("".join(f"    {file}\n" for file in files))


if __name__ == "__main__":
    main()
