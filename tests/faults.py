"""Faults that really happen to a command, which runs in a process of its own for that."""

import contextlib
import ctypes
import os
import resource
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sound_folders import run_command

Fault = Callable[[], None]
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2  # the capabilities by which root may do what rights forbid
CAPABILITIES_3 = 0x20080522


def few_bytes() -> None:
    """Let files be of few bytes only, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))


def few_files() -> None:
    """Let few files be open at a time."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


def little_memory() -> None:
    """Let no more than these megabytes be taken beside what the process has."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + 20 * 2**20, resource.RLIM_INFINITY))


def jumping_clock() -> None:
    """Let the clock of the day go back and forth by a day; the one that only runs forward is left."""
    right, calls = time.time, iter(range(10**9))
    time.time = lambda: right() + (-86_400 if next(calls) % 2 else 86_400)


def rights_hold() -> None:
    """Let the rights of files bind root as they bind everybody else."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    sets[0] &= ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH)  # of those that are in effect
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def started(command: Sequence[str], fault: Fault | None = None, said: Path | None = None) -> int:
    """The id of a process that runs this command with a fault; what it says goes into a file, or nowhere.

    It is forked from this one, which has imported everything, so that the time goes into faults and not into imports.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12 on, where there are threads
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        text = os.open(os.devnull if said is None else said, os.O_RDWR | os.O_CREAT, 0o600)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        if fault is not None:
            fault()
        warnings.simplefilter("default")
        code, output, raised = run_command(command)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.write(text, f"{output}{raised!r}".encode(errors="backslashreplace"))
    finally:
        os._exit(code)


def run_with(fault: Fault | None, command: Sequence[str]) -> tuple[int, str]:
    """The exit code of this command with a fault, negative for a signal, and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        _, status = os.waitpid(started(command, fault, said), 0)
        return os.waitstatus_to_exitcode(status), said.read_text()


@contextlib.contextmanager
def small_disk(where: Path, kilobytes: int) -> Iterator[Callable[[int], bool] | None]:
    """A disk of so many kilobytes at this folder, and a function that enlarges it; None where only root may do that."""
    where.mkdir()

    def mount(*options: str) -> bool:
        told = ["mount", "-t", "tmpfs", *options, "none", str(where)]
        return subprocess.run(told, capture_output=True, check=False).returncode == 0

    if os.getuid() != 0 or not mount("-o", f"size={kilobytes}k"):
        yield None
        return
    try:
        yield lambda size: mount("-o", f"remount,size={size}k")
    finally:
        subprocess.run(["umount", "--lazy", str(where)], capture_output=True, check=False)
