"""The gradients of single examples through one layer that has no formula, by vmap over that layer alone.

A layer qualifies if it owns all its parameters itself and takes one tensor to one tensor, example by example: the norms
that transformers bring along, PReLU, a layer of one's own. The rest of the model is not run again.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from thresher.engine.gradients.layers import NotFactored, Share, in_chunks, kept, scaled


def any_layer(layer: nn.Module, inputs: Tensor, deltas: Tensor, norms: bool) -> list[Share]:
    """The shares of all trainable parameters of the layer; kept where they are no larger than inputs and outputs."""
    trained = {name: value for name, value in layer.named_parameters() if value.requires_grad}
    numbers = inputs[0].numel() + deltas[0].numel()
    size = sum(value.numel() for value in trained.values())

    def found(function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        try:
            return in_chunks(function, 4 * numbers + 2 * size, inputs, deltas)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            said = str(error).splitlines()[0]
            raise NotFactored(f"vmap does not pass through {type(layer).__name__}: {said}") from error

    if size <= numbers:
        flat = found(lambda rows, given: torch.cat(list(_gradients(layer, rows, given).values()), 1))
        pieces = torch.split(flat, [value.numel() for value in trained.values()], 1)
        return [kept(value, piece) for value, piece in zip(trained.values(), pieces, strict=True)]
    return [_unformed(layer, name, value, inputs, deltas, norms, found) for name, value in trained.items()]


def _unformed(
    layer: nn.Module,
    name: str,
    parameter: Tensor,
    inputs: Tensor,
    deltas: Tensor,
    norms: bool,
    found: Callable[[Callable[[Tensor, Tensor], Tensor]], Tensor],
) -> Share:
    """The share of one parameter whose gradients are formed for a few examples at a time, and not kept."""

    def weighted(weights: Tensor) -> Tensor:
        return _back(layer, inputs, scaled(deltas, weights))[name]

    def along(direction: Tensor) -> Tensor:
        flat = direction.reshape(-1)
        return found(lambda rows, given: _gradients(layer, rows, given)[name] @ flat.to(_wide(rows)))

    squared = found(lambda rows, given: _gradients(layer, rows, given)[name].square().sum(1)) if norms else None
    return Share(parameter, weighted, along, squared)


def _gradients(layer: nn.Module, inputs: Tensor, deltas: Tensor) -> dict[str, Tensor]:
    """For each parameter every example's gradient [m, numbers]."""
    found = vmap(partial(_back, layer))(inputs[:, None], deltas[:, None])
    return {name: gradients.flatten(1) for name, gradients in found.items()}


def _back(layer: nn.Module, inputs: Tensor, deltas: Tensor) -> dict[str, Tensor]:
    """The gradients of Σ deltas · layer(inputs) for the parameters of the layer, in float32 or wider."""
    wide = _wide(deltas)
    rows = inputs.to(wide) if inputs.is_floating_point() else inputs
    held = {name: value.detach() for name, value in layer.named_parameters() if not value.requires_grad}
    held |= {name: buffer.clone() for name, buffer in layer.named_buffers()}
    trained = {name: value.detach().to(wide) for name, value in layer.named_parameters() if value.requires_grad}

    def forward(values: dict[str, Tensor]) -> Tensor:
        outputs: Tensor = functional_call(layer, values | held, (rows,))
        return outputs

    outputs, pull = vjp(forward, trained)[:2]
    gradients: dict[str, Tensor] = pull(deltas.to(outputs.dtype))[0]
    return gradients


def _wide(values: Tensor) -> torch.dtype:
    if not values.is_floating_point():
        return torch.float32
    return torch.promote_types(values.dtype, torch.float32)
