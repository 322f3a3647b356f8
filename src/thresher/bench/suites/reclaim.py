"""Reclaim beside the methods it combines, and without each of its parts; on human and on generated label noise."""

from dataclasses import replace
from functools import partial

from thresher.bench.definition.grid import Cell, Entry, Measured, Task
from thresher.bench.definition.published import printed
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Claim, Scale, Suite
from thresher.bench.run.task import measurement_of, train_recipe
from thresher.bench.suites.preparation import first
from thresher.core.recipe import Recipe
from thresher.core.schedules import cosine
from thresher.methods import MethodFacts
from thresher.methods.reclaim import (
    DEBIASED,
    DEBIASED_HELD_OUT,
    Trusted,
    agreeing,
    central,
    growing,
    joint,
    patient,
    reclaim,
    short,
)
from thresher.rules import Agree, MetaGradient, RuleLike, Uniform, either, warmup
from thresher.slots.mix import Mixup
from thresher.slots.views import strong, weak

OR_ALL = partial(joint, otherwise=None)  # trusts all labels as long as few are predicted, also where told nothing


def debiased_on_clean(task: Task) -> Measured:
    """Reclaim with the teacher's labels weighted by its errors on the clean examples."""
    facts = MethodFacts(task.job.cell.noise_rate, task.train.classes, task.job.setup.epochs or 1)
    return measurement_of(train_recipe(reclaim(facts, rest=DEBIASED), task, validation=task.clean), task)


def with_growing(facts: MethodFacts) -> Recipe:
    """Reclaim for much noise: the most confident examples of each class are reclaimed, at any confidence."""
    return reclaim(facts, rest=growing(facts))


def surest(facts: MethodFacts, trusted: Trusted = agreeing) -> Recipe:
    """Of the labels that are not trusted the surest of each predicted class are replaced, more of them every epoch."""
    return reclaim(facts, trusted=trusted, rest=growing(facts))


def joint_then_agreement(facts: MethodFacts) -> RuleLike:
    """By prediction or gradient in the first half of the run, afterwards by prediction alone."""
    return warmup(round(facts.epochs / 2), Agree(), before=either(Agree(), short(facts)))


BASELINES = (
    Entry("standard", "Standard"),
    Entry("mixup", "Mixup"),
    Entry("prl-l", "PRL(L)"),
    Entry("co-teaching", "Co-teaching"),
    Entry("crust-central", "CRUST, central"),
)
STOPPED = (  # on labels as wrong as those it learns from
    Entry("standard+es", "Standard, early-stopped", of="standard", early_stop=True),
    Entry(
        "standard-40+es", "Standard, 40 epochs, early-stopped", of="standard", early_stop=True, changes={"epochs": 40}
    ),
)
PARTS = (
    Entry("reclaim", "Reclaim"),
    Entry("rest-dropped", "the rest dropped", recipe=partial(reclaim, rest=None)),
    Entry("rest-counts-1", "every teacher label counts 1", recipe=partial(reclaim, rest=Uniform())),
    Entry(
        "debias-held-out",
        "teacher labels by Debias, on trusted examples held out",
        recipe=partial(reclaim, rest=DEBIASED_HELD_OUT),
    ),
    Entry(
        "debias-by-gradient",
        "the same, trusted by output gradients",
        recipe=partial(reclaim, rest=DEBIASED_HELD_OUT, trusted=short),
    ),
    Entry("given-alone", "trusted: the given label alone", recipe=partial(reclaim, trust=1.0)),
    Entry("by-centrality", "trusted by centrality (CRUST)", recipe=partial(reclaim, trusted=central)),
    Entry("by-gradient", "trusted by output gradients (PRL)", recipe=partial(reclaim, trusted=short)),
    Entry("by-agreement", "trusted by agreement", recipe=partial(reclaim, trusted=agreeing)),
    Entry(
        "or-all",
        "all labels trusted as long as few are predicted",
        recipe=partial(reclaim, trusted=OR_ALL),
    ),
    Entry("agreement-later", "agreement in the second half", recipe=partial(reclaim, trusted=joint_then_agreement)),
    Entry("growing", "the surest of each class", recipe=with_growing),
    Entry("surest", "trusted by agreement, the surest of each class", recipe=surest),
    Entry("patient", "Reclaim, patient", recipe=patient),
    Entry("not-averaged", "the model itself as the teacher", recipe=partial(reclaim, average=0.0)),
    Entry("not-mixed", "without mixup", recipe=partial(reclaim, mix=None)),
    Entry("mixed-at-once", "mixup from the first epoch", recipe=partial(reclaim, mix=warmup(0, Mixup(1.0)))),
    Entry("not-uniform", "without the uniform term", recipe=partial(reclaim, uniform=0.0)),
)
VIEWS = (
    Entry("weak-view", "one weak view", recipe=reclaim, changes={"augment": (weak(),)}),
    Entry("strong-views", "two strong views", recipe=reclaim, changes={"augment": (strong(), strong())}),
    Entry(
        "three-views", "a weak and two strong views", recipe=reclaim, changes={"augment": (weak(), *2 * (strong(),))}
    ),
)
WITH_CLEAN = (
    Entry("l2rw", "L2RW"),
    Entry("debias-clean", "teacher labels by Debias, on the clean examples", procedure=debiased_on_clean),
    Entry("corrected", "Reclaim, weights corrected by L2RW", recipe=partial(reclaim, correct=MetaGradient())),
)
TOLD_NOTHING = ("standard", "reclaim", "or-all", "by-agreement", "patient")
FOR_ALL = tuple(entry.name for entry in (*BASELINES, *PARTS) if entry.name != "or-all")  # the same where told the rate
ON_DIGITS = ("rest-counts-1", "debias-held-out", "debias-by-gradient", "given-alone", "not-uniform")
MOST = tuple(name for name in FOR_ALL if name not in ON_DIGITS)
CLEAN_100 = (*FOR_ALL, *(entry.name for entry in WITH_CLEAN))


def cells(kind: Cell) -> tuple[Cell, ...]:
    """Symmetric 40, 60 and 80 and pair flips 40, of which the methods are told the rate."""
    return tuple(
        replace(
            kind,
            name=f"{kind.name}-{corruption}-{percent}",
            corruption=f"{corruption}:{percent / 100:g}",
            noise_rate=percent / 100,
        )
        for corruption, percent in (("symmetric", 40), ("symmetric", 60), ("symmetric", 80), ("pairflip", 40))
    )


def untold(told: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The same cells, in which the methods are not told the rate."""
    return tuple(replace(cell, name=f"{cell.name}-untold", noise_rate=None, methods=TOLD_NOTHING) for cell in told)


DIGITS = Cell("digits", "digits", methods=FOR_ALL, changes={"batch": 64})
FASHION = Cell("fashion", "fashion-mnist", prepare=partial(first, train=3000, test=2000), methods=MOST)
SMALL = Scale(
    cells=(
        *cells(DIGITS),
        *cells(FASHION),
        replace(cells(DIGITS)[1], name="digits-clean-100", clean=100, methods=CLEAN_100),
        *untold(cells(DIGITS)),
        *untold(cells(FASHION)),
    ),
    setup=Setup(model="mlp:256x256", batch=128, epochs=30, seeds=3, learning_rate=1e-3),
    notes=(
        "digits come with scikit-learn. fashion is the first 3,000 training and 2,000 test images of Fashion-MNIST. "
        "No views here: the network is an MLP, so that the suite takes less than half an hour of one core.",
        "digits-clean-100 has 100 clean examples beside 60% symmetric noise, for the three methods that use them; the "
        "others have the rest.",
        "In cells that end in -untold the methods are not told the rate: reclaim finds it after its warm-up, or cannot "
        "tell. It then trusts the labels that are predicted (reclaim), or all of them as long as too few are predicted "
        "(or-all), which was its way before and is plain training where most labels are wrong.",
    ),
)

# CIFAR-10N (Wei et al. 2022), Table 2, ResNet-34; cross entropy and Co-teaching as its authors ran them.
PUBLISHED = printed("CIFAR-10N, Table 2", ["standard", "co-teaching"], "cifar10n-worse 77.69±1.55 83.83±0.13")
ELSEWHERE = (
    "Published by others, with networks and budgets of their own: on CIFAR-10N worst ProMix 96.3, SOP+ 93.2, DivideMix "
    "92.6; on symmetric 50 and 80 ProMix 97.3 and 95.1, DivideMix 94.6 and 93.2. A tuned run of plain cross entropy "
    "reached 83.9 on CIFAR-10N worst."
)
ON_IMAGES = (*FOR_ALL, *(entry.name for entry in VIEWS))
HONEST = ("standard", *(entry.name for entry in STOPPED), "reclaim")
FEW = ("standard", "reclaim", "by-agreement", "agreement-later", "growing", "patient", "by-centrality")
# A rate of 0.1 learns far more slowly from labels of which 80% are wrong: tried for twelve epochs, and not stored.
LONG = {"epochs": 280, "optimizer": "sgd", "learning_rate": 0.04, "momentum": 0.9, "weight_decay": 5e-4}
PAPER = Scale(
    cells=(
        Cell("cifar10n-worse", "cifar10n-worse", noise_rate=0.4, methods=ON_IMAGES),
        Cell("cifar10n-worse-held-out", "cifar10n-worse", noise_rate=0.4, validation=0.1, methods=HONEST),
        Cell("cifar10-symmetric-50", "cifar10", "symmetric:0.5", noise_rate=0.5, methods=FEW),
        Cell("cifar10-symmetric-80", "cifar10", "symmetric:0.8", noise_rate=0.8, methods=FEW, changes=LONG),
    ),
    setup=Setup(
        model="resnet18",
        batch=256,
        epochs=140,
        schedule=cosine(1.0),
        augment=(weak(), strong()),
        optimizer="sgd",
        learning_rate=0.1,
        momentum=0.9,
        weight_decay=5e-4,
        precision="bfloat16",
        compiled=True,
    ),
    notes=(
        "ResNet-18 with a stem for small images, 140 epochs in batches of 256, each as a weak and a strong view, for "
        "all methods alike. In so many epochs Standard memorises the wrong labels; compare its best epoch with "
        "the published one. In the cell that ends in -held-out a tenth of the training set, as wrong as the rest, is "
        "held out from every method, and early stopping keeps the epoch that did best on it. Symmetric 80 has 280 "
        "epochs and a smaller learning rate; in 40 it was lost ([both lengths](lengths.md)).",
        ELSEWHERE,
    ),
)

RECLAIM = Suite(
    name="reclaim",
    title="Reclaim: the five papers as one loop, and without each of its parts",
    methods=(*BASELINES, *STOPPED, *PARTS, *VIEWS, *WITH_CLEAN),
    scales={"small": SMALL, "paper": PAPER},
    published=PUBLISHED,
    questions=(
        Claim(("reclaim", "growing"), tuple(entry.name for entry in (*BASELINES, *STOPPED))),
        Claim(("growing", "patient"), ("reclaim",)),
        Claim(("patient",), ("growing",)),
        Claim(("reclaim",), ("by-agreement", "agreement-later", "by-gradient", "or-all")),
        Claim(("reclaim",), ("rest-dropped", "not-averaged", "not-mixed", "mixed-at-once")),
    ),
    columns=("clean_share", "trusted", "trusted_clean", "reclaimed", "reclaimed_right"),
)
