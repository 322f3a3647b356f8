"""Corruption: exact rates, the right wrong classes, an honest record, and sentences for what is impossible."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.corruption import FOR_CLASSES, FOR_REAL_TARGETS, corrupt, names
from thresher.corruption.labels import asymmetric, flip_along, random_derangement
from thresher.data import Splits, standardise_targets
from thresher.data.class_names import CIFAR10, CIFAR100

# The superclass of each CIFAR-100 class as the original files number them.
COARSE = [
    *[4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7],
    *[6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10],
    *[16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16],
    *[12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13],
]


def labelled(count: int = 500, classes: int = 10, seed: int = 0) -> Examples:
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=draws)
    return Examples(torch.randn(count, 6, generator=draws) + labels[:, None], labels, classes=classes)


def measured(count: int = 500, targets: int = 4, seed: int = 0) -> Examples:
    draws = torch.Generator().manual_seed(seed)
    return Examples(torch.randn(count, 6, generator=draws), 50 + 9 * torch.randn(count, targets, generator=draws))


def changed(before: Examples, after: Examples) -> Tensor:
    return (before.targets != after.targets).reshape(len(before), -1).any(1)


EXACT_FLIPS = ["symmetric", "pairflip", "derangement", "instance", "projection", "uniformflip"]
POOLS = ("blank", "class", "diverse")  # these add examples of a noisy kind
NEEDS_EXAMPLES = sorted({(name, False) for name in FOR_CLASSES} | {(name, True) for name in FOR_REAL_TARGETS})
NEEDS_EXAMPLES = [(name, real) for name, real in NEEDS_EXAMPLES if name not in POOLS]


def spelled(name: str, rate: float) -> str:
    return "imbalance:4" if name == "imbalance" else f"{name}:{rate}"


@pytest.mark.parametrize("name", EXACT_FLIPS)
@given(count=st.integers(1, 60), classes=st.integers(2, 12), rate=st.floats(0, 1), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_exactly_the_rate_flips_and_never_to_the_same_class(
    name: str, count: int, classes: int, rate: float, seed: int
) -> None:
    clean = labelled(count, classes, seed)
    dirty = corrupt(clean, f"{name}:{rate}", seed=seed)
    assert int(changed(clean, dirty).sum()) == round(rate * count)


@pytest.mark.parametrize("name", sorted(FOR_REAL_TARGETS))
@given(count=st.integers(2, 60), rate=st.floats(0, 1), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_exactly_the_rate_of_real_targets_changes(name: str, count: int, rate: float, seed: int) -> None:
    clean = measured(count, seed=seed)
    dirty = corrupt(clean, f"{name}:{rate}", seed=seed)
    assert int(changed(clean, dirty).sum()) == round(rate * count)


@pytest.mark.parametrize(("name", "real"), NEEDS_EXAMPLES)
def test_record_seed_and_purity(name: str, real: bool) -> None:
    clean = measured() if real else labelled()
    before = clean.targets.clone()
    dirty, again = (corrupt(clean, spelled(name, 0.4), seed=3) for _ in range(2))
    other = corrupt(clean, spelled(name, 0.4), seed=4)
    assert torch.equal(clean.targets, before)
    assert torch.equal(dirty.targets, again.targets)
    assert torch.equal(dirty.ids, again.ids)
    assert not (torch.equal(dirty.targets, other.targets) and torch.equal(dirty.ids, other.ids))
    true = dirty.columns["true_target"]
    assert torch.equal(true, before[dirty.ids])
    assert torch.equal(dirty.columns["is_corrupt"], (dirty.targets != true).reshape(len(true), -1).any(1))
    assert dirty.columns["is_corrupt"].dtype == torch.bool
    assert dirty.columns["is_corrupt"].any() == (name != "imbalance")


def test_symmetric_reaches_every_other_class_equally() -> None:
    clean = Examples(torch.zeros(9000, 1), torch.full((9000,), 2), classes=4)
    assert corrupt(clean, "symmetric:1").targets.bincount(minlength=4).div(9000).tolist() == pytest.approx(
        [1 / 3, 1 / 3, 0, 1 / 3], abs=0.02
    )


def test_pairflip_goes_to_the_next_class() -> None:
    clean = labelled()
    dirty = corrupt(clean, "pairflip:0.45")
    moved = changed(clean, dirty)
    assert torch.equal(dirty.targets[moved], (clean.targets[moved] + 1) % 10)


def test_asymmetric_follows_the_cifar10_map_at_the_rate_of_the_five_classes() -> None:
    clean = Examples(torch.zeros(1000, 1), torch.arange(10).repeat(100))
    dirty = corrupt(clean, "asymmetric:0.4")
    pairs = {(CIFAR10[a], CIFAR10[b]) for a, b in zip(clean.targets, dirty.targets, strict=True) if a != b}
    expected = {("truck", "automobile"), ("bird", "airplane"), ("deer", "horse"), ("cat", "dog"), ("dog", "cat")}
    assert pairs == expected
    assert int(dirty.columns["is_corrupt"].sum()) == 200  # 40% of the 500 examples that can flip


def test_asymmetric_on_100_classes_goes_to_the_next_class_of_the_superclass() -> None:
    flipped = asymmetric(torch.arange(100), 1.0, torch.Generator(), classes=100)
    for label, to in enumerate(flipped.tolist()):
        group = [other for other in range(100) if COARSE[other] == COARSE[label]]
        assert to == group[(group.index(label) + 1) % 5]
    assert len(CIFAR100) == 100


def test_derangement_sends_each_class_to_one_other() -> None:
    clean = labelled(2000)
    dirty = corrupt(clean, "derangement:0.5")
    for label in range(10):
        reached = set(dirty.targets[clean.targets == label].tolist()) - {label}
        assert len(reached) == 1
    found = {tuple(random_derangement(3, torch.Generator().manual_seed(seed)).tolist()) for seed in range(20)}
    assert found == {(1, 2, 0), (2, 0, 1)}


def test_uniformflip_any_may_keep_the_label() -> None:
    clean = labelled(20_000)
    share = corrupt(clean, "uniformflip-any:0.4").columns["is_corrupt"].float().mean().item()
    assert share == pytest.approx(0.36, abs=0.01)


def test_backgroundflip_goes_to_the_background_and_leaves_it_alone() -> None:
    clean = labelled(1000)
    dirty = corrupt(clean, "backgroundflip:0.4:3")
    moved = changed(clean, dirty)
    assert set(dirty.targets[moved].tolist()) == {3}
    assert int(moved.sum()) == round(0.4 * int((clean.targets != 3).sum()))
    assert set(corrupt(clean, "backgroundflip:1").targets.tolist()) == {0}


def test_instance_flips_hard_examples_more_and_to_classes_they_resemble() -> None:
    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat(1000)
    inputs = labels[:, None] * 4.0 + torch.randn(3000, 1, generator=draws)
    dirty = corrupt(Examples(inputs, labels), "instance:0.3")
    wrong = dirty.columns["is_corrupt"]
    ends = labels != 1
    # At the two ends an example is hard when it lies towards the middle class, and flips there rather than across.
    hard = ends & (((inputs[:, 0] - 4.0).abs()) < 3.0)
    easy = ends & (((inputs[:, 0] - 4.0).abs()) > 5.0)
    assert wrong[hard].float().mean() > 2 * wrong[easy].float().mean()
    assert (dirty.targets[ends & wrong] == 1).float().mean() > 0.6


def test_instance_never_flips_to_a_class_without_examples() -> None:
    clean = replace(labelled(200, classes=3), classes=5)
    assert corrupt(clean, "instance:1").targets.max() < 3


def test_projection_flips_easy_and_hard_examples_alike_and_similar_ones_to_one_class() -> None:
    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(4).repeat(1000)
    inputs = 8.0 * labels[:, None] + torch.randn(4000, 20, generator=draws)
    dirty = corrupt(Examples(inputs, labels), "projection:0.3")
    wrong = dirty.columns["is_corrupt"]
    hard = (inputs - 8.0 * labels[:, None]).norm(dim=1)
    far = hard > hard.median()
    assert abs(float(wrong[far].float().mean() - wrong[~far].float().mean())) < 0.05
    # The projection is linear, and most of an input here is its class: its flips go to one of the three others.
    to = torch.zeros(4, 4).index_put((labels[wrong], dirty.targets[wrong]), torch.ones(()), accumulate=True)
    assert float((to.amax(1) / to.sum(1)).mean()) > 0.6


def test_imbalance_of_two_classes_and_of_many() -> None:
    two = Examples(torch.zeros(12_000, 1), torch.arange(2).repeat(6000))
    assert corrupt(two, "imbalance:200").targets.bincount().tolist() == [30, 6000]
    assert corrupt(two, "imbalance:200:5000").targets.bincount().tolist() == [25, 4975]
    many = corrupt(Examples(torch.zeros(5000, 1), torch.arange(10).repeat(500)), "imbalance:100")
    assert many.targets.bincount().tolist() == [round(500 * 100 ** (-c / 9)) for c in range(10)]
    with pytest.raises(ThresherError, match="lower the ratio or the total"):
        corrupt(two, "imbalance:2:11000")
    with pytest.raises(ThresherError, match="at least 1"):
        corrupt(two, "imbalance:0.5")


def test_flip_along_leaves_fixed_classes_alone() -> None:
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    assert flip_along(torch.tensor([1, 1]), labels, 0.5, torch.Generator()).bincount().tolist() == [2, 4]


def test_signflip_mirrors_about_the_mean() -> None:
    clean = measured()
    dirty = corrupt(clean, "signflip:1")
    assert torch.allclose(dirty.targets, 2 * clean.targets.mean(0) - clean.targets, atol=1e-3)


def test_uninoise_stays_within_the_range_and_fills_it() -> None:
    clean = measured(5000)
    drawn = corrupt(clean, "uninoise:1").targets
    low, high = clean.targets.amin(0), clean.targets.amax(0)
    assert (drawn >= low - 1e-3).all()
    assert (drawn <= high + 1e-3).all()
    assert torch.allclose(drawn.mean(0), (low + high) / 2, rtol=0.02)
    assert torch.allclose(drawn.std(0), (high - low) / 12**0.5, rtol=0.05)


def test_pairflip_of_targets_exchanges_both_ends_in_the_unit_of_the_data() -> None:
    clean = measured(targets=5)
    assert torch.equal(corrupt(clean, "pairflip:1").targets, clean.targets[:, [3, 4, 2, 0, 1]])
    assert torch.equal(corrupt(measured(targets=2), "pairflip:1").targets, measured(targets=2).targets.flip(1))
    standard = standardise_targets(Splits(clean, clean)).train
    dirty = corrupt(standard, "pairflip:0.3")
    wrong = dirty.columns["is_corrupt"]
    assert int(wrong.sum()) == round(0.3 * len(clean))
    assert torch.equal(dirty.targets[~wrong], standard.targets[~wrong])
    assert torch.allclose(dirty.as_given(dirty.targets)[wrong], clean.targets[wrong][:, [3, 4, 2, 0, 1]], atol=1e-3)
    with pytest.raises(ThresherError, match="at least two"):
        corrupt(measured(targets=1), "pairflip:0.5")


def test_linadv_is_a_linear_relation_of_the_inputs_with_the_strength_asked_for() -> None:
    clean = measured(4000)
    for option, strength in (("", 15.0), (":2", 2.0)):
        wrong = corrupt(clean, f"linadv:1{option}").targets
        design = torch.cat([clean.inputs, torch.ones(4000, 1)], 1)
        fitted = design @ torch.linalg.lstsq(design, wrong).solution
        assert torch.allclose(fitted, wrong, atol=1e-2)
        assert torch.allclose(wrong.std(0), strength * clean.targets.std(0), rtol=1e-3)


def test_mixture_is_a_third_of_each() -> None:
    clean = measured(900)
    dirty = corrupt(clean, "mixture:1")
    mirrored = (dirty.targets - (2 * clean.targets.mean(0) - clean.targets)).abs().amax(1) < 1e-3
    within = ((dirty.targets >= clean.targets.amin(0)) & (dirty.targets <= clean.targets.amax(0))).all(1)
    assert int(mirrored.sum()) == 300
    assert 300 <= int((within & ~mirrored).sum()) < 310  # uniform draws, and the odd small linear value


def test_a_second_corruption_keeps_the_first_truth() -> None:
    clean = labelled(400, classes=2)
    once = corrupt(clean, "symmetric:0.5")
    twice = corrupt(once, "symmetric:0.5", seed=1)
    assert torch.equal(twice.columns["true_target"], clean.targets)
    assert torch.equal(twice.columns["is_corrupt"], twice.targets != clean.targets)
    marked = clean.with_columns(is_corrupt=torch.arange(400) < 7)  # known to be wrong, truth unknown
    assert corrupt(marked, "pairflip:0").columns["is_corrupt"].sum() == 7
    assert corrupt(once, "imbalance:2").columns["is_corrupt"].any()


def pictures(count: int = 300, classes: int = 10, dtype: torch.dtype = torch.float32) -> Examples:
    """Images [count, 3, 4, 4] with scattered ids; none of them is of one colour."""
    draws = torch.Generator().manual_seed(0)
    inputs = 255 * torch.rand(count, 3, 4, 4, generator=draws)
    ids = 3 * torch.randperm(count, generator=draws) + 5
    return Examples(inputs.to(dtype), torch.arange(count) % classes, ids=ids, classes=classes)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_pool_is_the_clean_examples_and_the_share_of_noisy_ones(name: str, dtype: torch.dtype) -> None:
    clean = pictures(2000, dtype=dtype)
    pool, again, other = (corrupt(clean, f"{name}:0.8", seed=seed) for seed in (3, 3, 4))
    noisy = pool.columns["is_corrupt"]
    assert noisy.dtype == torch.bool
    assert noisy.sum() == 4 * (~noisy).sum()
    assert pool.inputs.dtype == dtype  # type: ignore[union-attr]
    for ours, theirs in ((pool.ids, again.ids), (pool.targets, again.targets), (pool.inputs, again.inputs)):
        assert torch.equal(ours, theirs)  # type: ignore[arg-type]
    assert not torch.equal(pool.targets, other.targets)
    assert 0.5 < noisy[: len(pool) // 5].float().mean() < 1, "both kinds are mixed"
    kept = clean.subset(clean.targets != 1) if name == "class" else clean
    order, mine = kept.ids.argsort(), pool.subset(~noisy)
    mine = mine.subset(mine.ids.argsort())
    for ours, theirs in ((mine.ids, kept.ids), (mine.targets, kept.targets), (mine.inputs, kept.inputs)):
        assert torch.equal(ours, theirs[order])  # type: ignore[arg-type, index]
    assert torch.equal(mine.columns["true_target"], mine.targets)
    assert len(pool.ids.unique()) == len(pool)
    labels = pool.targets[noisy].bincount(minlength=10) / int(noisy.sum())
    assert (labels > 0.02).all(), "any label"


def test_blanks_are_black_and_colours_have_three_labels_each() -> None:
    blank, colours = (corrupt(pictures(2000, dtype=torch.uint8), f"{name}:0.8") for name in ("blank", "diverse"))
    assert not blank.inputs[blank.columns["is_corrupt"]].any()  # type: ignore[index]
    noisy = colours.subset(colours.columns["is_corrupt"])
    flat = noisy.inputs.flatten(2)  # type: ignore[union-attr]
    assert (flat == flat[:, :, :1]).all()
    kinds = torch.unique(flat[:, :, 0], dim=0, return_inverse=True)[1]
    assert kinds.max() == 99
    assert {len(noisy.targets[kinds == kind].unique()) for kind in range(100)} == {3}
    assert (flat[:, :, 0].float().std(0) > 40).all(), "colours are anywhere in the range of the images"
    few = corrupt(pictures(classes=2), "diverse:0.8")
    assert few.targets.max() == 1


def test_copies_of_the_noisy_class_have_the_label_of_their_original() -> None:
    clean = pictures(500)
    pool = corrupt(clean, "class:0.8:7")
    noisy = pool.subset(pool.columns["is_corrupt"])
    assert (noisy.columns["true_target"] == 7).all()
    originals = torch.isin(noisy.ids, clean.ids)
    assert set(noisy.ids[originals].tolist()) == set(clean.ids[clean.targets == 7].tolist())
    _, kinds = torch.unique(noisy.inputs.flatten(1), dim=0, return_inverse=True)  # type: ignore[union-attr]
    assert kinds.max() + 1 == int(originals.sum()) == 50
    assert all(len(noisy.targets[kinds == kind].unique()) == 1 for kind in range(50))
    assert len(corrupt(clean, "class:0").ids) == 450
    fewer = corrupt(clean, "class:0.1:7")
    assert int(fewer.columns["is_corrupt"].sum()) == 50
    assert int(corrupt(clean, "class:0.05:7").columns["is_corrupt"].sum()) == round(450 / 19)


def test_pools_that_cannot_be_made_are_refused() -> None:
    with pytest.raises(ThresherError, match="or use blank"):
        corrupt(labelled(), "diverse:0.8")
    for rate in ("1", "-0.1", "nan"):
        with pytest.raises(ThresherError, match="at least 0 and below 1"):
            corrupt(pictures(), f"blank:{rate}")
    with pytest.raises(ThresherError, match="from 0 to 9"):
        corrupt(pictures(), "class:0.8:10")
    with pytest.raises(ThresherError, match="choose another noisy class"):
        corrupt(replace(pictures(classes=2), classes=3), "class:0.8:2")
    with pytest.raises(ThresherError, match="takes no option"):
        corrupt(pictures(), "blank:0.8:1")
    with pytest.raises(ThresherError, match="in_memory"):
        corrupt(Examples([torch.zeros(2)] * 4, torch.tensor([0, 1, 0, 1])), "blank:0.5")
    assert corrupt(labelled(), "blank:0.5").columns["is_corrupt"].sum() == 500
    assert corrupt(corrupt(pictures(), "symmetric:0.5"), "blank:0.5").columns["is_corrupt"].sum() == 450


@pytest.mark.parametrize(
    ("corruption", "sentence"),
    [
        ("symetric:0.4", "did you mean 'symmetric'"),
        ("zzz:0.4", "choose one of"),
        ("symmetric", "write it like symmetric:0.4"),
        ("symmetric:much", "write it like symmetric:0.4"),
        ("symmetric:1.2", "between 0 and 1"),
        ("symmetric:-0.1", "between 0 and 1"),
        ("symmetric:nan", "between 0 and 1"),
        ("symmetric:0.4:3", "takes no option"),
        ("backgroundflip:0.4:ten", "whole number"),
        ("backgroundflip:0.4:10", "from 0 to 9"),
        ("signflip:0.4", "corrupts real targets"),
    ],
)
def test_impossible_corruptions_are_refused_by_a_sentence(corruption: str, sentence: str) -> None:
    with pytest.raises(ThresherError, match=sentence):
        corrupt(labelled(), corruption)


def test_wrong_kinds_of_examples_are_refused() -> None:
    with pytest.raises(ThresherError, match="corrupts classes"):
        corrupt(measured(), "symmetric:0.4")
    with pytest.raises(ThresherError, match="use pairflip or derangement"):
        corrupt(labelled(classes=7), "asymmetric:0.4")
    with pytest.raises(ThresherError, match="at least two"):
        corrupt(Examples(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long)), "derangement:1")
    with pytest.raises(ThresherError, match="at least two"):
        corrupt(measured(targets=1), "pairflip:0.4")
    with pytest.raises(ThresherError, match="must be above 0"):
        corrupt(measured(), "linadv:0.4:0")
    with pytest.raises(ThresherError, match="soft labels"):
        corrupt(Examples(torch.zeros(2, 1), torch.full((2, 2), 0.5), classes=2), "symmetric:0.5")
    streamed = Examples([torch.zeros(2)] * 4, torch.tensor([0, 1, 0, 1]))
    with pytest.raises(ThresherError, match="in_memory"):
        corrupt(streamed, "instance:0.5")
    assert corrupt(streamed, "symmetric:0.5").columns["is_corrupt"].sum() == 2


def test_names_are_sorted_and_complete() -> None:
    assert names() == sorted({*FOR_CLASSES, *FOR_REAL_TARGETS})
    assert {"symmetric", "linadv", "imbalance", "uniformflip-any"} <= set(names())
