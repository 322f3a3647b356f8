"""What several test files share: one thread, digits with wrong labels, and one trained run of every method."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from tiny import trusted

from thresher import Examples, Run
from thresher.corruption import corrupt
from thresher.data.builtin import digits
from thresher.models.mlp import MLP
from thresher.procedures import Trainer
from thresher.recipes import METHODS

NOISE, EPOCHS = 0.4, 35  # by then plain training has learnt many of the wrong labels


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
        settings = {
            "model": lambda: MLP((1, 8, 8), 10, hidden=(256,)),
            "train": train,
            "test": test,
            "clean": trusted(train, 50),
            "epochs": EPOCHS,
            "batch": 64,
            "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=5e-3),
            "device": "cpu",
        }
        return METHODS[name].train(Trainer(settings), noise_rate=NOISE, classes=10, epochs=EPOCHS)

    return run
