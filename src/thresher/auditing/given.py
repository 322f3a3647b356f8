"""What an audit is given, as one set of all examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.auditing.judges import is_pandas
from thresher.core.errors import (
    FOLDER,
    Kind,
    ThresherError,
    function_of,
    or_none,
    refuse_class,
    refuse_other_kinds,
    refuse_unless,
)  # fmt: skip
from thresher.core.examples import Examples
from thresher.core.joining import join
from thresher.data.given import as_examples, examples_like
from thresher.data.splits import Splits, is_held_out
from thresher.methods import AUTO
from thresher.methods import method as by_name
from thresher.models.given import refuse_no_model

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Given:
    """The examples to audit, those to test on, and what an estimator of the user's own takes as X."""

    examples: Examples
    test: Examples | None
    raw: Any  # None where the examples' inputs are all there is
    groups: Array | None


def as_given(data: Any, y: Any, target: str | None, test: Any, groups: Any) -> Given:
    """All examples of the data: where a loader held some out for testing, they come back."""
    raw, kept = None, _group_values(data, groups)
    if y is not None:
        raw = data if is_pandas(data) else np.asarray(data)
        data, target = _with_target(data, y)
    elif isinstance(groups, str) and is_pandas(data):
        data = data.drop(columns=[groups])
    if isinstance(data, Splits):
        data, apart = whole(data)
        test = apart if test is None else test
    examples = as_examples(data, target=target)
    if examples.classes is not None and int((examples.labels.bincount() > 0).sum()) < 2:
        raise ThresherError("The data have examples of one class only: give examples of at least two.")
    if examples.is_regression and bool((examples.targets == examples.targets[0]).all()):
        raise ThresherError("The data have the same target everywhere, so none can look wrong: give others.")
    if isinstance(groups, str) and kept is None:
        if groups not in examples.columns:
            raise ThresherError(f"The data have no column {groups}: give groups= as an array, one value an example.")
        kept = examples.columns[groups].cpu().numpy()
    if kept is not None and len(kept) != len(examples):
        raise ThresherError(f"There are {len(kept)} groups for {len(examples)} examples: give one an example.")
    return Given(examples, examples_like(examples, test, target, "the test set"), raw, kept)


def whole(splits: Splits) -> tuple[Examples, Examples | None]:
    """The training set, and the test set where it is one of its own; else both as one set, in the order of their ids.

    >>> import torch
    >>> one = Examples(torch.zeros(5, 1), torch.tensor([0, 1, 0, 1, 0]))
    >>> examples, test = whole(Splits(one.subset([0, 1, 3, 4]), one.subset([2])))
    >>> examples.ids.tolist(), test
    ([0, 1, 2, 3, 4], None)
    """
    if not is_held_out(splits):
        return splits.train, splits.test
    both = join(splits.train, splits.test)
    return both.subset(both.ids.argsort()), None


def _with_target(inputs: Any, y: Any) -> tuple[Any, str | None]:
    if is_pandas(inputs):
        name = getattr(y, "name", None) or "target"
        name = name if name not in inputs.columns else f"{name} (given)"
        return inputs.assign(**{name: np.asarray(y)}), name
    return (inputs, y), None


def _group_values(data: Any, groups: Any) -> Array | None:
    if isinstance(groups, str) and is_pandas(data) and groups not in data.columns:
        raise ThresherError(f"The data have no column {groups}: give groups= as an array, one value an example.")
    if groups is None or isinstance(groups, str):
        return np.asarray(data[groups]) if groups is not None and is_pandas(data) else None
    return np.asarray(groups)


KINDS: dict[str, Kind] = {
    "out": or_none(FOLDER),
    "tell": or_none(function_of(1, "a function of a stage's name")),
    "method": or_none((lambda each: isinstance(each, str), "the name of a method")),
}


def refuse_other_settings(estimator: Any, model: Any, given: Mapping[str, Any]) -> None:
    """Refuse what is of a wrong kind, or would fail after the judges have been asked."""
    refuse_class("estimator", estimator)
    judges = estimator is None or all(callable(getattr(estimator, name, None)) for name in ("fit", "get_params"))
    refuse_unless("estimator", estimator, judges, "a scikit-learn classifier or regressor")
    refuse_other_kinds(KINDS, given)
    if given["method"] not in (None, AUTO):
        by_name(given["method"])
    if not isinstance(model, str):
        refuse_no_model(model)
