"""Evidence: what is known about n examples at one moment, computed when first read; and the signals read from it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError, note_stage
from thresher.core.schedules import Schedule
from thresher.core.tasks import TASKS
from thresher.core.trees import Tree, rows

OTHER_EXAMPLES = frozenset({"clean", "labelled", "validation"})  # all other evidence is about the same examples


class Prepared(Enum):
    """What the engine has to record during the forward pass for a signal."""

    LAST_INPUTS = "the inputs of the last Linear layer"
    LAST_INPUTS_GRADIENT = "the gradient of each loss with respect to the inputs of the last Linear layer"
    GRADIENT_NORM = "the norm of each example's gradient"
    CLEAN_AGREEMENT = "each example's gradient along that of a clean batch"
    MORE_PASSES = "further passes over the batch"


@dataclass(frozen=True)
class Signal:
    """A named function `Evidence -> [n]` or `[n, width]`, and what the engine must prepare for it.

    tasks     the tasks it is defined for
    prepared  what the engine records for it, where it is not a function of the evidence alone
    needs     other evidence it reads: "clean", "average", ...
    of_targets  it reads no outputs, so no sweep is needed for it
    made_of   the signals it is computed from, which the engine records in its place
    passes    (model, inputs) -> [n], where it takes further passes over a batch
    timeless  it never reads the epoch, so a captured step may be replayed in every epoch
    """

    name: str
    function: Callable[["Evidence"], Tensor] = field(repr=False)
    tasks: tuple[str, ...] = TASKS
    prepared: Prepared | None = None
    needs: frozenset[str] = frozenset()
    of_targets: bool = False
    made_of: tuple["Signal", ...] = ()
    passes: Callable[[nn.Module, Tree], Tensor] | None = field(default=None, repr=False)
    timeless: bool = field(default=False, repr=False)

    def __call__(self, evidence: "Evidence") -> Tensor:
        return self.function(evidence)

    def __hash__(self) -> int:
        return hash(self.name)  # a step looks signals up a dozen times, and a hash of all fields takes a microsecond

    def phase(self, epoch: int) -> int | None:
        """What a captured step assumes about the epoch: it is captured again when this changes."""
        return None if self.timeless else epoch


def prepared_as(kind: Prepared, wanted: Iterable[Signal]) -> tuple[Signal, ...]:
    """Those of the wanted signals that are prepared in this way."""
    return tuple(signal for signal in wanted if signal.prepared is kind)


def looks_at_head(wanted: Iterable[Signal]) -> bool:
    """Whether one of the wanted signals is about the model's last Linear layer."""
    return any(signal.prepared in (Prepared.LAST_INPUTS, Prepared.LAST_INPUTS_GRADIENT) for signal in wanted)


class Losses(Protocol):
    """What evidence needs of an objective."""

    def __call__(self, evidence: "Evidence", /) -> Tensor: ...
    def output_gradient(self, evidence: "Evidence") -> Tensor: ...


class FindsNorms(ABC):
    """An objective of large outputs, which finds the norms of its gradients without having all gradients at once."""

    @abstractmethod
    def output_gradient_norm(self, evidence: "Evidence") -> Tensor:
        """‖∂ℓᵢ/∂outputsᵢ‖ [n]."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a signal, a rule or an objective may read; every signal is computed once, when first read.

    outputs   [n, classes or d or ...] of the model, or a function that computes them by a sweep when first read
    targets   [n] class ids, [n, classes] soft labels or [n, d] real targets, as given
    objective the recipe's own: losses [n] from evidence
    others    further evidence by name: `peer`, `average`, `clean`, `teacher`, `validation`, ...
    """

    ids: Tensor
    targets: Tensor
    objective: Losses
    raw_outputs: Tensor | Callable[[], "Swept"]
    classes: int | None
    inputs: Tree | None = None
    epoch: int = 0
    epochs: float = 1.0
    groups: Tensor | None = None
    generator: torch.Generator | None = None
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    layers: Mapping[str, Tensor] = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    scalars: Mapping[Schedule, Tensor] = field(default_factory=dict)
    others: Mapping[str, "Evidence"] = field(default_factory=dict)
    known: dict[Any, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.ids.shape[0]

    @property
    def outputs(self) -> Tensor:
        """The model's outputs [n, classes or d]."""
        if "outputs" not in self.known:
            if isinstance(self.raw_outputs, Tensor):
                self.known["outputs"] = self.raw_outputs
            else:
                swept = self.raw_outputs()
                self.known.update(swept.signals)
                self.known["outputs"] = swept.outputs
        return self.known["outputs"]

    @property
    def losses(self) -> Tensor:
        """The objective's losses [n], attached to the graph where there is one."""
        if "losses" not in self.known:
            try:
                losses = self.objective(self)
            except Exception as error:
                note_stage(error, "the objective")
                raise
            if not isinstance(losses, Tensor) or not losses.is_floating_point():
                kind = f"{losses.dtype}" if isinstance(losses, Tensor) else type(losses).__name__
                raise ThresherError(f"The objective gave losses of type {kind}: return a tensor [n] of real numbers.")
            if losses.shape != self.outputs.shape[:1]:
                raise ThresherError(
                    f"The objective gave losses of shape {list(losses.shape)} for outputs {list(self.outputs.shape)}: "
                    'return one loss for each example, as with reduction="none".'
                )
            self.known["losses"] = losses
        return self.known["losses"]

    def read(self, signal: Signal) -> Tensor:
        """The signal's value for each example, detached."""
        found = self.known.get(signal)
        if found is None and not signal.of_targets:
            _ = self.outputs  # a sweep computes the declared signals too
            found = self.known.get(signal)
        if found is None:
            found = self.known[signal] = signal(self).detach()
        return found

    def value(self, setting: float | Schedule) -> float | Tensor:
        """The current value of a setting: the number itself, or a schedule's value as a device scalar."""
        if not isinstance(setting, Schedule):
            return setting
        if setting in self.scalars:
            return self.scalars[setting]
        return torch.tensor(setting(self.epoch, self.epochs), dtype=torch.float64, device=self.ids.device)

    def layer(self, name: str) -> Tensor:
        """The output of the named layer, which the objective has declared in `layers`."""
        if name not in self.layers:
            raise ThresherError(f"Layer {name} was not recorded: list it in the objective's `layers`.")
        return self.layers[name]

    def other(self, name: str) -> "Evidence":
        """Other evidence by name: of the peer, the averaged model, the clean set, ..."""
        if name not in self.others:
            raise ThresherError(f"This rule reads {name!r}, which is missing: {HOW_TO_GIVE.get(name, 'pass it.')}")
        return self.others[name]

    def replace(self, **changes: Any) -> "Evidence":
        """The same evidence with some fields replaced; values computed from the old ones are dropped."""
        if unknown := changes.keys() - self.__dataclass_fields__.keys():
            raise TypeError(f"Evidence has no {sorted(unknown)}.")
        made = object.__new__(Evidence)  # a step does this often, and setting frozen fields one by one takes longer
        vars(made).update(vars(self))
        if {"targets", "raw_outputs", "objective"} & changes.keys():
            vars(made)["known"] = {}
        vars(made).update(changes)
        return made

    def subset(self, positions: Tensor) -> "Evidence":
        """The evidence about the examples at these positions, with the signals computed so far."""
        n = len(self)
        outputs = self.outputs[positions]
        pick = {name: value[positions] for name, value in self.columns.items()}
        known = {key: value[positions] for key, value in self.known.items() if len(value) == n}
        return self.replace(
            ids=self.ids[positions],
            targets=self.targets[positions],
            raw_outputs=outputs,
            inputs=None if self.inputs is None else rows(self.inputs, positions),
            groups=None if self.groups is None else self.groups[positions],
            columns=pick,
            layers={name: value[positions] for name, value in self.layers.items()},
            others={name: o if name in OTHER_EXAMPLES else o.subset(positions) for name, o in self.others.items()},
            known=known,
        )


@dataclass(frozen=True)
class Now:
    """The place in the run: the epoch (from 0), the number of epochs, the generator and the schedules' values.

    Evidence has fields of the same names, so that it takes all of them as `**vars(now)`.
    """

    epoch: int
    epochs: float
    generator: torch.Generator
    scalars: Mapping[Schedule, Tensor]


@dataclass(frozen=True)
class Swept:
    """The result of a sweep over a set: outputs [n, ...] and the declared signals."""

    outputs: Tensor
    signals: dict[Any, Tensor]


HOW_TO_GIVE = {
    "peer": "use a recipe with peers=2, or pass peer= to weigh().",
    "average": "set average=0.999 in the recipe, or pass average= to weigh() or acquire().",
    "clean": "pass clean=Examples(...) to fit(), or clean=(inputs, targets) to weigh().",
    "labelled": "pass labelled=Examples(...) to acquire().",
    "teacher": "add the column teacher_output (outputs or log-probabilities), or pass teacher= to fit().",
    "validation": "pass validation=Examples(...) to fit().",
    "view": "give the recipe at least two views.",
}
