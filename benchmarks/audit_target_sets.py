"""The sets of benchmarks/audit_targets.py: standardised columns, a real target, and how some targets become wrong."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.preprocessing import StandardScaler

from thresher import Examples
from thresher.corruption import corrupt

Array = NDArray[Any]
COUNT = 2000  # examples of a set
ONE_SIDED = (2.0, 6.0)  # deviations of the targets that a one-sided outlier lies above its true value
SHIFTED = 1.0  # deviations by which a small error moves a target, up or down


def generated(make: Callable[..., tuple[Array, Array]], noise: float, folder: Path) -> tuple[Array, Array]:  # noqa: ARG001
    inputs, values = make(COUNT, noise=noise, random_state=0)
    return inputs, values


def table(name: str, target: str, logarithm: bool, folder: Path) -> tuple[Array, Array]:
    """Some rows of a table, of which one column is the target."""
    import pandas as pd

    rows = pd.read_csv(folder / "tabular" / f"{name}.tsv.gz", sep="\t").sample(COUNT, random_state=0)
    values = rows.pop(target).to_numpy(np.float64)
    return rows.to_numpy(np.float64), np.log(values) if logarithm else values


# Name -> what makes inputs [n, d] and true targets [n].
DEVELOPMENT = ("friedman1", "diabetes", "magic, fAlpha")
SETS: dict[str, Callable[[Path], tuple[Array, Array]]] = {
    "friedman1": partial(generated, make_friedman1, 1.0),
    "diabetes": lambda folder: load_diabetes(return_X_y=True),  # noqa: ARG005
    "magic, fAlpha": partial(table, "magic", "FAlpha", False),
    "houses": partial(table, "537_houses", "target", True),
    "friedman2": partial(generated, make_friedman2, 60.0),
    "friedman3": partial(generated, make_friedman3, 0.1),
    "satimage, A36": partial(table, "satimage", "A36", False),
    "adult, age": partial(table, "adult", "age", False),
}
NOISES = (
    "none", "uninoise:0.1", "uninoise:0.3", "signflip:0.2", "linadv:0.2", "onesided:0.2", "onesided:0.4", "shift:0.1",
)  # fmt: skip


def noisy(name: str, noise: str, seed: int, folder: Path) -> tuple[Array, Array, Array]:
    """Standardised inputs [n, d], true targets [n] and given ones [n]."""
    inputs, true = SETS[name](folder)
    inputs = StandardScaler().fit_transform(inputs).astype(np.float32)
    true = true.astype(np.float64)
    how, _, rate = noise.partition(":")
    if how == "none":
        return inputs, true, true.copy()
    if how in MOVED:
        return inputs, true, moved(true, float(rate), seed, *MOVED[how])
    clean = Examples(torch.from_numpy(inputs), torch.from_numpy(true[:, None]))
    return inputs, true, corrupt(clean, noise, seed=seed).targets[:, 0].double().numpy()


MOVED = {"onesided": (*ONE_SIDED, False), "shift": (SHIFTED, SHIFTED, True)}


def moved(true: Array, rate: float, seed: int, least: float, most: float, both: bool) -> Array:
    """Some targets moved by `least` to `most` deviations: up, or both up and down."""
    draws, given = np.random.default_rng(seed), true.copy()
    wrong = draws.permutation(len(true))[: round(rate * len(true))]
    sides = draws.choice([-1, 1], len(wrong)) if both else 1
    given[wrong] += sides * draws.uniform(least, most, len(wrong)) * true.std()
    return given
