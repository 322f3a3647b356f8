"""A forward pass noted down, and run again in forward mode without computing again what was noted.

The training pass has already computed the outputs of convolutions, linear layers and BatchNorm, which are most of its
cost, and drawn its dropout masks. The pass that carries tangents takes both from the notes: it computes tangents only,
and sees the masks that training sees. Everything else is left to torch's own forward mode.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

Args: TypeAlias = tuple[Any, ...]
Names: TypeAlias = Mapping[str, Any]

PRODUCTS: set[Any] = {F.linear, torch.conv1d, torch.conv2d, torch.conv3d}
DROPPING: set[Any] = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d}
FILLING: set[Any] = {Tensor.bernoulli_, Tensor.uniform_, Tensor.normal_, Tensor.exponential_}
DRAWING = {torch.bernoulli, Tensor.bernoulli, torch.rand, torch.randn, torch.rand_like, torch.randn_like, *FILLING}


class BatchNorm(NamedTuple):
    """The arguments of `F.batch_norm`."""

    input: Tensor
    running_mean: Tensor | None
    running_var: Tensor | None
    weight: Tensor | None = None
    bias: Tensor | None = None
    training: bool = False
    momentum: float = 0.1
    eps: float = 1e-5


class Dropout(NamedTuple):
    """The arguments of the functions in DROPPING."""

    input: Tensor
    p: float = 0.5
    training: bool = True
    inplace: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """One call of the noted pass: what it gave, at which version, and what else its tangent needs."""

    function: Callable[..., Any]
    result: Tensor
    version: int
    more: tuple[Any, ...] = ()

    @property
    def is_intact(self) -> bool:
        """Whether nothing has changed the result in place since, such as an activation."""
        return self.result._version == self.version


def _is_noted(function: Any, args: Args, names: Names) -> bool:
    if function is F.batch_norm:
        given = BatchNorm(*args, **names)
        return given.training and given.input.numel() > given.input.shape[1]
    if function in DROPPING:
        dropout = Dropout(*args, **names)
        return dropout.training and dropout.p > 0
    return function in PRODUCTS or function in DRAWING


class Notes(TorchFunctionMode):
    """Inside its `with` block, notes every call whose result `Replayed` will not compute again."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, function: Any, types: Any, args: Args = (), kwargs: Names | None = None) -> Any:
        names = kwargs or {}
        more: list[Any] = []
        if not _is_noted(function, args, names):
            return function(*args, **names)
        if function is F.batch_norm:
            # What F.batch_norm itself calls, and of which it keeps only the first result.
            x, mean, variance, weight, bias, _, momentum, eps = BatchNorm(*args, **names)
            cudnn = torch.backends.cudnn.enabled
            result, *more = torch._batch_norm_impl_index(x, weight, bias, mean, variance, True, momentum, eps, cudnn)
        elif function in DROPPING:
            # The mask is what dropout makes of ones: by the same draws, and in the same product.
            dropout = Dropout(*args, **names)
            mask = function(torch.ones_like(dropout.input), dropout.p)
            result, more = dropout.input * mask, [mask]
        else:
            result = function(*args, **names)
            more = [result.clone()] if function in DRAWING else []
        kept = tuple(value.detach() if isinstance(value, Tensor) else value for value in more)
        self.calls.append(Call(function, result.detach(), result._version, kept))
        return result


class Replayed(TorchFunctionMode):
    """Inside its `with` block, the noted pass runs again on dual tensors; its calls come in the same order."""

    def __init__(self, calls: Iterable[Call]):
        super().__init__()
        self.calls = iter(calls)

    def __torch_function__(self, function: Any, types: Any, args: Args = (), kwargs: Names | None = None) -> Any:
        names = kwargs or {}
        if not _is_noted(function, args, names):
            return function(*args, **names)
        call = next(self.calls, None)
        if call is None or call.function is not function:
            raise NotImplementedError("it does not do the same at every forward pass")
        if function in DROPPING:
            return Dropout(*args, **names).input * call.more[0]
        if function in DRAWING:
            return args[0].copy_(call.more[0]) if function in FILLING else call.more[0].clone()
        if not call.is_intact:
            return function(*args, **names)
        if function is F.batch_norm:
            tangent = _batch_norm_tangent(call, BatchNorm(*args, **names))
        else:
            tangent = _product_tangent(function, *args, **names)
        return call.result if tangent is None else forward_ad.make_dual(call.result, tangent)  # type: ignore[no-untyped-call]


def _product_tangent(
    function: Callable[..., Tensor],
    input: Tensor,  # noqa: A002  # as torch names it
    weight: Tensor,
    bias: Tensor | None = None,
    *rest: Any,
    **names: Any,
) -> Tensor | None:
    """ẋ·W + x·Ẇ + ḃ for a product of inputs and weights, such as a convolution."""
    (x, x_dot), (w, w_dot), (_, b_dot) = _parts(input), _parts(weight), _parts(bias)
    if w_dot is None and b_dot is not None:
        w_dot = torch.zeros_like(w)
    by_inputs = None if x_dot is None else function(x_dot, w, None, *rest, **names)
    if w_dot is None:
        return by_inputs
    by_weights = function(x, w_dot, b_dot, *rest, **names)
    return by_weights if by_inputs is None else by_inputs.add_(by_weights)


def _batch_norm_tangent(call: Call, given: BatchNorm) -> Tensor | None:
    """γ·dx̂ + γ̇·x̂ + β̇: the Jacobian of x -> x̂ is symmetric, so that γ·dx̂ is what the backward kernel makes of ẋ."""
    (x, x_dot), (w, w_dot), (_, b_dot) = _parts(given.input), _parts(given.weight), _parts(given.bias)
    mean, scale, reserve, which = call.more
    tangent = None
    if x_dot is not None:
        moving = (given.running_mean, given.running_var)
        settings = (mean, scale, True, given.eps, [True, False, False], reserve)
        kernel = torch.ops.aten._batch_norm_impl_index_backward
        tangent = kernel(which, x, x_dot, w, *moving, *settings)[0]
    if w_dot is None and b_dot is None:
        return tangent
    slope = torch.zeros_like(mean) if w_dot is None else w_dot * scale
    shift = -mean * slope if b_dot is None else b_dot - mean * slope
    slope, shift = (value.reshape(1, -1, *[1] * (x.ndim - 2)).to(x.dtype) for value in (slope, shift))
    return torch.addcmul(shift if tangent is None else tangent.add_(shift), x, slope)


def _parts(value: Tensor | None) -> tuple[Any, Tensor | None]:
    """(primal, tangent) of a tensor that may be dual."""
    if value is None:
        return None, None
    primal, tangent = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    return primal, tangent
