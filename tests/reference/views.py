"""Augmentation of one image at a time, pixel by pixel, told its draws."""

import math

import torch
from torch import Tensor


def window(image: Tensor, down: int, right: int, mirrored: bool) -> Tensor:
    """The image [c, h, w] seen from `down` and `right` pixels further on."""
    _, height, width = image.shape
    seen = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            at, along = row + down, column + right
            if mirrored:
                at, along = _mirrored(at, height), _mirrored(along, width)
            if 0 <= at < height and 0 <= along < width:
                seen[:, row, column] = image[:, at, along]
    return seen


def _mirrored(place: int, length: int) -> int:
    if place < 0:
        return -place
    if place >= length:
        return 2 * (length - 1) - place
    return place


def pad_crop(image: Tensor, draws: list[float], vertical: int, horizontal: int, mirrored: bool = False) -> Tensor:
    down = int(draws[0] * (2 * vertical + 1)) - vertical
    right = int(draws[1] * (2 * horizontal + 1)) - horizontal
    return window(image, down, right, mirrored)


def flip(image: Tensor, draws: list[float], chance: float) -> Tensor:
    if draws[0] >= chance:
        return image
    columns = [image[:, :, column] for column in reversed(range(image.shape[2]))]
    return torch.stack(columns, 2)


def colour(image: Tensor, draws: list[float], bounds: tuple[float, float, float]) -> Tensor:
    brightness, contrast, saturation = ((2 * draw - 1) * bound for draw, bound in zip(draws, bounds, strict=True))
    pixels = image.flatten().tolist()
    mean = sum(pixels) / len(pixels)
    deviation = math.sqrt(sum((pixel - mean) ** 2 for pixel in pixels) / len(pixels))
    mean += brightness * deviation
    changed = image + brightness * deviation
    changed = (changed - mean) * (1 + contrast) + mean
    for row in range(image.shape[1]):
        for column in range(image.shape[2]):
            pixel = changed[:, row, column].tolist()
            grey = sum(pixel) / len(pixel)
            changed[:, row, column] = torch.tensor([grey + (1 + saturation) * (value - grey) for value in pixel])
    return changed


def affine(image: Tensor, draws: list[float], degrees: float, translate: float, scale: float) -> Tensor:
    """Every new pixel looked up in the old image, in pixels from the centre, by bilinear interpolation."""
    angle, right, down, larger = (2 * draw - 1 for draw in draws)
    angle, larger = math.radians(angle * degrees), 1 + larger * scale
    _, height, width = image.shape
    middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
    new = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            y, x = (row - middle_row) / larger, (column - middle_column) / larger
            old_x = math.cos(angle) * x + math.sin(angle) * y + right * translate * width + middle_column
            old_y = -math.sin(angle) * x + math.cos(angle) * y + down * translate * height + middle_row
            new[:, row, column] = _between(image, old_y, old_x)
    return new


def _between(image: Tensor, y: float, x: float) -> Tensor:
    value = torch.zeros(image.shape[0])
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                value = value + image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return value


def cutout(image: Tensor, draws: list[float], size: int) -> Tensor:
    _, height, width = image.shape
    top, left = int(draws[0] * height) - size // 2, int(draws[1] * width) - size // 2
    cut = image.clone()
    for row in range(height):
        for column in range(width):
            if top <= row < top + size and left <= column < left + size:
                cut[:, row, column] = 0
    return cut
