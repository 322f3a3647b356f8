"""What a trainer's steps leave of each example, until an epoch ends: rows of the ledger, each example once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thresher.core.examples import Examples
from thresher.core.tasks import CLASSES, LABELS, REAL
from thresher.record.epoch_rows import EpochRows, Note, last_visits, residual_belief

Told = dict[str, Tensor]
FLUSH_AT = 8192  # examples that are noted on the device before the host takes them over


@dataclass
class EpochNotes:
    """The notes of one network; which examples there are is known only when they have been seen."""

    task: str = ""
    classes: int | None = None
    shift: Tensor | None = None  # of the outputs, so that belief does not depend on preferred classes
    device: list[Told] = field(default_factory=list)
    host: list[Told] = field(default_factory=list)

    def add(self, note: Note, targets: Tensor, task: str, classes: int | None) -> None:
        self.task, self.classes = task, classes
        signal = torch.full_like(note.losses, float("nan")) if note.signal is None else note.signal
        told = {"ids": note.index, "outputs": note.outputs, "losses": note.losses, "weights": note.weights}
        # Of several labels and of positions only the share that is right is kept, so that one label stands for them.
        kept = targets if task in (CLASSES, REAL) else torch.zeros_like(note.losses)[:, None]
        self.device.append({**told, "signal": signal, "targets": kept})
        if sum(len(each["ids"]) for each in self.device) >= FLUSH_AT:
            self._to_host()

    def _to_host(self) -> None:
        if self.device:
            joined = {name: torch.cat([each[name] for each in self.device]).cpu() for name in self.device[0]}
            self.host.append(joined)
            self.device = []

    def noted(self) -> list[Told]:
        """What was noted since the last time, on the host."""
        self._to_host()
        return self.host

    def take(self) -> list[Told]:
        """The same, and then nothing is."""
        taken, self.host = self.noted(), []
        return taken

    def rows(self, noted: list[Told]) -> tuple[Examples, Mapping[str, np.ndarray[Any, Any]]]:
        """The examples that these notes are about, by id, and the columns of the ledger; the last visit counts."""
        told = {name: torch.cat([each[name] for each in noted]) for name in noted[0]}
        ids, places = torch.unique(told["ids"], return_inverse=True)
        last = last_visits(places, len(ids))
        first = torch.empty(len(ids), dtype=torch.long)
        first[places] = torch.arange(len(places))
        task = self.task if self.task in (CLASSES, REAL) else LABELS
        examples = Examples(
            torch.zeros(len(ids), 1), told["targets"][first], ids=ids, classes=self.classes, task=task, name="the batch"
        )
        rows = EpochRows(examples)
        if self.shift is not None:
            rows.shift.copy_(self.shift)
        rows.add(Note(last, told["outputs"], told["losses"], told["weights"], told["signal"]))
        columns = rows.take()
        if self.classes is None:
            columns["p_given"] = columns["belief"] = residual_belief(columns["loss"])
        else:
            self.shift = rows.shift
        return examples, columns
