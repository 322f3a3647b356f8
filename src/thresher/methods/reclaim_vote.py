"""Reclaim by votes: labels are noisy and inputs are not, so neighbours say at first which labels to trust.

For the first tenth of the run the 200 nearest neighbours of each example, in the features of the averaged model, vote
by their labels; an example whose label wins is trusted, and the surest of the rest learn the winner. Then it goes on as
`reclaim` does after its warm-up. With a start that learned the inputs first (fit(start="represent:200")) neighbours are
right before any label is learned.
"""

from thresher.core.recipe import MixLike, Recipe, View
from thresher.methods.method import MethodFacts
from thresher.methods.reclaim import CONFIDENT, Trusted, joint
from thresher.objectives import NearUniform
from thresher.rules import (
    KeepLargest,
    NeighbourVote,
    RuleLike,
    Voted,
    from_average,
    from_peer,
    per_class,
    product,
    trusting,
    warmup,
)
from thresher.rules.neighbour_vote import vote_share, voted
from thresher.slots.average import over
from thresher.slots.mix import Mixup
from thresher.slots.relabel import VoteLabels, labels_of_peer

SURE_AND_VOTED = product(CONFIDENT, Voted())
SUREST = per_class(KeepLargest(by=vote_share, fraction=0.5), of=voted)
BY_VOTE = 0.1  # the share of the run in which the votes label the rest, before the averaged model does


def reclaim_vote(
    facts: MethodFacts,
    *,
    vote: RuleLike = NeighbourVote(),  # noqa: B008  # a frozen value
    by_vote: float = BY_VOTE,
    later: Trusted | None = joint,
    rest: RuleLike | None = CONFIDENT,
    trust: float = 0.8,
    temperature: float = 0.5,
    uniform: float = 0.1,
    mix: MixLike | None = Mixup(1.0),  # noqa: B008  # a frozen value
    views: tuple[View, ...] = (),
    average: float | over = over(1),  # noqa: B008  # a frozen value
    peers: int = 1,
) -> Recipe:
    """Trust labels that win the vote of their neighbours; let the votes, and then the averaged model, label the rest.

    vote      the rule that selects at first, asked about the averaged model's evidence
    by_vote   the share of the run in which it does, and in which the surest half of each voted class learns that class
    later     what selects afterwards, as `trusted` of reclaim; None: the votes, to the end
    rest      the weights of the others once the averaged model labels them: 1 where its confidence is above 0.8
              (CONFIDENT), and where votes select to the end also its class won (SURE_AND_VOTED); None drops them
    trust, temperature, uniform, mix, views  as in `reclaim`
    peers     2: two networks that select and label for each other
    """
    early = 0 if rest is None else round(by_vote * facts.epochs)
    after = rest if early == 0 else warmup(early, rest, before=SUREST)
    selects = vote if later is None else warmup(early, later(facts), before=vote)
    rule: RuleLike = trusting(from_average(selects), after)
    labels = VoteLabels(trust, temperature, early)
    return Recipe(
        each_epoch=from_peer(rule) if peers > 1 else rule,
        relabel=labels_of_peer(labels) if peers > 1 else labels,
        objective=NearUniform(uniform),
        mix=mix,
        views=views,
        average=average,
        peers=peers,
    )
