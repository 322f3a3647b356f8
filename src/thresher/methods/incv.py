"""INCV: select examples by cross-validation, then train two networks on the selected ones."""

from dataclasses import dataclass
from math import sqrt

import pyarrow.compute as pc
import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.schedules import ramp
from thresher.core.seeding import generator
from thresher.core.signals import loss
from thresher.engine.run import Run
from thresher.methods.forward_correction import refuse_regression
from thresher.methods.method import Trainer
from thresher.rules import KeepSmallest, Selected, from_peer, warmup

# As in the released code, of its 200 epochs: four iterations of 50, candidates joining after 40, a ramp of 10.
ITERATIONS, LENGTH, JOIN, RAMP = 4, 0.25, 0.2, 10
MOST_DROPPED = 2.0  # at most, for each example selected


@dataclass(frozen=True)
class Selection:
    """The result of iterative noisy cross-validation: masks [n], and the estimated share of wrong labels."""

    selected: Tensor
    candidate: Tensor
    noise_rate: float


def incv(train: Trainer) -> Run:
    """Select examples, then Co-teaching on them; the remaining candidates join after a fifth of the epochs.

    Chen et al. (2019), Algorithms 2 and 3. The released code drops nothing if told that the noise is asymmetric, and
    takes the best epoch on held-out labels; this is told nothing and takes the last epoch of each training.
    """
    refuse_regression(train.train, "INCV")
    found = select_examples(train)
    marked = train.train.with_columns(selected=found.selected, candidate=found.candidate)
    left = wrong_among_selected(found.noise_rate, train.train.outputs)
    chosen, waiting = int(found.selected.sum()), int(found.candidate.sum())
    joining = round(JOIN * train.epochs)
    first = KeepSmallest(by=loss, fraction=ramp(1.0, 1 - left, epochs=RAMP))
    joined = KeepSmallest(by=loss, fraction=(1 - left) * chosen / (chosen + waiting))
    rule = from_peer(warmup(joining, joined, before=first))
    return train(Recipe(peers=2, each_epoch=Selected(joining), each_batch=rule), train=marked)


def select_examples(train: Trainer, iterations: int = ITERATIONS) -> Selection:
    """Select examples: each half is judged by a network trained on the other, several times.

    Examples whose label is predicted are selected; of the others those with the largest losses are dropped.
    """
    n = len(train.train)
    selected, candidate = torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)
    draws, rate = generator(train.settings.seed, "incv"), None
    for turn in range(iterations):
        left = candidate.nonzero().flatten()
        left = left[torch.randperm(len(left), generator=draws)]
        agreed, dropped = torch.zeros_like(selected), torch.zeros_like(selected)
        for half, held in enumerate(parts := left.tensor_split(2)):
            learnt = selected.clone()
            learnt[parts[1 - half]] = True
            if int(learnt.sum()) < (train.settings.batch or 1) or len(held) == 0:
                continue  # too few are left to train on, or none to judge
            agrees, losses = _judged(train, learnt, held, stage=f"half-{turn}-{half}")
            if rate is None:
                rate = noise_rate_from_agreement(float(agrees.float().mean()), train.train.outputs)
            agreed[held[agrees]] = True
            worst = round(min(MOST_DROPPED, rate / (1 - rate)) * int(agrees.sum()))
            dropped[held[losses.argsort(descending=True, stable=True)[:worst]]] = True
        selected |= agreed
        candidate &= ~(agreed | dropped)
    if rate is None or int(selected.sum()) < (train.settings.batch or 1):
        raise ThresherError("INCV selected fewer examples than a batch: give more epochs, or lower batch=.")
    return Selection(selected, candidate, rate)


def _judged(train: Trainer, learnt: Tensor, held: Tensor, stage: str) -> tuple[Tensor, Tensor]:
    """Whether the label of each held-out example is predicted, and its loss, by a network trained on the others."""
    marked: Examples = train.train.with_columns(selected=learnt, candidate=torch.zeros_like(learnt))
    run = train(Recipe(each_epoch=Selected()), train=marked, stage=stage, test=None, **train.part(LENGTH))
    last = run.ledger.table(["id", "prediction", "target", "loss"], pc.field("epoch") == run.history[-1]["epoch"])
    ids, predicted, given, losses = (torch.from_numpy(column.to_numpy().copy()) for column in last.columns)
    order = ids.argsort()
    places = order[torch.searchsorted(ids[order], marked.ids.cpu()[held])]
    return (predicted == given)[places], losses[places]


def noise_rate_from_agreement(agreement: float, classes: int) -> float:
    """The smaller ε with (1 - ε)² + ε² / (classes - 1) = agreement: INCV, Eq. 4, for uniformly flipped labels.

    >>> round(noise_rate_from_agreement(0.6**2 + 0.4**2 / 9, 10), 6)
    0.4
    """
    others = max(classes - 1, 1)
    square = 1 + 1 / others
    under = max(1 - square * (1 - agreement), 0.0)
    return min((1 - sqrt(under)) / square, 0.99)


def wrong_among_selected(noise_rate: float, classes: int) -> float:
    """The share of wrong labels among those that were predicted: ε² / (ε² + (classes - 1)(1 - ε)²).

    >>> wrong_among_selected(0.5, 10)
    0.1
    """
    wrong, right = noise_rate**2, max(classes - 1, 1) * (1 - noise_rate) ** 2
    return wrong / (wrong + right)
