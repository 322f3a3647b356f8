"""A set of examples: inputs, targets, stable ids and named columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thresher.core.datasets import Collate, Collated, MapDataset, Picked, Seeded, loaded
from thresher.core.errors import ThresherError
from thresher.core.example_checks import as_positions, check_example_parts, check_examples
from thresher.core.targets import text_labels
from thresher.core.tasks import CLASSES, LABELS, POSITIONS, REAL, outputs_fit, task_of
from thresher.core.trees import (
    Tree,
    as_leaf,
    as_tree,
    blendable,
    in_single_precision,
    is_column,
    is_frame,
    is_tree,
    leaves,
    mapped,
    moved,
    named_leaves,
    rows,
    selected,
)


@dataclass(frozen=True, eq=False)
class Examples:
    """n examples: inputs, given targets and named columns, each example with a stable id.

    inputs   a tensor [n, ...], or a dict or tuple of such, kept on the training device; or a map-style dataset, or a
             list of inputs, streamed by workers
    targets  class ids [n], soft labels [n, classes] (with `classes=`), or real targets [n] or [n, d]; 0 and 1 for each
             of several labels [n, labels]; or a class id at every token [n, T] or pixel [n, h, w], ignored if negative
    task     what the targets are: "classification", "regression", "multi-label" or "dense"; as they look unless given
    columns  named facts of length n: `is_corrupt`, `true_target`, `teacher_output`, ...
    collate  makes a batch of a list of items of a dataset, such as one that pads them to the longest
    normalise  (mean, std) applied to uint8 inputs on their way to the model; (0, 255) unless given
    label_kind  what labels were before they got ids and names: "text", "int" or "bool"; predictions are of that kind
    target_scale  (mean, deviation), each [d], by which real targets were standardised: records undo it
    brought  what the data hold beside inputs and targets, as arrays [n]: a path, an id in another system
    preparation  how a loader made the inputs from raw data: thresher.data.preparation_of reads it

    >>> letters = Examples(torch.zeros(3, 4), torch.tensor([0, 2, 1]))
    >>> letters.classes, letters.subset([2, 0]).ids.tolist()
    (3, [2, 0])
    """

    inputs: Tree | MapDataset
    targets: Tensor
    ids: Tensor = None  # type: ignore[assignment]  # filled in below: 0 .. n-1
    classes: int | None = None
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    class_names: Sequence[str] | None = None
    label_kind: str = "text"
    normalise: tuple[Tensor, Tensor] | None = None
    target_scale: tuple[Tensor, Tensor] | None = None
    name: str = "examples"
    checked: bool = field(default=False, repr=False)
    brought: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    preparation: Any = field(default=None, repr=False)
    collate: Collate | None = field(default=None, repr=False)
    task: str = ""  # filled in below

    def __post_init__(self) -> None:
        fill = object.__setattr__
        if is_column(self.targets):
            fill(self, "targets", as_leaf(self.targets, f"{self.name}, its targets,"))
        if not self.checked:
            self._take_texts()
            check_example_parts(
                self.name, self.inputs, self.targets, self.ids, self.classes, self.columns, self.class_names,
                self.normalise, self.collate is not None,
            )  # fmt: skip
        if not isinstance(self.inputs, Tensor):
            fill(self, "inputs", _as_inputs(self.inputs, self.name))
        fill(self, "targets", torch.as_tensor(self.targets))
        if self.ids is None:
            fill(self, "ids", torch.arange(len(self.targets), device=self.targets.device))
        fill(self, "ids", torch.as_tensor(self.ids).long())
        fill(self, "columns", {name: torch.as_tensor(column) for name, column in self.columns.items()})
        if self.classes is not None:
            fill(self, "task", CLASSES)
        elif self.task in ("", CLASSES):
            fill(self, "task", task_of(self.targets, self.target_scale is not None))
        if self.task == POSITIONS and tuple(self.targets.shape[1:]) == (1,):
            n = len(self.targets)
            raise ThresherError(f"{self.name} has whole-number targets [{n}, 1]: give class ids [{n}], or floats.")
        if self.task == CLASSES and self.classes is None:
            fill(self, "classes", int(self.targets.max()) + 1 if len(self.targets) else 0)
        is_real = self.task in (REAL, LABELS) or self.targets.is_floating_point() or self.targets.ndim == 2
        fill(self, "targets", self.targets.float() if is_real and self.task != POSITIONS else self.targets.long())
        if self.task in (REAL, LABELS) and self.targets.ndim == 1:
            fill(self, "targets", self.targets[:, None])
        if self.target_scale is not None:
            scale = tuple(torch.as_tensor(part, dtype=torch.float64).cpu().reshape(-1) for part in self.target_scale)
            fill(self, "target_scale", scale)
        if not self.checked:
            check_examples(self)
            fill(self, "checked", True)

    def _take_texts(self) -> None:
        """Labels that are texts become class ids, and the names of the classes."""
        named = text_labels(self.targets)
        if named is not None:
            object.__setattr__(self, "targets", named[0])
            if self.class_names is None:
                object.__setattr__(self, "class_names", named[1])

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def in_memory(self) -> bool:
        return is_tree(self.inputs)

    @property
    def is_regression(self) -> bool:
        return self.task == REAL

    @property
    def outputs(self) -> int:
        """The number of outputs a model must have: the classes (at a position, at least), labels or real targets."""
        if self.task == POSITIONS:
            return int(self.targets.max()) + 1
        return self.classes if self.classes is not None else self.targets.shape[1]

    @property
    def labels(self) -> Tensor:
        """The given class of each example [n], the likeliest one where the targets are soft."""
        if self.classes is None:
            raise ThresherError(f"{self.name} has {self.task} targets and no single label each: use targets instead.")
        return self.targets if self.targets.ndim == 1 else self.targets.argmax(1)

    def asks_for(self, outputs: Tensor, targets: Tensor) -> bool:
        """Whether outputs have the shape that these targets of the set ask for."""
        if self.task == POSITIONS:
            return outputs_fit(outputs, targets, self.outputs)
        return tuple(outputs.shape) == (len(targets), self.outputs)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input, which has to be a single tensor."""
        first = self.first_input()
        if not isinstance(first, Tensor):
            raise ThresherError(
                f"{self.name} has inputs of several tensors ({', '.join(name for name, _ in named_leaves(first))}), "
                "and this needs a single one: pass a torch.nn.Module that takes them."
            )
        return tuple(first.shape)

    def first_input(self) -> Tree:
        """The input of the first example, as it is stored."""
        if self.in_memory:
            return mapped(lambda leaf: leaf[0], self.inputs)
        items = Seeded(self.inputs, [0], 0, 0, whole=self.collate is not None)
        if self.collate is None:
            return items[0]
        return mapped(lambda leaf: leaf[0], Collated(self.collate)([items[0]]))

    @property
    def can_be_blended(self) -> bool:
        """Whether inputs, as the model gets them, are real numbers, and targets no class ids at positions."""
        first = mapped(lambda leaf: leaf[None], self.first_input())
        return self.task != POSITIONS and blendable(self.as_model_input(first))

    def subset(self, positions: Tensor | Sequence[int]) -> "Examples":
        """The examples at these positions, in this order, or where a mask is true, with their ids and columns."""
        device = self.targets.device
        known = isinstance(positions, Tensor) and positions.dtype == torch.long
        chosen = torch.as_tensor(positions if known else as_positions(positions, len(self), self.name), device=device)
        at = torch.arange(len(self), device=device)[chosen if chosen.dtype == torch.bool else chosen.long()]
        if not len(at) or len(torch.unique(at)) < len(at):
            why = "has positions that repeat" if len(at) else "is empty"
            raise ThresherError(f"The subset of {self.name} {why}: give at least one position, and each once.")
        inputs: Tree | MapDataset
        if self.in_memory:
            inputs = rows(self.inputs, at.to(leaves(self.inputs)[0].device))
        else:
            inputs = Picked(self.inputs, at.tolist())
        columns = {name: column[at.to(column.device)] for name, column in self.columns.items()}
        brought = {name: values[at.cpu().numpy()] for name, values in self.brought.items()}
        return replace(
            self, inputs=inputs, targets=self.targets[at], ids=self.ids[at], columns=columns, brought=brought
        )

    def with_columns(self, **columns: Tensor) -> "Examples":
        """The same examples with these columns added or replaced."""
        return replace(self, columns={**self.columns, **columns}, checked=False)

    def with_targets(self, targets: Tensor, **columns: Tensor) -> "Examples":
        """The same examples with other given targets."""
        return replace(self, targets=targets, columns={**self.columns, **columns}, checked=False)

    def to(self, device: torch.device | str) -> "Examples":
        """All tensors on this device; a streamed dataset is left as it is."""
        return replace(
            self,
            inputs=moved(self.inputs, device) if self.in_memory else self.inputs,
            targets=self.targets.to(device),
            ids=self.ids.to(device),
            columns={name: column.to(device) for name, column in self.columns.items()},
            normalise=None if self.normalise is None else (self.normalise[0].to(device), self.normalise[1].to(device)),
        )

    def as_given(self, values: Tensor) -> Tensor:
        """Real targets, or predictions of them, [n, d] in their original unit, on the host.

        >>> scale = (torch.tensor([1.0]), torch.tensor([1.0]))
        >>> heights = Examples(torch.zeros(2, 1), torch.tensor([-1.0, 1.0]), target_scale=scale)
        >>> heights.as_given(heights.targets).tolist()
        [[0.0], [2.0]]
        """
        values = values.cpu().double()
        if self.target_scale is not None:
            mean, deviation = self.target_scale
            values = values * deviation + mean
        return values.float()

    def in_type_of(self, model: nn.Module) -> "Examples":
        """The same with float64 inputs as float32, unless the model itself has parameters in float64."""
        if not self.in_memory or all(leaf.dtype != torch.float64 for leaf in leaves(self.inputs)):
            return self
        if any(parameter.dtype == torch.float64 for parameter in model.parameters()):
            return self
        return replace(self, inputs=in_single_precision(self.inputs))

    def as_model_input(self, inputs: Tree) -> Tree:
        """Inputs for the model: uint8 inputs are normalised, of a tree those that are images; others are unchanged."""
        if not isinstance(inputs, Tensor):
            return mapped(lambda leaf: self.as_model_input(leaf) if leaf.ndim == 4 else leaf, inputs)
        if inputs.dtype != torch.uint8:
            return inputs
        if self.normalise is None:
            return inputs.float() / 255
        mean, std = self.normalise
        return (inputs.float() - mean) / std

    def batches(
        self, order: Tensor | Sequence[Tensor], *, seed: int = 0, epoch: int = 0, workers: int = 0
    ) -> Iterator[Tree]:
        """The model inputs of each row of `order` (positions [steps, batch], or a list of rows of any length)."""
        device = self.targets.device
        if self.in_memory:
            for row in order:
                yield self.as_model_input(selected(self.inputs, row))
            return
        items = Seeded(self.inputs, self.ids.tolist(), seed, epoch, whole=self.collate is not None)
        for inputs in loaded(items, order, workers, device.type == "cuda", self.collate):
            if not all(torch.isfinite(leaf).all() for leaf in leaves(inputs) if leaf.is_floating_point()):
                raise ThresherError(f"{self.name} gave inputs that are NaN or infinite: clean them before training.")
            yield self.as_model_input(moved(inputs, device, non_blocking=True))


def _as_inputs(given: Any, name: str) -> Tree | MapDataset:
    """Inputs as tensors whose rows are the examples, or as mappings and tuples of such; datasets stay as they are."""
    if is_frame(given) or (isinstance(given, np.ndarray) and not isinstance(given, np.memmap)):
        return as_leaf(given, name)
    return as_tree(given, name) if is_tree(given) else given
