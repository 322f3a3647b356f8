"""A training pass that carries a tangent along, compiled: agreement with a clean batch without a pass of its own.

Every value is dual: beside it stands how it changes along the clean gradient, so that one pass in forward mode gives
the losses and their agreement. Compiled, what BatchNorm, activations and their tangents compute by elements is fused,
and only what the backward pass needs of the values themselves is kept. The clean batch has to be seen first.
"""

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from thresher.core.evidence import Evidence
from thresher.core.trees import Tree, arguments, one_tensor
from thresher.engine.gradients.strategy import Forward, Strategy
from thresher.engine.gradients.unfactored import Direction, load_formulas

Values: TypeAlias = dict[str, Tensor]  # of parameters or of buffers, by their names


class NotCarried(Exception):  # noqa: N818  # it leads to another way
    """The passes of this model cannot be compiled with a tangent; the message says why."""


class CompiledPasses:
    """The two passes of a model: with a tangent, and one that leaves no trace."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.works = False  # known after the first pass
        self.with_tangent = torch.compile(_with_tangent(model), dynamic=False, fullgraph=True)
        self.without_trace = torch.compile(_without_trace(model), dynamic=False, fullgraph=True)


def _with_tangent(model: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    def run(moving: Values, along: Values, buffers: Values, *inputs: Any, **named: Any) -> tuple[Tensor, Tensor]:
        outputs = partial(_outputs, model, buffers, inputs, named)
        found, tangent, written = jvp(outputs, (moving,), (along,), has_aux=True)  # type: ignore[misc]
        with torch.no_grad():
            for name, buffer in buffers.items():
                buffer.copy_(written[name])
        return found, tangent.detach()

    return run


def _without_trace(model: nn.Module) -> Callable[..., Tensor]:
    def run(buffers: Values, *inputs: Any, **named: Any) -> Tensor:
        return _outputs(model, buffers, inputs, named, {})[0]

    return run


def _outputs(
    model: nn.Module, buffers: Values, inputs: tuple[Any, ...], named: dict[str, Any], values: Values
) -> tuple[Tensor, Values]:
    """The outputs with these parameters, and what the pass leaves in copies of the buffers."""
    written = {name: buffer.clone() for name, buffer in buffers.items()}
    return one_tensor(functional_call(model, (values, written), inputs, named)).float(), written


class Carrier(nullcontext[None]):
    """One training pass of a model, and the tangent of its outputs."""

    def __init__(self, passes: CompiledPasses):
        super().__init__()
        self.passes, self.tangent = passes, torch.empty(0)

    def untraced(self, inputs: Tree) -> Tensor:
        """A pass that leaves the buffers as they are."""
        outputs: Tensor = self._tried(self.passes.without_trace, inputs, self._buffers())
        return outputs

    def forward(self, direction: Direction, inputs: Tree) -> Tensor:
        """The training pass, along this direction."""
        names = {name: value for name, value in self.passes.model.named_parameters() if value in direction}
        along = {name: direction[value] for name, value in names.items()}
        load_formulas()
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no forward mode
            made: tuple[Tensor, Tensor] = self._tried(self.passes.with_tangent, inputs, names, along, self._buffers())
        self.passes.works = True
        outputs, self.tangent = made
        return outputs

    def _buffers(self) -> Values:
        return dict(self.passes.model.named_buffers())

    def _tried(self, run: Callable[..., Any], inputs: Tree, *values: Mapping[str, Tensor]) -> Any:
        given, named = arguments(self.passes.model, inputs)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The .grad attribute of a Tensor")  # torch reads it while it compiles
                return run(*values, *given, **named)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # those of torch.compile are of this kind
            if self.passes.works:
                raise
            raise NotCarried(" ".join(str(error).split("\n\n")[0].split()).rstrip(".")) from error


@dataclass(frozen=True)
class Carried(Strategy):
    """Agreements from the tangent that the training pass itself carries; for models that are compiled."""

    passes: dict[nn.Module, CompiledPasses] = field(default_factory=dict, repr=False, compare=False)

    def watch(self, model: nn.Module) -> Carrier:
        if model not in self.passes:
            self.passes[model] = CompiledPasses(model)
        return Carrier(self.passes[model])

    def prepare(self, forward: Forward, evidence: Evidence, clean: Direction | None, keep_graph: bool) -> None:  # noqa: ARG002
        assert isinstance(forward.watcher, Carrier)
        with forward_ad.dual_level(), torch.no_grad():
            outputs = cast(Tensor, evidence.raw_outputs).detach()
            dual = forward_ad.make_dual(outputs, forward.watcher.tangent[: len(outputs)])  # type: ignore[no-untyped-call]
            losses = evidence.replace(raw_outputs=dual).losses
            tangent: Tensor | None = forward_ad.unpack_dual(losses).tangent  # type: ignore[no-untyped-call]
        found = torch.zeros_like(losses) if tangent is None else tangent
        evidence.known.update(dict.fromkeys(self.agreements, found.float()))
