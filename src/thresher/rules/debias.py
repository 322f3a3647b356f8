"""How far to believe a teacher's label: by nearby validation examples, or by the entropy of its prediction."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Decision, Rule
from thresher.core.signals import entropy, given, margin, predicted
from thresher.rules.plane_neighbours import mean_of_nearest

LEAST_LOSS = torch.finfo(torch.float32).eps  # float32 rounds a smaller cross entropy to 0


def debias_weights(
    validation_confidences: Tensor,
    teacher_wrong: Tensor,
    distortions: Tensor,
    confidences: Tensor,
    *,
    consistent: bool = False,
) -> Tensor:
    """wᵢ = min(1, 1 / (1 + p̂ᵢ (d̂ᵢ - 1))) [n], Algorithm 2 of "Weighted distillation with unlabeled examples" (2022).

    p̂ and d̂ are means over the k = ⌈√q / 2⌉ validation examples whose pair of confidences (the teacher's, the student's)
    is nearest; those where the teacher is right enter as p = 0, d = 1. Ties go to the first.
    An infinite distortion makes the weight 0, which is the formula's limit.

    With many neighbours this tends to 1 / (1 + p² (d - 1)) where the paper's Eq. 4 has 1 / (1 + p (d - 1)), because the
    mean d̂ already contains the examples with d = 1. `consistent` gives Eq. 4, min(1, 1 / d̂ᵢ).

    >>> near_wrong = torch.tensor([[0.1, 0.1], [0.9, 0.9]])
    >>> debias_weights(near_wrong, torch.tensor([True, False]), torch.tensor([4.0, 1.0]), near_wrong).tolist()
    [0.25, 1.0]
    """
    q = len(validation_confidences)
    if not q or validation_confidences.shape != (q, 2) or confidences.shape[1:] != (2,):
        shapes = f"{list(validation_confidences.shape)} and {list(confidences.shape)}"
        raise ThresherError(f"debias_weights reads pairs of confidences, not {shapes}: give [q, 2] and [n, 2].")
    if teacher_wrong.shape != (q,) or distortions.shape != (q,):
        raise ThresherError(
            f"debias_weights needs teacher_wrong and distortions for each of {q} validation examples: give [{q}] each."
        )
    wrong = teacher_wrong.bool()
    d = torch.where(wrong, distortions, 1.0).double()
    boundless = d.isinf()
    known = torch.stack([wrong.double(), torch.where(boundless, 0.0, d), boundless.double()], 1)
    k = math.ceil(math.sqrt(q) / 2)
    p_mean, d_mean, share = mean_of_nearest(validation_confidences.float(), known, confidences.float(), k).T
    d_mean = torch.where(share > 0, torch.inf, d_mean)
    if consistent:
        p_mean = torch.ones_like(d_mean)
    # 0 · (∞ - 1) does not occur: only wrong neighbours have d = ∞, and with one of them p is above 0.
    weights: Tensor = (1 / (1 + p_mean * (d_mean - 1))).clamp(0, 1).float()
    return weights


@dataclass(frozen=True)
class Debias(Rule):
    """Teacher labels weighed by `debias_weights`; examples with a label of their own (column `from_teacher`) count 1.

    The distortion is ℓ(teacher's label, student) / ℓ(truth, student) in cross entropy at this temperature, where the
    teacher's label is its prediction or, `hard`, its likeliest class. The loss of the truth counts as at least 1.2e-7,
    the resolution of float32. Asked every epoch the weights follow the student; `once(Debias())` estimates them by the
    student at the start.
    """

    by: Signal = margin
    hard: bool = False
    temperature: float = 1.0
    consistent: bool = False

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})
    needs: ClassVar[frozenset[str]] = frozenset({"teacher", "validation"})
    columns: ClassVar[frozenset[str]] = frozenset({"from_teacher"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature > 0:
            raise ThresherError(f"temperature={self.temperature} cannot divide outputs: give a number above 0.")

    def __call__(self, evidence: Evidence) -> Decision:
        known = evidence.other("validation")
        by_id = known.ids.argsort()
        wrong = known.other("teacher").read(predicted) != known.read(given)
        pairs = self._confidences(evidence)
        weights = debias_weights(
            self._confidences(known)[by_id],
            wrong[by_id],
            self._distortions(known)[by_id],
            pairs,
            consistent=self.consistent,
        )
        columns = {"teacher_confidence": pairs[:, 0], "student_confidence": pairs[:, 1]}
        return Decision(on_teacher_labels(evidence, weights), columns)

    def _confidences(self, evidence: Evidence) -> Tensor:
        """(the teacher's, the student's) confidence [n, 2]."""
        return torch.stack([evidence.other("teacher").read(self.by), evidence.read(self.by)], 1)

    def _distortions(self, known: Evidence) -> Tensor:
        outputs = known.outputs.detach() / self.temperature
        labels = teacher_labels(known.other("teacher").outputs.detach(), self.hard, self.temperature)
        taught = functional.cross_entropy(outputs, labels, reduction="none")
        true = functional.cross_entropy(outputs, known.read(given), reduction="none")
        return taught / true.clamp_min(LEAST_LOSS)


@dataclass(frozen=True)
class Fidelity(Rule):
    """exp(-entropy / mean entropy) of the teacher's prediction, for teacher labels (Dehghani et al. 2017).

    The mean is over all training examples. It does not read the student, and so cannot remove the bias of its loss.
    """

    by: Signal = entropy

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})
    needs: ClassVar[frozenset[str]] = frozenset({"teacher"})
    columns: ClassVar[frozenset[str]] = frozenset({"from_teacher"})

    def __call__(self, evidence: Evidence) -> Decision:
        doubt = evidence.other("teacher").read(self.by)
        weights = torch.exp(-doubt / doubt.mean().clamp_min(torch.finfo(doubt.dtype).tiny))
        return Decision(on_teacher_labels(evidence, weights), {f"teacher_{self.by.name}": doubt})


@dataclass(frozen=True)
class OnlyCorrect(Rule):
    """Weight 1 where the label is right, 0 elsewhere: an oracle (Figure 1 of the weighted distillation paper).

    It reads the column `is_corrupt`, which only benchmarks have.
    """

    clocks: ClassVar[frozenset[str]] = frozenset({"epoch", "round"})
    columns: ClassVar[frozenset[str]] = frozenset({"is_corrupt"})

    def __call__(self, evidence: Evidence) -> Tensor:
        return (~evidence.columns["is_corrupt"].bool()).float()


def teacher_labels(outputs: Tensor, hard: bool = False, temperature: float = 1.0) -> Tensor:
    """The labels of a teacher with these outputs: probabilities [n, classes] at this temperature or, hard, one-hot.

    >>> teacher_labels(torch.tensor([[0.0, 2.0, 1.0]]), hard=True).tolist()
    [[0.0, 1.0, 0.0]]
    """
    if hard:
        return torch.zeros_like(outputs).scatter_(1, outputs.argmax(1, keepdim=True), 1.0)
    return (outputs / temperature).softmax(1)


def on_teacher_labels(evidence: Evidence, weights: Tensor) -> Tensor:
    """The weights where a label is the teacher's, 1 elsewhere."""
    return torch.where(evidence.columns["from_teacher"].bool(), weights, 1.0)
