"""Partners in training: with whom each example is blended, and what comes of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Generator, Tensor

from thresher.engine.look import Batch
from thresher.engine.teacher import TEACHER_OUTPUT
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.mix import MixFromSet, MixLike, Pairing, Visits, as_mixable, blend, mix_in
from thresher.seeding import generator
from thresher.views import View


class PartnerStream:
    """Partners from the whole set for every visit of an epoch, where the recipe's mix draws such."""

    def __init__(self, mix: MixLike | None, train: Examples, seed: int):
        self.mix, self.train, self.seed = mix, train, seed

    def draw(self, order: Tensor, decided: Mapping[str, Tensor], epoch: int) -> Pairing | None:
        """Partners and shares [steps, batch], or None where nobody comes from the whole set."""
        mix = mix_in(epoch, self.mix)
        if not isinstance(mix, MixFromSet):
            return None
        return mix.draw(Visits(order, self.train, decided, epoch, generator(self.seed, "mix", epoch)))


@dataclass(frozen=True)
class Beside:
    """The partners from the whole set of one batch, and the share [n] that the batch keeps of itself."""

    batch: Batch
    share: Tensor

    def seen_by(self, views: Sequence[View], draws: Generator, blends_targets: bool) -> "Blend":
        """Partners are augmented as everyone is, by draws of their own."""
        inputs = [view(self.batch.inputs, draws) for view in views] or [self.batch.inputs]
        return Blend(self.share, inputs=inputs, targets=self.batch.targets if blends_targets else None)


@dataclass(frozen=True)
class Blend:
    """How a batch is blended: within itself, or with the inputs of each view, and the targets, of partners."""

    share: Tensor
    within: Pairing | None = None
    inputs: Sequence[Tensor] = ()
    targets: Tensor | None = None

    def of_inputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        if self.within is not None:
            return [self.within.blend(view) for view in views]
        return [blend(self.share, view, other) for view, other in zip(views, self.inputs, strict=True)]

    def of_targets(self, targets: Tensor, classes: int | None, weights: Tensor | None) -> Tensor:
        """Within a batch labels count as far as their examples do; real targets belong to the blend of the inputs."""
        if self.within is not None and weights is not None and classes is not None:
            return self.within.blend_counted(as_mixable(targets, classes), weights)
        if self.within is not None:
            return self.within.blend(as_mixable(targets, classes))
        if self.targets is None:
            return targets
        return blend(self.share, as_mixable(targets, classes), as_mixable(self.targets, classes))

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


def check_mix(mix: MixLike | None, replaces_targets: bool, task: str) -> None:
    """Refuse partners that this task, or the recipe's other slots, cannot give."""
    mix = mix_in(math.inf, mix)
    if not isinstance(mix, MixFromSet):
        return
    name = type(mix).__name__
    if task not in mix.tasks:
        raise ThresherError(f"{name} is defined for {mix.tasks[0]} only: choose another mix for {task}.")
    if replaces_targets and mix.blends_targets:
        raise ThresherError(f"{name} blends given targets, which relabel or a teacher replaces: leave one of them out.")
