"""Networks as judges: one training a fold, which judges the examples that it did not see."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thresher.auditing.neighbours import feature_space, nearest, votes
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.signals import features
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.plan import epochs_for
from thresher.engine.settings import TrainSettings
from thresher.engine.start.checks import first_of
from thresher.engine.start.gradient_trial import last_linear
from thresher.engine.step.learner import Taps
from thresher.engine.train import Moment, train_recipe
from thresher.noise.folds import TRIMMED
from thresher.objectives import as_objective
from thresher.slots import over

Array = NDArray[Any]
Watch = Callable[[Moment], None]
AVERAGED = 0.25  # of the epochs: what the averaged network looks back on
VOTERS = 20


class Seen(NamedTuple):
    """What the networks of all folds say about every example; outputs and votes come from networks without it."""

    outputs: Array  # [n, classes] probabilities, or [n, d] values in the scale of the targets
    votes: Array | None  # [n, classes]: the labels of its neighbours among the network's features
    dynamics: Array  # [n] the mean belief in the given target while the other folds were trained


def judged_by_networks(
    train: Examples,
    model: Callable[[], nn.Module],
    parts: Sequence[tuple[Array, Array]],
    settings: TrainSettings,
    out: Path | None = None,
    watch: Callable[[int], Watch | None] = lambda fold: None,  # noqa: ARG005
) -> Seen:
    """Train a network for each fold, in `out`/fold-k if there is such a folder, where it goes on if interrupted."""
    average = over(max(1.0, AVERAGED * epochs_for(settings, len(train))))
    recipe = Recipe(each_batch=TRIMMED.each_batch, average=average) if train.is_regression else Recipe(average=average)
    wide = train.outputs
    outputs, voted = np.zeros((len(train), wide)), np.zeros((len(train), wide))
    beliefs, times = np.zeros(len(train)), np.zeros(len(train))
    place = {id_: at for at, id_ in enumerate(train.ids.tolist())}
    for fold, (fitted, judged) in enumerate(parts):
        known, new = train.subset(torch.as_tensor(fitted)), train.subset(torch.as_tensor(judged))
        folder = None if out is None else out / f"fold-{fold}"
        run = train_recipe(recipe, model, known, settings=settings, out=folder, watch=watch(fold))
        ids, trust = run.trust()
        if not place.keys() >= set(ids.tolist()):
            raise ThresherError(f"The ledger in {folder} has other examples: delete that folder, and ask again.")
        at = np.array([place[id_] for id_ in ids.tolist()])
        beliefs[at] += trust.numpy()
        times[at] += 1
        outputs[judged] = np.mean([_outputs(each, new) for each in (run.model, run.averages[0])], axis=0)
        if not train.is_regression:
            voted[judged] = _votes(run.averages[0], known, new)
    return Seen(outputs, None if train.is_regression else voted, beliefs / np.maximum(times, 1))


def _outputs(network: nn.Module, examples: Examples) -> Array:
    """Probabilities, or values, of the examples [n, ...]."""
    found = _swept(network, examples).outputs.float().cpu()
    return np.asarray((found if examples.is_regression else found.softmax(1)).numpy())


def _votes(network: nn.Module, known: Examples, new: Examples) -> Array:
    """The labels of the nearest known examples, by the features of this network, for new ones."""
    both = np.concatenate([_features(network, known), _features(network, new)])
    space = feature_space(both)
    near = nearest(space[len(known) :], VOTERS, space[: len(known)])
    return votes(near, known.labels.cpu().numpy(), known.outputs)


def _features(network: nn.Module, examples: Examples) -> Array:
    return np.asarray(_swept(network, examples, features).signals[features].flatten(1).float().cpu().numpy())


def _swept(network: nn.Module, examples: Examples, *wanted: Any) -> Any:
    device = next((each.device for each in network.parameters()), torch.device("cpu"))
    placed = examples.to(device).in_type_of(network)
    objective = as_objective(None, examples.task).to(device)
    head = last_linear(network, first_of(placed, 2).inputs) if wanted else None
    taps = Taps(network, (), head)
    try:
        return Sweeper()(network, objective, placed, wanted=wanted, taps=taps)
    finally:
        taps.remove()


def as_flat_inputs(examples: Examples, side: int = 16) -> Array:
    """Inputs as vectors [n, d] for judges that take no images: rows as they are, images averaged down to 16 × 16."""
    rows = torch.split(torch.arange(len(examples)), 256)
    return np.concatenate([_flat(batch, side) for batch in examples.to("cpu").batches(rows)])


def _flat(batch: Tensor, side: int) -> Array:
    if batch.ndim == 4 and max(batch.shape[2:]) > side:
        batch = torch.nn.functional.adaptive_avg_pool2d(batch, side)
    return np.asarray(batch.flatten(1).float().numpy())
