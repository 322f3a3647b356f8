"""The audit: every example gets a verdict from judges that did not see its target."""

from collections.abc import Callable
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from thresher.auditing import targets as real
from thresher.auditing.classes import Hearing, checked_probabilities, judged_as_table, judged_by_neighbours
from thresher.auditing.combine import MARGIN_IN_COUNTS, combined, trust_of
from thresher.auditing.duplicates import Alike, across_labels, copies_in, digests, equal, similar, similar_in
from thresher.auditing.findings import Facts, issues_of_classes, issues_of_targets
from thresher.auditing.given import Given, as_given, refuse_other_settings
from thresher.auditing.judges import forest, refuse_without_probabilities, split_into_folds, values_of
from thresher.auditing.neighbours import Nearest, feature_space, nearest
from thresher.auditing.networks import Watch, as_flat_inputs, judged_by_networks
from thresher.auditing.store import Store, refuse_other_folder
from thresher.core.errors import (
    ThresherError,
)  # fmt: skip
from thresher.core.examples import Examples
from thresher.core.tasks import CLASSES, REAL
from thresher.data.features import real_numbers
from thresher.door import fit
from thresher.engine.device.placement import find_device
from thresher.engine.settings import TrainSettings, changed
from thresher.engine.store.about import checksum, describe
from thresher.methods import AUTO
from thresher.models import NamedModel, model_for
from thresher.noise import residual_rate
from thresher.noise.noise_matrix import cautious_matrix
from thresher.record.issues import Issues
from thresher.record.outcome import keep_worst
from thresher.record.run_folder import AUDIT

Array = NDArray[Any]
Tell = Callable[[str], Watch | None]
EPOCHS = 20  # of the run that is left behind, where none are chosen; folds take half of them
NEIGHBOURS = 20
FINAL = AUTO  # the method of the run that an audit leaves behind
MOST_NOISE = 0.9  # that a method is told


def audit(
    data: Any,
    y: Any = None,
    *,
    estimator: Any = None,
    model: str | Callable[[], nn.Module] = "auto",
    target: str | None = None,
    test: Any = None,
    probabilities: Any = None,
    features: Any = None,
    groups: Any = None,
    folds: int = 5,
    method: str | None = FINAL,
    out: Path | str | None = None,
    seed: int = 0,
    tell: Tell | None = None,
    **settings: Any,
) -> Issues:
    """Find the examples whose targets look wrong: a verdict for every one, from judges that did not see its target.

    data      what `fit` takes; or X, with its labels or real targets as y
    estimator  a scikit-learn classifier or regressor that judges, out of fold, instead of those chosen here
    model     a network for the folds, by name or as a function that makes it; "auto": one for images, none for vectors
    probabilities, features  class probabilities [n, classes] from models that did not see the labels, and embeddings
              [n, d]: with either, no network is trained
    groups    a value an example, or the name of a column: examples of one group stay in one fold
    out       a folder for issues.csv, issues.parquet, issues.json and a run; an interrupted audit goes on there
    method    that of the run, which trains on all examples and tolerates the noise that was found; None: no run
    tell      called with the name of every stage; what it returns, if anything, watches a training
    settings  those of training: epochs=30, batch=64, ...

    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[:3] = 1 - y[:3]
    >>> sorted(audit(X, y).column("id")[:3].tolist())
    [0, 1, 2]
    """
    refuse_other_settings(estimator, model, {"out": out, "tell": tell, "method": method})
    if out is not None and method is not None:
        refuse_other_folder(Path(out))
    given = as_given(data, y, target, test, groups)
    tell = tell or (lambda stage: None)  # noqa: ARG005
    how = changed(TrainSettings(epochs=None if "steps" in settings else EPOCHS, seed=seed), settings)
    examples = given.examples
    if examples.task not in (CLASSES, REAL):
        raise ThresherError(
            f"An audit judges classes and real targets, not {examples.task} ones: read a run's trust()."
        )
    about = {
        "examples": checksum(examples), "folds": folds, "estimator": repr(estimator),
        "model": model if isinstance(model, str) else "own",
        "settings": {own.name: describe(getattr(how, own.name)) for own in fields(how) if own.metadata["identifies"]},
        "probabilities": _digest(probabilities), "features": _digest(features), "groups": _digest(given.groups),
    }  # fmt: skip
    store = Store(None if out is None else Path(out) / AUDIT, about)
    judge = _Judge(given, estimator, model, probabilities, features, folds, how, store, tell)
    issues = judge.of_targets() if examples.is_regression else judge.of_classes()
    if out is not None:
        store.begin()
        tell("writing issues")
        issues.write(Path(out))
        keep_worst(Path(out), examples, issues.column("id").tolist())
        if method is not None:
            _leave_run(method, given, model, issues, Path(out), how, tell)
    return issues


class _Judge:
    """The settings of one audit."""

    def __init__(
        self, given: Given, estimator: Any, model: Any, probabilities: Any, features: Any, folds: int,
        how: TrainSettings, store: Store, tell: Tell,
    ):  # fmt: skip
        self.given, self.examples = given, given.examples
        self.estimator, self.model, self.probabilities, self.features = estimator, model, probabilities, features
        self.folds, self.how, self.store, self.tell = folds, how, store, tell
        self.inputs = as_flat_inputs(self.examples) if features is None else _embeddings(features, len(self.examples))
        if isinstance(model, nn.Module):
            raise ThresherError("An audit takes several trainings: pass a function that makes the model.")

    def of_classes(self) -> Issues:
        labels, classes = self.examples.labels.cpu().numpy(), self.examples.outputs
        parts = split_into_folds(labels, self.folds, self.how.seed, self.given.groups)
        told = None  # looked at before anything that takes time
        if self.probabilities is not None:
            told = checked_probabilities(self.probabilities, len(labels), classes)
        near = self.neighbours()
        judged: dict[str, Array] = judged_by_neighbours(near, labels, classes)
        votes: Array | None = judged["neighbours"]
        dynamics = None
        hearing = Hearing(self.inputs, labels, classes, parts, self.how.seed, self.store, self.tell)
        if told is not None:
            judged["given"] = told
            votes = votes if self.features is not None else None  # pixels that are alike would contradict right labels
        elif self.estimator is not None:
            refuse_without_probabilities(self.estimator)
            judged["estimator"] = hearing.fitted("estimator", self.estimator, self.given.raw)
        elif self.uses_network():
            seen = self.network(parts)
            dynamics = seen["dynamics"]
            judged |= {"network": seen["outputs"], "network's neighbours": seen["votes"]}
            judged["forest"] = hearing.fitted("forest", forest(self.how.seed))
        elif self.features is not None:
            judged["linear"] = hearing.linear()
        else:
            judged |= judged_as_table(hearing)
        found = combined(judged, labels)
        matrix = cautious_matrix(found.probabilities, labels)
        trust = trust_of(found.probabilities, labels, matrix, dynamics)
        cautious = trust_of(found.probabilities, labels, matrix, dynamics, MARGIN_IN_COUNTS)
        return issues_of_classes(self.facts(trust, near, found.strengths), found.probabilities, votes, cautious)

    def of_targets(self) -> Issues:
        targets = self.examples.targets.cpu().double().numpy()
        parts = split_into_folds(targets, self.folds, self.how.seed, self.given.groups)
        near, judged = self.neighbours(), dict[str, Array]()
        if self.estimator is not None:
            asked = {"estimator": self.estimator}
        else:
            asked = real.regressors(self.how.seed)
            if self.uses_network():
                judged["network"] = self.network(parts)["outputs"]
        inputs = self.inputs if self.estimator is None or self.given.raw is None else self.given.raw
        for name, each in asked.items():
            judged[name] = self.values(name, each, inputs, targets, parts)
        values, strengths = real.combined_values(judged, targets)
        rate = residual_rate((targets - values) / real.expected(values, targets, near).deviations)
        values = real.centred(values, targets)
        found = real.expected(values, targets, near, 0.0 if rate.rate is None else rate.low)
        trust = real.trust_of_targets(found, targets)
        columns = real.columns_of(found, targets, lambda each: self.examples.as_given(torch.as_tensor(each)))
        wrong = real.suspect_targets(trust, rate)
        return issues_of_targets(self.facts(trust, near, strengths), columns, rate, wrong)

    def values(self, name: str, estimator: Any, inputs: Any, targets: Array, parts: Any) -> Array:
        def asked() -> dict[str, Array]:
            self.tell(name)
            return {"values": values_of(estimator, inputs, targets, parts)}

        return self.store(name, asked, {"values": targets.shape})["values"]

    def uses_network(self) -> bool:
        if self.features is not None and self.model == "auto":
            return False
        return self.model != "auto" or len(self.examples.input_shape) > 1

    def network(self, parts: Any) -> dict[str, Array]:
        def trained() -> dict[str, Array]:
            seen = judged_by_networks(
                self.examples, _maker(self.model, self.examples, self.how), parts, _half(self.how), self.store.folder,
                lambda fold: self.tell(f"fold {fold + 1} of {len(parts)}"),
            )  # fmt: skip
            return {name: each for name, each in seen._asdict().items() if each is not None}

        count, wide = len(self.examples), (len(self.examples), self.examples.outputs)
        votes = {} if self.examples.is_regression else {"votes": wide}
        return self.store("network", trained, {"outputs": wide, "dynamics": (count,)} | votes)

    def neighbours(self) -> Nearest:
        self.tell("neighbours")
        return nearest(feature_space(self.inputs), NEIGHBOURS)

    def facts(self, trust: Array, near: Nearest, strengths: dict[str, float]) -> Facts:
        marks = digests(self.examples)
        alike = equal(marks)
        alike += similar(near, alike)
        across = [] if self.given.test is None else self.in_test_set_too(self.given.test, marks, near)
        summary = {
            "duplicates": [*_told(alike, self.examples), *_told(across, self.examples, "sets")],
            "method": ", ".join(strengths),
            "why": "judged out of sample; how far each counts: "
            + ", ".join(f"{name} {strength:.2f}" for name, strength in strengths.items()),
        }
        return Facts(self.examples, trust, near, alike, summary)

    def in_test_set_too(self, test: Examples, marks: list[bytes], near: Nearest) -> list[Alike]:
        """Examples that the test set has too: the same bytes, or nearly the same inputs if there are no features."""
        found = copies_in(marks, digests(test))
        if self.features is not None:
            return found
        both = feature_space(np.concatenate([self.inputs, as_flat_inputs(test)]))
        count = len(self.inputs)
        return found + similar_in(nearest(both[:count], 1, both[count:]), near, found)


def _digest(values: Any) -> str | None:
    """A hash of what was given beside the examples."""
    found = None if values is None else np.ascontiguousarray(values)
    if found is None or found.dtype.kind not in "biufU":
        return None if found is None else blake2b(repr(found.tolist()).encode(), digest_size=16).hexdigest()
    return blake2b(found.tobytes() + str((found.dtype, found.shape)).encode(), digest_size=16).hexdigest()


def _embeddings(features: Any, examples: int) -> Array:
    try:
        found = real_numbers(features, np.float32)
    except (TypeError, ValueError) as error:
        raise ThresherError(f"The features are no numbers ({error}): give [{examples}, d].") from error
    if found.ndim < 2 or len(found) != examples or not found.size:
        raise ThresherError(f"The features have the shape {list(found.shape)}: give [{examples}, d].")
    if not np.isfinite(found).all():
        raise ThresherError("The features are NaN or infinite for some examples: embed those again, or leave them out.")
    return found.reshape(examples, -1)


def _told(groups: list[Alike], examples: Examples, across: str | None = None) -> list[dict[str, Any]]:
    """Groups as JSON has them, by ids."""
    ids = examples.ids.cpu().numpy()
    labels = examples.targets[:, 0].cpu().numpy() if examples.is_regression else examples.labels.cpu().numpy()
    return [
        {
            "ids": ids[group.places].tolist(),
            "exact": group.exact,
            "across": across or ("labels" if across_labels(group, labels) else None),
        }
        for group in groups
    ]


def _maker(model: Any, examples: Examples, how: TrainSettings) -> Callable[[], nn.Module]:
    if not isinstance(model, str):
        made: Callable[[], nn.Module] = model
        return made
    name = model_for(examples, find_device(how.device)) if model == "auto" else model
    return NamedModel(name, examples.input_shape, examples.outputs)


def _half(how: TrainSettings) -> TrainSettings:
    """The settings of a fold, half as long: later, networks have memorised wrong labels."""
    if how.epochs is None:
        return replace(how, steps=max(1, (how.steps or 0) // 2))
    return replace(how, epochs=max(1, how.epochs // 2))


def _leave_run(
    method: str, given: Given, model: Any, issues: Issues, out: Path, how: TrainSettings, tell: Tell
) -> None:
    """Train on all examples in the same folder, by a method that tolerates the rate that was found."""
    fit(
        method, model, given.examples, noise_rate=rate_to_assume(issues), test=given.test, out=out, settings=how,
        watch=tell("the final model"),
    )  # fmt: skip


def rate_to_assume(issues: Issues) -> float | str:
    """The noise rate that an audit found, for `fit`: "auto" where it cannot be told."""
    rate: float | None = issues.summary["noise_rate"]["rate"]
    return "auto" if rate is None else round(min(rate, MOST_NOISE), 4)
