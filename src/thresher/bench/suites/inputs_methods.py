"""The methods of the suite `inputs`: labels trusted after a start without labels, and each part left out."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from thresher.bench.definition.grid import Entry
from thresher.bench.suites.reclaim import OR_ALL, surest
from thresher.core.recipe import Recipe
from thresher.core.rule import Rule
from thresher.methods import CONFIDENT, SURE_AND_VOTED, MethodFacts
from thresher.methods.reclaim import agreeing, reclaim
from thresher.methods.reclaim_vote import reclaim_vote
from thresher.rules import Agree, NeighbourVote, Uniform, either, product, warmup
from thresher.slots.average import over
from thresher.slots.views import strong

NO_START: Mapping[str, Any] = {"start": None}
BY_VOTES = partial(reclaim_vote, later=OR_ALL)  # OR_ALL: as reclaim was when these were run


def throughout(facts: MethodFacts, **changes: Any) -> Recipe:
    """Votes select to the end, and the averaged model's label has to win them too; nothing is estimated."""
    return reclaim_vote(facts, **{"later": None, "rest": SURE_AND_VOTED, **changes})


def start_or_predicted(facts: MethodFacts, **changes: Any) -> Recipe:
    """Labels are trusted that the start's neighbours vote for, or that the average predicts."""
    return throughout(facts, **{"vote": either(NeighbourVote(kept=True), Agree()), **changes})


def late(facts: MethodFacts, share: float = 0.5, rest: Rule = SURE_AND_VOTED) -> Recipe:
    """The same, where labels that are not trusted are dropped for this share of the run and replaced only later."""
    return start_or_predicted(facts, by_vote=0.0, rest=warmup(round(share * facts.epochs), rest, before=Uniform(0.0)))


def predicted_labels(facts: MethodFacts) -> Rule:  # noqa: ARG001  # asked for by reclaim_vote, needs to know nothing
    """Labels that the averaged model predicts are trusted; nothing is estimated."""
    return Agree()


def voted_and_predicted(facts: MethodFacts) -> Rule:  # noqa: ARG001
    """Labels are trusted that win the votes and that the averaged model predicts; nothing is estimated."""
    return product(NeighbourVote(), Agree())


def briefly(facts: MethodFacts, **changes: Any) -> Recipe:
    """Reclaim by agreement whose warm-up is that of 60 epochs at the most: what follows it gets the rest of the run."""
    return reclaim(replace(facts, epochs=min(60, facts.epochs)), **{"trusted": agreeing, **changes})


PARTS = (
    Entry("reclaim-vote", "Reclaim by votes", recipe=BY_VOTES),
    Entry("no-start", "without a start", recipe=BY_VOTES, changes=NO_START),
    Entry("votes-throughout", "votes select to the end", recipe=throughout),
    Entry(
        "or-predicted",
        "votes to the end, or what the average predicts",
        recipe=partial(throughout, vote=either(NeighbourVote(), Agree())),
    ),
    Entry("confident", "votes to the end, the rest without them", recipe=partial(throughout, rest=CONFIDENT)),
    Entry("rest-dropped", "votes to the end, the rest dropped", recipe=partial(throughout, rest=None)),
    Entry(
        "given-votes",
        "given labels alone vote",
        recipe=partial(reclaim_vote, later=OR_ALL, vote=NeighbourVote(sure=None)),
    ),
    Entry(
        "agreeing-later",
        "votes at first, then labels that are predicted",
        recipe=partial(reclaim_vote, later=predicted_labels),
    ),
    Entry(
        "agreeing-fast",
        "votes at first, then predicted labels; twice the learning rate and weight decay",
        recipe=partial(reclaim_vote, later=predicted_labels),
        changes={"learning_rate": 0.4, "weight_decay": 1e-3},
    ),
    Entry(
        "both",
        "votes at first, then labels that win them and are predicted",
        recipe=partial(throughout, later=voted_and_predicted),
    ),
    Entry(
        "neighbours-of-the-start",
        "votes of the start's neighbours to the end, or what the average predicts",
        recipe=start_or_predicted,
    ),
    Entry("late", "votes of the start's neighbours or predicted; the rest is dropped in the first half", recipe=late),
    Entry(
        "late-confident",
        "votes of the start's neighbours or predicted; dropped at first, later relabelled without the votes",
        recipe=partial(late, rest=CONFIDENT),
    ),
    Entry(
        "never",
        "votes of the start's neighbours or predicted; the rest is dropped",
        recipe=partial(start_or_predicted, rest=None),
    ),
    Entry("not-mixed", "without mixup", recipe=partial(reclaim_vote, later=OR_ALL, mix=None)),
    Entry("two-networks", "two networks, each for the other", recipe=partial(reclaim_vote, later=OR_ALL, peers=2)),
)
BEFORE = (
    Entry("standard", "Standard", changes=NO_START),
    Entry("standard-short", "Standard, 30 epochs", of="standard", changes={**NO_START, "epochs": 30}),
    Entry("standard-20", "Standard, 20 epochs", of="standard", changes={**NO_START, "epochs": 20}),
    Entry("standard-started", "Standard after the start", of="standard"),
    Entry("reclaim", "Reclaim", recipe=partial(reclaim, trusted=OR_ALL), changes=NO_START),
    Entry("reclaim-started", "Reclaim after the start", recipe=partial(reclaim, trusted=OR_ALL)),
    Entry(
        "agreeing-started",
        "Reclaim after the start: predicted labels are trusted",
        recipe=partial(reclaim, trusted=agreeing),
    ),
    Entry(
        "agreeing-pair",
        "Reclaim after the start: predicted labels are trusted; two networks, each for the other",
        recipe=partial(reclaim, trusted=agreeing, peers=2),
    ),
    Entry(
        "surest-started",
        "Reclaim after the start: predicted labels are trusted, the surest of the rest reclaimed",
        recipe=surest,
    ),
    Entry(
        "surest",
        "Reclaim: predicted labels are trusted, the surest of the rest reclaimed",
        recipe=surest,
        changes=NO_START,
    ),
    Entry(
        "agreeing", "Reclaim: predicted labels are trusted", recipe=partial(reclaim, trusted=agreeing), changes=NO_START
    ),
    Entry("brief", "Reclaim after the start: predicted labels are trusted, after a brief warm-up", recipe=briefly),
    Entry(
        "slower-average",
        "Reclaim after the start: predicted labels are trusted, the average is over 5 epochs",
        recipe=partial(briefly, average=over(5)),
    ),
    Entry(
        "slower-faster",
        "the same, at twice the learning rate",
        recipe=partial(briefly, average=over(5)),
        changes={"learning_rate": 0.1},
    ),
    Entry(
        "slower-softer",
        "the same, with the average's labels as they are",
        recipe=partial(briefly, average=over(5), temperature=1.0),
    ),
    Entry(
        "slower-strong",
        "the same, from two strong views",
        recipe=partial(briefly, average=over(5)),
        changes={"augment": (strong(), strong())},
    ),
    Entry(
        "joint-surest-started",
        "Reclaim after the start: the surest of the rest reclaimed",
        recipe=partial(surest, trusted=OR_ALL),
    ),
)
