"""The error for wrong input: one sentence that names the fix; also for values of a wrong kind and missing packages."""

import inspect
import math
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache, wraps
from importlib.util import find_spec
from numbers import Integral, Real
from os import PathLike
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

PACKAGES = {"PIL": "pillow", "vl_convert": "vl-convert-python"}  # modules whose package has another name

WORDS: dict[Any, str] = {
    float: "a number", int: "a whole number", bool: "True or False", str: "a text", tuple: "a tuple",
    Sequence: "a list", Mapping: "a dictionary", Callable: "a function",
}  # fmt: skip
Made = TypeVar("Made", bound=Callable[..., Any])
Kind = tuple[Callable[[Any], bool], str]  # whether a value is of it, and what to give instead of others


class ThresherError(ValueError):
    """Wrong input: the message is one sentence that names the fix; the command line exits with 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> ThresherError:
    """The error for a name that is not known, with the nearest one that is.

    >>> print(unknown("corruption", "symetric", ["pairflip", "symmetric"]))
    There is no corruption 'symetric': did you mean 'symmetric'? (known: pairflip, symmetric)
    """
    choices, shown = sorted(known), shortened(name)
    listed = ", ".join(choices)
    near = get_close_matches(shown, choices, n=1)
    if near:
        return ThresherError(f"There is no {kind} '{shown}': did you mean '{near[0]}'? (known: {listed})")
    return ThresherError(f"There is no {kind} '{shown}': choose one of {listed}.")


def shortened(text: str, most: int = 80) -> str:
    """The text, or its beginning where it is too long for a sentence.

    >>> shortened("symmetric"), shortened("symmetric", most=6)
    ('symmetric', 'sym...')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def needs_extra(what: str, extra: str, *modules: str, otherwise: str = "") -> None:
    """Refuse, where one of these modules is not installed; none of them is imported. `otherwise` is another way out.

    >>> needs_extra("The report", "report", "json", "no_such_module")
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: The report needs no_such_module: pip install 'thresher[report]'.
    """
    for module in modules:
        if find_spec(module) is None:
            fix = f"pip install 'thresher[{extra}]'" + (f", or {otherwise}" if otherwise else "")
            raise ThresherError(f"{what} needs {PACKAGES.get(module, module)}: {fix}.")


def printable(text: str) -> str:
    """The text with escapes in place of characters that would steer a terminal or cannot be encoded.

    >>> print(printable(chr(27) + "[31mred"))
    \\x1b[31mred
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class raised_in:  # noqa: N801  # used like a function: with raised_in("the objective")
    """Errors of other people's code pass through, with a note of where they were raised.

    >>> try:
    ...     with raised_in("the objective"):
    ...         raise KeyError("mine")
    ... except KeyError as error:
    ...     print(error.__notes__)
    ['Raised in the objective.']
    """

    def __init__(self, stage: str | Callable[[], str]):
        self.stage = stage

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            note_stage(error, self.stage)


def note_stage(error: Exception, stage: str | Callable[[], str]) -> None:
    """Add to an error where it was raised, unless it is a ThresherError, which names the fix."""
    if not isinstance(error, ThresherError):
        error.add_note(f"Raised in {stage if isinstance(stage, str) else stage()}.")


def refuse_unless(name: str, value: object, fits: bool, wanted: str) -> None:
    """Refuse a value that is not what is wanted.

    >>> refuse_unless("until", 3, False, "a function of an epoch's record")
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: until=3 is a value of type int: give a function of an epoch's record.
    """
    if not fits and isinstance(value, Real) and value != value:
        raise ThresherError(f"{name}={value} is not a number: give {wanted}.")
    if not fits:
        shown = repr(value)
        told = f"{name}={shown} is a value" if len(shown) <= 40 and "\n" not in shown else f"{name} is a value"
        raise ThresherError(f"{told} of type {type(value).__name__}: give {wanted}.")


def refuse_other_kinds(kinds: Mapping[str, Kind], given: Mapping[str, object]) -> None:
    """Refuse the first value that is not of the kind that this table has under its name.

    >>> refuse_other_kinds({"count": whole(1)}, {"count": "3"})
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: count='3' is a value of type str: give a whole number of at least 1.
    """
    for name, value in given.items():
        fits, wanted = kinds[name]
        refuse_unless(name, value, fits(value), wanted)


def whole(at_least: int) -> Kind:
    return lambda each: is_whole(each, at_least), f"a whole number of at least {at_least}"


def function_of(count: int, wanted: str) -> Kind:
    """What can be called with so many arguments."""
    return lambda each: takes(each, count), wanted


def or_none(kind: Kind) -> Kind:
    fits, wanted = kind
    return lambda each: each is None or fits(each), wanted


def refuse_class(name: str, value: object) -> None:
    """Refuse a class where a value made by it is wanted."""
    if isinstance(value, type):
        raise ThresherError(f"{name}={value.__name__} is a class: make a value of it first, as {value.__name__}(...).")


def refuse_endless(path: PathLike[str] | str) -> None:
    """Refuse a pipe or a device, which may never end; of PATH:COLUMN the path is looked at."""
    for each in {str(path), str(path).rpartition(":")[0]}:
        try:
            kind = os.stat(each).st_mode
        except (OSError, ValueError):  # no file, or no path at all
            continue
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise ThresherError(f"{each} is a pipe or a device, which may never end: give a file or a folder.")


def free_memory() -> int:
    """The bytes that this machine could still give, what it holds only to read files sooner included."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            told = next(line for line in file if line.startswith("MemAvailable"))
        return 1024 * int(told.split()[1])
    except (OSError, StopIteration):  # another system
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def refuse_beyond_memory(size: float, what: str, fix: str) -> None:
    """Refuse what would take more bytes than there are.

    >>> refuse_beyond_memory(1e18, "a.csv", "leave out columns")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: a.csv would take 1,000,000,000 GB, more than ... GB: leave out columns.
    """
    free = free_memory()
    if size > free:
        shown = f"{size / 1e9:,.0f} GB, more than this machine's free {free / 1e9:,.0f} GB"
        raise ThresherError(f"{what} would take {shown}: {fix}.")


def is_number(value: object) -> bool:
    """Whether this is a finite real number, NumPy's and truth values apart."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object, at_least: int) -> bool:
    """Whether this is a whole number of at least so much."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least


def takes(function: object, count: int) -> bool:
    """Whether this can be called with so many arguments, as far as its signature says."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some functions written in C say nothing
        return True
    return True


def checked(function: Made) -> Made:
    """The function, or the class, whose arguments are looked at first.

    >>> @checked
    ... def half(value: float) -> float:
    ...     return value / 2
    >>> half("3")
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: value='3' is a value of type str: give a number.
    """
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)  # type: ignore[misc]
        return function
    takes = inspect.signature(function)

    @wraps(function)
    def asked(*given: Any, **named: Any) -> Any:
        refuse_other_values(_kinds(function), takes.bind(*given, **named).arguments)
        return function(*given, **named)

    return asked  # type: ignore[return-value]


def refuse_other_values(kinds: Mapping[str, tuple[type, ...]], values: Mapping[str, Any]) -> None:
    """Refuse the first value that is none of its kinds, NaN among numbers."""
    for name, value in values.items():
        if name in kinds:
            wanted = [WORDS.get(kind, f"a {kind.__name__.lower()}") for kind in kinds[name] if kind is not NoneType]
            refuse_unless(name, value, any(_is_of(kind, value) for kind in kinds[name]), " or ".join(wanted))


def refuse_other_fields(made: object) -> None:
    """Refuse a dataclass with fields of other kinds than it says."""
    if is_dataclass(made):
        told: Any = type(made)
        kinds = _kinds(told)
        refuse_other_values(kinds, {name: getattr(made, name) for name in kinds})


@cache
def _kinds(told: Any) -> dict[str, tuple[type, ...]]:
    """Of each argument that is annotated by classes alone, those; what containers hold may be anything."""
    if isinstance(told, type):
        hints = {each.name: each.type for each in fields(told) if each.init}
    else:
        hints = {each.name: each.annotation for each in inspect.signature(told).parameters.values()}
    each_of = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}
    found = {name: tuple(get_origin(kind) or kind for kind in kinds) for name, kinds in each_of.items()}
    return {name: kinds for name, kinds in found.items() if all(map(_is_plain, kinds))}


def _is_plain(kind: Any) -> bool:
    return isinstance(kind, type) and kind not in (Any, object, inspect.Parameter.empty)


def _is_of(kind: type, value: Any) -> bool:
    if kind in (float, int):
        number = isinstance(value, Real if kind is float else Integral)
        return number and not isinstance(value, bool) and value == value
    if kind in (tuple, Sequence):
        return isinstance(value, Sequence) and not isinstance(value, str)
    return isinstance(value, kind)


FOLDER: Kind = (lambda each: isinstance(each, str | PathLike) and str(each) != "", "the path of a folder")
SEED: Kind = (lambda each: isinstance(each, Integral) and not isinstance(each, bool), "a whole number")
