"""The registry: every method by its name."""

from thresher.naming import unknown
from thresher.recipes.method import Method, Setting
from thresher.recipes.prl import co_teaching, prl_g, prl_l, spl, standard

PRL = "Provable robust learning (2020)"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("standard", standard, "plain training: every example counts the same", "baseline"),
        Method("spl", spl, "keep the smallest losses of each batch", "Kumar et al. (2010)", needs=("noise_rate",)),
        Method("prl-l", prl_l, "keep the smallest loss-layer gradients of each batch", PRL, needs=("noise_rate",)),
        Method("prl-g", prl_g, "keep the smallest whole gradients of each batch", PRL, needs=("noise_rate",)),
        Method(
            "co-teaching",
            co_teaching,
            "two networks, each keeps the smallest losses for the other",
            "Han et al. (2018)",
            needs=("noise_rate", "model factory"),
        ),
    )
}

__all__ = ["METHODS", "Method", "Setting", "method"]


def method(name: str) -> Method:
    """The method of this name.

    >>> method("prl-l").recipe(noise_rate=0.25).each_batch.fraction
    0.75
    """
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
