"""The column of corrected labels beside that of the given ones."""

from collections.abc import Collection, Sequence

CORRECTED = "_corrected"  # ends its name


def targets_and_twins(targets: Sequence[str], columns: Collection[str]) -> tuple[str, ...]:
    """The target columns, and of `x` and `x_corrected` the other one, which would tell nearly all labels.

    >>> targets_and_twins(["kind_corrected"], ["length", "kind", "kind_corrected"])
    ('kind_corrected', 'kind')
    """
    both = [f"{target.removesuffix(CORRECTED)}{end}" for target in targets for end in ("", CORRECTED)]
    return tuple(dict.fromkeys([*targets, *(column for column in both if column in columns)]))


def column_in(target: str, columns: Collection[str]) -> str:
    """The column of the targets in another file: of `x_corrected` it is `x` in one that was never corrected.

    >>> column_in("kind_corrected", ["length", "kind"]), column_in("kind_corrected", ["kind", "kind_corrected"])
    ('kind', 'kind_corrected')
    """
    given = target.removesuffix(CORRECTED)
    return given if target not in columns and given in columns else target
