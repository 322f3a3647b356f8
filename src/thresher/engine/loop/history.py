"""What an epoch leaves: rows for the examples it did not visit, one record for the history, and scores."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thresher.core.evidence import Evidence
from thresher.core.examples import Examples
from thresher.core.signals import loss
from thresher.core.tasks import CLASSES, LABELS, POSITIONS, REAL, share_right
from thresher.engine.loop.scores import label_scores, position_scores, r_squared, robust_scores
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.step.learner import Learner, evaluating
from thresher.engine.store.checkpoint import Record
from thresher.record.epoch_rows import EpochRows, Note, residual_belief

LISTED = 1000  # classes whose recalls the record of an epoch lists: of 10,000 they would take 200 kB
Columns = Mapping[str, np.ndarray[Any, Any]]
Truth = np.ndarray[Any, np.dtype[np.bool_]]


def fill_unseen(
    rows: EpochRows,
    learner: Learner,
    train: Examples,
    sweeper: Sweeper,
    weights: Tensor | None,
    seen: Evidence | None,
    blended: bool,
) -> Columns:
    """The epoch's columns [n] on the host; examples that no step visited are filled in from a sweep.

    Where steps see nothing but `blended` inputs, all examples are. `seen` is evidence of the epoch's rules about all of
    them, if there were any: outputs that it has need no other sweep.
    """
    visited = torch.from_numpy(rows.visited()).to(train.targets.device)
    missing = torch.ones_like(visited).nonzero()[:, 0] if blended else (~visited).nonzero()[:, 0]
    if len(missing):
        if seen is not None and "outputs" not in seen.known:
            seen = seen.others.get("average")
        known = seen is not None and "outputs" in seen.known and train.task != POSITIONS
        if seen is not None and known and not learner.objective.layers:
            outputs = seen.outputs[missing]
            with torch.no_grad(), evaluating(learner.objective):
                losses = seen.subset(missing).losses
        else:
            swept = sweeper(
                learner.model, learner.objective, train, wanted=[loss], taps=learner.taps, positions=missing
            )
            outputs, losses = swept.outputs, swept.signals[loss]
        outputs = _noted(outputs, train, missing)
        counts = torch.ones_like(losses) if weights is None else weights[missing]
        rows.fill(Note(missing, outputs, losses, torch.where(visited[missing], rows.weights()[missing], counts)))
    columns = rows.take()
    if train.classes is None:
        columns["p_given"] = columns["belief"] = residual_belief(columns["loss"])
    return columns


def _noted(swept: Tensor, train: Examples, places: Tensor) -> Tensor:
    """What the ledger keeps of the outputs of a sweep: all, or of labels or positions the share that is right."""
    if train.task == LABELS:
        return share_right(train.task, swept, train.targets[places])[:, None]
    return (swept[:, 0] / swept[:, 1].clamp_min(1))[:, None] if train.task == POSITIONS else swept


def epoch_record(networks: Sequence[Columns], train: Examples) -> Record:
    """Loss, share kept, the right targets' share of them and of their weight, and effective size, over all networks."""
    visited = np.concatenate([columns["visited"] for columns in networks])
    weights = np.concatenate([columns["weight"] for columns in networks]).astype(np.float64)
    decided = visited | (weights == 0)  # an example that counts and was not visited has its turn in another epoch
    weights, share = weights[visited], float((weights[decided] > 0).mean()) if decided.any() else 0.0
    losses = np.concatenate([columns["loss"] for columns in networks])[visited].astype(np.float64)
    kept = weights > 0
    record: Record = {
        "loss": float((weights * losses)[kept].sum() / max(weights.sum(), 1e-12)) if len(weights) else None,
        "kept": share,
        "effective": float(weights.sum() ** 2 / max((weights**2).sum(), 1e-12) / max(len(weights), 1)),
        "clean_share": None,
        "clean_weight": None,
        "train_score": None,
    }
    if "is_corrupt" in train.columns:
        right = np.concatenate([_right(columns, train) for columns in networks])[visited]
        record["clean_share"] = _share(right[kept])
        record["clean_weight"] = float(weights[right].sum() / weights.sum()) if kept.any() else None
    record |= _trust_record(networks, train)
    if train.task in (LABELS, POSITIONS):
        right = np.concatenate([columns["prediction"][:, 0] for columns in networks])[visited]
        record["train_score"] = float(right.mean()) if len(right) else None
    elif train.classes is not None:
        fits = np.concatenate([columns["prediction"][:, 0] for columns in networks]) == np.tile(
            train.labels.cpu().numpy(), len(networks)
        )
        record["train_score"] = _share(fits[visited])
        if "true_target" in train.columns and train.columns["true_target"].ndim == 1:
            record["train_right"] = _predicted_right(networks, train)
    return record


def _predicted_right(networks: Sequence[Columns], train: Examples) -> float | None:
    """The share of all training examples, visited or not, that are predicted as their true class."""
    true = train.columns["true_target"].cpu().numpy()
    return _share(np.concatenate([columns["prediction"][:, 0] == true for columns in networks]))


def _right(columns: Columns, train: Examples) -> Truth:
    """Whether each example's target, the given one or the one that replaced it, is the true one."""
    if "taught" in columns and "true_target" in train.columns:
        return np.asarray(columns["taught"] == train.columns["true_target"].cpu().numpy())
    return ~train.columns["is_corrupt"].cpu().numpy().astype(bool)


def _trust_record(networks: Sequence[Columns], train: Examples) -> Record:
    """How many examples were trusted and how many of the rest were reclaimed; and how often rightly, if known.

    `wrong_found` is the F1 of wrong labels among those that were taught another one.
    """
    if any("trusted" not in columns for columns in networks):
        return {}
    trusted = np.concatenate([columns["trusted"] for columns in networks]) > 0
    reclaimed = ~trusted & (np.concatenate([columns["weight"] for columns in networks]) > 0)
    record: Record = {"trusted": _share(trusted), "reclaimed": _share(reclaimed)}
    if "is_corrupt" in train.columns:
        clean = np.tile(~train.columns["is_corrupt"].cpu().numpy().astype(bool), len(networks))
        right = np.concatenate([_right(columns, train) for columns in networks])
        record |= {"trusted_clean": _share(clean[trusted]), "reclaimed_right": _share(right[reclaimed])}
        if all("taught" in columns for columns in networks):
            changed = np.concatenate([columns["taught"] != train.labels.cpu().numpy() for columns in networks])
            found = float((changed & ~clean).sum())
            record["wrong_found"] = 2 * found / max(float(changed.sum() + (~clean).sum()), 1.0)
    return record


def _share(truth: Truth) -> float | None:
    """The share that is true, None of nothing."""
    return float(truth.mean()) if len(truth) else None


class Scores:
    """Scores on the test set, each network's and the mean; with `keep_best`, also the networks that did best."""

    def __init__(self, sets: Mapping[str, Examples], learners: Sequence[Learner], sweeper: Sweeper, keep_best: bool):
        self.sets, self.learners, self.sweeper, self.keep_best = sets, learners, sweeper, keep_best
        self.metric = metric_of(sets["train"])
        self.best: dict[str, Any] | None = None

    def take(self, epoch: int) -> dict[str, Any]:
        """The scores of an epoch, as part of its record."""
        found: dict[str, Any] = {"metric": self.metric, "score": None, "scores": {}}
        if "test" in self.sets:
            outputs = [self._outputs(own.model, own, "test") for own in self.learners]
            measured = [measure(each, self.sets["test"]) for each in outputs]
            found["scores"] = {name: fmean(m[name] for m in measured) for name in measured[0]}
            found["score"] = found["scores"][self.metric]
            if len(measured) > 1:
                found["scores"] |= {f"peer{place}": m[self.metric] for place, m in enumerate(measured)}
                if self.sets["train"].task != POSITIONS:  # of which no outputs are kept
                    together = measure(_together(outputs, self.sets["train"].task), self.sets["test"])
                    found["scores"]["together"] = together[self.metric]
            averages = [
                self._measure(own.average, own, "test")[self.metric] for own in self.learners if own.average is not None
            ]
            if averages:
                found["scores"]["average"] = fmean(averages)
        if self.keep_best:
            found["validation"] = fmean(
                self._measure(own.model, own, "validation")[self.metric] for own in self.learners
            )
            if self.best is None or found["validation"] > self.best["score"]:
                states = [[_copied(network) for network in _networks(own)] for own in self.learners]
                self.best = {"score": found["validation"], "epoch": epoch, "networks": states}
        return found

    def restore_best(self) -> None:
        if self.best is not None:
            for learner, states in zip(self.learners, self.best["networks"], strict=True):
                for network, state in zip(_networks(learner), states, strict=True):
                    network.load_state_dict(state)

    def _measure(self, model: nn.Module, learner: Learner, name: str) -> dict[str, float]:
        return measure(self._outputs(model, learner, name), self.sets[name])

    def _outputs(self, model: nn.Module, learner: Learner, name: str) -> Tensor:
        return self.sweeper(model, learner.objective, self.sets[name]).outputs


def _together(outputs: Sequence[Tensor], task: str) -> Tensor:
    """The mean over networks, of probabilities where the outputs are of classes."""
    stacked = torch.stack(list(outputs))
    return (stacked.softmax(2) if task == CLASSES else stacked).mean(0)


def _networks(learner: Learner) -> list[nn.Module]:
    """The networks of a learner whose parameters are kept: the model, the objective and the average."""
    return [learner.model, learner.objective, *([] if learner.average is None else [learner.average])]


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.cpu().clone() for name, value in network.state_dict().items()}


def measure(outputs: Tensor, examples: Examples) -> dict[str, float]:
    """How good outputs are: accuracy, balanced accuracy and the recall of each class, or R² (and each target's).

    Of several labels the mean average precision, and how many are right; of positions, how many of all are right.

    Real targets that are wrong can rank models backwards by R², so two scores stand beside it that half of them being
    wrong does not reach: `trimmed_r2`, and `median_error`, the median of |y-ŷ|, in the unit of the data.

    >>> two = Examples(torch.zeros(4, 1), torch.tensor([0, 0, 0, 1]))
    >>> list(measure(torch.tensor([[1.0, 0.0]] * 4), two).values())
    [0.75, 0.5, 1.0, 0.0]
    """
    if examples.is_regression:
        return r_squared(outputs, examples.targets) | robust_scores(outputs, examples)
    if examples.task == LABELS:
        return label_scores(outputs, examples.targets)
    if examples.task == POSITIONS:
        return position_scores(outputs, tokens=examples.targets.ndim == 2)
    right = (outputs.argmax(1) == examples.labels).double()
    classes, labels = examples.classes or 0, examples.labels
    totals = torch.zeros(classes, dtype=torch.float64, device=right.device).scatter_add(
        0, labels, torch.ones_like(right)
    )
    hits = torch.zeros(classes, dtype=torch.float64, device=right.device).scatter_add(0, labels, right)
    recalls = hits / totals.clamp_min(1)
    present = (totals > 0).double()
    balanced = (recalls * present).sum() / present.sum()
    found = zip(recalls.tolist(), totals.tolist(), strict=True)
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(balanced),
        **{f"recall_{label}": recall for label, (recall, total) in enumerate(found) if total and classes <= LISTED},
    }


def metric_of(examples: Examples) -> str:
    """The name of the score: accuracy, R² for real targets, or the mean average precision of several labels."""
    return {REAL: "r2", LABELS: "mean_average_precision"}.get(examples.task, "accuracy")
