"""T-Revision: weigh losses by an estimated transition, and let training revise it."""

from thresher.core.recipe import Recipe
from thresher.core.schedules import step
from thresher.engine.run import Run
from thresher.methods.forward_correction import estimated_transition, refuse_regression
from thresher.methods.method import Trainer
from thresher.objectives import Reweighted

# The released code: 20 epochs to estimate, 200 to train, 200 to revise at a learning rate of 5e-7.
ESTIMATE, REVISE, SLOW = 0.1, 0.25, 0.01


def t_revision(train: Trainer) -> Run:
    """Estimate the transition early, train on reweighted losses, then revise the transition together with the model.

    Xia et al. (2019). The estimate takes a tenth of the epochs, the revision a quarter, at a hundredth of the learning
    rate. The released code picks epochs by their accuracy on noisy validation data; this continues from the last.
    """
    refuse_regression(train.train, "T-Revision")
    early = train(Recipe(), stage="estimate", **train.part(ESTIMATE))
    transition = estimated_transition(early, train.train)
    weighed = train(Recipe(objective=Reweighted(transition)), stage="reweighted", model=early.model)
    revised = Recipe(objective=Reweighted(transition, revised=True))
    return train(revised, model=weighed.model, schedule=step(SLOW, at=()), **train.part(REVISE))
