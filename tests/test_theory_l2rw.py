"""The theory of L2RW on generated problems: where docs/theory/l2rw.md says it holds, and where it does not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import l2rw as reference
from torch import Tensor, nn
from torch.nn import functional

from thresher import weigh
from thresher.rules import MetaGradient

SEEDS = st.integers(0, 2**31)
SOME = settings(max_examples=40, deadline=None)


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, reduction="none")


def facts(layers: nn.Sequential, inputs: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Inputs z [n, in] and output gradients g [n, out] of every dense layer."""
    seen: list[tuple[Tensor, Tensor]] = []

    def note(_layer: nn.Module, given: tuple[Tensor, ...], found: Tensor) -> None:
        seen.append((given[0], found))

    hooks = [layer.register_forward_hook(note) for layer in layers if isinstance(layer, nn.Linear)]
    losses = cross_entropy(layers(inputs), targets)
    for hook in hooks:
        hook.remove()
    gradients = torch.autograd.grad(losses.sum(), [after for _, after in seen])
    return [(before.detach(), gradient) for (before, _), gradient in zip(seen, gradients, strict=True)]


@SOME
@given(SEEDS, st.booleans(), st.integers(1, 12), st.integers(1, 6))
def test_equation_12_is_the_meta_gradient(seed: int, bias: bool, n: int, m: int) -> None:
    torch.manual_seed(seed)
    layers = [nn.Linear(4, 6, bias=bias), nn.Tanh(), nn.Linear(6, 5, bias=bias), nn.ReLU(), nn.Linear(5, 3, bias=bias)]
    model = nn.Sequential(*layers).double()
    train, clean = ((torch.randn(k, 4, dtype=torch.float64), torch.randint(0, 3, (k,))) for k in (n, m))
    pairs = zip(facts(model, *train), facts(model, *clean), strict=True)
    products = sum(((z @ zv.T + bias) * (g @ gv.T)).mean(1) for (z, g), (zv, gv) in pairs)
    assert isinstance(products, Tensor)
    by_the_book = reference.meta_gradient(model, cross_entropy, train, clean, rate=0.1)
    torch.testing.assert_close(products.float(), by_the_book, rtol=1e-4, atol=1e-6)
    expected = reference.weights(products).to(torch.float32)
    torch.testing.assert_close(
        weigh(MetaGradient(), model, *train, clean=clean).float(), expected, rtol=1e-4, atol=1e-5
    )


def step(theta: Tensor, clean_gradient: Tensor, gradients: Tensor, alpha: float) -> Tensor:
    """Eq. 30: weights as they come."""
    weights = (gradients @ clean_gradient).clamp_min(0)
    return theta - alpha / len(gradients) * weights @ gradients


class Quadratic:
    """G = ½(θ - c)ᵀA(θ - c), with L its largest eigenvalue, and n gradients of length at most σ, anywhere."""

    def __init__(self, seed: int, n: int, alike: float, d: int = 5):
        draws = torch.Generator().manual_seed(seed)
        root = torch.randn(d, d, generator=draws, dtype=torch.float64)
        self.matrix = root @ root.T
        self.smoothness = float(torch.linalg.eigvalsh(self.matrix)[-1])
        self.theta = torch.randn(d, generator=draws, dtype=torch.float64)
        rows = torch.randn(n, d, generator=draws, dtype=torch.float64)
        rows = (1 - alike) * rows + alike * (self.matrix @ self.theta)  # from anywhere to all along ∇G
        self.gradients = rows / rows.norm(dim=1, keepdim=True)
        self.sigma = float(self.gradients.norm(dim=1).max())

    def loss(self, theta: Tensor) -> float:
        return float(theta @ self.matrix @ theta / 2)

    def after(self, alpha: float) -> float:
        return self.loss(step(self.theta, self.matrix @ self.theta, self.gradients, alpha))


@SOME
@given(SEEDS, st.integers(1, 30), st.sampled_from((0.0, 0.5, 1.0)), st.floats(0.01, 1.0))
def test_lemma_1_holds_with_the_corrected_bound(seed: int, n: int, alike: float, share: float) -> None:
    some = Quadratic(seed, n, alike)
    alpha = share * 2 / (some.smoothness * some.sigma**2)
    total = float((some.gradients @ some.matrix @ some.theta).clamp_min(0).square().sum())
    promised = alpha / n * total * (1 - some.smoothness * alpha * some.sigma**2 / 2)
    assert some.after(alpha) <= some.loss(some.theta) - promised + 1e-9 * some.loss(some.theta)


@pytest.mark.parametrize("n", [2, 4, 100])
def test_lemma_1_fails_with_the_printed_bound_and_the_corrected_one_is_attained(n: int) -> None:
    smoothness, sigma = 2.0, 3.0
    theta, same = torch.ones(1, dtype=torch.float64), torch.full((n, 1), sigma, dtype=torch.float64)
    right = 2 / (smoothness * sigma**2)
    assert step(theta, smoothness * theta, same, right).item() == pytest.approx(-1.0)
    assert step(theta, smoothness * theta, same, n * right).item() == pytest.approx(1 - 2 * n)
    assert abs(step(theta, smoothness * theta, same, 1.01 * right).item()) > 1


def test_lemma_1_does_not_speak_of_normalised_weights() -> None:
    """The weights that training uses, near the optimum of the clean loss, at a learning rate far below the bound."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, 1 + 1e-6)
    inputs = torch.ones(4, 1, dtype=torch.float64)
    train, clean = (inputs, torch.full((4, 1), -2.0).double()), (inputs, torch.ones(4, 1).double())
    weights = weigh(MetaGradient(), model, *train, clean=clean)
    assert weights.sum() == pytest.approx(1.0)
    gradients = 3.0 * torch.ones(4, 1, dtype=torch.float64)  # outputs less targets, times inputs
    alpha = 1e-3
    assert alpha < 0.1 * 2 / (1.0 * 9.0)
    moved = model.weight.detach().flatten() - alpha * weights.double() @ gradients
    assert abs(moved.item() - 1) > 1000 * 1e-6
    plain = step(model.weight.detach().flatten(), torch.tensor([1e-6]).double(), gradients, alpha)
    assert abs(plain.item() - 1) < 1e-6


@SOME
@given(SEEDS)
def test_a_training_set_with_the_clean_one_in_it_never_stands_still(seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    clean = torch.randn(7, 5, generator=draws, dtype=torch.float64)  # gradients of the clean examples
    mean = clean.mean(0)
    theta = torch.zeros(5, dtype=torch.float64)
    assert not torch.equal(step(theta, mean, clean, 0.1), theta)
    assert torch.equal(step(theta, mean, -mean.expand(3, 5), 0.1), theta), "without it nobody need help"
