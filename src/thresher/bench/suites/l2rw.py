"""L2RW: class imbalance, uniform and background flips with a few clean examples, and the paper's Figures 2, 4 and 5."""

from collections.abc import Sequence
from dataclasses import replace

from thresher.bench.definition.grid import Cell, Entry
from thresher.bench.definition.points import Axis, Point
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Claim, Scale, Suite
from thresher.bench.suites.conclusions import all_of, error_grows, falls_less, few_are_enough
from thresher.bench.suites.l2rw_tables import TABLE_1, TABLE_2
from thresher.core.schedules import step
from thresher.slots.views import weak

PAPER = "Learning to reweight examples for robust deep learning (2018)"

METHODS = (
    Entry("standard", "Baseline"),
    Entry("standard+es", "Baseline +ES", of="standard", early_stop=True),
    Entry("proportion", "Proportion"),
    Entry("resample", "Resample"),
    Entry("hard-mining", "Hard mining"),
    Entry("bootstrap-hard", "Reed-hard"),
    Entry("bootstrap-hard+es", "Reed-hard +ES", of="bootstrap-hard", early_stop=True),
    Entry("bootstrap-soft", "Reed-soft"),
    Entry("bootstrap-soft+es", "Reed-soft +ES", of="bootstrap-soft", early_stop=True),
    Entry("s-model", "S-Model"),
    Entry("s-model-conf", "S-Model +Conf"),
    Entry("s-model-conf+es", "S-Model +Conf +ES", of="s-model-conf", early_stop=True),
    Entry("mentornet", "MentorNet, curriculum"),
    Entry("mentornet-learned", "MentorNet, learned"),
    Entry("random-weights", "Random"),
    Entry("weighted-oracle", "Weighted (oracle)"),
    Entry("clean-only", "Clean only"),
    Entry("standard+ft", "Baseline +FT", of="standard", fine_tune=True),
    Entry("standard+es+ft", "Baseline +ES +FT", of="standard", early_stop=True, fine_tune=True),
    Entry("mentornet+ft", "MentorNet +FT", of="mentornet", fine_tune=True),
    Entry("random-weights+ft", "Random +FT", of="random-weights", fine_tune=True),
    Entry("weighted-oracle+ft", "Weighted +FT", of="weighted-oracle", fine_tune=True),
    Entry("s-model-conf+ft", "S-Model +Conf +FT", of="s-model-conf", fine_tune=True),
    Entry("s-model-conf+es+ft", "S-Model +Conf +ES +FT", of="s-model-conf", early_stop=True, fine_tune=True),
    Entry("l2rw", "L2RW, clean apart (code)"),
    Entry("l2rw-inside", "L2RW, clean inside (3.1)", of="l2rw", clean_inside=True),
)
FOR_IMBALANCE = ("proportion", "resample", "hard-mining")
IMBALANCE = ("standard", *FOR_IMBALANCE, "random-weights", "clean-only", "standard+ft", "l2rw", "l2rw-inside")
NOISE = tuple(entry.name for entry in METHODS if entry.name not in FOR_IMBALANCE)
UNSTOPPED = tuple(entry.name for entry in METHODS if entry.name in NOISE and not entry.early_stop)
IN_TABLE_1 = (*(method for cell, method in TABLE_1 if cell.startswith("cifar10-")), "mentornet-learned", "l2rw-inside")
IN_TABLE_2 = (*(method for cell, method in TABLE_2 if cell.startswith("cifar10-")), "l2rw-inside")
CURVES = (
    "standard", "standard+es", "s-model-conf", "mentornet", "random-weights", "clean-only", "standard+ft", "l2rw",
    "l2rw-inside",
)  # fmt: skip

RATIO = Axis("imbalance, common to rare", log=True, as_errors=True)  # Figure 2
SIZE = Axis("clean examples", log=True, methods=CURVES)  # Figure 4
LEVEL = Axis("labels flipped, %", methods=CURVES)  # Figure 5
MAIN = 40  # percent of the labels, in both tables
BACKGROUNDS = ("0", "1", "3", "5", "7")  # of the paper's five trials on CIFAR-10
BACKGROUNDS_100 = ("7", "12", "41", "62", "85")

FORMS = ("l2rw", "l2rw-inside")  # of the paper's one row
BASELINES = {  # in each table
    "uniformflip": tuple(name for name in IN_TABLE_1 if name not in FORMS),
    "backgroundflip": tuple(name for name in IN_TABLE_2 if name not in FORMS),
}
HISTORICAL = ("standard", "bootstrap-hard", "s-model", "mentornet", "mentornet-learned")
STOPPED = ("standard+es", "standard+es+ft", "s-model-conf+es", "s-model-conf+es+ft")
FULL = "-in-80000-steps"  # the paper's own length: the rate falls after 40,000 and 60,000 steps
OF_TABLES = tuple(  # the others are points of figures
    f"{data}-{name}-{MAIN}{ending}"
    for data in ("digits", "cifar10", "cifar100")
    for name in ("uniform", "background")
    for ending in ("", FULL)
)
CLAIMS = (  # sections 4.1 and 4.3
    Claim(FORMS, ("standard", *FOR_IMBALANCE, "random-weights"), corruptions=("imbalance",)),
    *(Claim(FORMS, names, corruptions=(corruption,), cells=OF_TABLES) for corruption, names in BASELINES.items()),
    Claim(("random-weights",), HISTORICAL, corruptions=("uniformflip",), cells=OF_TABLES),
    *(Claim((name,), (name.replace("+es", ""),), corruptions=("backgroundflip",), cells=OF_TABLES) for name in STOPPED),
)
QUESTIONS = (Claim(("l2rw-inside",), ("l2rw",)),)


def imbalance(kind: Cell, ratios: Sequence[int], total: int | None = None) -> tuple[Cell, ...]:
    """A cell for each ratio of the second class to the first, with ten clean examples and the recall of the rare class.

    >>> [cell.corruption for cell in imbalance(Cell("mnist", "mnist:4,9"), (10, 200), total=4990)]
    ['imbalance:10:4990', 'imbalance:200:4990']
    """
    return tuple(
        replace(
            kind,
            name=f"{kind.name}-imbalance-{ratio}",
            corruption=f"imbalance:{ratio}" + ("" if total is None else f":{total}"),
            clean=10,
            methods=IMBALANCE,
            columns=("balanced_accuracy", "recall_0"),
            points=(Point(RATIO, ratio, kind.data),),
        )
        for ratio in ratios
    )


def uniform(kind: Cell, clean: int) -> Cell:
    """UNIFORMFLIP at 40%; methods that need the rate are told the true one."""
    return replace(
        kind,
        name=f"{kind.name}-uniform-{MAIN}",
        corruption="uniformflip:0.4",
        noise_rate=0.4,
        clean=clean,
        validation=0.1,
    )


def background(
    kind: Cell, clean: int, percent: int = MAIN, usual: int = 100, to: tuple[str, ...] = BACKGROUNDS
) -> Cell:
    """BACKGROUNDFLIP, to another class for each seed; cells with the usual clean set or rate are points of a figure.

    >>> background(Cell("digits", "digits"), 10).name, background(Cell("digits", "digits"), 100, 20).name
    ('digits-background-40-clean-10', 'digits-background-20')
    """
    points = []
    if percent == MAIN:
        points.append(Point(SIZE, clean, f"{kind.data}, {MAIN}% to the background"))
    if clean == usual:
        points.append(Point(LEVEL, percent, f"{kind.data}, {usual} clean examples"))
    return replace(
        kind,
        name=f"{kind.name}-background-{percent}" + ("" if clean == usual else f"-clean-{clean}"),
        corruption=f"backgroundflip:{percent / 100:g}",
        options=to,
        noise_rate=percent / 100,
        clean=clean,
        validation=0.1,
        points=tuple(points),
    )


DIGITS = Cell("digits", "digits", methods=NOISE)
SMALL = Scale(
    cells=(
        *imbalance(Cell("digits", "digits:4,9", changes={"batch": 32, "epochs": 100}), (10, 20, 50, 100)),
        uniform(DIGITS, clean=50),
        background(DIGITS, clean=100),
        replace(DIGITS, name="digits-pair-40", corruption="pairflip:0.4", noise_rate=0.4, clean=50, methods=UNSTOPPED),
        *(background(DIGITS, clean=size) for size in (10, 20, 50, 200, 500)),
        *(background(DIGITS, clean=100, percent=percent) for percent in (0, 10, 20, 30, 50, 60)),
    ),
    setup=Setup(model="mlp:256x256", batch=64, epochs=30, seeds=5, tuning_steps=300, learning_rate=1e-3),
    notes=(
        "Five seeds in every cell, and every baseline; the pictures of clean-set sizes and noise levels (Figures 4 and "
        "5) show nine of the methods, the tables all.",
        "Clean images are taken out before the rest is corrupted, equally many of each class, as in the released code; "
        "the last row has them in the training set as well, as section 3.1 assumes. Methods without a "
        "clean set never see them: the rows Clean only and +FT say what they are worth by themselves. At 100:1 one "
        "four is left to train on beside them.",
        "In the cells of the uniform and of the background flip a tenth of the training set, as corrupt as the rest, "
        "is held out from every method; +ES keeps the epoch that did best on it, and its score after an epoch is that "
        "of the network it would keep. +FT trains 300 steps on the clean images alone, at the last learning rate; the "
        "paper takes 5,000.",
        "Seed by seed the background class is 0, 1, 3, 5, 7, as in the paper's five trials.",
        "Weighted is told the share of right labels in each class, and MentorNet the share of wrong ones.",
        "Digits are easy: a few clean images of each class teach most of the task by themselves, so fine-tuning on "
        "them comes close to L2RW, passes it from 200 clean images on under background flips, and is above it under "
        "imbalance; on CIFAR, in the paper's Figure 4, it catches up at 1,000.",
    ),
)

# The paper trains ResNet-32 for 80,000 steps of 100 on 45,000 images, 178 epochs, and WRN-28-10 for 60,000, 133 epochs.
EPOCHS, WIDE_EPOCHS = 60, 45
MNIST = {
    "model": "lenet",
    "steps": 8000,
    "epochs": None,
    "schedule": None,
    "optimizer": "sgd",
    "learning_rate": 1e-3,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "augment": None,
    "precision": "float32",
    "seeds": 10,  # as in the paper
}
WIDE = {
    "model": "wrn-28-10:0.3",
    "epochs": WIDE_EPOCHS,
    "schedule": step(1.0, at=(WIDE_EPOCHS * 2 / 3, WIDE_EPOCHS * 5 / 6)),
}
FIGURES = Cell("cifar10", "cifar10", methods=CURVES)


def at_full_length(cell: Cell) -> Cell:
    """The cell with all of the paper's steps of ResNet-32."""
    changes = {"steps": 80_000, "epochs": None, "schedule": step(1.0, at=(88, 132))}  # 454 steps an epoch
    return replace(cell, name=f"{cell.name}{FULL}", points=(), changes={**cell.changes, **changes})


PAPER_SCALE = Scale(
    cells=(
        *imbalance(Cell("mnist", "mnist:4,9", changes=MNIST), (10, 20, 50, 100, 200), total=4990),
        *(uniform(Cell(name, name, methods=IN_TABLE_1, changes=WIDE), clean=1000) for name in ("cifar10", "cifar100")),
        background(Cell("cifar10", "cifar10", methods=IN_TABLE_2), clean=100),
        at_full_length(background(Cell("cifar10", "cifar10", methods=IN_TABLE_2), clean=100)),
        background(Cell("cifar100", "cifar100", methods=IN_TABLE_2), clean=1000, usual=1000, to=BACKGROUNDS_100),
        *(background(FIGURES, clean=size, to=("3",)) for size in (15, 50, 250, 500, 1000)),
        *(background(FIGURES, clean=100, percent=percent) for percent in (0, 10, 20, 30, 50)),
    ),
    setup=Setup(
        model="resnet32",
        batch=100,
        epochs=EPOCHS,
        seeds=5,
        schedule=step(1.0, at=(EPOCHS / 2, EPOCHS * 3 / 4)),
        optimizer="sgd",
        learning_rate=0.1,
        momentum=0.9,
        weight_decay=2e-4,
        augment=(weak(),),
        precision="bfloat16",
    ),
    notes=(
        f"On CIFAR {EPOCHS} epochs (ResNet-32) and {WIDE_EPOCHS} (WRN-28-10) for every method alike, where the paper "
        "takes 178 and 133 (80,000 and 60,000 steps of 100 on 45,000 images); the learning rate falls at the same "
        "shares of the run. Cells that end in -steps have all of them. The paper's early-stopped ResNet-32 has 133 "
        "epochs; here it has as many as the others. "
        "Mixed precision (bfloat16); crops and flips; the weight decay of 2e-4 is that of the released code.",
        "The paper's ± is a 95% interval over five splits, ours the deviation over seeds. Its background classes, seed "
        "by seed, are ours. Its MentorNet rows are copied from that paper, and on CIFAR-100 its Weighted row repeats "
        "Random, probably a slip. CIFAR-100 is not run here: we do not have it.",
        "A tenth of the training set, as corrupt as the rest, is held out from every method; +ES keeps the epoch that "
        "did best on it, and its score after an epoch is that of the network it would keep. +FT trains 5,000 steps on "
        "the clean images alone, at the last learning rate.",
        "On the gaps of background flips: every method has a third of the paper's steps. Standard ends far above the "
        "paper's because it has had less time to memorise the background, and has begun to: it ends four points "
        "below its best epoch. L2RW is above it, but ten points below the paper's: it learns from about half "
        "of each batch, so that a third of the steps is a sixth of the learning; 94 of 100 labels it counts are "
        "right, and its last epoch is its best. Random weights learn from half of each batch as well, and end "
        "lowest. In 24 epochs L2RW was below Standard: [both lengths](lengths.md).",
        "MNIST: 4,990 fours and nines, of which nines dominate, and ten clean ones, five of each; so methods without a "
        "clean set see as many fours as in the released code (25 at 200:1). 8,000 steps for every method, as the paper "
        "says, with momentum 0.9, as its code has; the code gives L2RW half of the steps, and tests on 500 images, "
        "where we take all fours and nines of the test set. The paper prints "
        "Figure 2, and in section 4.1 that the error at 200:1 grows by about 2%.",
    ),
)


_BOTH = {**TABLE_1, **TABLE_2}
# The paper's section 3.1 has the clean examples among the training set, its code apart from it: its row beside both.
# Of MentorNet it copies the numbers of the learned one; they stand beside the curriculum as well.
_FORMS = {"l2rw": "l2rw-inside", "mentornet": "mentornet-learned"}
PUBLISHED = _BOTH | {(cell, _FORMS[row]): number for (cell, row), number in _BOTH.items() if row in _FORMS}

L2RW = Suite(
    name="l2rw",
    title="L2RW: a few clean examples against imbalance and flips",
    paper=PAPER,
    methods=METHODS,
    scales={"small": SMALL, "paper": PAPER_SCALE},
    published=PUBLISHED,
    claims=CLAIMS,
    questions=QUESTIONS,
    verdict=all_of(error_grows, falls_less(LEVEL), few_are_enough(SIZE)),
)
