"""What several test files share: one thread, digits with wrong labels, and one trained run of every method."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from torch import nn

from thresher import Examples, Run, fit
from thresher.corruption import corrupt
from thresher.data.builtin import digits
from thresher.models.mlp import MLP
from thresher.recipes import METHODS

NOISE = 0.4


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def mlp(shape: tuple[int, ...] = (1, 8, 8), outputs: int = 10) -> Callable[[], nn.Module]:
    return lambda: MLP(shape, outputs, hidden=(128,))


@pytest.fixture(scope="session")
def noisy_digits() -> tuple[Examples, Examples]:
    train, test = digits()
    return corrupt(train, f"symmetric:{NOISE}", seed=0), test


@pytest.fixture(scope="session")
def trained(noisy_digits: tuple[Examples, Examples]) -> Callable[[str], Run]:
    """`trained(name)`: the run of a registered method on digits with 40% of the labels flipped, made once."""
    train, test = noisy_digits

    @cache
    def run(name: str) -> Run:
        recipe = METHODS[name].recipe(noise_rate=NOISE, classes=10, epochs=25)
        return fit(recipe, mlp(), train, test=test, epochs=25, batch=64, device="cpu")

    return run
