"""Every registered recipe for classes, and recipes that fill the slots in other ways."""

from dataclasses import dataclass, replace

from tiny import examples
from torch import Tensor

from thresher import Recipe, signals
from thresher.core.evidence import Evidence
from thresher.core.schedules import ramp
from thresher.methods import METHODS, MethodFacts
from thresher.methods.reclaim import reclaim
from thresher.methods.reclaim_vote import reclaim_vote
from thresher.objectives import Contrastive
from thresher.rules import (
    Centrality,
    ClipNorm,
    FacilityLocation,
    KeepLargest,
    KeepSmallest,
    MetaGradient,
    NeighbourVote,
    Rule,
    Uniform,
    every,
    from_peer,
    per_class,
    product,
    warmup,
)
from thresher.slots.average import Growing
from thresher.slots.clip import Clamped
from thresher.slots.mix import ClusterMixup, Mixup, SameClassMixup
from thresher.slots.relabel import AverageLabels
from thresher.slots.views import Flip, Shift

KEEP = KeepSmallest(by=signals.loss, fraction=0.5)


@dataclass(frozen=True)
class NearOrigin(Rule):
    """A rule that reads features: 1 / (1 + ‖features‖)."""

    by: signals.Signal = signals.features

    def __call__(self, evidence: Evidence) -> Tensor:
        return 1 / (1 + evidence.read(self.by).norm(dim=1))


CLEAN = examples(9, seed=5, corrupt=0.0)
OTHER_RECIPES: dict[str, Recipe] = {
    "agreement and mix": Recipe(each_batch=MetaGradient(), mix=Mixup()),
    "agreement, norms and views": Recipe(
        each_batch=product(KeepLargest(by=signals.clean_agreement, fraction=0.5), ClipNorm(1.0)),
        views=(Flip(), Shift(0.25)),
    ),
    "agreement of the peer": Recipe(peers=2, each_batch=from_peer(MetaGradient())),
    "agreement and labels of the average": Recipe(
        each_batch=MetaGradient(), relabel=AverageLabels(), average=0.9, each_epoch=KEEP
    ),
    "views": Recipe(each_batch=KEEP, views=(Flip(), Shift(0.25))),
    "mix": Recipe(mix=Mixup()),
    "mix and rule": Recipe(each_batch=KEEP, mix=Mixup()),
    "mix and norms": Recipe(each_batch=KeepSmallest(by=signals.gradient_norm, fraction=0.5), mix=Mixup()),
    "most central, mixed within the class": Recipe(
        each_epoch=per_class(Centrality(fraction=0.5)), mix=SameClassMixup(), views=(Flip(),)
    ),
    "medoids, mixed within the cluster": Recipe(
        each_epoch=warmup(1, per_class(FacilityLocation(fraction=0.5))), mix=ClusterMixup(), views=(Flip(), Shift(0.25))
    ),
    "medoids, a rule and mixing": Recipe(
        each_epoch=FacilityLocation(fraction=0.7), each_batch=KEEP, mix=ClusterMixup(0.3), average=0.9
    ),
    "relabel": Recipe(relabel=AverageLabels(), average=0.9),
    "relabel and mix": Recipe(each_batch=KEEP, relabel=AverageLabels(), average=0.9, mix=Mixup(), views=(Flip(),)),
    "norms, relabel and views": Recipe(
        each_batch=KeepSmallest(by=signals.gradient_norm, fraction=0.5),
        relabel=AverageLabels(),
        average=0.9,
        views=(Flip(), Shift(0.25)),
    ),
    "views that are compared": Recipe(objective=Contrastive(), views=(Flip(), Shift(0.25))),
    "two networks that label for each other": reclaim_vote(MethodFacts(0.4, 3, 8), vote=NeighbourVote(5), peers=2),
    "average": Recipe(average=0.9),
    "growing average": Recipe(average=Growing(0.9), each_batch=KEEP, clip=Clamped(0.1)),
    "clip": Recipe(clip=1.0),
    "per class": Recipe(each_batch=per_class(KEEP)),
    "per given class": Recipe(each_batch=warmup(1, per_class(KEEP, of=signals.given))),
    "clipped norms": Recipe(each_batch=ClipNorm(ramp(1.0, 0.5, epochs=2)), divide_by="batch"),
    "epoch rule": Recipe(each_epoch=every(2, KEEP), each_batch=KEEP),
    "epoch rule per class": Recipe(each_epoch=per_class(product(KEEP, Uniform()))),
    "peers and epochs": Recipe(peers=2, each_epoch=from_peer(KEEP)),
    "features": Recipe(each_batch=product(KEEP, NearOrigin())),
    "reclaim with views, two networks": replace(
        reclaim(MethodFacts(0.25, 3, 3), rest=Uniform(), views=(Flip(), Shift(0.25))), peers=2
    ),
    "reclaim and agreement": reclaim(MethodFacts(0.25, 3, 3), correct=MetaGradient(), rest=Uniform()),
    "reclaim as seen": reclaim(
        MethodFacts(0.25, 3, 3), correct=KeepSmallest(by=signals.gradient_norm, fraction=0.9), rest=Uniform(), mix=None
    ),
    "largest": Recipe(each_batch=KeepLargest(by=signals.margin, fraction=0.5)),
}


def registered() -> dict[str, Recipe]:
    """Every registered recipe for classes; those that read a clean set get CLEAN."""
    known = METHODS.items()
    chosen = {name: method for name, method in known if "classification" in method.tasks and method.make is not None}
    return {name: method.recipe(noise_rate=0.25, classes=3, epochs=3) for name, method in chosen.items()}


ALL_RECIPES = {**registered(), **OTHER_RECIPES}
