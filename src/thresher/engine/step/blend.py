"""How a batch is blended: within itself, or with partners from the whole set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from thresher.core.recipe import Pairing, blend
from thresher.core.targets import one_hot_if_ids
from thresher.core.trees import Tree, mapped
from thresher.engine.step.teacher import TEACHER_OUTPUT


@dataclass(frozen=True)
class Blend:
    """The shares [n] that a batch keeps of itself, and with what: itself, or the inputs of each view of partners."""

    share: Tensor
    within: Pairing | None = None
    inputs: Sequence[Tree] = ()  # of partners from the whole set, one of each view
    targets: Tensor | None = None  # likewise, where targets are blended too

    def of_inputs(self, views: Sequence[Tree]) -> list[Tree]:
        if self.within is not None:
            return [mapped(self.within.blend, view) for view in views]
        return [mapped(partial(blend, self.share), view, other) for view, other in zip(views, self.inputs, strict=True)]

    def of_targets(self, targets: Tensor, classes: int | None, weights: Tensor | None) -> Tensor:
        """Within a batch labels count as far as their examples do; real targets belong to the blend of the inputs."""
        if self.within is not None and weights is not None and classes is not None:
            return self.within.blend_by_weight(one_hot_if_ids(targets, classes), weights)
        if self.within is not None:
            return self.within.blend(one_hot_if_ids(targets, classes))
        if self.targets is None:
            return targets
        return blend(self.share, one_hot_if_ids(targets, classes), one_hot_if_ids(self.targets, classes))

    def of_columns(self, columns: Mapping[str, Tensor], classes: int | None) -> Mapping[str, Tensor]:
        """What a teacher's column says of mixed examples: the mixture of its predictions."""
        if self.within is None or TEACHER_OUTPUT not in columns:
            return columns
        said = columns[TEACHER_OUTPUT]
        mixed = self.within.blend(said) if classes is None else self.within.blend(said.softmax(1)).log()
        return {**columns, TEACHER_OUTPUT: mixed}

    def of_weights(self, weights: Tensor) -> Tensor:
        """λwᵢ + (1 - λ)wⱼ within a batch; with a partner from the whole set, wᵢ."""
        return weights if self.within is None else self.within.blend(weights)
