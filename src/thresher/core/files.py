"""Files of ours: written whole or not at all, read by a schema, in folders locked by one process at a time."""

import errno
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
from filelock import FileLock, Timeout

from thresher.core.errors import ThresherError, printable, refuse_endless
from thresher.core.unfinished import unfinished_beside

LOCK = ".lock"  # in the folder of a run, while a process works there and afterwards
LARGEST = 2**63  # whole numbers beyond it fit into no tensor
UNREADABLE = (  # what NumPy and zipfile raise where a file is damaged, or would not fit into memory
    ValueError, OSError, EOFError, KeyError, MemoryError, RuntimeError, SyntaxError, TypeError, NotImplementedError,
    TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class InUseError(ThresherError):
    """Another process has locked a folder."""


def expanded(name: Path | str) -> Path:
    """The path, with ~ as one's home; the ~ of nobody stays as it is, so that nothing is found there."""
    return Path(os.path.expanduser(name))


def is_there(path: Path) -> bool:
    """Whether there is a file or a folder; of a name that no file system takes there is none."""
    try:
        return path.exists()
    except OSError:
        return False


def refuse_as_folder(path: Path) -> None:
    """Refuse a path at which no folder can be: where a file is, or by a name that this file system does not take."""
    shown = printable(str(path))
    if shown != str(path):
        raise ThresherError(f"The folder {shown} has a name that is no plain text: choose another name.")
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ThresherError(f"{shown:.80} cannot be made ({error.strerror}): choose another folder.") from error
    if not is_folder:
        raise ThresherError(f"{shown} is a file: choose a folder.")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write(temporary)` fill a file beside `path`, then move it into place."""
    try:
        with unfinished_beside(path) as temporary:
            write(temporary)
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ThresherError(
                f"The disk is full while writing {path}: free some space and run the same command again; "
                "everything saved before is intact."
            ) from error
        raise


def caches() -> Path:
    """The folder of what can be made again: thresher in the user's folder of caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thresher"


def _sync_folder(folder: Path) -> None:
    """Let the new name of a file survive a loss of power; Windows knows no such call."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
        raise InUseError(
            f"Another process is at work in {folder}: wait until it has ended, or choose another folder."
        ) from error
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()


def damaged(path: Path, reason: object, fix: str) -> ThresherError:
    """The error for a file that is not what was written; `fix` says what to do."""
    told = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
    return ThresherError(f"{path} is damaged ({told}): {fix}.")


def read_text(path: Path, fix: str) -> str:
    """The text of a file of ours."""
    refuse_endless(path)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, error, fix) from error


def read_json(path: Path, kind: Any, fix: str) -> Any:
    """What a JSON file holds, of this kind."""
    return parsed_json(read_text(path, fix), kind, path, fix)


def read_json_lines(path: Path, kind: Any, fix: str) -> list[Any]:
    """What each line of a file holds, of this kind."""
    lines = read_text(path, fix).splitlines()
    return [parsed_json(line, kind, path, fix) for line in lines if line.strip()]


def parsed_json(text: str, kind: Any, path: Path, fix: str) -> Any:
    """What a text of this file holds, of this kind."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, error, fix) from error
    check(found, kind, path, fix)
    return found


def check(value: object, kind: Any, path: Path, fix: str) -> None:
    """Refuse a value from this file that is not of this kind."""
    wrong = misfit(value, kind)
    if wrong is not None:
        raise damaged(path, wrong, fix)


def misfit(value: Any, kind: Any, where: str = "it") -> str | None:
    """What is not of this kind, in words, or None. Kinds: plain types, unions, list[...], dict[str, ...], TypedDicts.

    >>> misfit({"rounds": [{"score": "high"}]}, dict[str, list[dict[str, float]]])
    "it['rounds'][0]['score'] is a text"
    """
    origin = get_origin(kind)
    if kind is Any:
        return None
    if origin in (Union, UnionType):
        kinds = get_args(kind)
        near = next((each for each in kinds if isinstance(value, get_origin(each) or _plain(each))), kinds[0])
        return None if any(misfit(value, each) is None for each in kinds) else misfit(value, near, where)
    if not isinstance(value, _plain(origin or kind)) or (isinstance(value, bool) and kind in (int, float)):
        return f"{where} is {KINDS.get(type(value).__name__, type(value).__name__)}"
    if isinstance(value, int) and kind in (int, float) and not -LARGEST < value < LARGEST:
        return f"{where} is a number that is too large"
    if is_typeddict(kind):
        inside = get_type_hints(kind)
        missing = [name for name in inside if name in kind.__required_keys__ and name not in value]
        if missing:
            return f"{where} lacks {missing[0]!r}"
        found = (misfit(value[name], inside[name], f"{where}[{name!r}]") for name in inside if name in value)
    elif origin is list:
        found = (misfit(each, get_args(kind)[0], f"{where}[{place}]") for place, each in enumerate(value))
    elif origin is dict:
        found = (misfit(each, get_args(kind)[1], f"{where}[{name!r}]") for name, each in value.items())
    else:
        return None
    return next((each for each in found if each is not None), None)


KINDS = {"str": "a text", "int": "a number", "float": "a number", "bool": "true or false", "NoneType": "null"}
KINDS |= {"list": "a list", "dict": "an object"}


def _plain(kind: Any) -> Any:
    """The class, or classes, of a value of this kind."""
    if is_typeddict(kind):
        return dict
    return {float: (float, int), None: NoneType}.get(kind, kind)


def read_arrays(path: Path, fix: str, kinds: Mapping[str, str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of an .npz file by name; those named in `kinds` have these kinds of NumPy where they are there.

    No pickle is read.
    """
    refuse_endless(path)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            found = {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise damaged(path, error, fix) from error
    for name, kind in (kinds or {}).items():
        if name in found and (found[name].dtype.kind not in kind or found[name].ndim == 0):
            raise damaged(path, f"{name} holds {found[name].dtype} {list(found[name].shape)}", fix)
    return found


@contextmanager
def reading(path: Path, fix: str) -> Iterator[None]:
    """Refuse a file by its name where what is done inside fails because it is not what was written."""
    refuse_endless(path)
    try:
        yield
    except ThresherError:
        raise
    except (*UNREADABLE, IndexError, AttributeError, ArithmeticError) as error:
        raise damaged(path, error, fix) from error
