"""What networks score after an epoch, and which did best on the validation set."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from torch import Tensor, nn

from thresher.core.examples import Examples
from thresher.engine.loop.sweep import Sweeper, measure, metric_of
from thresher.engine.step.learner import Learner


class Scores:
    """Scores on the test set, each network's and the mean; with `keep_best`, also the networks that did best."""

    def __init__(self, sets: Mapping[str, Examples], learners: Sequence[Learner], sweeper: Sweeper, keep_best: bool):
        self.sets, self.learners, self.sweeper, self.keep_best = sets, learners, sweeper, keep_best
        self.metric = metric_of(sets["train"])
        self.best: dict[str, Any] | None = None

    def take(self, epoch: int) -> dict[str, Any]:
        """The part of an epoch's record that says how good the networks are."""
        found: dict[str, Any] = {"metric": self.metric, "score": None, "scores": {}}
        if "test" in self.sets:
            measured = [self._measure(own.model, own, "test") for own in self.learners]
            found["scores"] = {name: fmean(m[name] for m in measured) for name in measured[0]}
            found["score"] = found["scores"][self.metric]
            if len(measured) > 1:
                found["scores"] |= {f"peer{place}": m[self.metric] for place, m in enumerate(measured)}
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
        return measure(self.sweeper(model, learner.objective, self.sets[name]).outputs, self.sets[name])


def _networks(learner: Learner) -> list[nn.Module]:
    """Everything of a learner that one would use afterwards."""
    return [learner.model, learner.objective, *([] if learner.average is None else [learner.average])]


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.cpu().clone() for name, value in network.state_dict().items()}
