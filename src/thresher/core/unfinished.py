"""Files and folders that are being filled: held by a lock, and removed by others where a killed process left them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

UNFINISHED = ".unfinished"  # with which the name of what is being filled ends


@contextmanager
def unfinished_beside(path: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """A new file or folder beside `path`, removed in the end and locked until then, so that it is not left behind.

    Before it is held another process may have done so: then another one is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_behind(path.parent)
    while True:
        temporary = _made_beside(path, is_folder)
        try:
            with _held(temporary) as held:
                if held is not False and temporary.exists():
                    yield temporary
                    return
        finally:
            _remove(temporary)


def _made_beside(path: Path, is_folder: bool) -> Path:
    begins = f".{path.name}."
    if is_folder:
        return Path(tempfile.mkdtemp(UNFINISHED, begins, path.parent))
    handle, name = tempfile.mkstemp(UNFINISHED, begins, path.parent)
    os.close(handle)
    return Path(name)


def remove_left_behind(folder: Path) -> None:
    """Remove what a killed process left unfinished in a folder: what no process holds."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError), _held(path) as held:
            if held:
                _remove(path)


@contextmanager
def _held(path: Path) -> Iterator[bool | None]:
    """Whether this process holds a file or folder inside; False if it is gone or another does, None without locks."""
    with ExitStack() as opened:
        try:
            handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        except FileNotFoundError:
            yield False
            return
        except PermissionError:  # another user's; Windows opens no folder
            yield None
            return
        opened.callback(os.close, handle)
        held = _lock(handle)
        if held is None:
            opened.close()  # Windows moves no open file
        yield held


def _lock(handle: int) -> bool | None:
    """Lock what is open until it is closed: False if another process has, None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
