"""Random numbers of a step in several processes: each takes its part of those that one process would draw."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from thresher.engine.several.ranks import Ranks

FACTORIES = (torch.rand, torch.randn, torch.randint)
IN_PLACE = (Tensor.uniform_, Tensor.normal_, Tensor.bernoulli_, Tensor.exponential_)
DROPOUTS = (functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d)


class PartOfDraws(TorchFunctionMode):
    """Inside, a draw of a number for each of this process's rows is its part of a draw for all n.

    So a view shows an example as it would in a single process, and the generator stays the same in all of them.
    """

    def __init__(self, ranks: Ranks, n: int, generator: torch.Generator):
        super().__init__()
        self.ranks, self.n, self.generator = ranks, n, generator
        part = ranks.part(n)
        self.rows = part.stop - part.start

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("generator") is self.generator:
            if function in FACTORIES:
                return self._factory(function, args, kwargs)
            if function in IN_PLACE and args[0].ndim and len(args[0]) == self.rows:
                room = args[0].new_empty(self.n, *args[0].shape[1:])
                return args[0].copy_(self.ranks.own(function(room, *args[1:], **kwargs)))
        return function(*args, **kwargs)

    def _factory(self, function: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        bounds = [each for each in args if not isinstance(each, (tuple, list, torch.Size))] if _lists(args) else []
        given = next((each for each in args if isinstance(each, (tuple, list, torch.Size))), args)
        size = tuple(kwargs.get("size", given))
        if not size or size[0] != self.rows:
            return function(*args, **kwargs)
        more = {name: value for name, value in kwargs.items() if name != "size"}
        return self.ranks.own(function(*bounds, (self.n, *size[1:]), **more))


def _lists(args: tuple[Any, ...]) -> bool:
    return any(isinstance(each, (tuple, list, torch.Size)) for each in args)


class PartOfDropout(TorchFunctionMode):
    """Inside, dropout masks of this process's rows are its part of those for all n examples, or all clean ones.

    A mask is what dropout makes of ones, so that its numbers are those of a single process.
    """

    def __init__(self, ranks: Ranks, sizes: Iterable[int]):
        super().__init__()
        self.ranks = ranks
        self.whole = {ranks.part(n).stop - ranks.part(n).start: n for n in sizes}  # of as many rows of this process

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function not in DROPOUTS or not kwargs["training"]:
            return function(*args, **kwargs)
        inputs, place = args[0], kwargs["inplace"]
        rows = next((rows for rows in self.whole if rows and len(inputs) % rows == 0), None)
        if rows is None:
            return function(*args, **kwargs)
        views, n = len(inputs) // rows, self.whole[rows]  # several views come one after another
        with torch.no_grad():
            mask = function(inputs.new_ones(views * n, *inputs.shape[1:]), **{**kwargs, "inplace": False})
            own = torch.cat([self.ranks.own(view) for view in mask.chunk(views)])
        return inputs.mul_(own) if place else inputs * own


def drops_out(model: nn.Module) -> bool:
    """Whether a network draws masks while it trains."""
    return any(isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0 for layer in model.modules())
