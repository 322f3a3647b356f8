"""The formulas of `layers` for convolutions with zero padding; a Conv1d is a Conv2d of height 1."""

from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from thresher.engine.gradients.layers import Share, bias_share, by_channel, dot, in_chunks, kept, products, scaled


@dataclass(frozen=True)
class Geometry:
    """How a kernel moves over its padded inputs: sizes as (height, width), padding as `F.pad` reads it."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int

    @property
    def offsets(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def taps(self, height: int, width: int) -> tuple[list[slice], list[slice]]:
        """For each kernel row, and each kernel column, the padded inputs it meets at height x width outputs."""
        return (
            [slice(at, at + self.stride[0] * (height - 1) + 1, self.stride[0]) for at in self._starts(0)],
            [slice(at, at + self.stride[1] * (width - 1) + 1, self.stride[1]) for at in self._starts(1)],
        )

    def _starts(self, side: int) -> range:
        return range(0, self.dilation[side] * self.kernel[side], self.dilation[side])


def convolution(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:
    """Conv1d on [n, C, width] and Conv2d on [n, C, height, width]."""
    layer = cast(nn.Conv2d, layer)
    weight, geometry = layer.weight, geometry_of(layer)
    shares = bias_share(layer.bias, by_channel(deltas))
    if not weight.requires_grad:
        return shares
    inputs, deltas = (rows[:, :, None] if rows.ndim == 3 else rows for rows in (inputs.to(deltas.dtype), deltas))
    positions, numbers = deltas[0, 0].numel(), inputs[0].numel() + deltas[0].numel()
    pixels = (inputs.shape[2] + sum(geometry.padding[2:])) * (inputs.shape[3] + sum(geometry.padding[:2]))
    on_cpu = deltas.device.type == "cpu"
    if (norms or on_cpu) and weight.numel() <= numbers:  # on the CPU it costs no more than the weighted sum alone
        form, copied = gradients_by_patches, geometry.kernel[1] * pixels
        if geometry.stride[0] > 1:
            copied = geometry.offsets * positions
        if on_cpu:  # where it wins on every shape tried; on CUDA it can be ten times slower
            form, copied = gradients_by_groups, 0
        held = numbers + copied * inputs.shape[1] + 2 * weight.numel()
        return [*shares, kept(weight, in_chunks(partial(form, geometry), held, inputs, deltas))]
    held = 2 * geometry.groups * (positions**2 + min(pixels**2, geometry.offsets * positions**2))
    squared = in_chunks(partial(_squares, geometry), held, inputs, deltas) if norms else None

    def weighted(weights: Tensor) -> Tensor:
        return _weight_gradient(geometry, inputs, scaled(deltas, weights))

    def along(direction: Tensor) -> Tensor:
        return dot(_applied(geometry, inputs, direction.to(inputs.dtype)), deltas)

    return [*shares, Share(weight, weighted, along, squared)]


def gradients_by_groups(geometry: Geometry, inputs: Tensor, deltas: Tensor) -> Tensor:
    """Each example's gradient, as that of one convolution in which the examples are groups."""
    n, wide = len(inputs), torch.promote_types(deltas.dtype, torch.float32)
    inputs, deltas = (rows.to(wide).reshape(1, -1, *rows.shape[2:]) for rows in (inputs, deltas))
    return _weight_gradient(replace(geometry, groups=n * geometry.groups), inputs, deltas).reshape(n, -1)


def gradients_by_patches(geometry: Geometry, inputs: Tensor, deltas: Tensor) -> Tensor:
    """Each example's gradient, as products of its output gradients with the inputs they came from.

    Copies that are shifted along the width alone hold the patches of a kernel row as they are, without a copy for every
    place in the kernel; with a stride only patches do.
    """
    incoming, outgoing = _by_group(geometry, inputs, deltas)
    rows, columns = geometry.taps(*deltas.shape[2:])
    if geometry.stride[0] > 1:
        of_rows = [_patches(incoming, rows, columns)]
    else:
        shifted = _side_by_side([incoming[:, :, :, column] for column in columns])
        of_rows = [shifted[:, :, row].flatten(2) for row in rows]
    shape = *outgoing.shape[:2], -1, incoming.shape[1]
    formed = [products(outgoing, patches.mT).reshape(shape).mT for patches in of_rows]
    return torch.stack(formed, 3).reshape(len(inputs), -1)


def _squares(geometry: Geometry, inputs: Tensor, deltas: Tensor) -> Tensor:
    """Σ_ts (δ_t·δ_s)(patch_t·patch_s)."""
    incoming, outgoing = _by_group(geometry, inputs, deltas)
    rows, columns = geometry.taps(*deltas.shape[2:])
    if incoming[0, 0].numel() ** 2 < geometry.offsets * outgoing.shape[2] ** 2:
        # Patches overlap so much that products of single pixels, summed along the kernel, cost less.
        pixels = incoming.flatten(2)
        sizes = incoming.shape[2:]
        between = products(pixels.mT, pixels).reshape(-1, *sizes, *sizes)
        between = _total([between[:, row, :, row] for row in rows])
        between = _total([between[:, :, column, :, column] for column in columns])
    else:
        patches = _patches(incoming, rows, columns)
        between = products(patches.mT, patches)
    return (between.flatten(1) * products(outgoing.mT, outgoing).flatten(1)).reshape(len(inputs), -1).sum(1)


def _applied(geometry: Geometry, inputs: Tensor, kernels: Tensor) -> Tensor:
    """The convolution of the inputs by these kernels [O, C, *kernel], or [O, C, width] of a Conv1d."""
    inputs, padding = _evenly_padded(geometry, inputs)
    kernels = kernels.reshape(*kernels.shape[:2], *geometry.kernel)
    return F.conv2d(inputs, kernels, None, geometry.stride, tuple(padding), geometry.dilation, geometry.groups)


def _evenly_padded(geometry: Geometry, inputs: Tensor) -> tuple[Tensor, list[int]]:
    """The inputs and the padding left to do: the kernels of torch know only padding that is equal on both sides."""
    left, right, top, bottom = geometry.padding
    if left != right or top != bottom:
        return F.pad(inputs, geometry.padding), [0, 0]
    return inputs, [top, left]


def _weight_gradient(geometry: Geometry, inputs: Tensor, deltas: Tensor) -> Tensor:
    """The gradient of the kernels for the whole batch."""
    inputs, padding = _evenly_padded(geometry, inputs)
    kernels = deltas.new_empty(deltas.shape[1], inputs.shape[1] // geometry.groups, *geometry.kernel)
    moves = (list(geometry.stride), padding, list(geometry.dilation), False, [0, 0], geometry.groups)
    gradients = torch.ops.aten.convolution_backward(deltas, inputs, kernels, None, *moves, [False, True, False])
    return cast(Tensor, gradients[1])


def _by_group(geometry: Geometry, inputs: Tensor, deltas: Tensor) -> tuple[Tensor, Tensor]:
    """Padded inputs [n·groups, C, height, width] and output gradients [n·groups, O, T]: groups never meet."""
    padded = F.pad(inputs, geometry.padding) if any(geometry.padding) else inputs
    rows = len(inputs) * geometry.groups
    channels, outputs = inputs.shape[1] // geometry.groups, deltas.shape[1] // geometry.groups
    return padded.reshape(rows, channels, *padded.shape[2:]), deltas.reshape(rows, outputs, -1)


def _patches(incoming: Tensor, rows: list[slice], columns: list[slice]) -> Tensor:
    """What each output position sees: [m, K·C, T]."""
    return _side_by_side([incoming[:, :, row, column] for row in rows for column in columns]).flatten(2)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """The channels of all parts."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _total(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def geometry_of(layer: nn.Conv2d) -> Geometry:
    kernel, stride, dilation = (_pair(size) for size in (layer.kernel_size, layer.stride, layer.dilation))
    if layer.padding == "same":
        spans = [reach * (size - 1) for reach, size in zip(dilation, kernel, strict=True)]
        before, after = [span // 2 for span in spans], [span - span // 2 for span in spans]
    else:
        before = after = [0, 0] if layer.padding == "valid" else [0, *layer.padding][-2:]
    return Geometry(kernel, stride, dilation, (before[1], after[1], before[0], after[0]), layer.groups)


def _pair(size: tuple[int, ...]) -> tuple[int, int]:
    return (1, size[0]) if len(size) == 1 else (size[0], size[1])
