"""The output gradient of losses over tokens against autograd's."""

import torch

from thresher import Evidence
from thresher.core.objective import Objective
from thresher.objectives import PositionCrossEntropy


def test_the_output_gradient_of_tokens_is_autograds() -> None:
    torch.manual_seed(0)
    outputs, targets = torch.randn(4, 5, 7), torch.randint(0, 7, (4, 6))
    targets[0, 3:], targets[1] = -100, -1  # a text that is shorter, and one in which nothing counts
    objective = PositionCrossEntropy()
    evidence = Evidence(ids=torch.arange(4), targets=targets, objective=objective, raw_outputs=outputs, classes=None)
    expected = Objective.output_gradient(objective, evidence)
    torch.testing.assert_close(objective.output_gradient(evidence), expected, rtol=1e-5, atol=1e-7)
    assert expected[0].any()
    assert not objective.output_gradient(evidence)[1].any()
