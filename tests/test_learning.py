"""Every registered method learns, and the robust ones survive 40% wrong labels."""

from collections.abc import Callable

import pytest
from conftest import NOISE

from thresher import Run, ThresherError, fit
from thresher.corruption import corrupt
from thresher.data.builtin import regression
from thresher.models.mlp import MLP
from thresher.recipes import METHODS, method

# By how much the accuracy of the last epochs must exceed Standard's on digits with 40% of the labels flipped.
# A method that is registered and has no row here is an error: add it with the margin it reaches.
MARGINS = {"standard": 0.0, "spl": 0.07, "prl-l": 0.07, "prl-g": 0.07, "co-teaching": 0.07}

# By how much R² must exceed Standard's on generated real targets with 30% of the signs turned; None: for classes only.
REAL_MARGINS: dict[str, float | None] = {
    "standard": 0.0,
    "spl": 0.2,
    "prl-l": 0.2,
    "prl-g": 0.2,
    "co-teaching": 0.1,
}


def test_every_method_has_its_rows() -> None:
    assert METHODS.keys() == MARGINS.keys() == REAL_MARGINS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_digits(name: str, trained: Callable[[str], Run]) -> None:
    run = trained(name)
    score, plain = run.last(5), trained("standard").last(5)
    assert score is not None
    assert plain is not None
    assert 0.7 < plain < 0.87, "Standard learns, and suffers from the wrong labels"
    assert score >= plain + MARGINS[name]
    clean = run.clean_share(5)
    assert clean is not None
    assert clean >= (1 - NOISE if name == "standard" else 0.8) - 1e-6


@pytest.mark.parametrize("name", METHODS)
def test_real_targets(name: str) -> None:
    margin = REAL_MARGINS[name]
    train, test = regression(600)
    wrong = corrupt(train, "signflip:0.3", seed=0)
    scores = {}
    for each in dict.fromkeys(("standard", name)):
        recipe = METHODS[each].recipe(noise_rate=0.3, epochs=15)
        if margin is None and each == name:
            with pytest.raises(ThresherError):
                fit(recipe, lambda: MLP((16,), 3, hidden=(64,)), wrong, epochs=15, batch=32, device="cpu")
            return
        run = fit(recipe, lambda: MLP((16,), 3, hidden=(64,)), wrong, test=test, epochs=15, batch=32, device="cpu")
        scores[each] = run.last(3)
        assert scores[each] is not None
        assert run.history[-1]["metric"] == "r2"
    assert scores["standard"] > 0.0, "Standard learns something"
    assert scores[name] >= scores["standard"] + (margin or 0.0)


def test_names() -> None:
    for name in METHODS:
        assert method(name).name == name
        assert method(name).summary
        assert method(name).paper
        assert method(name).clock in ("batch", "epoch", "round")
    with pytest.raises(ThresherError, match="did you mean 'prl-l'"):
        method("prll")
    for name in ("spl", "prl-l", "prl-g", "co-teaching"):
        assert "noise_rate" in METHODS[name].needs
        with pytest.raises(ThresherError, match="give --noise-rate"):
            METHODS[name].recipe()
        with pytest.raises(ThresherError, match="give a number from 0 up to 1"):
            METHODS[name].recipe(noise_rate=1.0)
