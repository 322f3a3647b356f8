"""Consoles that print what they are given: square brackets and colons in names and paths are no markup."""

from typing import Any

from rich.console import Console


def plain_console(**options: Any) -> Console:
    """A console for results; with stderr=True for what is said beside them."""
    return Console(highlight=False, markup=False, emoji=False, **options)
