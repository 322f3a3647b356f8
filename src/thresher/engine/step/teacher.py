"""The teacher of a student: its outputs for the same examples, from a column or from a frozen network."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from thresher.core.evidence import Evidence
from thresher.core.trees import call
from thresher.engine.step.learner import Taps

TEACHER_OUTPUT = "teacher_output"  # the column: outputs [n, classes] whose softmax is the teacher's prediction


class Teacher:
    """`teacher(evidence)`: evidence about the same examples, with the teacher's outputs and layers.

    A network sees the inputs as the student sees them, augmented or mixed; without one, the column is what it says.
    """

    def __init__(self, network: nn.Module | None = None, layers: Sequence[str] = ()):
        self.network = None if network is None else network.eval().requires_grad_(False)
        self.taps = None if self.network is None else Taps(self.network, layers)

    def __call__(self, evidence: Evidence) -> Evidence:
        if self.network is None or self.taps is None:
            return evidence.replace(raw_outputs=evidence.columns[TEACHER_OUTPUT], layers={}, others={})
        with torch.no_grad(), self.taps.watching():
            outputs = call(self.network, evidence.inputs).float()
        return evidence.replace(raw_outputs=outputs, layers=self.taps.take(), others={})


def from_probabilities(probabilities: Tensor) -> Tensor:
    """Outputs whose softmax these probabilities [n, classes] are, for the column `teacher_output`.

    >>> from_probabilities(torch.tensor([[0.25, 0.75]])).softmax(1)
    tensor([[0.2500, 0.7500]])
    """
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
