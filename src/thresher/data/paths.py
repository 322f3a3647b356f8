"""Names of data: a path or a known name, and what may follow it after a colon."""

from pathlib import Path


def path_and_option(name: str) -> tuple[str, str]:
    """The path or known name, and the option after it: `photos:64`, `table.csv:COLUMN`.

    Where files or folders have a colon in their own names, the longest path that exists is meant.

    >>> path_and_option("blobs:2000,5"), path_and_option("digits")
    (('blobs', '2000,5'), ('digits', ''))
    """
    parts = name.split(":")
    for count in range(len(parts), 1, -1):
        base = ":".join(parts[:count])
        if Path(base).expanduser().exists():
            return base, ":".join(parts[count:])
    return parts[0], ":".join(parts[1:])
