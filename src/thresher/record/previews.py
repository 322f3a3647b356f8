"""Previews of examples: small pictures in their true colours, or the values of their rows, to be looked at."""

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate
from torch.nn.utils.rnn import pad_sequence

from thresher.core.datasets import Seeded
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import write_whole
from thresher.core.trees import Tree, image_leaves, leaves
from thresher.data.image_files import files_of, open_image

SIDE = 128  # pixels on the longer side of a picture
CRISP = 48  # pictures of at most so many pixels are kept to the bit
MOST_VALUES = 64  # of a row of numbers
LOOKED_AT = 64  # so many pictures say in which range the values of all of them are

Pixels = NDArray[np.uint8]  # [h, w] or [h, w, 3]
Range = tuple[Tensor, Tensor]  # the values of black and of white, each [c, 1, 1]


def save_previews(path: Path, picked: Examples, **facts: Tensor | NDArray[Any]) -> None:
    """Write ids and looks of these examples, and further facts [n] of each, as an .npz file.

    Looks are `pictures`, encoded and one after the other, with the places where they end; or `inputs`, the first values
    of each row of numbers, of which there are `width`.
    """
    looks = {"ids": picked.ids, **_looks(picked), **facts}
    write_arrays(path, {name: v.cpu().numpy() if isinstance(v, Tensor) else v for name, v in looks.items()})


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write an .npz file, whole or not at all."""

    def save(place: Path) -> None:
        with open(place, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_whole(path, save)


def joined_pictures(encoded: Iterable[bytes]) -> dict[str, NDArray[Any]]:
    """Encoded pictures as the two arrays that are stored."""
    parts = list(encoded)
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return {"pictures": np.frombuffer(b"".join(parts), np.uint8), "ends": ends}


def stored_picture(arrays: Any, place: int) -> bytes:
    """One of the encoded pictures, or nothing where there is none.

    >>> stored_picture(joined_pictures([b"one", b"", b"three"]), 2)
    b'three'
    """
    if "ends" not in arrays:
        return b""
    start = int(arrays["ends"][place - 1]) if place else 0
    return bytes(arrays["pictures"][start : int(arrays["ends"][place])])


def encoded_images(first: Sequence[Tensor], others: Iterable[Tensor] = ()) -> Iterator[bytes]:
    """Images [h, w] or [c, h, w] as the bytes of small files; the first ones say what is black and what is white."""
    largest = SIDE if find_spec("PIL") else CRISP
    shrunk = [_small(image, largest) for image in first]
    between = _range_of(shrunk)
    every = chain(shrunk, (_small(image, largest) for image in others))
    return (_encoded(_pixels(image, between)) for image in every)


def _looks(picked: Examples) -> dict[str, Any]:
    files = [] if picked.in_memory else files_of(picked.inputs)
    if files:
        with ThreadPoolExecutor(8) as pool:
            return joined_pictures(pool.map(_of_file, files))
    raw = _shown(picked)
    first = list(islice(raw, LOOKED_AT))
    if not first:
        return {}
    if first[0].ndim in (2, 3):
        return joined_pictures(encoded_images(first, raw))
    if first[0].ndim == 1:
        rows = [row[:MOST_VALUES].cpu() for row in chain(first, raw)]
        return {"inputs": pad_sequence(rows, batch_first=True), "width": np.array(len(first[0]))}
    return {}


def _shown(picked: Examples) -> Iterator[Tensor]:
    """Each input as it is stored: bytes are not normalised. Of a tree, its first image, or else its first tensor."""
    if isinstance(picked.inputs, Tensor):
        return iter(picked.inputs)
    if picked.in_memory:
        return iter(next(iter([*image_leaves(picked.inputs), *leaves(picked.inputs)])))
    if picked.collate is not None:
        return iter(())  # its items need not be tensors
    items = Seeded(picked.inputs, picked.ids.tolist(), 0, 0)
    return (_main(items[place]) for place in range(len(picked)))


def _main(item: Tree) -> Tensor:
    parts = leaves(item)
    return next((leaf for leaf in parts if leaf.ndim == 3), parts[0])


def _of_file(path: Path) -> bytes:
    """The picture in a file; nothing where it cannot be read any more, because the run is finished nevertheless."""
    try:
        picture = open_image(path)
    except (ThresherError, OSError):
        return b""
    if max(picture.size) > SIDE:
        picture.thumbnail((SIDE, SIDE))
    return _encoded(np.asarray(picture.convert("RGB")))


def _small(image: Tensor, largest: int) -> Tensor:
    """An image [h, w] or [c, h, w] as [1 or 3, h, w], its longer side at most as long as that."""
    image = image[None] if image.ndim == 2 else image
    image = image[:3] if len(image) in (3, 4) else image[:1]
    side = max(image.shape[1:])
    if side <= largest:
        return image.cpu()
    size = [max(1, round(length * largest / side)) for length in image.shape[1:]]
    shrunk = interpolate(image[None].float(), size, mode="area")[0].cpu()
    return shrunk.round().to(torch.uint8) if image.dtype == torch.uint8 else shrunk


def _range_of(images: list[Tensor]) -> Range | None:
    """Black and white of these images: 0 and 1 or 0 and 255; where neither fits, the range of each channel.

    Values were then normalised channel by channel, and a range for each channel undoes that: grey stays grey.
    """
    if images[0].dtype == torch.uint8:
        return None
    values = torch.cat([torch.nan_to_num(image.float()).flatten(1) for image in images], 1)
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 255:
        return values.amin(1)[:, None, None], values.amax(1)[:, None, None]
    white = 1.0 if high <= 1 else 255.0
    return torch.zeros(len(values), 1, 1), torch.full((len(values), 1, 1), white)


def _pixels(image: Tensor, between: Range | None) -> Pixels:
    """The bytes of an image [c, h, w]."""
    if between is not None:
        black, white = between
        image = (torch.nan_to_num(image.float()) - black) / (white - black).clamp_min(1e-12)
        image = (255 * image).round().clamp(0, 255).to(torch.uint8)
    pixels = image.permute(1, 2, 0).numpy()
    return np.ascontiguousarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _encoded(pixels: Pixels) -> bytes:
    """A picture as the bytes of a file: small ones exactly, others as WebP, which is ten times smaller."""
    if max(pixels.shape[:2]) <= CRISP:
        return _png(pixels)
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "webp", quality=80)
    return buffer.getvalue()


def _png(pixels: Pixels) -> bytes:
    """A PNG file, without the help of a package that not everyone has."""
    height, width = pixels.shape[:2]
    unfiltered = np.zeros((height, 1), np.uint8)  # the first byte of a row: its values are those of the image
    rows = np.concatenate([unfiltered, pixels.reshape(height, -1)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
