"""Monte-Carlo dropout: how far the predictions of several passes with dropout disagree."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.trees import Tree, call


@dataclass(frozen=True)
class MutualInformation:
    """H(mean p) - mean H(p) [n] of the class probabilities p of several passes with dropout (BALD, Gal et al. 2017).

    It is high where single passes are sure of different classes, and 0 where all passes agree.
    """

    passes: int = 20

    def __call__(self, model: nn.Module, inputs: Tree) -> Tensor:
        total: Tensor | float = 0.0
        surprise: Tensor | float = 0.0
        with torch.no_grad(), dropping(model):
            for _ in range(self.passes):
                chances = call(model, inputs).float().softmax(1)
                total, surprise = total + chances, surprise + torch.special.entr(chances).sum(1)
        information: Tensor = torch.special.entr(total / self.passes).sum(1) - surprise / self.passes
        return information.clamp_min(0)


@contextmanager
def dropping(model: nn.Module) -> Iterator[None]:
    """Evaluation mode except for dropout layers; every layer has its former mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    dropouts = [m for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0]
    if not dropouts:
        raise ThresherError(
            "The mutual information needs dropout, and this model has none: "
            "use one with nn.Dropout layers, such as mlp-dropout:512 or wrn-28-10:0.3."
        )
    model.eval()
    for dropout in dropouts:
        dropout.train()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
