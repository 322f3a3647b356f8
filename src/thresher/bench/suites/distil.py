"""Weighted distillation: teachers, students and weights, on small sets and in the paper's own setting."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from thresher.bench.definition.grid import Cell, Entry
from thresher.bench.definition.points import Axis, Point
from thresher.bench.definition.setup import Setup, Teaching
from thresher.bench.definition.suite import Claim, Scale, Suite
from thresher.bench.run.distilled import distilled, only_labelled, only_teacher
from thresher.bench.suites.conclusions import ahead_all_along
from thresher.bench.suites.distil_tables import COMPOSED, ONE_SHOT
from thresher.bench.suites.preparation import first, first_third
from thresher.core.schedules import rising, stairs
from thresher.core.signals import entropy
from thresher.slots.views import Chain, Flip, Shift

PAPER = "Weighted distillation with unlabeled examples (2022)"


def _entry(name: str, label: str, weights: str, **options: Any) -> Entry:
    return Entry(name, label, procedure=partial(distilled, weights=weights, **options))


METHODS = (
    Entry("standard", "Standard (labelled only)", procedure=only_labelled),
    Entry("teacher", "Teacher", procedure=only_teacher),
    _entry("unweighted", "Unweighted", "unweighted"),
    _entry("debias", "Debias", "debias"),
    _entry("debias-every", "Debias, every epoch", "debias", every_epoch=True),
    _entry("debias-consistent", "Debias, consistent", "consistent"),
    _entry("fidelity", "Fidelity", "fidelity"),
    _entry("composition", "Composition", "composition"),
    _entry("oracle", "Oracle", "oracle"),
    _entry("unweighted-hard", "Unweighted, hard", "unweighted", hard=True),
    _entry("debias-hard", "Debias, hard", "debias", hard=True),
    _entry("prl-l-hard", "PRL(L), hard", "unweighted", hard=True, base="prl-l"),
    _entry("prl-l-debias-hard", "PRL(L) and debias, hard", "debias", hard=True, base="prl-l"),
    _entry("crust-central-hard", "CRUST central, hard", "unweighted", hard=True, base="crust-central"),
    _entry("vid", "VID", "unweighted", vid=True),
    _entry("vid-debias", "VID and debias", "debias", vid=True),
)
CLAIMS = (  # sections 3.1 to 3.3, Figures 1 and 4 to 10, and their averages
    Claim(("debias",), ("unweighted", "teacher")),
    Claim(("unweighted",), ("teacher",)),
    Claim(("debias-hard",), ("unweighted-hard", "teacher")),
    Claim(("vid",), ("unweighted",)),
    Claim(("vid-debias",), ("vid", "debias", "unweighted", "teacher")),
    Claim(("debias",), ("vid",)),
    Claim(("debias-every",), ("debias",)),
    Claim(("debias",), ("fidelity",)),
    Claim(("composition",), ("debias", "fidelity", "teacher")),
    Claim(("oracle",), ("unweighted",)),
)
QUESTIONS = (Claim(("debias-consistent",), ("unweighted", "debias")),)


BUDGET = Axis("labelled examples", log=True)


def cells(kind: Cell, teaching: Teaching, budgets: Iterable[int], ending: str = "") -> tuple[Cell, ...]:
    """A cell of this kind for each number of labelled examples.

    >>> [cell.name for cell in cells(Cell("digits", "digits"), Teaching(0, 200, "mlp"), (50, 100))]
    ['digits-50', 'digits-100']
    """
    return tuple(
        replace(
            kind,
            name=f"{kind.name}-{count}{ending}",
            points=(Point(BUDGET, count, f"{kind.name}{ending}"),),
            changes={**kind.changes, "teaching": replace(teaching, labelled=count)},
        )
        for count in budgets
    )


DIGITS = Cell("digits", "digits", changes={"batch": 32})
FASHION = Cell("fashion", "fashion-mnist", prepare=partial(first, train=6000, test=2000))
ON_DIGITS = Teaching(0, 300, "mlp:256x256", epochs=200, by=entropy)
ON_FASHION = Teaching(0, 300, "lenet", epochs=60, by=entropy, layers=(("body", "dense"),))
SMALL = Scale(
    cells=(
        *cells(DIGITS, ON_DIGITS, (50, 100, 200)),
        *cells(FASHION, ON_FASHION, (250, 500, 1000)),
    ),
    setup=Setup(model="mlp:64", batch=128, epochs=20, seeds=5, learning_rate=1e-3),
    notes=(
        "Every seed has its own teacher, its own pretrained student and its own split of the unlabelled part; all rows "
        "of a cell and a seed start from the same pretrained student. Seconds are those of the last training alone.",
        "digits come with scikit-learn; the teacher has two hidden layers of 256 units. fashion is the first 6,000 "
        "training and 2,000 test images of Fashion-MNIST; the teacher is LeNet, which errs in other places than the "
        "student, a network with one hidden layer of 64 units. A cell's name ends in the number of labelled examples; "
        "300 others are the validation set, and the rest is unlabelled. Confidence is entropy; weights are estimated "
        "once, except where a row says otherwise.",
        "The clean share is that of right labels among those with a weight above zero, labelled examples included.",
    ),
)

FALLING = stairs(1.0, ((0.4, 0.1), (0.6, 0.01), (0.8, 0.001), (0.9, 0.0005)))
EPOCHS, LABELLED_EPOCHS = 30, 100  # the paper has 200 of both
WHOLE_EPOCHS = 200
BUDGETS = (7500, 10000, 12500, 15000, 17500)
ONCE = ("standard", "teacher", "unweighted", "debias", "debias-consistent", "oracle")
COMPARED = ("fidelity", "composition")
UPDATED = ("teacher", "standard", "unweighted", "debias", "debias-every")
MOBILE = Teaching(0, 2000, "mobilenet:2", epochs=LABELLED_EPOCHS)
RESIDUAL = Teaching(0, 2000, "resnet110", epochs=LABELLED_EPOCHS)
BY_ENTROPY = partial(replace, validation=500, by=entropy, student_sees_validation=True)
FOR_UPDATES = partial(replace, validation=500, by=entropy)  # section 3.2, Figure 9
RESNET56 = {"model": "resnet56"}
IMAGENET = {
    "model": "timm:resnet18",  # with the stem of large images: 7x7 and pooling
    "epochs": 100,
    "batch": 256,
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "schedule": rising(5, stairs(1.0, ((0.3, 0.1), (0.6, 0.01), (0.8, 0.001)))),
    "augment": (Flip(),),
}


def at_full_length(cell: Cell) -> Cell:
    """The cell with all of the paper's epochs, of the student, of its pretraining and of the teacher."""
    teaching = replace(cell.changes["teaching"], epochs=WHOLE_EPOCHS)
    changes = {**cell.changes, "teaching": teaching, "epochs": WHOLE_EPOCHS, "seeds": 1}
    return replace(cell, name=f"{cell.name}-in-{WHOLE_EPOCHS}-epochs", points=(), changes=changes)


COMPOSED_ON_CIFAR10 = cells(
    Cell("cifar10", "cifar10", methods=(*ONCE, *COMPARED)), BY_ENTROPY(MOBILE, every_epoch=True), BUDGETS, "-entropy"
)
SVHN = cells(Cell("svhn", "svhn", methods=ONCE), MOBILE, BUDGETS)
PAPER_SCALE = Scale(
    cells=(
        *cells(Cell("cifar10", "cifar10", methods=ONCE), MOBILE, BUDGETS),
        *COMPOSED_ON_CIFAR10,
        at_full_length(COMPOSED_ON_CIFAR10[0]),
        *cells(Cell("cifar10", "cifar10", methods=UPDATED), FOR_UPDATES(MOBILE), BUDGETS, "-updates"),
        *cells(Cell("svhn", "svhn", methods=UPDATED), FOR_UPDATES(MOBILE), BUDGETS, "-updates"),
        *SVHN,
        first_third(SVHN[0]),
        *cells(Cell("cifar100", "cifar100", methods=ONCE, changes=RESNET56), RESIDUAL, BUDGETS),
        *cells(
            Cell("cifar100", "cifar100", methods=(*ONCE, *COMPARED), changes=RESNET56),
            BY_ENTROPY(RESIDUAL),
            BUDGETS,
            "-entropy",
        ),
        *cells(
            Cell("celeba", "celeba-gender", methods=(*ONCE, "vid", "vid-debias"), changes={"model": "resnet11"}),
            replace(MOBILE, layers=(("stages", "body"),)),
            (10000, 15000, 20000, 25000, 30000),
        ),
        *cells(
            Cell("imagenet", "imagenet", methods=(*ONCE, "unweighted-hard", "debias-hard"), changes=IMAGENET),
            Teaching(0, 10000, "timm:resnet50", epochs=LABELLED_EPOCHS),
            (64058, 128116),
        ),
    ),
    setup=Setup(
        model="mobilenet",
        batch=128,
        epochs=EPOCHS,
        schedule=FALLING,
        augment=(Chain(Flip(), Shift(0.1)),),
        learning_rate=1e-3,
        precision="bfloat16",
        seeds=5,
    ),
    notes=(
        f"{EPOCHS} epochs for every student and {LABELLED_EPOCHS} for teachers and pretraining, where the paper has "
        "200 of each; the learning rate falls at the same shares of a run as the paper's. The batch size is not given "
        "there; ours is 128. The paper's depth multiplier is read as MobileNet's width. Mixed precision (bfloat16).",
        "The paper reports the best epoch on the test set, over three splits of the unlabelled part around one teacher "
        "and one pretrained student; the gap is to ours of the best epoch, and the last ten epochs stand beside it. "
        "Here every seed has its own teacher and pretrained student, from which all rows of a cell start.",
        "CIFAR-100, CelebA and ImageNet are not run here: we do not have them. SVHN is cropped again from the full "
        "images. The cell that ends in -third has the first third of its training set, which was all there was when it "
        "was run, so its unlabelled part is smaller than the paper's.",
        "Cells that end in entropy are section 3.3: confidence by entropy, 500 validation examples that the student "
        "also learns from, and on CIFAR-10 weights estimated anew every epoch. The others are section 3.1: margin, "
        "2,000 validation examples, estimated once. Cells that end in -updates are section 3.2: as section 3.1, but "
        "entropy and 500 validation examples, with weights estimated once and anew every epoch.",
    ),
)

DISTIL = Suite(
    name="distil",
    title="Weighted distillation: a teacher that is sometimes wrong",
    paper=PAPER,
    methods=METHODS,
    scales={"small": SMALL, "paper": PAPER_SCALE},
    published={**ONE_SHOT, **COMPOSED},
    columns=("clean_share", "effective"),
    claims=CLAIMS,
    questions=QUESTIONS,
    verdict=ahead_all_along,
)
