"""One answer for each example, from all that people gave: a class by the majority, a number by the median."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from thresher.app.annotate.votes import Vote
from thresher.core.errors import ThresherError, shortened, unknown

MOST_NAMED = 5  # ids that a message names before it counts the rest


@dataclass(frozen=True)
class Settled:
    """One label for each answered id, the name of a class or a number as text, and warnings where people disagree."""

    answers: Mapping[int, str]
    warnings: tuple[str, ...]


def settle(
    votes: Sequence[Vote],
    asked: Collection[int],
    class_names: Sequence[str] | None,
    source: str,
    among: str = "the pool",
) -> Settled:
    """One label an id, with a warning where votes disagree: the majority, of which a tie stays open.

    Without class names the answers are numbers, of which the median counts. Of two votes of one annotator on an example
    the later counts.

    >>> votes = [Vote(7, "dog", "a"), Vote(7, "cat", "b"), Vote(7, "dog", "c")]
    >>> settle(votes, {7}, ["cat", "dog"], "answers.json").answers
    {7: 'dog'}
    >>> settle([Vote(7, "3", "a"), Vote(7, "8", "b"), Vote(7, "4.5", "c")], {7}, None, "answers.json").answers
    {7: '4.5'}
    """
    unknown_ids = sorted({vote.id for vote in votes} - set(asked))
    if unknown_ids:
        raise ThresherError(f"{source} answers {named(unknown_ids)}, not in {among} of this run: remove them.")
    counted, changed = _counted(votes, _numbers(source) if class_names is None else _classes(class_names, source))
    answers, outvoted, open_ = dict[int, str](), [], []
    for id_, labels in counted.items():
        (first, most), *others = Counter(labels).most_common()
        if others and class_names is not None and others[0][1] == most:
            open_.append(id_)
            continue
        answers[id_] = first if class_names is not None else repr(median(labels))
        if others:
            outvoted.append(id_)
    said = {
        "One annotator labelled {} twice; the later label counts.": changed,
        f"Annotators disagree on {{}}; the {'median' if class_names is None else 'majority'} counts.": outvoted,
        "Annotators disagree on {} without a majority; these stay open and can be asked again.": open_,
    }
    return Settled(answers, tuple(words.format(named(ids)) for words, ids in said.items() if ids))


def _counted(votes: Sequence[Vote], read: Callable[[Vote], Any]) -> tuple[dict[int, list[Any]], list[int]]:
    """The labels that each id was given, one an annotator, and the ids on which an annotator changed the label."""
    given: dict[int, dict[Any, Any]] = {}
    changed: dict[int, None] = {}
    for place, vote in sorted(enumerate(votes), key=lambda each: each[1].at):  # exports may begin with the latest
        by_annotator, label = given.setdefault(vote.id, {}), read(vote)
        if by_annotator.setdefault(vote.by or place, label) != label:
            changed[vote.id] = None
        by_annotator[vote.by or place] = label
    return {id_: list(labels.values()) for id_, labels in given.items()}, list(changed)


def _classes(class_names: Sequence[str], source: str) -> Callable[[Vote], str]:
    """The class that a vote names; blanks around a name matter only where two classes differ in nothing else."""
    known = {name.strip(): name for name in class_names} | {name: name for name in class_names}

    def read(vote: Vote) -> str:
        label = vote.label if vote.label in known else vote.label.strip()
        if label not in known:
            raise ThresherError(
                f"{source} says '{shortened(label)}' of id {vote.id}. {unknown('class', label, class_names)}"
            )
        return known[label]

    return read


def _numbers(source: str) -> Callable[[Vote], float]:
    """The number that a vote gives."""

    def read(vote: Vote) -> float:
        try:
            number = float(vote.label)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ThresherError(
                f"{source} says '{shortened(vote.label)}' of id {vote.id}, which is no number: "
                "write it with digits and a point."
            )
        return number

    return read


def named(ids: Sequence[int]) -> str:
    """Ids for a message, the first few of them listed.

    >>> named([3]), named(range(9))
    ('id 3', 'ids 0, 1, 2, 3, 4 and 4 more')
    """
    first = ", ".join(map(str, ids[:MOST_NAMED]))
    more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    return f"id{'s' if len(ids) > 1 else ''} {first}{more}"
