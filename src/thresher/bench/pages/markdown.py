"""Numbers and tables as Markdown, for the pages of the docs."""

from collections.abc import Sequence

from thresher.bench.compare.rows import Mean


def table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "x | y"]]))
    | a | b |
    |---|---|
    | 1 | x \\| y |
    """
    rows = [heads, *body]
    written = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]
    return "\n".join([written[0], "|" + "---|" * len(heads), *written[1:]])


def with_spread(found: Mean | None, digits: int) -> str:
    """A mean and its deviation as text.

    >>> with_spread(Mean(92.53, 1.26), 1)
    '92.5 ± 1.3'
    """
    if found is None:
        return ""
    return f"{found.value:.{digits}f}" + ("" if found.spread is None else f" ± {found.spread:.{digits}f}")
