"""Gradient strategies: how the derivatives of single examples that signals ask for are taken through a model.

A strategy is chosen once, by trying (`start/gradient_trial.py`), and then owned by the step or the sweep: it says what
a forward pass must run inside, and takes the derivatives from the pass afterwards. Where no signal asks for any, there
is none, and passes are plain.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from thresher.core.evidence import Evidence, Signal
from thresher.core.signals import output_gradient
from thresher.core.trees import Tree, call_with, rows
from thresher.engine.device.placement import Autocast, as_written
from thresher.engine.gradients.factored import Factors, Recorder, covered_layers
from thresher.engine.gradients.replay import Notes, Replayed
from thresher.engine.gradients.unfactored import (
    Direction,
    by_forward_mode,
    by_two_backwards,
    norms_by_vmap,
    trained_parameters,
)


@dataclass(frozen=True)
class Forward:
    """A forward pass that was made, as far as derivatives are taken from it afterwards."""

    model: nn.Module
    inputs: Tree
    autocast: Autocast
    watcher: AbstractContextManager[object]
    take_layers: Callable[[], Mapping[str, Tensor]]  # the outputs of layers that the latest pass left


class Held(NamedTuple):
    """The trainable parameters of a model, and whether it has buffers."""

    parameters: list[nn.Parameter]
    has_buffers: bool


@dataclass(frozen=True)
class Strategy(ABC):
    """The signals to prepare: norms of gradients, and their agreement with a clean batch's; and how."""

    norms: tuple[Signal, ...] = ()
    agreements: tuple[Signal, ...] = ()
    known: dict[nn.Module, Held] = field(default_factory=dict, repr=False, compare=False, kw_only=True)

    def held_by(self, model: nn.Module) -> Held:
        """What the model holds; looking through it takes longer than a small step."""
        if model not in self.known:
            self.known[model] = Held(trained_parameters(model), any(True for _ in model.buffers()))
        return self.known[model]

    @abstractmethod
    def watch(self, model: nn.Module) -> AbstractContextManager[object]:
        """What the forward pass must run inside."""

    @abstractmethod
    def prepare(
        self, forward: Forward, evidence: Evidence, clean: Direction | None, keep_graph: bool
    ) -> Factors | None:
        """Add the signals to what is known; the factors, if the training gradient can come from them as well."""


@dataclass(frozen=True)
class Factored(Strategy):
    """All from the layer inputs and output gradients of one backward chain, which also give the training gradient."""

    layers: dict[nn.Module, list[tuple[str, nn.Module]]] = field(default_factory=dict, repr=False, compare=False)

    def watch(self, model: nn.Module) -> Recorder:
        if model not in self.layers:  # looking through a model takes longer than a small step
            self.layers[model] = covered_layers(model)
        return Recorder(model, self.layers[model])

    def prepare(self, forward: Forward, evidence: Evidence, clean: Direction | None, keep_graph: bool) -> Factors:
        assert isinstance(forward.watcher, Recorder)
        factors = forward.watcher.differentiate(evidence.losses, retain_graph=keep_graph, norms=bool(self.norms))
        if self.norms:
            evidence.known.update(dict.fromkeys(self.norms, factors.norms().float()))
        if clean is not None:
            evidence.known.update(dict.fromkeys(self.agreements, factors.along(clean).float()))
        return factors


@dataclass(frozen=True)
class Unfactored(Strategy):
    """Norms by vmap(grad); agreements by one pass in forward mode, or where a layer has none by two backwards."""

    forward_mode: bool = True

    def watch(self, model: nn.Module) -> AbstractContextManager[object]:  # noqa: ARG002
        if not self.agreements:
            return nullcontext()
        return Notes() if self.forward_mode else sdpa_kernel(SDPBackend.MATH)  # fused attention has no 2nd derivative

    def prepare(self, forward: Forward, evidence: Evidence, clean: Direction | None, keep_graph: bool) -> None:  # noqa: ARG002
        if self.norms:
            inputs = rows(forward.inputs, slice(len(evidence)))
            gradients = evidence.read(output_gradient).view_as(evidence.outputs)
            norms = norms_by_vmap(forward.model, inputs, gradients).float()
            evidence.known.update(dict.fromkeys(self.norms, norms))
        if clean is not None:
            evidence.known.update(dict.fromkeys(self.agreements, _agreement(forward, evidence, clean).float()))


def _agreement(forward: Forward, evidence: Evidence, direction: Direction) -> Tensor:
    """The gradient of each example along a direction [n], by a pass that is not factored."""
    if not isinstance(forward.watcher, Notes):
        return by_two_backwards(evidence.losses, direction)
    again, n = Replayed(forward.watcher.calls), len(evidence)

    def losses(values: Mapping[str, Tensor]) -> Tensor:
        with forward.autocast(), as_written(), again:
            outputs = call_with(forward.model, dict(values), forward.inputs).float()
        layers = {name: value[:n] for name, value in forward.take_layers().items()}
        return evidence.replace(raw_outputs=outputs[:n], layers=layers).losses

    return by_forward_mode(forward.model, losses, direction)
