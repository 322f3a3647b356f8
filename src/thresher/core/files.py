"""Files that are written whole or not at all, and folders in which one process works at a time."""

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from thresher.core.errors import ThresherError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write(temporary)` fill a file beside `path`, then put it in place in one move."""
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


_held: set[int] = set()  # descriptors of the folders that this process is alone in


def _hold_nothing() -> None:
    """A lock lasts as long as anyone has its descriptor, so a forked child closes those of its parent."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_hold_nothing)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Refuse where another process is at work in this folder; its lock ends with it, however it ends.

    Windows, and file systems that know no locks, have none.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    _held.add(handle)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ThresherError(
                f"Another process is at work in {folder}: wait until it has ended, or choose another folder."
            ) from error
        except OSError:
            pass
        yield
    finally:
        if handle in _held:  # a forked child that comes here must not end its parent's lock
            _held.remove(handle)
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)
