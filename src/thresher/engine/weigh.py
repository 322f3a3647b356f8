"""weigh(): a rule's weights in a training loop of one's own."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError, is_number, refuse_unless
from thresher.core.evidence import Evidence, Signal, looks_at_head
from thresher.core.examples import Examples
from thresher.core.objective import Objective, ObjectiveLike, Plain
from thresher.core.one_output import OneOutput, adapted, one_output
from thresher.core.recipe import Recipe
from thresher.core.rule import Decision, RuleLike, ask, needs_of, signals_of
from thresher.core.seeding import preserved
from thresher.core.tasks import CLASSES, expected_shape
from thresher.core.trees import as_tree, named_leaves, rows
from thresher.engine.gradients.strategy import Strategy
from thresher.engine.start.checks import check_recipe
from thresher.engine.start.gradient_trial import choose_strategy, last_linear
from thresher.engine.step.forward import Batch, check_losses, check_outputs, forward_pass, read_all, untraced
from thresher.engine.step.learner import Taps
from thresher.objectives import as_objective

_STRATEGIES: WeakKeyDictionary[nn.Module, dict[Hashable, Strategy | None]] = WeakKeyDictionary()


def weigh(
    rule: RuleLike,
    model: nn.Module,
    inputs: Any,
    targets: Any,
    *,
    objective: ObjectiveLike | None = None,
    outputs: Tensor | None = None,
    clean: tuple[Any, Any] | list[Any] | None = None,
    peer: nn.Module | None = None,
    average: nn.Module | None = None,
    classes: int | None = None,
    epoch: int = 0,
    epochs: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The raw weights [n] of a batch by this rule (zero: dropped); the model, its buffers and its mode stay.

    With the batch's `outputs` given, no forward pass is made unless the rule reads more than outputs.
    Inputs are a tensor, an array, or a dict or tuple of such, which a model gets by keyword or by position.
    Targets are class ids or real targets; soft labels need `classes=`. `clean` is (inputs, targets), both trusted.

    >>> from thresher import signals
    >>> from thresher.rules import KeepSmallest
    >>> rule = KeepSmallest(by=signals.loss, count=1)
    >>> weigh(rule, nn.Identity(), torch.tensor([[0.0, 3.0], [0.0, 1.0]]), torch.tensor([1, 1])).tolist()
    [1.0, 0.0]
    """
    evidence = look(
        rule, model, inputs, targets, objective=objective, outputs=outputs, clean=clean, peer=peer, average=average,
        classes=classes, epoch=epoch, epochs=epochs, generator=generator,
    ).evidence  # fmt: skip
    with preserved(evidence.ids.device):
        return decided(rule, evidence).weights


@dataclass(frozen=True)
class Looked:
    """Evidence about a batch, the task of its targets, and the adapter of a model with a single output."""

    evidence: Evidence
    task: str
    adapter: OneOutput | None


def look(
    rule: RuleLike,
    model: nn.Module,
    inputs: Any,
    targets: Any,
    *,
    objective: ObjectiveLike | None = None,
    outputs: Tensor | None = None,
    clean: tuple[Any, Any] | list[Any] | None = None,
    peer: nn.Module | None = None,
    average: nn.Module | None = None,
    classes: int | None = None,
    memory: Mapping[str, Tensor] | None = None,
    **now: Any,
) -> Looked:
    """The evidence that a rule reads about a batch, with its signals computed; arguments as those of `weigh`."""
    _refuse(rule, model, peer, average, objective, now)
    refuse_unless("outputs", outputs, isinstance(outputs, Tensor | None), "a tensor, or None")
    examples = _batch(model, inputs, targets, classes, "the batch")
    device = examples.targets.device
    model_inputs, wanted = examples.as_model_input(examples.inputs), signals_of(rule)
    count = len(examples)
    if outputs is None:
        passes = "clean" in needs_of(rule) or any(signal.prepared is not None for signal in wanted)
        count = min(2, count) if passes else count  # such a pass makes the outputs of all
        with preserved(device), uncached(device), torch.no_grad():
            outputs = untraced(model, rows(model_inputs, slice(count)))
    adapter = one_output(outputs, examples.task, examples.classes)
    outputs = outputs if adapter is None else adapter(outputs)
    examples = _with_classes(examples, outputs, count, classes)
    own = as_objective(objective, examples.task)
    if adapter is not None and isinstance(own, Plain):
        own.shown = adapter.undo
    networks = (model, peer, average)
    with preserved(device), uncached(device), ExitStack() as hooks:
        for network in networks:
            hooks.enter_context(adapted(network, adapter))
        trusted = None if clean is None else _trusted(model, clean, examples.classes)
        given = {"peer": peer, "average": average, "clean": trusted}
        check_recipe(Recipe(each_batch=rule), own, examples, given)
        facts: dict[str, Any] = {"classes": examples.classes, "memory": memory or {}, **now}
        batch = Batch(examples.ids, examples.ids, model_inputs, examples.targets, {})
        if trusted is not None and "clean" in needs_of(rule):
            seen_as = trusted.as_model_input(trusted.inputs)
            facts["clean"] = Batch(trusted.ids, trusted.ids, seen_as, trusted.targets, {})
        evidence = _see(model, own, batch, wanted, facts, outputs)
        others = {name: m for name, m in (("peer", peer), ("average", average)) if m is not None}
        if others:
            seen = {name: _see(m, own, batch, wanted, facts) for name, m in others.items()}
            evidence = evidence.replace(others=seen)
        with torch.no_grad():
            for each in (evidence, *evidence.others.values()):
                check_outputs(each.outputs, each.ids)
                if objective is not None:
                    check_losses(each.losses, each.ids)
        return Looked(evidence, examples.task, adapter)


def _refuse(
    rule: object, model: object, peer: object, average: object, objective: object, now: Mapping[str, Any]
) -> None:
    """Refuse arguments of other kinds than `weigh` takes."""
    if not callable(rule):
        raise ThresherError(f"weigh() asks a rule, not a {type(rule).__name__}: pass one, such as KeepSmallest(...).")
    if not isinstance(model, nn.Module):
        raise ThresherError(f"weigh() asks a model, not a {type(model).__name__}: pass a torch.nn.Module.")
    for name, network in (("peer", peer), ("average", average)):
        refuse_unless(name, network, isinstance(network, nn.Module | None), "a torch.nn.Module, or None")
    refuse_unless("objective", objective, objective is None or callable(objective), "a function that gives losses [n]")
    epoch = now.get("epoch", 0)
    refuse_unless("epoch", epoch, is_number(epoch) and epoch >= 0, "a number from 0")
    drawn = now.get("generator")
    refuse_unless("generator", drawn, isinstance(drawn, torch.Generator | None), "a torch.Generator, or None")


def _with_classes(examples: Examples, outputs: Tensor, count: int, classes: int | None) -> Examples:
    """The batch with as many classes as these outputs have, unless told; outputs of a wrong shape are refused."""
    if classes is None and examples.task == CLASSES:
        examples = replace(examples, classes=outputs.shape[-1], checked=False)
    if not examples.asks_for(outputs, examples.targets[:count]):
        shape = expected_shape(examples.task, examples.targets[:count], examples.outputs)
        raise ThresherError(
            f"The outputs of the batch have shape {list(outputs.shape)}: make them {shape}, as the targets ask."
        )
    return examples


@contextmanager
def uncached(device: torch.device) -> Iterator[None]:
    """Inside, an autocast of the caller keeps no copies of parameters.

    torch 2.9 would use copies that were made without gradients again in the caller's own pass, which then has none.
    """
    if not torch.is_autocast_enabled(device.type):
        yield
        return
    with torch.autocast(device.type, dtype=torch.get_autocast_dtype(device.type), cache_enabled=False):
        yield


def decided(rule: RuleLike, evidence: Evidence) -> Decision:
    """The rule's decision; a rule that draws is refused without a generator, or it would draw the same each time."""
    before = _random_states(evidence.ids.device)
    decision = ask(rule, evidence)
    weights = decision.weights.detach()
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise ThresherError("The rule gave weights that are negative, NaN or infinite: let it give finite ones from 0.")
    if evidence.generator is None and not all(map(torch.equal, before, _random_states(evidence.ids.device))):
        raise ThresherError(
            "This rule draws random numbers: pass generator=torch.Generator(device), the same one in every call."
        )
    return replace(decision, weights=weights)


def _random_states(device: torch.device) -> list[Tensor]:
    """The global random states that a rule without a generator draws from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _batch(model: nn.Module, inputs: Any, targets: Any, classes: int | None, name: str) -> Examples:
    """A batch as examples, where the model is."""
    tree = inputs if isinstance(inputs, Tensor) else as_tree(inputs, name)
    made = Examples(tree, targets, classes=classes, name=name).in_type_of(model)
    where = next((parameter.device for parameter in model.parameters()), made.targets.device)
    return made if isinstance(inputs, Tensor) else made.to(where)


def _trusted(model: nn.Module, clean: tuple[Any, Any] | list[Any], classes: int | None) -> Examples:
    if not (isinstance(clean, tuple | list) and len(clean) == 2):
        raise ThresherError(f"clean= is a {type(clean).__name__}: give the pair (inputs, targets) of clean examples.")
    return _batch(model, clean[0], clean[1], classes, "the clean batch")


def _see(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    wanted: Sequence[Signal],
    facts: dict[str, Any],
    outputs: Tensor | None = None,
) -> Evidence:
    """Evidence about a batch: from the outputs alone where they are enough, else from a forward pass."""
    clean = facts.get("clean")
    if (
        outputs is not None
        and clean is None
        and not objective.layers
        and all(signal.prepared is None for signal in wanted)
    ):
        return Evidence(
            ids=batch.ids, targets=batch.targets, objective=objective, raw_outputs=outputs.detach().float(),
            inputs=batch.inputs, **facts,
        )  # fmt: skip
    head = last_linear(model, rows(batch.inputs, slice(2))) if looks_at_head(wanted) else None
    strategy = _known_strategy(model, objective, wanted, batch, clean, facts["classes"])
    taps = Taps(model, objective.layers, head)
    try:
        with torch.set_grad_enabled(strategy is not None):
            evidence = forward_pass(
                model, objective, taps, batch, wanted=wanted, strategy=strategy, leave_no_trace=True, **facts
            ).evidence
            read_all(evidence, wanted)
    finally:
        taps.remove()
    return evidence


def _known_strategy(
    model: nn.Module,
    objective: Objective,
    wanted: Sequence[Signal],
    batch: Batch,
    clean: Batch | None,
    classes: int | None,
) -> Strategy | None:
    """The result of `choose_strategy`, cached for each model, because finding it takes several passes."""
    inputs, known = batch.inputs, _STRATEGIES.setdefault(model, {})
    layers = tuple((type(layer), layer.training) for layer in model.modules())
    learnt = tuple((name, parameter.requires_grad) for name, parameter in model.named_parameters())
    looks = tuple((name, leaf.shape[1:], leaf.dtype, leaf.device) for name, leaf in named_leaves(inputs))
    key = (repr(objective), *wanted, looks, layers, learnt)
    if key not in known:
        trusted = None if clean is None else _first(clean)
        known[key] = choose_strategy(model, objective, wanted, _first(batch), trusted, classes)
    return known[key]


def _first(batch: Batch, count: int = 2) -> Batch:
    """The first examples of a batch, enough to find out how a model can be differentiated."""
    return Batch(batch.rows[:count], batch.ids[:count], rows(batch.inputs, slice(count)), batch.targets[:count], {})
