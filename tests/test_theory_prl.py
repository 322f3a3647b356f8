"""The theory of PRL on generated gradients: bounds hold, are attained, and fail where docs/theory/prl.md says so."""

from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from thresher import Examples, signals, weigh
from thresher.corruption import corrupt
from thresher.rules import KeepSmallest, Uniform, keep_smallest

RATES = st.sampled_from((0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.45))
SIZES = st.sampled_from((0.0, 0.3, 1.0, 30.0, 1e6))
SEEDS = st.integers(0, 2**31)
SOME = settings(max_examples=60, deadline=None)


@dataclass(frozen=True)
class Batch:
    """m gradients αW of which some were changed to δW: W [m, q, d], α and δ [m, q]."""

    jacobians: Tensor
    alpha: Tensor
    delta: Tensor
    wrong: Tensor  # positions

    @property
    def clean(self) -> Tensor:
        return torch.einsum("mq,mqd->md", self.alpha, self.jacobians)

    @property
    def given(self) -> Tensor:
        return torch.einsum("mq,mqd->md", self.delta, self.jacobians)

    @property
    def slope(self) -> float:
        """C, the largest operator norm of W."""
        return float(torch.linalg.matrix_norm(self.jacobians, 2).max())

    def error(self, estimate: Tensor) -> float:
        return float((self.clean.mean(0) - estimate).norm())


def batch(seed: int, rate: float, size: float, m: int = 40, q: int = 3, d: int = 12) -> Batch:
    draws = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws, dtype=torch.float64)

    # Heavy tails and a common direction: the cases in which the mean moves most.
    alpha = (normal(m, q) + 2 * normal(1, q)) * normal(m, 1).exp()
    wrong = torch.randperm(m, generator=draws)[: round(rate * m)]
    delta = alpha.clone()
    delta[wrong] = size * longest(alpha) * (0.1 * normal(len(wrong), q) + normal(1, q))
    return Batch(normal(m, q, d), alpha, delta, wrong)


def longest(rows: Tensor) -> float:
    return float(rows.norm(dim=1).max()) if len(rows) else 0.0


def lemma_1(rate: float, slope: float, k: float, v: float) -> float:
    return slope * (k * (3 * rate - 4 * rate**2) + v * rate) / (1 - rate)


def kept_by(norms: Tensor, rate: float) -> Tensor:
    return keep_smallest(norms, torch.arange(len(norms)), fraction=1 - rate).bool()


@SOME
@given(SEEDS, RATES, SIZES)
def test_lemma_1_bounds_the_error_of_any_selection(seed: int, rate: float, size: float) -> None:
    some = batch(seed, rate, size)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(seed))
    kept = order[: 40 - len(some.wrong)]
    wrong_kept = some.delta[kept[torch.isin(kept, some.wrong)]]
    bound = lemma_1(len(some.wrong) / 40, some.slope, longest(some.alpha), longest(wrong_kept))
    assert some.error(some.given[kept].mean(0)) <= bound + 1e-9


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.4])
@pytest.mark.parametrize("v", [0.0, 0.5, 1.0, 7.0])
def test_lemma_1_is_attained(rate: float, v: float) -> None:
    clean, given, kept = worst(rate, v)
    error = float((clean.mean(0) - given[kept].mean(0)).norm())
    assert error == pytest.approx(lemma_1(rate, 1.0, 1.0, v), rel=1e-12)


def worst(rate: float, v: float, m: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    """Clean rows that are kept are -1, those dropped and those replaced +1, wrong ones -v; all wrong ones are kept."""
    wrong = round(rate * m)
    clean = torch.cat([-torch.ones(m - 2 * wrong), torch.ones(2 * wrong)]).double()[:, None]
    given = clean.clone()
    given[m - wrong :] = -v
    kept = torch.ones(m, dtype=torch.bool)
    kept[m - 2 * wrong : m - wrong] = False
    return clean, given, kept


def test_lemma_1_fails_above_one_half_as_printed() -> None:
    clean, given = torch.ones(10, 1), torch.cat([torch.zeros(6, 1), torch.ones(4, 1)])
    error = float((clean.mean(0) - given[:4].mean(0)).norm())
    assert error > lemma_1(0.6, 1.0, 1.0, 0.0) + 0.05


@SOME
@given(SEEDS, RATES, SIZES)
def test_theorem_3_bounds_prl_l(seed: int, rate: float, size: float) -> None:
    some = batch(seed, rate, size)
    kept = kept_by(some.delta.norm(dim=1), rate)
    assert longest(some.delta[kept]) <= longest(some.alpha)
    assert some.error(some.given[kept].mean(0)) <= 4 * rate * some.slope * longest(some.alpha)


@SOME
@given(SEEDS, RATES, SIZES)
def test_theorem_3_holds_with_a_rate_that_is_too_high(seed: int, rate: float, size: float) -> None:
    some = batch(seed, rate, size)
    kept = kept_by(some.delta.norm(dim=1), rate + 0.2)
    assert some.error(some.given[kept].mean(0)) <= 4 * (rate + 0.2) * some.slope * longest(some.alpha)


@pytest.mark.parametrize("told", [0.0, 0.1])
def test_a_rate_that_is_too_low_has_no_bound(told: float) -> None:
    errors = []
    for size in (1.0, 1e3, 1e6):
        some = batch(0, 0.2, size)
        errors.append(some.error(some.given[kept_by(some.delta.norm(dim=1), told)].mean(0)))
    assert errors[1] > 100 * errors[0]
    assert errors[2] > 900 * errors[1]


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.4])
def test_theorem_3_is_attained(rate: float) -> None:
    clean, given, chosen = worst(rate, v=1 - 1e-9)
    first = 40 - 2 * round(rate * 40)
    clean[:first] *= 1 - 1e-9
    given[:first] *= 1 - 1e-9
    kept = kept_by(given.norm(dim=1), rate)
    assert torch.equal(kept, chosen)
    assert float((clean.mean(0) - given[kept].mean(0)).norm()) == pytest.approx(4 * rate, abs=1e-6)


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_the_loss_layer_gradient_of_cross_entropy_is_no_longer_than_the_root_of_two(classes: int) -> None:
    outputs = 30 * torch.randn(300, classes, generator=torch.Generator().manual_seed(0)).double()
    lengths = (outputs.softmax(1) - torch.eye(classes).double()[torch.arange(300) % classes]).norm(dim=1)
    assert 1.0 < float(lengths.max()) <= 2**0.5


@SOME
@given(SEEDS, RATES, SIZES)
def test_theorem_2_bounds_prl_g_with_the_constant_four(seed: int, rate: float, size: float) -> None:
    some = batch(seed, rate, size)
    given = some.given.clone()
    anything = batch(seed + 1, rate, size).clean[:1]  # not of the form δW
    given[some.wrong] = size * longest(some.clean) * anything / anything.norm()
    kept = kept_by(given.norm(dim=1), rate)
    assert some.error(given[kept].mean(0)) <= 4 * rate * longest(some.clean)


@given(st.fractions(Fraction(1, 100), Fraction(49, 100)), st.integers(1, 1000))
def test_the_sums_of_theorem_2_give_four_epsilon_and_not_what_is_printed(rate: Fraction, m: int) -> None:
    n, x = (1 - rate) * m, (1 - 2 * rate) * m
    total = x * (m - n) / (n * m) + (n - x) / m + (m - n) / m + (n - x) / n
    assert total == 4 * rate
    assert total < 4 - 2 * rate / (1 - rate)


def test_no_bound_of_theorem_2_can_do_without_the_size_of_clean_gradients() -> None:
    some = batch(3, 0.2, 1.0)
    errors = []
    for scale in (1, 1000):
        kept = kept_by(scale * some.given.norm(dim=1), 0.2)
        errors.append(float((scale * some.clean.mean(0) - (scale * some.given)[kept].mean(0)).norm()))
    assert errors[1] == pytest.approx(1000 * errors[0])


@given(SEEDS, st.sampled_from((2, 3, 5, 10, 100)), st.sampled_from((0.3, 1.0, 4.0)))
@SOME
def test_lemma_2_is_sufficient_and_necessary(seed: int, classes: int, sharpness: float) -> None:
    draws = torch.Generator().manual_seed(seed)
    rows = (sharpness * torch.randn(2, 50, classes, generator=draws).double()).softmax(2)
    swap = (rows[0, :, 0] < rows[1, :, 0])[:, None]
    a, b = torch.where(swap, rows[1], rows[0]), torch.where(swap, rows[0], rows[1])
    label = torch.eye(classes).double()[0]
    longer = (a - label).norm(dim=1) >= (b - label).norm(dim=1)
    needed = classes / (classes - 1) ** 2 * (a[:, 0] - b[:, 0]) * (2 - a[:, 0] - b[:, 0])
    assert torch.equal(longer, a[:, 1:].var(1, correction=0) - b[:, 1:].var(1, correction=0) >= needed)


def test_with_two_classes_prl_l_keeps_what_spl_keeps_and_with_ten_it_does_not() -> None:
    torch.manual_seed(0)
    for classes, equal in ((2, True), (10, False)):
        model, inputs = torch.nn.Linear(6, classes), torch.randn(200, 6)
        labels = torch.arange(200) % classes
        chosen = [
            weigh(KeepSmallest(by=by, fraction=0.5), model, inputs, labels)
            for by in (signals.loss, signals.output_gradient_norm)
        ]
        assert torch.equal(*chosen) is equal


def test_the_paper_s_example_of_a_small_loss_with_a_large_gradient() -> None:
    points = torch.tensor([[1000.0, 1.0], [495.0, -49.5]], requires_grad=True)
    values = 0.5 * points[:, 0] ** 2 + 50 * points[:, 1] ** 2
    (slopes,) = torch.autograd.grad(values.sum(), points)
    assert values[0] > values[1]
    assert slopes[0].norm() < slopes[1].norm()


@pytest.mark.parametrize("by", [signals.output_gradient_norm, signals.gradient_norm], ids=["PRL(L)", "PRL(G)"])
def test_the_bounds_hold_for_a_network_and_plain_training_breaks_them(by: signals.Signal) -> None:
    torch.manual_seed(0)
    rate, examples = 0.2, Examples(torch.randn(60, 5), torch.randn(60, 3))
    dirty = corrupt(examples, f"linadv:{rate}:1000", seed=0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    clean = gradients(model, examples.inputs, examples.targets)
    given = gradients(model, dirty.inputs, dirty.targets)
    if by is signals.gradient_norm:
        bound = 4 * rate * longest(clean)
    else:
        alpha = model(examples.inputs).detach() - examples.targets
        bound = 4 * rate * float(torch.linalg.matrix_norm(jacobians(model, examples.inputs), 2).max()) * longest(alpha)
    errors = []
    for rule in (KeepSmallest(by=by, fraction=1 - rate), Uniform()):
        weights = weigh(rule, model, dirty.inputs, dirty.targets)
        errors.append(float((clean.mean(0) - (weights[:, None] * given).sum(0) / weights.sum()).norm()))
    assert errors[0] <= bound < errors[1]


def gradients(model: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Each example's gradient of half the squared error, one after the other [n, parameters]."""
    rows = []
    for one, target in zip(inputs, targets, strict=True):
        loss = 0.5 * (model(one[None]) - target).square().sum()
        rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))]))
    return torch.stack(rows)


def jacobians(model: torch.nn.Module, inputs: Tensor) -> Tensor:
    """Each output's gradient, one after the other [n, outputs, parameters]."""
    rows = []
    for one in inputs:
        outputs = model(one[None])[0]
        parts = [torch.autograd.grad(value, list(model.parameters()), retain_graph=True) for value in outputs]
        rows.append(torch.stack([torch.cat([part.flatten() for part in each]) for each in parts]))
    return torch.stack(rows)
