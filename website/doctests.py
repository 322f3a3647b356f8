"""Docstrings as Markdown: doctests and aligned lists of parameters become blocks, the rest stays text."""

import re
from typing import Any

import griffe

ALIGNED = re.compile(r"^\S.*\S {2,}\S", re.MULTILINE)


class Doctests(griffe.Extension):
    """Rewrites every docstring that the reference shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """The docstring as Markdown.

    >>> as_markdown("Adds.\\n\\nleft  a number\\n\\n>>> add(1, 2)\\n3")
    'Adds.\\n\\n```text\\nleft  a number\\n```\\n\\n```pycon\\n>>> add(1, 2)\\n3\\n```'
    """
    parts = []
    for part in re.split(r"\n{2,}", docstring.strip()):
        kind = "pycon" if part.lstrip().startswith(">>>") else "text" if ALIGNED.search(part) else ""
        parts.append(f"```{kind}\n{part}\n```" if kind else part)
    return "\n\n".join(parts)
