"""Damaged files for every reader: each command reads them, or refuses them in one sentence, and never anything else.

`make fuzz` runs `python tests/fuzz.py --rounds 40` and appends a line to results/reliability.jsonl. An error that is no
refusal is shown with its traceback, and `--only run/model.json` repeats the damage to that file, which stores nothing.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import torch
from mutations import mutated
from sound_folders import READ, Command, run_command, write_sound_folder

ROOT = Path(__file__).parent.parent
HANGS = 300  # seconds, on a machine that has much else to do


class HangError(BaseException):
    """A command took too long."""


def nowhere(path: Path) -> None:
    path.symlink_to("gone")


def itself(path: Path) -> None:
    path.symlink_to(path.name)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


Place = Callable[[Path], object]
PLACES: tuple[Place, ...] = (os.mkfifo, os.mkdir, nowhere, itself, endless)  # what may be where a file was


def fuzz(
    rounds: int, seed: int, names: tuple[str, ...] = tuple(READ), places: tuple[Place, ...] = PLACES
) -> dict[str, dict[str, int]]:
    """For each file how many commands read its damaged versions, refused them, and ended in something else."""
    here, found = Path.cwd(), dict[str, dict[str, int]]()
    with tempfile.TemporaryDirectory() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sound, work = Path(made) / "sound", Path(made) / "work"
        sound.mkdir()
        try:
            os.chdir(sound)
            write_sound_folder(sound, ROOT / "results" / "demo-small.jsonl")
            for name in names:
                draws, counts = random.Random(f"{seed} {name}"), {"read": 0, "refused": 0, "bad": 0}
                found[name] = counts
                damages = [*places, *(mutated(sound / name, draws) for _ in range(rounds))]
                for damage, command in product(damages, READ[name]):
                    os.chdir(made)
                    shutil.rmtree(work, ignore_errors=True)
                    shutil.copytree(sound, work)
                    os.chdir(work)
                    if isinstance(damage, bytes):
                        (work / name).write_bytes(damage)
                    else:
                        (work / name).unlink()
                        damage(work / name)
                    counts[outcome(command, name)] += 1
        finally:
            os.chdir(here)
    return found


def outcome(command: Command, name: str) -> str:
    """What a command makes of a damaged file: read, refused or bad, of which it is then said what happened."""
    try:
        with at_most(HANGS):
            code, said, raised = run_command(command)
    except HangError as error:
        code, said, raised = 1, "", error
    if code == 0:
        return "read"
    if code == 2 and raised is None and "Traceback" not in said:
        return "refused"
    print(f"{name}: {' '.join(command[:2])}: {code} {raised!r:.150}")
    traceback.print_exception(raised)
    return "bad"


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise an error that nothing catches after so many seconds."""

    def stop(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def append_result(kind: str, told: Mapping[str, object], started: float, result: Mapping[str, object]) -> None:
    """Store what was tried and what came of it."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    about = {"commit": commit.strip(), "python": platform.python_version(), "torch": torch.__version__}
    seconds = round(time.perf_counter() - started)
    line = {"kind": kind, **told, **about, "machine": platform.machine(), "took": seconds, **result}
    with open(ROOT / "results" / "reliability.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", choices=list(READ), action="append")
    chosen = options.parse_args()
    began = time.perf_counter()
    readers = fuzz(chosen.rounds, chosen.seed, tuple(chosen.only or READ))
    if not chosen.only:
        append_result("fuzz", {"rounds": chosen.rounds, "seed": chosen.seed}, began, {"readers": readers})
    print(json.dumps(readers, indent=1))
    raise SystemExit(1 if any(counts["bad"] for counts in readers.values()) else 0)
