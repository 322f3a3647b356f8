"""The error for a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

from thresher.core.errors import ThresherError


def unknown(kind: str, name: str, known: Iterable[str]) -> ThresherError:
    """The error for a name that is not known, with the nearest one that is.

    >>> print(unknown("corruption", "symetric", ["pairflip", "symmetric"]))
    There is no corruption 'symetric': did you mean 'symmetric'? (known: pairflip, symmetric)
    """
    choices = sorted(known)
    listed = ", ".join(choices)
    near = get_close_matches(name, choices, n=1)
    if near:
        return ThresherError(f"There is no {kind} '{name}': did you mean '{near[0]}'? (known: {listed})")
    return ThresherError(f"There is no {kind} '{name}': choose one of {listed}.")
