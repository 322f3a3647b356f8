"""Sweeps: what a model says about a whole set, in order, without training it."""

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.evidence import Signal, Swept
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.one_output import one_output
from thresher.core.seeding import preserved
from thresher.core.tasks import POSITIONS, summary
from thresher.core.trees import Tree
from thresher.engine.device.capture import Captured
from thresher.engine.device.placement import Autocast, as_written
from thresher.engine.gradients.strategy import Strategy
from thresher.engine.loop.feed import BatchSource
from thresher.engine.several.shards import Shards
from thresher.engine.step.forward import forward_pass, read_all
from thresher.engine.step.learner import Taps, evaluating
from thresher.engine.step.teacher import TEACHER_OUTPUT, Teacher


@dataclass(frozen=True)
class Sweeper:
    """How to sweep: how many examples at once, in which precision, with how many loading workers, captured or not."""

    batch: int = 512
    autocast: Autocast = nullcontext
    workers: int = 0
    strategy: Strategy | None = None
    captured: bool = False
    channels_last: bool = False
    teacher: Teacher | None = None  # for objectives that ask it
    shards: Shards | None = None  # among several processes
    signals_at_once: float = math.inf  # GiB that a rule of an epoch may see, which is else asked in parts
    captures: dict[Any, Captured] = field(default_factory=dict, repr=False)
    sizes: dict[Any, float] = field(default_factory=dict, repr=False)  # of evidence that was measured once

    def __call__(
        self,
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        *,
        wanted: Sequence[Signal] = (),
        taps: Taps | None = None,
        positions: Tensor | None = None,
    ) -> Swept:
        """Outputs [n, ...] and the wanted signals of the examples (at these positions), in order.

        Of classes at every token or pixel only a summary [n, 3] is kept.
        """
        found: list[list[Tensor]] = []
        self.each(found.append, model, objective, examples, wanted=wanted, taps=taps, positions=positions)
        outputs, *values = (torch.cat(column) for column in zip(*found, strict=True))
        return Swept(outputs, dict(zip(wanted, values, strict=True)))

    def size_of_each(self, key: Hashable, measure: Callable[[], float]) -> float:
        """Bytes of evidence about one example, which is measured in the first epoch only."""
        if key not in self.sizes:
            self.sizes[key] = measure()
        return self.sizes[key]

    def each(
        self,
        take: Callable[[list[Tensor]], object],
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        *,
        wanted: Sequence[Signal] = (),
        taps: Taps | None = None,
        positions: Tensor | None = None,
        by_prediction: bool = False,
    ) -> None:
        """Hand over outputs and wanted signals of a few examples at a time, in order."""
        device = examples.targets.device
        places = torch.arange(len(examples), device=device) if positions is None else positions
        n = len(places)
        if self.captured and examples.in_memory:  # every row has the one shape that was captured
            places = torch.cat([places, places[:1].expand(-n % self.batch)])
        batches = torch.split(places, self.batch)
        rows = batches if self.shards is None else self.shards.of(batches)
        strategy = self.strategy if self.strategy is not None and set(self.strategy.norms) & set(wanted) else None
        see = self._seen(model, objective, examples, wanted, taps or Taps(model), strategy, by_prediction)
        grad = torch.set_grad_enabled(strategy is not None)
        with preserved(device), evaluating(model), evaluating(objective), as_written(), grad:
            done = 0
            stream = [None] * len(rows) if examples.in_memory else examples.batches(rows, workers=self.workers)
            for turn, (row, inputs) in enumerate(zip(rows, stream, strict=True)):
                if self.captured and examples.in_memory and strategy is None:
                    key = (id(model), id(examples), by_prediction, *wanted)
                    if key not in self.captures:
                        self.captures[key] = Captured(see)
                    seen = [value.clone() for value in self.captures[key]("sweep", index=row, inputs=inputs)]
                else:
                    seen = see(row, inputs)
                brought = [seen] if self.shards is None else self.shards.brought(seen, turn, batches)
                for values in brought:
                    take([value[: n - done] for value in values])
                    done += self.batch

    def _seen(
        self,
        model: nn.Module,
        objective: Objective,
        examples: Examples,
        wanted: Sequence[Signal],
        taps: Taps,
        strategy: Strategy | None,
        by_prediction: bool,
    ) -> Callable[[Tensor, Tree | None], list[Tensor]]:
        """(positions, streamed inputs) -> the outputs of these examples, and their wanted signals."""
        teacher = self.teacher if wanted and "teacher" in objective.needs else None
        read = objective.columns if teacher is None else objective.columns | {TEACHER_OUTPUT}
        source = BatchSource(examples, sorted(read) if wanted else (), self.channels_last)

        def see(index: Tensor, inputs: Tree | None) -> list[Tensor]:
            batch = source.batch(index, index, inputs)
            evidence = forward_pass(
                model, objective, taps, batch, wanted=wanted, autocast=self.autocast,
                by_prediction=by_prediction, strategy=strategy, classes=examples.classes, teacher=teacher,
            ).evidence  # fmt: skip
            read_all(evidence, wanted)
            outputs = evidence.outputs.detach()
            if outputs.numel() == len(outputs):  # one number an example
                one = one_output(outputs, examples.task, examples.classes)
                outputs = outputs if one is None else one(outputs)
            kept = summary(outputs, batch.targets) if examples.task == POSITIONS else outputs
            return [kept, *(evidence.known[signal].detach() for signal in wanted)]

        return see
