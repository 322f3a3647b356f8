"""Views: equal to their one-image references, repeatable, different for every example, and never waiting."""

from functools import partial
from typing import Any

import pytest
import torch
from reference import views as reference
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from thresher.core.errors import ThresherError
from thresher.slots.views import Affine, Chain, Colour, Cutout, Flip, PadCrop, Shift, View, strong, weak

# view, draws for each image, the same on one image
REFERENCES = {
    "pad-crop": (PadCrop(4), 2, partial(reference.pad_crop, vertical=4, horizontal=4)),
    "pad-crop-mirrored": (
        PadCrop(3, mirrored=True),
        2,
        partial(reference.pad_crop, vertical=3, horizontal=3, mirrored=True),
    ),
    "shift": (Shift(0.25), 2, partial(reference.pad_crop, vertical=2, horizontal=3)),
    "flip": (Flip(), 1, partial(reference.flip, chance=0.5)),
    "flip-rarely": (Flip(0.2), 1, partial(reference.flip, chance=0.2)),
    "colour": (Colour(0.4, 0.3, 0.6), 3, partial(reference.colour, bounds=(0.4, 0.3, 0.6))),
    "affine": (Affine(40, 0.2, 0.3), 4, partial(reference.affine, degrees=40, translate=0.2, scale=0.3)),
    "cutout": (Cutout(4), 2, partial(reference.cutout, size=4)),
    "cutout-odd": (Cutout(3), 2, partial(reference.cutout, size=3)),
}
SINGLE = {name: view for name, (view, _, _) in REFERENCES.items()}
ALL = {**SINGLE, "weak": weak(), "strong": strong()}
every_view = pytest.mark.parametrize("view", ALL.values(), ids=ALL.keys())


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def some_images(n: int = 40) -> Tensor:
    """Images wider than high, so that height and width cannot be confused."""
    return torch.rand(n, 3, 8, 12, generator=seeded(1)) + 0.1


@pytest.mark.parametrize(("view", "count", "one"), REFERENCES.values(), ids=REFERENCES.keys())
def test_a_view_equals_its_reference_on_every_image(view: View, count: int, one: Any) -> None:
    images, generator = some_images(), seeded()
    draws = torch.stack([torch.rand(len(images), generator=generator) for _ in range(count)], 1)
    expected = torch.stack([one(image, draw.tolist()) for image, draw in zip(images, draws, strict=True)])
    torch.testing.assert_close(view(images, seeded()), expected, rtol=1e-4, atol=1e-5)


@every_view
def test_the_same_generator_state_gives_the_same_images_and_the_next_state_others(view: View) -> None:
    images, generator = some_images(), seeded()
    first, second = view(images, generator), view(images, generator)
    assert torch.equal(view(images, seeded()), first)
    assert not torch.equal(first, second)


@every_view
def test_copies_of_one_image_are_changed_differently(view: View) -> None:
    copies = some_images(1).expand(40, -1, -1, -1)
    assert len(view(copies, seeded()).unique(dim=0)) > 1


@every_view
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_shape_and_type_stay_and_the_given_images_and_global_state_are_untouched(view: View, kind: torch.dtype) -> None:
    images = some_images().to(kind)
    before, state = images.clone(), torch.get_rng_state()
    changed = view(images, seeded())
    assert changed.shape == images.shape
    assert changed.dtype == kind
    assert torch.isfinite(changed).all()
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("view", [PadCrop(0), Shift(0.0), Flip(0.0), Colour(0, 0, 0), Affine(0, 0, 0), Chain()])
def test_a_view_bounded_by_nothing_changes_nothing(view: View) -> None:
    torch.testing.assert_close(view(some_images(), seeded()), some_images())


def test_every_window_of_a_padded_image_is_drawn() -> None:
    image = some_images(1)
    windows = PadCrop(1)(image.expand(500, -1, -1, -1), seeded()).unique(dim=0)
    assert len(windows) == 9


def test_a_chain_is_one_view_after_another_from_one_generator() -> None:
    generator, images = seeded(), some_images()
    expected = Cutout(4)(Flip()(images, generator), generator)
    assert torch.equal(Chain(Flip(), Cutout(4))(images, seeded()), expected)


def test_views_are_values() -> None:
    assert weak() == Chain(PadCrop(4), Flip())
    assert strong() == Chain(PadCrop(4), Flip(), Colour(), Affine(), Cutout(16))
    assert hash(weak()) != hash(strong())


class NoWaiting(TorchDispatchMode):
    """Fails on whatever makes the host wait for the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        waits = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        by_index = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)
        masked = func in by_index and any(index is not None and index.dtype == torch.bool for index in args[1])
        if func in waits or masked or func is torch.ops.aten.masked_select.default:
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@every_view
def test_a_view_never_waits_for_the_device(view: View) -> None:
    with NoWaiting():
        view(some_images(), seeded())


@pytest.mark.parametrize(
    "waiting",
    [lambda images: images.sum().item(), lambda images: images[images > 0.5], lambda images: images.nonzero()],
)
def test_waiting_would_be_noticed(waiting: Any) -> None:
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        waiting(some_images())


@pytest.mark.parametrize(
    "make",
    [
        lambda: PadCrop(-1),
        lambda: Shift(1.5),
        lambda: Flip(2.0),
        lambda: Colour(brightness=-0.1),
        lambda: Affine(scale=1.0),
        lambda: Affine(degrees=-1),
        lambda: Cutout(0),
        lambda: PadCrop(8, mirrored=True)(some_images(), seeded()),
        lambda: Flip()(torch.rand(4, 64), seeded()),
        lambda: Colour()(torch.zeros(4, 3, 8, 8, dtype=torch.uint8), seeded()),
    ],
)
def test_what_no_view_can_do_is_refused(make: Any) -> None:
    with pytest.raises(ThresherError):
        make()
