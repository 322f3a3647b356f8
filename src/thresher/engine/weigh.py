"""weigh(): a rule's weights in a training loop of one's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from thresher.engine.check import check_recipe
from thresher.engine.evidence import Evidence
from thresher.engine.learner import Taps, last_linear
from thresher.engine.look import Batch, can_factor, look, read_all, untraced
from thresher.errors import ThresherError
from thresher.examples import Examples
from thresher.objectives import ObjectiveLike, as_objective
from thresher.recipe import Recipe
from thresher.rules import RuleLike
from thresher.rules.rule import ask, signals_of
from thresher.seeding import preserved
from thresher.signals import Signal, features, gradient_norm


def weigh(
    rule: RuleLike,
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    objective: ObjectiveLike | None = None,
    outputs: Tensor | None = None,
    peer: nn.Module | None = None,
    average: nn.Module | None = None,
    classes: int | None = None,
    epoch: int = 0,
    epochs: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The raw weights [n] of a batch by this rule (zero: dropped); the model, its buffers and its mode stay.

    With the batch's `outputs` given, no forward pass is made unless the rule reads more than outputs.
    Targets are class ids or real targets; soft labels need `classes=`.

    >>> from thresher import signals
    >>> from thresher.rules import KeepSmallest
    >>> rule = KeepSmallest(by=signals.loss, count=1)
    >>> weigh(rule, nn.Identity(), torch.tensor([[0.0, 3.0], [0.0, 1.0]]), torch.tensor([1, 1])).tolist()
    [1.0, 0.0]
    """
    examples = Examples(inputs, targets, classes=classes, name="the batch")
    model_inputs = examples.as_model_input(inputs)
    with preserved(inputs.device):
        if outputs is None:
            with torch.no_grad():
                outputs = untraced(model, model_inputs)
        if classes is None and not examples.is_regression:
            examples = replace(examples, classes=outputs.shape[-1], checked=False)
        if outputs.shape != (len(examples), examples.outputs):
            raise ThresherError(
                f"The outputs of the batch have shape {list(outputs.shape)}: make them "
                f"[{len(examples)}, {examples.outputs}], as the targets ask."
            )
        own = as_objective(objective, examples.classes)
        check_recipe(Recipe(each_batch=rule), own, examples, {"peer": peer, "average": average})
        wanted = signals_of(rule)
        facts: dict[str, Any] = {"classes": examples.classes, "epoch": epoch, "epochs": epochs, "generator": generator}
        batch = Batch(examples.ids, examples.ids, model_inputs, examples.targets, {})
        evidence = _see(model, own, batch, wanted, facts, outputs)
        others = {name: m for name, m in (("peer", peer), ("average", average)) if m is not None}
        if others:
            seen = {name: _see(m, own, batch, wanted, facts) for name, m in others.items()}
            evidence = evidence.but(others=seen)
        return ask(rule, evidence).weights.detach()


def _see(
    model: nn.Module,
    objective: Any,
    batch: Batch,
    wanted: Sequence[Signal],
    facts: dict[str, Any],
    outputs: Tensor | None = None,
) -> Evidence:
    """Evidence about a batch: from the outputs alone where they are enough, else from a forward pass."""
    if outputs is not None and not objective.layers and not any(signal.prepared for signal in wanted):
        return Evidence(
            ids=batch.ids, targets=batch.targets, objective=objective, raw_outputs=outputs.detach().float(),
            inputs=batch.inputs, **facts,
        )  # fmt: skip
    head = last_linear(model, batch.inputs[:2]) if features in wanted else None
    taps = Taps(model, objective.layers, head)
    want_norms = gradient_norm in wanted
    factored = want_norms and can_factor(model, objective, batch, facts["classes"])
    try:
        with torch.set_grad_enabled(want_norms):
            evidence = look(
                model, objective, taps, batch, wanted=wanted, factored=factored, leave_no_trace=True, **facts
            ).evidence
            read_all(evidence, wanted)
    finally:
        taps.remove()
    return evidence
