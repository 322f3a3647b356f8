"""Which layers have a formula for the gradients of single examples, and which models are covered by them.

A layer without one is asked alone, by vmap over it, if it owns all its parameters itself and takes one tensor to one
tensor, example by example: the norms that transformers bring along, PReLU, a layer of one's own. The rest of the model
is not run again. Parameters beside layers, such as class tokens, count as layers of their own (`Broadcast`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils.parametrize import is_parametrized

from thresher.core.errors import ThresherError
from thresher.engine.gradients.convolution import convolution
from thresher.engine.gradients.layers import (
    Broadcast,
    NotFactored,
    Share,
    batch_norm,
    broadcast,
    group_norm,
    in_chunks,
    kept,
    layer_norm,
    rms_norm,
    scaled,
)
from thresher.engine.gradients.outer import Outer, embedding, in_projection, linear, transposed_linear

Formula = Callable[[nn.Module, Tensor, Tensor, bool], Sequence[Share | Outer]]

FORMULAS: dict[type[nn.Module], Formula] = {
    nn.Linear: linear,
    NonDynamicallyQuantizableLinear: linear,
    nn.MultiheadAttention: in_projection,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.GroupNorm: group_norm,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    Broadcast: broadcast,
}
# Layers of packages that may not be installed, by their full names.
BY_NAME: dict[str, Formula] = {"transformers.pytorch_utils.Conv1D": transposed_linear}
# These see positions one by one, so that rows of [n·T, ...] may be the positions of n examples.
BY_POSITION: set[Any] = {linear, transposed_linear, embedding, layer_norm, rms_norm}


def formula_of(layer: nn.Module) -> Formula:
    kind = type(layer)
    if isinstance(layer, nn.Embedding):  # also those that do more: their lookups are what is noted (`calls.Inside`)
        return embedding
    return FORMULAS.get(kind) or BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}") or any_layer


def supported(model: nn.Module) -> str | None:
    """None if formulas may cover every trainable parameter, otherwise why not, naming the first layer.

    >>> supported(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))) is None
    True
    >>> supported(nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 2)))
    '1 is a LSTM, which has no formula'
    """
    for name, layer in trainable(model):
        reason = _uncovered(layer)
        if reason is not None:
            return f"{name or 'the model'} {reason}"
    return None


def refuse_batch_norm(model: nn.Module) -> None:
    """Refuse BatchNorm by batch statistics: it mixes the examples, so that no example has a gradient of its own."""
    for name, layer in model.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
            raise ThresherError(
                f"{name or 'the model'} is a {type(layer).__name__} that mixes the examples of a batch, so that they "
                "have no gradient norms of their own: convert it by thresher.models.batch_to_group_norm(model), or "
                "freeze its statistics by thresher.models.freeze_batch_norm(model); built-in models do so as NAME-gn "
                "and NAME-frozen."
            )


def trainable(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The layers that own a trainable parameter, by name; each parameter beside layers stands for itself.

    Left out are those that only hold what a layer inside them uses, such as the bias of a decoder.
    """
    owners = Counter(parameter for layer in model.modules() for parameter in layer.parameters(recurse=False))
    for name, layer in model.named_modules():
        own = {key: value for key, value in layer.named_parameters(name, recurse=False) if value.requires_grad}
        alone = {key: value for key, value in own.items() if owners[value] == 1}
        if formula_of(layer) is any_layer and any(layer.children()) and not is_parametrized(layer):
            yield from ((key, Broadcast(value)) for key, value in alone.items())
        elif alone or (own and not any(layer.children())):
            yield name, layer


def _uncovered(layer: nn.Module) -> str | None:
    kind, own = type(layer).__name__, {name for name, _ in layer.named_parameters(recurse=False)}
    if formula_of(layer) is any_layer:
        return _not_alone(layer)
    if isinstance(layer, nn.MultiheadAttention):
        plain = own <= {"in_proj_weight", "in_proj_bias"} and not layer.add_zero_attn
        return None if plain else f"is a {kind} whose keys or values have a width, a bias or rows of their own"
    if own != {name for name in ("weight", "bias") if getattr(layer, name, None) is not None}:
        return f"is a {kind} whose weight or bias is no parameter of its own"  # as after pruning or weight_norm
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)) and layer.padding_mode != "zeros":
        return f"is a {kind} with {layer.padding_mode} padding, which has no formula"
    if isinstance(layer, nn.Embedding) and (layer.sparse or layer.scale_grad_by_freq):
        return "is an Embedding with sparse or frequency-scaled gradients, which have no formula"
    if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
        return f"is a {kind} that mixes the examples of a batch"
    return None


def _not_alone(layer: nn.Module) -> str | None:
    """Why a layer without a formula of its own cannot be looked at by itself."""
    kind = type(layer).__name__
    if isinstance(layer, nn.RNNBase | nn.ParameterList | nn.ParameterDict) or is_parametrized(layer):
        return f"is a {kind}, which has no formula"
    if layer._forward_pre_hooks or layer._forward_hooks:
        return f"is a {kind} with hooks, which has no formula"
    return None


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
