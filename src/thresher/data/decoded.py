"""Image files decoded once: kept in a cache on disk, from where they are mapped into memory."""

import json
import os
import shutil
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from thresher.core.errors import ThresherError, needs_extra
from thresher.core.files import caches, expanded, write_whole
from thresher.data.image_files import DAMAGED, Held, ImageFiles, fitted, is_text_name, open_file, open_image
from thresher.data.image_pixels import ALPHA, COMPOSED, DEEP, REAL, Ranges, common_ranges, extremes, kind_of

FORMAT = 1  # of what the cache holds: another number makes what was cached before unknown
IN_MEMORY = 4 * 2**30  # bytes of decoded images that are held in memory where the cache cannot be written
AT_ONCE = 256  # files that are decoded before anything is said
LONG = 20.0  # seconds of decoding that are announced
FORGET = 30 * 24 * 3600.0  # seconds after which decoded images that were not used are deleted


@dataclass(frozen=True)
class Facts:
    """What was found out about image files while they were decoded, by their positions."""

    ranges: Ranges
    broken: dict[int, str]  # why a file cannot be read
    kinds: dict[int, str]  # 16-bit, float and transparent ones
    several_frames: list[int]
    sizes: list[tuple[int, int]] = field(repr=False)  # width and height of those that can be opened
    seconds: float = 0.0

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Facts":
        told = json.loads(text)
        ranges = Ranges(**{name: tuple(values) for name, values in told.pop("ranges").items()})
        for name in ("broken", "kinds"):
            told[name] = {int(place): word for place, word in told[name].items()}
        return Facts(ranges, **(told | {"sizes": [tuple(size) for size in told["sizes"]]}))


def read_images(paths: Sequence[Path], size: int, ranges: Ranges | None = None) -> tuple[ImageFiles, Facts]:
    """These files decoded to one size, and what was found out about them; broken ones are black.

    They are kept in the cache under a checksum of their names, sizes and times. Where they do not fit there, nor into
    memory, they are decoded whenever they are asked for.
    """
    needs_extra("Reading images", "vision", "PIL")
    place = cache_folder() / _checksum(paths, size, ranges)
    known = _cached(place, len(paths), size)
    if known is not None:
        pixels, facts = known
    else:
        facts = _looked_at(paths, ranges)
        pixels, facts = _decoded(paths, size, facts, place)
    held = None if pixels is None else Held(torch.from_numpy(pixels))
    return ImageFiles(list(paths), size, facts.ranges, held), facts


def cache_folder() -> Path:
    """Where decoded images are kept: THRESHER_CACHE, or else thresher/decoded in the user's folder of caches."""
    given = os.environ.get("THRESHER_CACHE")
    if given:
        return expanded(given)
    return caches() / "decoded"


def _checksum(paths: Sequence[Path], size: int, ranges: Ranges | None) -> str:
    digest = blake2b(f"{FORMAT} {size} {ranges}".encode(), digest_size=16)
    for path in paths:
        found = path.stat() if path.exists() else path.lstat()  # a link that leads nowhere is found when it is read
        digest.update(os.fsencode(path.absolute()) + f" {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _cached(place: Path, count: int, size: int) -> tuple[Any, Facts] | None:
    try:
        facts = Facts.from_json((place / "facts.json").read_text())
        pixels = np.load(place / "pixels.npy", mmap_mode="c")  # private: no one can write into the cache through it
        if pixels.shape != (count, 3, size, size) or pixels.dtype != np.uint8:
            return None
        os.utime(place / "facts.json")  # so that it counts as used
        return pixels, facts
    except (OSError, ValueError, KeyError, TypeError):  # not there, or damaged: decode again
        return None


def _looked_at(paths: Sequence[Path], ranges: Ranges | None) -> Facts:
    """What the files say about themselves before they are decoded; the values of deep ones are read."""
    broken, kinds, several, sizes, found = {}, {}, [], [], []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for place, told in enumerate(pool.map(_header, paths)):
            if isinstance(told, str):
                broken[place] = told
                continue
            kind, frames, shape, values = told
            sizes.append(shape)
            if kind in (DEEP, REAL):
                kinds[place] = kind
                found.append((kind, *values))
            if frames:
                several.append(place)
    return Facts(ranges or common_ranges(found), broken, kinds, several, sizes)


def _header(path: Path) -> str | tuple[str, bool, tuple[int, int], tuple[float, float]]:
    from PIL import Image, UnidentifiedImageError

    if not is_text_name(path):
        return "its name is not UTF-8"
    try:
        with open_file(path) as image:
            kind = kind_of(image)
            values = extremes(image) if kind in (DEEP, REAL) else (0.0, 0.0)
            return kind, bool(getattr(image, "is_animated", False)), image.size, values
    except UnidentifiedImageError:
        return "no image" if path.stat().st_size else "empty"
    except (*DAMAGED, Image.DecompressionBombError) as error:
        return str(error) or type(error).__name__


def _decoded(paths: Sequence[Path], size: int, facts: Facts, place: Path) -> tuple[Any, Facts]:
    shape = (len(paths), 3, size, size)
    needed = 3 * size * size * len(paths)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        room = shutil.disk_usage(place.parent).free
        _forget_unused(place.parent)
        if needed < room / 2:
            return _into_cache(paths, shape, facts, place)
    except (OSError, ThresherError):  # the cache cannot be written, or its disk is full: memory has to do
        pass
    if needed <= IN_MEMORY:
        pixels = np.zeros(shape, np.uint8)
        return pixels, _fill(pixels, paths, facts, "memory")
    warnings.warn(
        f"{len(paths):,} decoded images need {in_bytes(needed)}, for which {place.parent} has no room: they are "
        "decoded again in every epoch; set THRESHER_CACHE to a folder on a larger disk.",
        stacklevel=2,
    )
    return None, facts


def _into_cache(paths: Sequence[Path], shape: tuple[int, ...], facts: Facts, place: Path) -> tuple[Any, Facts]:
    told: list[Facts] = []

    def write(temporary: Path) -> None:
        pixels = np.lib.format.open_memmap(temporary, "w+", np.uint8, shape)
        told.append(_fill(pixels, paths, facts, str(place.parent)))
        pixels.flush()

    write_whole(place / "pixels.npy", write)
    write_whole(place / "facts.json", lambda path: path.write_text(told[0].as_json()))
    return np.load(place / "pixels.npy", mmap_mode="c"), told[0]


def _fill(pixels: Any, paths: Sequence[Path], facts: Facts, where: str) -> Facts:
    """Decode into this array; long work is announced, once its first part tells how long it takes."""
    size, begun = pixels.shape[-1], time.monotonic()
    wanted = [place for place in range(len(paths)) if place not in facts.broken]
    broken, kinds = dict(facts.broken), dict(facts.kinds)

    def decode_at(place: int) -> None:
        try:
            opened = open_image(paths[place], facts.ranges, least=2 * size)
            pixels[place] = fitted(opened, size)
            if COMPOSED in opened.info:
                kinds[place] = ALPHA
        except ThresherError as error:
            broken[place] = str(error.__cause__)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for first in range(0, len(wanted), AT_ONCE):
            list(pool.map(decode_at, wanted[first : first + AT_ONCE]))
            if first == 0:
                _announce((time.monotonic() - begun) * len(wanted) / AT_ONCE, len(wanted), pixels.nbytes, where)
    seconds = time.monotonic() - begun
    return Facts(facts.ranges, broken, dict(sorted(kinds.items())), facts.several_frames, facts.sizes, seconds)


def _announce(seconds: float, count: int, needed: int, where: str) -> None:
    if seconds > LONG:
        warnings.warn(
            f"Decoding {count:,} images takes about {in_time(seconds)}, once; they are kept in {where} "
            f"({in_bytes(needed)}).",
            stacklevel=2,
        )


def _forget_unused(cache: Path) -> None:
    for facts in cache.glob("*/facts.json"):
        if time.time() - facts.stat().st_mtime > FORGET:
            shutil.rmtree(facts.parent, ignore_errors=True)


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that suits it.

    >>> in_bytes(3_500_000), in_bytes(12_000)
    ('3.5 MB', '12 kB')
    """
    unit, name = next(((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB")) if count >= unit), (1e3, "kB"))
    return f"{count / unit:.2g} {name}" if count / unit < 100 else f"{count / unit:,.0f} {name}"


def in_time(seconds: float) -> str:
    """A duration in the unit that suits it.

    >>> in_time(12.3), in_time(150), in_time(9000)
    ('12 seconds', '2.5 minutes', '2.5 hours')
    """
    unit, name = next(
        ((unit, name) for unit, name in ((3600, "hours"), (60, "minutes")) if seconds >= 2 * unit), (1, "seconds")
    )
    return f"{seconds / unit:.2g} {name}"
