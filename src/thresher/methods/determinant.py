"""DMI: plain training first, then the determinant loss."""

from thresher.core.recipe import Recipe
from thresher.core.schedules import step
from thresher.engine.run import Run
from thresher.methods.forward_correction import refuse_regression
from thresher.methods.method import Trainer
from thresher.objectives import DeterminantLoss

SLOW = 0.1  # of the learning rate; the released code goes down to 1e-6, which changes nothing on small sets


def determinant(train: Trainer) -> Run:
    """Train plainly for half the epochs, then by L_DMI for as long, at a tenth of the learning rate.

    Xu et al. (2019): the loss is flat at a random start, so it needs a network that has learnt something.
    """
    refuse_regression(train.train, "L_DMI")
    first = train(Recipe(), stage="baseline", **train.part(0.5))
    return train(Recipe(objective=DeterminantLoss()), model=first.model, schedule=step(SLOW, at=()), **train.part(0.5))
