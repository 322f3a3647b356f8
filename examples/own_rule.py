"""A rule of your own: trust an example as far as the averaged model believes its label."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from thresher import Evidence, Recipe, Rule, fit, load
from thresher.corruption import corrupt
from thresher.rules import warmup
from thresher.signals import p_given


@dataclass(frozen=True)
class BelievedByAverage(Rule):
    """wᵢ = p(given label) by the moving average of the model."""

    needs: ClassVar[frozenset[str]] = frozenset({"average"})

    def __call__(self, evidence: Evidence) -> Tensor:
        return evidence.other("average").read(p_given)


digits = load("digits")
train = corrupt(digits.train, "symmetric:0.4", seed=0)
recipe = Recipe(each_batch=warmup(5, BelievedByAverage()), average=0.99)

run = fit(recipe, "mlp", train, test=digits.test, epochs=20, batch=64)
plain = fit("standard", "mlp", train, test=digits.test, epochs=20, batch=64)
print(f"accuracy in the last ten epochs: {run.last():.3f}, plain training: {plain.last():.3f}")
assert (run.last() or 0) > (plain.last() or 0)
