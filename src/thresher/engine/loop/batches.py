"""Batches: everything a step needs to know about the examples at some positions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from thresher.core.examples import Examples
from thresher.core.rule import Decision
from thresher.core.trees import Tree, mapped, selected
from thresher.engine.step.forward import Batch


class BatchSource:
    """The training set and the epoch's decisions about it, from which a step picks its batch by position.

    The tensors stay the same from epoch to epoch and only their values change, so that a captured step can read them.
    """

    def __init__(self, train: Examples, columns: Sequence[str], channels_last: bool, clean: Examples | None = None):
        self.train, self.channels_last, self.clean = train, channels_last, clean
        self.columns = {name: train.columns[name] for name in columns}
        self.decided: list[dict[str, Tensor]] = []
        self.weights: dict[str, Tensor] = {}
        self.new_targets: dict[str, Tensor] = {}

    def begin(self, decisions: Sequence[Decision] | None, new_targets: Sequence[Tensor] | None) -> None:
        """Take over what the epoch's rules decided for each network, and the targets it is to learn."""
        if new_targets is not None:
            _overwrite(self.new_targets, {str(place): targets for place, targets in enumerate(new_targets)})
        if decisions is not None:
            self.decided = self.decided or [{} for _ in decisions]
            for kept, decision in zip(self.decided, decisions, strict=True):
                _overwrite(kept, decision.columns)
            _overwrite(self.weights, {str(place): decision.weights for place, decision in enumerate(decisions)})

    def batch(self, index: Tensor, rows: Tensor, inputs: Tree | None) -> Batch:
        """The examples at these positions; their inputs are gathered here unless a stream has brought them."""
        train, inputs = self.train, self._inputs(self.train, index, inputs)
        columns = _at(self.columns, index)
        targets = train.targets.index_select(0, index)
        return Batch(rows, train.ids.index_select(0, index), inputs, targets, columns)

    def as_decided(self, batch: Batch, index: Tensor, networks: int) -> list[Batch]:
        """The batch as each network gets it: with the columns that its rule decided, and its new targets."""
        made = [batch] * networks
        if self.decided:
            columns = [{**batch.columns, **_at(kept, index)} for kept in self.decided]
            made = [replace(own, columns=its) for own, its in zip(made, columns, strict=True)]
        if self.new_targets:
            new_targets = _at(self.new_targets, index).values()
            made = [replace(own, targets=its) for own, its in zip(made, new_targets, strict=True)]
        return made

    def weights_at(self, index: Tensor) -> list[Tensor] | None:
        """The epoch's weights of the examples at these positions, for each network."""
        return list(_at(self.weights, index).values()) or None

    def clean_batch(self, index: Tensor | None, inputs: Tree | None) -> Batch | None:
        """The clean examples at these positions, where there are any."""
        return None if self.clean is None or index is None else self._plain_batch(self.clean, index, inputs)

    def partners(self, index: Tensor | None, inputs: Tree | None) -> Batch | None:
        """The partners at these positions of the training set, where the batch is mixed with such."""
        return None if index is None else self._plain_batch(self.train, index, inputs)

    def _plain_batch(self, examples: Examples, index: Tensor, inputs: Tree | None) -> Batch:
        inputs = self._inputs(examples, index, inputs)
        return Batch(index, examples.ids.index_select(0, index), inputs, examples.targets.index_select(0, index), {})

    def _inputs(self, examples: Examples, index: Tensor, streamed: Tree | None) -> Tree:
        inputs = streamed
        if inputs is None:
            inputs = examples.as_model_input(selected(examples.inputs, index))
        return mapped(_channels_last, inputs) if self.channels_last else inputs


def _channels_last(inputs: Tensor) -> Tensor:
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs


def _at(kept: Mapping[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    return {name: value.index_select(0, index) for name, value in kept.items()}


def _overwrite(kept: dict[str, Tensor], new: Mapping[str, Tensor]) -> None:
    """Put new values into the tensors kept under the same names; names that are gone are forgotten."""
    for name in kept.keys() - new.keys():
        del kept[name]
    for name, value in new.items():
        old = kept.get(name)
        if old is not None and old.shape == value.shape and old.dtype == value.dtype:
            old.copy_(value)
        else:
            kept[name] = value.detach().clone()
