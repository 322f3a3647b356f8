"""Who judges labels, and what they say about every example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.auditing import judges
from thresher.auditing.combine import given_of, log_of
from thresher.auditing.neighbours import Nearest, votes
from thresher.auditing.store import Store
from thresher.data.features import real_numbers

Array = NDArray[Any]
Parts = Sequence[tuple[Array, Array]]
MOST_COLUMNS_TO_BOOST, MOST_CLASSES_TO_BOOST = 100, 12  # boosting grows a tree a class, round and fold


@dataclass(frozen=True, eq=False)
class Hearing:
    """What judges are asked about: inputs as vectors [n, d], their labels [n], and who is fitted on whom."""

    inputs: Any
    labels: Array
    classes: int
    parts: Parts
    seed: int
    store: Store
    tell: Callable[[str], Any]

    def ask(self, name: str, make: Callable[[], Array]) -> Array:
        """What this judge says [n, classes], or has said before."""

        def asked() -> dict[str, Array]:
            self.tell(name)
            return {"probabilities": make()}

        return self.store(name, asked, {"probabilities": (len(self.labels), self.classes)})["probabilities"]

    def fitted(self, name: str, estimator: Any, inputs: Any = None) -> Array:
        """Out-of-fold probabilities by copies of an estimator."""
        given = self.inputs if inputs is None else inputs
        return self.ask(name, lambda: judges.probabilities_of(estimator, given, self.labels, self.classes, self.parts))

    def linear(self) -> Array:
        """The linear head, of the strength that foretells the labels best."""

        def best() -> Array:
            found = [
                judges.probabilities_of(judges.linear_head(each), self.inputs, self.labels, self.classes, self.parts)
                for each in judges.STRENGTHS
            ]
            return max(found, key=lambda each: float(given_of(log_of(each), self.labels).mean()))

        return self.ask("linear", best)


def judged_as_table(hearing: Hearing) -> dict[str, Array]:
    """Trees, a linear model, and boosting where it is quick."""
    found = {"forest": hearing.fitted("forest", judges.forest(hearing.seed)), "linear": hearing.linear()}
    if hearing.classes <= MOST_CLASSES_TO_BOOST and hearing.inputs.shape[1] <= MOST_COLUMNS_TO_BOOST:
        found["boosting"] = hearing.fitted("boosting", judges.boosting(hearing.seed))
    return found


def judged_by_neighbours(near: Nearest, labels: Array, classes: int) -> dict[str, Array]:
    """The votes of the nearest others."""
    return {"neighbours": votes(near, labels, classes)}


def checked_probabilities(given: Any, examples: int, classes: int) -> Array:
    """Probabilities from elsewhere [n, classes]; each row is made to sum to 1."""
    from thresher.core.errors import ThresherError

    try:
        found = real_numbers(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ThresherError(f"The probabilities are no numbers ({error}): give [{examples}, {classes}].") from error
    if found.shape != (examples, classes):
        raise ThresherError(
            f"The probabilities have the shape {list(found.shape)}: give [{examples}, {classes}], a row for every "
            "example in the order of the data and a column for every class."
        )
    if not np.isfinite(found).all() or (found < 0).any() or (found.sum(1) <= 0).any():
        raise ThresherError("The probabilities are negative, missing or all zero: give numbers from 0 to 1.")
    return np.asarray(found / found.sum(1, keepdims=True))
