"""Atomic writes, and folders locked by one process at a time."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from thresher.core.errors import ThresherError

LOCK = ".lock"  # in the folder of a run, while a process works there and afterwards


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write(temporary)` fill a file beside `path`, then move it into place."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ThresherError(
                f"The disk is full while writing {path}: free some space and run the same command again; "
                "everything saved before is intact."
            ) from error
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder, or refuse where another process has locked it; the lock ends with its process.

    On file systems without locks nothing is locked.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ThresherError(
            f"Another process is at work in {folder}: wait until it has ended, or choose another folder."
        ) from error
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()
