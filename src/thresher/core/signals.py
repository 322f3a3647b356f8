"""Signals: facts about each example, as pure functions of the evidence.

outputs [n, classes] or [n, d]; a signal is [n], or [n, width] where its name is a plural or a gradient.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import overload

import torch
from torch import Tensor

from thresher.core.chunks import rows_at_once
from thresher.core.dropout import MutualInformation
from thresher.core.errors import ThresherError, unknown
from thresher.core.evidence import Evidence, FindsNorms, Prepared, Signal


def _declared_first(evidence: Evidence) -> Tensor:  # noqa: ARG001
    raise ThresherError("This signal is recorded during the forward pass: let a rule declare it (by=...) beforehand.")


def _loss(evidence: Evidence) -> Tensor:
    return evidence.losses


def _output_gradient(evidence: Evidence) -> Tensor:
    return evidence.objective.output_gradient(evidence).flatten(1)


def _output_gradient_norm(evidence: Evidence) -> Tensor:
    objective = evidence.objective
    if isinstance(objective, FindsNorms) and output_gradient not in evidence.known:
        return objective.output_gradient_norm(evidence)
    norms: Tensor = torch.linalg.vector_norm(evidence.read(output_gradient), dim=1)
    return norms


def _confidence(evidence: Evidence) -> Tensor:
    return evidence.outputs.softmax(1).amax(1)


def margins(outputs: Tensor) -> Tensor:
    """The probability of the likeliest class minus that of the next [n].

    >>> margins(torch.tensor([[0.5, 0.2, 0.3]]).log())
    tensor([0.2000])
    """
    best = outputs.softmax(1).topk(2, dim=1).values
    return best[:, 0] - best[:, 1]


def _margin(evidence: Evidence) -> Tensor:
    return margins(evidence.outputs)


def _entropy(evidence: Evidence) -> Tensor:
    terms: Tensor = torch.special.entr(evidence.outputs.softmax(1))  # 0 at 0, where p log p is NaN
    return terms.sum(1)


def _predicted(evidence: Evidence) -> Tensor:
    return evidence.outputs.argmax(1)


def _given(evidence: Evidence) -> Tensor:
    return evidence.targets if evidence.targets.ndim == 1 else evidence.targets.argmax(1)


def _p_given(evidence: Evidence) -> Tensor:
    return evidence.outputs.softmax(1).gather(1, evidence.read(given)[:, None])[:, 0]


def _average_divergence(evidence: Evidence) -> Tensor:
    own, average = evidence.read(features), evidence.other("average").read(features)
    step = rows_at_once(own.shape[1], own)  # all differences of a pool would take as much memory as its features
    pieces = zip(torch.split(own, step), torch.split(average, step), strict=True)
    return torch.cat([(mine - theirs).abs().mean(1) for mine, theirs in pieces])


def _hidden_difference(evidence: Evidence) -> Tensor:
    return evidence.read(features) - evidence.other("average").read(features)


def _loss_difference(evidence: Evidence) -> Tensor:
    return (evidence.read(loss) - evidence.other("average").read(loss)).abs()


CLASSES = ("classification",)
AVERAGE = frozenset({"average"})

_signal = partial(Signal, timeless=True)
loss = _signal("loss", _loss)
"""ℓᵢ of the recipe's own objective."""
output_gradient = _signal("output_gradient", _output_gradient)
"""∂ℓᵢ/∂outputsᵢ [n, width]: softmax - onehot for cross entropy, outputs - target for ½ squared error.

Outputs of several dimensions, such as those at tokens, have theirs in one row."""
output_gradient_norm = _signal("output_gradient_norm", _output_gradient_norm)
"""‖∂ℓᵢ/∂outputsᵢ‖₂, which PRL(L) ranks by."""
gradient_norm = _signal("gradient_norm", _declared_first, prepared=Prepared.GRADIENT_NORM)
"""‖∂ℓᵢ/∂θ‖₂ over all trainable parameters, exact, which PRL(G) ranks by."""
clean_agreement = _signal(
    "clean_agreement", _declared_first, prepared=Prepared.CLEAN_AGREEMENT, needs=frozenset({"clean"})
)
"""∂ℓᵢ/∂θ · g, where g is the gradient of the mean loss of a clean batch at the same parameters (L2RW, Eq. 7)."""
features = _signal("features", _declared_first, prepared=Prepared.LAST_INPUTS)
"""The inputs of the model's last Linear layer [n, width]."""
feature_gradient = _signal("feature_gradient", _declared_first, CLASSES, prepared=Prepared.LAST_INPUTS_GRADIENT)
"""∂ℓᵢ/∂hᵢ = Wᵀ ∂ℓᵢ/∂outputsᵢ [n, width], with the features hᵢ and the weights W of the last Linear layer."""
confidence = _signal("confidence", _confidence, CLASSES)
"""The largest predicted probability."""
margin = _signal("margin", _margin, CLASSES)
"""The largest predicted probability minus the second largest."""
entropy = _signal("entropy", _entropy, CLASSES)
"""The entropy of the predicted probabilities, in nats."""
predicted = _signal("predicted", _predicted, CLASSES)
"""The predicted class."""
given = _signal("given", _given, CLASSES, of_targets=True)
"""The given class, the likeliest one where the target is soft."""
p_given = _signal("p_given", _p_given, CLASSES)
"""The probability the model gives to the given class."""
mutual_information = _signal(
    "mutual_information", _declared_first, CLASSES, prepared=Prepared.MORE_PASSES, passes=MutualInformation()
)
"""H(mean p) - mean H(p) over passes with dropout: what a label would tell about the model (BALD)."""
hidden_difference = _signal("hidden_difference", _hidden_difference, needs=AVERAGE, made_of=(features,))
"""The features minus those of the model's moving average [n, width]."""
average_divergence = _signal("average_divergence", _average_divergence, needs=AVERAGE, made_of=(features,))
"""The mean of |hᵢ - h̄ᵢ|, the distance of the features from those of the moving average, by which S-BADGE scales."""
loss_difference = _signal("loss_difference", _loss_difference, needs=AVERAGE, made_of=(loss,))
"""|ℓᵢ - ℓ̄ᵢ|: the difference between the losses of the model and of its moving average."""


@dataclass(frozen=True)
class Pair:
    """Outer products scaleᵢ · leftᵢ ⊗ rightᵢ [n, width of left · width of right], kept as factors, never multiplied."""

    left: Signal
    right: Signal
    scale: Signal | None = None


@dataclass(frozen=True)
class _Product:
    """The product of a signal and another one that has one number for each example."""

    signal: Signal
    by: Signal

    def __call__(self, evidence: Evidence) -> Tensor:
        values, factors = evidence.read(self.signal), evidence.read(self.by)
        return values * factors.reshape(-1, *[1] * (values.ndim - 1))


@overload
def scaled(signal: Signal, by: Signal) -> Signal: ...
@overload
def scaled(signal: Pair, by: Signal) -> Pair: ...
def scaled(signal: Signal | Pair, by: Signal) -> Signal | Pair:
    """The signal times the value of `by` [n], example by example.

    S-BADGE is BADGE by `scaled(gradient_embedding, average_divergence)`, and nothing else.

    >>> scaled(confidence, margin) == scaled(confidence, margin), scaled(confidence, margin).name
    (True, 'confidence × margin')
    """
    if isinstance(signal, Pair):
        return replace(signal, scale=by if signal.scale is None else scaled(signal.scale, by))
    return Signal(
        f"{signal.name} × {by.name}",
        _Product(signal, by),
        tuple(task for task in signal.tasks if task in by.tasks),
        needs=signal.needs | by.needs,
        made_of=tuple(dict.fromkeys((*(signal.made_of or (signal,)), *(by.made_of or (by,))))),
        timeless=signal.timeless and by.timeless,
    )


gradient_embedding = Pair(output_gradient, features)
"""∂ℓᵢ/∂W of the last layer, as the factors of its outer product; on a pool ℓᵢ is that of the predicted class."""

SIGNALS = {value.name: value for value in tuple(vars().values()) if isinstance(value, Signal)}
PAIRS = {"gradient_embedding": gradient_embedding}


def signal_named(name: str) -> Signal:
    """The signal of this name, which rules take in its place: KeepSmallest(by="loss", fraction=0.6).

    >>> signal_named("loss") is loss
    True
    """
    if name not in SIGNALS:
        raise unknown("signal", name, SIGNALS)
    return SIGNALS[name]


def signal_or_pair_named(name: str) -> Signal | Pair:
    """The signal or the pair of this name."""
    known = SIGNALS | PAIRS
    if name not in known:
        raise unknown("signal", name, known)
    return known[name]
