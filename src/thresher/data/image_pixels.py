"""Pixels of any kind as colours from 0 to 255: 16-bit and real ones are scaled, transparent ones composed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Range = tuple[float, float]
USUAL_TOPS = (1, 255, 1023, 4095, 16383, 65535)  # what scanners, cameras and programs write as white
DEEP, REAL, ALPHA = "16-bit", "float", "alpha"  # the kinds of pixels that are not just converted
COMPOSED = "composed"  # noted in the info of an image that was transparent somewhere
NEARLY_WHITE = 224  # ink of this brightness is composed over black, because it would not be seen on white


@dataclass(frozen=True)
class Ranges:
    """Which values of whole-number pixels beyond 8 bits and of real pixels become 0 and 255, in all files of a set."""

    integers: Range = (0.0, 65535.0)
    reals: Range = (0.0, 1.0)

    def of(self, kind: str) -> Range:
        return self.integers if kind == DEEP else self.reals


def kind_of(image: "Image") -> str:
    """DEEP, REAL or ALPHA; an empty text for pixels that Pillow converts without loss."""
    if image.mode.startswith("I"):
        return DEEP
    if image.mode == "F":
        return REAL
    return ALPHA if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info else ""


def usual_range(low: float, high: float) -> Range:
    """The range that values from `low` to `high` probably use: 0 to the next usual white, or else just these values.

    >>> usual_range(3, 4000), usual_range(0, 0.98), usual_range(-5, 12)
    ((0.0, 4095.0), (0.0, 1.0), (-5.0, 12.0))
    """
    top = next((top for top in USUAL_TOPS if top / 4 < high <= top), None)
    if low < 0 or top is None:
        return float(min(low, 0)), float(high)
    return 0.0, float(top)


def common_ranges(extremes: Iterable[tuple[str, float, float]]) -> Ranges:
    """The ranges of a set whose deep and real files have these kinds, smallest and largest values."""
    found = list(extremes)
    made = {}
    for kind, name in ((DEEP, "integers"), (REAL, "reals")):
        of_kind = [(low, high) for each, low, high in found if each == kind]
        if of_kind:
            made[name] = usual_range(min(low for low, _ in of_kind), max(high for _, high in of_kind))
    return Ranges(**made)


def extremes(image: "Image") -> Range:
    """The smallest and the largest value of an image with one channel; what is not finite is left out."""
    values = np.asarray(image)
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def as_colour(image: "Image", ranges: Ranges | None = None) -> "Image":
    """The image in RGB: deep and real pixels scaled by the ranges, or by their own where none are given.

    Transparent pixels are composed over white, or over black where the ink itself is nearly white.
    """
    from PIL import Image

    kind = kind_of(image)
    if kind in (DEEP, REAL):
        low, high = usual_range(*extremes(image)) if ranges is None else ranges.of(kind)
        return Image.fromarray(_scaled(np.asarray(image), low, high)).convert("RGB")
    if kind == ALPHA:
        return _composed(image.convert("RGBA"))
    return image.convert("RGB")


def _scaled(values: Any, low: float, high: float) -> Any:
    """Values from `low` to `high` as bytes from 0 to 255; what lies beyond is cut off, and NaN is 0."""
    shares = (np.nan_to_num(values.astype(np.float32), nan=low) - low) / ((high - low) or 1.0)
    return (shares.clip(0, 1) * 255).round().astype(np.uint8)


def _composed(image: "Image") -> "Image":
    from PIL import Image

    alpha = np.asarray(image.getchannel("A"), np.float64)
    if alpha.min() == 255:
        return image.convert("RGB")
    brightness = np.asarray(image.convert("RGB").convert("L"), np.float64)
    ink = (brightness * alpha).sum() / max(alpha.sum(), 1.0)
    ground = Image.new("RGBA", image.size, "black" if ink >= NEARLY_WHITE else "white")
    composed = Image.alpha_composite(ground, image).convert("RGB")
    composed.info[COMPOSED] = True
    return composed
