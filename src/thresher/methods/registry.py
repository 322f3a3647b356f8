"""The registry: every method by its name, of four kinds."""

from thresher.core.errors import unknown
from thresher.methods import crust, l2rw, prl
from thresher.methods.acquisitions import ACQUISITIONS
from thresher.methods.clean_only import clean_only
from thresher.methods.determinant import determinant
from thresher.methods.forward_correction import forward_correction
from thresher.methods.generalized_cross_entropy import gce
from thresher.methods.incv import incv
from thresher.methods.method import CLASSES, Method
from thresher.methods.noise_layer import noise_layer_from_confusion
from thresher.methods.ordered_sgd import top_q
from thresher.methods.reclaim import patient, reclaim
from thresher.methods.reclaim_vote import reclaim_vote
from thresher.methods.t_revision import t_revision
from thresher.methods.weightings import WEIGHTINGS

PRL = "Provable robust learning (2020)"
L2RW, S_MODEL = "Learning to reweight examples (2018)", "Goldberger and Ben-Reuven (2017)"
CRUST = "Coresets for robust training (2020)"
REED = "Reed et al. (2014)"
RATE, RATE_AND_PEER = ("noise_rate",), ("noise_rate", "model factory")
REAL = ("regression",)

METHODS: dict[str, Method] = {  # those that train: recipes and procedures
    each.name: each
    for each in (
        Method("standard", prl.standard, "plain training: every example counts the same", "baseline"),
        Method("normclip", prl.normclip, "plain training, the norm of the whole gradient bounded", "baseline"),
        Method("huber", prl.huber, "plain training with the Huber loss", "Huber (1964)", tasks=REAL),
        Method(
            "bootstrap-hard", prl.bootstrap_hard, "a fifth of each label is the predicted class", REED, tasks=CLASSES
        ),
        Method(
            "bootstrap-soft", prl.bootstrap_soft, "a twentieth of each label is the prediction", REED, tasks=CLASSES
        ),
        Method("gce", gce, "cross entropy bent towards absolute error", "Zhang and Sabuncu (2018)", tasks=CLASSES),
        Method("min-sgd", prl.min_sgd, "learn only from the smallest loss of each batch", "Shah et al. (2020)"),
        Method(
            "decouple",
            prl.decouple,
            "two networks learn only where they disagree",
            "Malach and Shalev-Shwartz (2017)",
            needs=("model factory",),
            tasks=CLASSES,
        ),
        Method("spl", prl.spl, "keep the smallest losses of each batch", "Kumar et al. (2010)", needs=RATE),
        Method("spl-ramp", prl.spl_ramp, "spl with a share that falls over ten epochs", PRL, needs=RATE),
        Method("ignormclip", prl.ignormclip, "each example's gradient bounded before the mean", PRL),
        Method("prl-l", prl.prl_l, "keep the smallest loss-layer gradients of each batch", PRL, needs=RATE),
        Method("prl-l-ramp", prl.prl_l_ramp, "prl-l with a share that falls over ten epochs", PRL, needs=RATE),
        Method("prl-g", prl.prl_g, "keep the smallest whole gradients of each batch", PRL, needs=RATE),
        Method(
            "co-teaching",
            prl.co_teaching,
            "two networks, each keeps the smallest losses for the other",
            "Han et al. (2018)",
            needs=RATE_AND_PEER,
        ),
        Method(
            "co-prl-l",
            prl.co_prl_l,
            "two networks, each keeps the smallest loss-layer gradients for the other",
            PRL,
            needs=RATE_AND_PEER,
        ),
        Method("l2rw", l2rw.l2rw, "count an example as far as it helps a few clean ones", L2RW, needs=("clean",)),
        Method(
            "proportion",
            l2rw.proportion,
            "rare classes count more: weights by inverse class frequency",
            L2RW,
            clock="epoch",
            tasks=CLASSES,
        ),
        Method("resample", l2rw.resample, "batches in which every class is equally frequent", L2RW, tasks=CLASSES),
        Method("hard-mining", l2rw.hard_mining, "of the majority class only the largest losses", L2RW, tasks=CLASSES),
        Method("random-weights", l2rw.random_weights, "random weights, anew in every batch: a regularizer", L2RW),
        Method(
            "s-model",
            l2rw.s_model,
            "learn how true labels turn into given ones, beside the model",
            S_MODEL,
            tasks=CLASSES,
        ),
        Method(
            "s-model-conf",
            None,
            "s-model that starts from the confusion of a model trained before",
            S_MODEL,
            tasks=CLASSES,
            procedure=noise_layer_from_confusion,
        ),
        Method(
            "mentornet",
            l2rw.mentornet,
            "after a burn-in, losses below a moving average of their quantile",
            "Jiang et al. (2018)",
            needs=RATE,
        ),
        Method(
            "mentornet-learned",
            l2rw.mentornet_learned,
            "weights by a small network that was taught a curriculum of losses",
            "Jiang et al. (2018)",
            needs=RATE,
            tasks=CLASSES,
        ),
        Method(
            "clean-only",
            None,
            "train on the few clean examples alone",
            L2RW,
            clock="epoch",
            needs=("clean",),
            procedure=clean_only,
        ),
        Method(
            "weighted-oracle",
            l2rw.weighted_oracle,
            "each class counts by its share of clean examples, which an oracle tells",
            L2RW,
            clock="epoch",
            needs=("column is_corrupt",),
            tasks=CLASSES,
        ),
        Method(
            "crust",
            crust.crust,
            "every epoch, medoids of the gradients, weighted by their clusters: the paper's Algorithm 1",
            CRUST,
            clock="epoch",
            tasks=CLASSES,
        ),
        Method(
            "crust-released",
            crust.crust_released,
            "every epoch, the half of each given class whose gradients lie most central: the paper's code",
            CRUST,
            clock="epoch",
            tasks=CLASSES,
        ),
        Method(
            "crust-central",
            crust.crust_central,
            "every epoch, the half of each predicted class whose gradients lie most central",
            CRUST,
            clock="epoch",
            tasks=CLASSES,
        ),
        Method("mixup", crust.mixup, "learn from blends of random pairs", "Zhang et al. (2018)"),
        Method(
            "f-correction",
            None,
            "estimate how labels turn wrong by a first training, then train through that",
            "Patrini et al. (2017)",
            tasks=CLASSES,
            procedure=forward_correction,
        ),
        Method(
            "d2l",
            crust.d2l,
            "predictions replace labels as the features' dimensionality rises",
            "Ma et al. (2018)",
            clock="epoch",
            tasks=CLASSES,
        ),
        Method(
            "incv",
            None,
            "two networks learn from what trainings on the other half predict",
            "Chen et al. (2019)",
            needs=("model factory",),
            tasks=CLASSES,
            procedure=incv,
        ),
        Method(
            "t-revision",
            None,
            "losses reweighted by a transition that training revises",
            "Xia et al. (2019)",
            tasks=CLASSES,
            procedure=t_revision,
        ),
        Method(
            "dmi",
            None,
            "after plain training, the determinant of how predictions and labels go together",
            "Xu et al. (2019)",
            tasks=CLASSES,
            procedure=determinant,
        ),
        Method(
            "reclaim",
            reclaim,
            "trust some labels, let the averaged model label the rest, learn from both",
            "the five papers as one loop",
            clock="epoch",
            needs=RATE,
            tasks=CLASSES,
        ),
        Method(
            "reclaim-patient",
            patient,
            "reclaim for mostly wrong labels: learn from all of them for longer, reclaim the surest later",
            "the five papers as one loop",
            clock="epoch",
            needs=RATE,
            tasks=CLASSES,
        ),
        Method(
            "reclaim-vote",
            reclaim_vote,
            "reclaim that begins with labels that win the vote of their neighbours",
            "SSR (2022) and the five papers as one loop",
            clock="epoch",
            needs=RATE,
            tasks=CLASSES,
        ),
        Method("top-q", top_q, "learn only from the largest losses of each batch", "Kawaguchi and Lu (2020)"),
    )
}


KINDS = ("recipe", "procedure", "acquisition", "weighting")
_EVERY: dict[str, Method] = {**METHODS, **ACQUISITIONS, **WEIGHTINGS}  # no name is of two kinds, which a test holds


def methods(kind: str | None = None) -> list[Method]:
    """Every method, or those of a kind: "recipe", "procedure", "acquisition" or "weighting".

    >>> [known.name for known in methods("weighting")]
    ['unweighted', 'debias', 'consistent', 'fidelity', 'composition', 'oracle']
    """
    if kind not in (None, *KINDS):
        raise unknown("kind of method", str(kind), KINDS)
    return [known for known in _EVERY.values() if kind in (None, known.kind)]


def method(name: str) -> Method:
    """The method of this name, of any kind.

    >>> method("prl-l").recipe(noise_rate=0.25).each_batch.fraction, method("badge").kind
    (0.75, 'acquisition')
    """
    if name not in _EVERY:
        raise unknown("method", str(name), _EVERY)
    return _EVERY[name]
