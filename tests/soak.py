"""A long week in minutes: commands killed, stopped and starved, repeated, and compared with an undisturbed twin.

`make soak` runs `python tests/soak.py --seconds 1800` and appends a line to results/reliability.jsonl.
"""

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from comparing import differences
from faults import few_bytes, few_files, jumping_clock, little_memory, started
from fuzz import append_result
from test_left_behind_files import unfinished_in

Command = Sequence[str]
LIMIT = 600.0  # seconds after which a command counts as hanging
QUICK = ["--model", "mlp:16", "--batch", "32", "--commit-every", "0"]


def week(seed: int) -> list[Command]:
    """The commands of one week, which differ from week to week by their seed."""
    data, run, pool, audit = "rows.csv:label", f"run-{seed}", f"pool-{seed}", f"audit-{seed}"
    told = ["--seed", str(seed), *QUICK]
    return [
        ["train", "--data", data, "--method", "prl-l", "--epochs", "12", "--out", run, *told],
        ["report", run],
        ["predict", run, "rows.csv", "--out", f"predicted-{seed}.csv"],
        ["train", "--data", "pool.csv:label", "--pool", "--method", "standard", "--epochs", "6", "--out", pool, *told],
        ["query", pool, "--count", "4", "--by", "badge"],
        ["label", pool, "answers.csv"],
        ["audit", data, "--method", "standard", "--epochs", "4", "--folds", "3", "--out", audit, *told],
        ["correct", audit, "--out", f"corrected-{seed}"],
    ]


def _ended(child: int) -> int | None:
    """Its exit code, negative for a signal; None where it did not end in time and was killed."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


LIMITS = {
    "few bytes": few_bytes,
    "few files": few_files,
    "little memory": little_memory,
    "a jumping clock": jumping_clock,
}
FAULTS = ["SIGKILL", "SIGKILL", "SIGTERM", "SIGINT", *LIMITS, "two at once"]


def disturbed(command: Command, draws: random.Random, took: float, counts: Counter[str]) -> None:
    """Run a command with a fault, or several, and then to its end."""
    for _ in range(draws.randint(1, 3)):
        fault = draws.choice(FAULTS)
        counts[fault] += 1
        running = [started(command, LIMITS.get(fault))] + ([started(command)] if fault == "two at once" else [])
        if fault.startswith("SIG"):
            time.sleep(draws.random() * took)
            os.kill(running[0], signal.Signals[fault])  # a zombie until it is waited for, so the id is its own
        counts["hangs"] += sum(_ended(child) is None for child in running)
    code = _ended(started(command))
    if code != 0 and not (command[0] == "correct" and code == 2):  # a copy that is there already is refused
        counts["did not end well"] += 1


def soak(seconds: float, seed: int) -> dict[str, object]:
    """Weeks until the time is over; how often what was done, and in how many files the twins differ."""
    draws, counts = random.Random(seed), Counter[str]()
    here, end, commands = Path.cwd(), time.monotonic() + seconds, 0
    found: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        for number in range(10**6):
            folders = [Path(made) / name for name in ("twin", "disturbed")]
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
                _write_data(folder)
            for command in week(number):
                os.chdir(folders[0])
                begun = time.monotonic()
                if (code := _ended(started(command))) != 0:
                    raise AssertionError(f"{command} ended with {code} undisturbed")
                took = time.monotonic() - begun
                os.chdir(folders[1])
                disturbed(command, draws, took, counts)
                commands += 1
            found += differences(*folders)
            counts["left behind"] += len(unfinished_in(folders[1]))
            os.chdir(here)
            if time.monotonic() > end:
                break
    faults = {name: counts[name] for name in sorted(counts)}
    return {"weeks": number + 1, "commands": commands, "faults": faults, "different files": found}


def _write_data(folder: Path) -> None:
    folder.mkdir()
    draws = random.Random(0)
    rows = [f"{draws.gauss(place % 3, 0.7):.3f},{draws.gauss(0, 1):.3f},c{place % 3}" for place in range(240)]
    (folder / "rows.csv").write_text("\n".join(["x,z,label", *rows]) + "\n")
    some = [row if place < 120 else row.rpartition(",")[0] + "," for place, row in enumerate(rows)]
    (folder / "pool.csv").write_text("\n".join(["x,z,label", *some]) + "\n")
    answers = [f"{place},c{place % 3}" for place in range(150, 170)]
    (folder / "answers.csv").write_text("\n".join(["id,label", *answers]) + "\n")


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=1800.0)
    options.add_argument("--seed", type=int, default=0)
    told = options.parse_args()
    began = time.perf_counter()
    result = soak(told.seconds, told.seed)
    append_result("soak", vars(told), began, result)
    bad = result["different files"] or any(
        result["faults"].get(name)
        for name in ("hangs", "did not end well", "left behind")  # type: ignore[attr-defined]
    )
    print(json.dumps(result, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
