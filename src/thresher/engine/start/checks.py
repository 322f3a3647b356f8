"""Checks before training: what is missing, or does not fit, is refused with an error that names the fix.

A recipe is checked by what it declares, and the model by a dry run on an example or two of every set.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from thresher.core.errors import ThresherError, raised_in
from thresher.core.evidence import HOW_TO_GIVE, Prepared, looks_at_head
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.one_output import OneOutput, adapted, one_output
from thresher.core.recipe import Recipe, seen_through
from thresher.core.rule import (
    Rule,
    RuleLike,
    asked_about,
    columns_of,
    needs_of,
    parts,
    signals_of,
)
from thresher.core.seeding import generator, preserved
from thresher.core.tasks import LABELS, POSITIONS, REAL, expected_shape
from thresher.core.trees import Tree, call, image_leaves, leaves, shapes
from thresher.engine.device.placement import as_written
from thresher.engine.gradients.strategy import Strategy
from thresher.engine.start.gradient_trial import choose_strategy, last_linear
from thresher.engine.start.slot_checks import check_mix_and_relabel, check_teacher
from thresher.engine.step.forward import Batch
from thresher.engine.step.learner import evaluating

DERIVATIVES = (Prepared.GRADIENT_NORM, Prepared.CLEAN_AGREEMENT)


def check_recipe(recipe: Recipe, objective: Objective, train: Examples, given: Mapping[str, object]) -> None:
    """Refuse a recipe that needs what this task or this call does not provide."""
    task = _check_signals(recipe, train)
    if task not in objective.tasks:
        raise ThresherError(
            f"{type(objective).__name__} is defined for {objective.tasks[0]} only: choose another objective."
        )
    _check_given(recipe, train, given)
    _check_clocks(recipe)
    if recipe.mix is not None or recipe.relabel is not None:
        check_mix_and_relabel(recipe, task)
    _check_sets(train, given)
    _check_derivatives(recipe, objective)
    if "teacher" in needs_of(recipe):
        check_teacher(recipe, objective, train, given)


def check_run(recipe: Recipe, epochs: float) -> None:
    """Refuse what a run of so many epochs would fail at later."""
    for part in parts(recipe):
        if isinstance(part, Rule):
            part.refuse(epochs)
    asked = asked_about("average", recipe.each_batch)
    missing = [each for each in signals_of(asked) if each.prepared is not None and not looks_at_head([each])]
    swept = (recipe.each_epoch, recipe.relabel_on("epoch"))
    if "average" in needs_of(swept):
        missing += [each for each in signals_of(swept) if each.prepared is Prepared.GRADIENT_NORM]
    for signal in missing:
        raise ThresherError(
            f"{signal.name} is not taken from the average while training: rank by loss or output_gradient_norm there."
        )


def _check_derivatives(recipe: Recipe, objective: Objective) -> None:
    """Refuse derivatives of single examples by an objective that reads more than outputs."""
    if objective.layers or objective.needs or objective.columns:
        for signal in signals_of(recipe):
            if signal.prepared in DERIVATIVES:
                raise ThresherError(
                    f"{signal.name} is taken through outputs alone, and {type(objective).__name__} reads more: choose "
                    "another objective, or a rule that ranks by loss or output_gradient_norm."
                )


def check_round(rule: RuleLike, pool: Examples, given: Mapping[str, object]) -> None:
    """Refuse a rule that cannot choose from a pool, or reads what this call does not provide."""
    _check_signals(rule, pool)
    _check_given(rule, pool, given)
    for part in parts(rule):
        if isinstance(part, Rule) and "round" not in part.allowed_clocks():
            raise ThresherError(f"{type(part).__name__} cannot choose from a pool: use a rule that looks at it once.")


def _check_signals(value: Recipe | RuleLike, examples: Examples) -> str:
    """The task, for which every signal has to be defined."""
    task = examples.task
    for signal in signals_of(value):
        if task not in signal.tasks:
            raise ThresherError(
                f"The signal {signal.name} is defined for {signal.tasks[0]} only: choose another for {task}."
            )
    return task


def _check_given(value: Recipe | RuleLike, examples: Examples, given: Mapping[str, object]) -> None:
    """Refuse rules that read what is missing."""
    for need in sorted(needs_of(value)):
        if given.get(need) is None:
            raise ThresherError(f"A rule of this recipe reads {need!r}, which is missing: {HOW_TO_GIVE[need]}")
    for column in sorted(columns_of(value)):
        if column not in examples.columns:
            raise ThresherError(
                f"A rule of this recipe reads the column {column!r}: add it by {examples.name}.with_columns(...)."
            )


def _check_sets(train: Examples, given: Mapping[str, object]) -> None:
    """Refuse sets whose targets are of another kind than the training set's."""
    for name in ("test", "clean", "validation"):
        other = given.get(name)
        if not isinstance(other, Examples):
            continue
        wide = other.outputs > train.outputs or (other.targets.ndim == 2 and other.outputs < train.outputs)
        if other.task != train.task or (wide and train.task != POSITIONS):
            raise ThresherError(
                f"The {name} set asks for {other.outputs} {_asked(other)} and the training set for {train.outputs} "
                f"{_asked(train)}: make them equal."
            )
        if name != "clean":
            _refuse_constant(name, other)


def _refuse_constant(name: str, examples: Examples) -> None:
    """Refuse to measure on real targets that are the same everywhere, of which R² says nothing."""
    if examples.task == REAL and len(examples) > 1 and bool((examples.targets == examples.targets[0]).all()):
        raise ThresherError(
            f"The {name} set has the same target everywhere, so its R² would say nothing: give examples of several."
        )


def _asked(examples: Examples) -> str:
    return {REAL: "targets", LABELS: "labels", POSITIONS: "classes at positions"}.get(examples.task, "classes")


def _check_clocks(recipe: Recipe) -> None:
    for clock, rule in (("batch", recipe.each_batch), ("epoch", recipe.each_epoch)):
        for part in parts(rule):
            if isinstance(part, Rule) and clock not in part.allowed_clocks():
                other = "each_epoch" if clock == "batch" else "each_batch"
                raise ThresherError(f"{type(part).__name__} cannot be asked every {clock}: put it into {other}.")
    for signal in signals_of(recipe.each_epoch):
        if "clean" in signal.needs:
            raise ThresherError(f"{signal.name} is taken from each batch: put the rule that reads it into each_batch.")


@dataclass(frozen=True)
class Tried:
    """What the dry run showed: the last Linear layer where its inputs are read, and how derivatives are taken.

    A sweep sees the model in evaluation mode, in which BatchNorm does not mix the examples.
    """

    head: str | None
    in_step: Strategy | None
    in_sweep: Strategy | None
    adapter: OneOutput | None = None  # where the model gives one number for two classes, or a real target


def try_model(
    recipe: Recipe,
    model: nn.Module,
    objective: Objective,
    train: Examples,
    seed: int,
    clean: Examples | None = None,
    clean_batch: int = 1,
    batch_size: int = 2,
) -> Tried:
    """Try the model and the views on two examples, and on two clean ones where a rule reads those."""
    if not model.training:
        model.train()  # as it will be when it is trained
    asked = (recipe.each_batch, recipe.relabel_on("batch"), recipe.mix)
    swept = (recipe.each_epoch, recipe.relabel_on("epoch"))
    with preserved(train.targets.device):
        batch = first_of(train, 2, seed)
        inputs = batch.inputs
        with raised_in("a view"):
            _try_views(recipe, inputs, seed)
        first = train.subset(batch.rows)
        recipe.draw(torch.arange(len(first)), first, generator(seed, "check"))
        for layer in objective.layers:
            if layer not in dict(model.named_modules()):
                raise ThresherError(f"The objective reads the layer {layer!r}: name one of model.named_modules().")
        with torch.no_grad(), evaluating(model):
            outputs = _forward(model, inputs)
        if batch_size == 1:
            _refuse_single_examples(model, train, seed)
        adapter = _adapter(outputs, train, batch.targets)
        trusted = None if clean is None else first_of(clean, min(2, clean_batch), seed)
        head = last_linear(model, inputs) if looks_at_head(signals_of(recipe)) else None
        if all(signal.prepared not in DERIVATIVES for signal in signals_of(recipe)):
            return Tried(head, None, None, adapter)
        with adapted(model, adapter):
            in_step = choose_strategy(model, objective, signals_of(asked), batch, trusted, train.classes)
            with evaluating(model), evaluating(objective):
                in_sweep = choose_strategy(model, objective, signals_of(swept), batch, None, train.classes)
        return Tried(head, in_step, in_sweep, adapter)


def _try_views(recipe: Recipe, inputs: Tree, seed: int) -> None:
    if recipe.views and not isinstance(inputs, Tensor) and not image_leaves(inputs):
        raise ThresherError(f"Views augment images, and the inputs have none ({shapes(inputs)}): leave augment= out.")
    for view in recipe.views:
        seen = seen_through(view, inputs, generator(seed, "check", device=leaves(inputs)[0].device))
        if shapes(seen) != shapes(inputs):
            raise ThresherError(f"A view turned inputs {shapes(inputs)} into {shapes(seen)}: let it keep the shape.")


def try_sets(model: nn.Module, sets: Mapping[str, Examples], seed: int) -> None:
    """Try the model on an example of every set."""
    train = sets["train"]
    for name, examples in sets.items():
        outputs = _outputs_of_one(model, examples, f" of the {name} set", seed)
        _adapter(outputs, train, examples.targets[:1], f" of the {name} set")


def _adapter(outputs: Tensor, train: Examples, targets: Tensor, whose: str = "") -> OneOutput | None:
    """How outputs are read that have another shape than the targets ask for; refused where there is no way."""
    if train.asks_for(outputs, targets):
        return None
    adapter = one_output(outputs, train.task, train.classes)
    if adapter is not None and train.asks_for(adapter(outputs), targets):
        return adapter
    count = f"{len(targets)} examples" if len(targets) > 1 else "one example"
    wanted = expected_shape(train.task, targets, train.outputs)
    raise ThresherError(
        f"The model gives outputs of shape {list(outputs.shape)} for {count}{whose}: make it give {wanted}."
    )


def _refuse_single_examples(model: nn.Module, train: Examples, seed: int) -> None:
    """Refuse batches of one example for a network whose normalisation needs several values; no buffer is changed."""
    if not any(isinstance(each, _BatchNorm) for each in model.modules()):
        return
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.no_grad(), preserved(train.targets.device), as_written():
        try:
            call(model, first_of(train, 1, seed).inputs)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            told = "The model's batch normalisation needs several examples at a time: give batch=2 or more."
            raise ThresherError(told) from error
        finally:
            for buffer, before in kept:
                buffer.copy_(before)


def output_width(model: nn.Module, examples: Examples) -> int:
    """How many outputs the model gives for an example."""
    outputs = _outputs_of_one(model, examples, f" of {examples.name}")
    if outputs.ndim == 1:
        return 1
    if outputs.ndim != 2:
        raise ThresherError(f"The model gives outputs of shape {list(outputs.shape)}: make it give [n, classes].")
    return outputs.shape[1]


def _outputs_of_one(model: nn.Module, examples: Examples, whose: str, seed: int = 0) -> Tensor:
    device = examples.targets.device
    with torch.no_grad(), preserved(device), evaluating(model):
        return _forward(model, first_of(examples, 1, seed).inputs, whose)


def first_of(examples: Examples, count: int, seed: int = 0) -> Batch:
    """The first examples as a batch."""
    places = torch.arange(min(count, len(examples)), device=examples.targets.device)
    inputs = next(iter(examples.batches([places], seed=seed)))
    return Batch(places, examples.ids[places], inputs, examples.targets[places], {})


def _forward(model: nn.Module, inputs: Tree, whose: str = "") -> Tensor:
    try:
        with raised_in("the model"), as_written():  # compiling for one or two examples would take long
            return call(model, inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        kinds = ", ".join(dict.fromkeys(str(leaf.dtype) for leaf in leaves(inputs)))
        raise ThresherError(
            f"The model cannot take inputs{whose} of shape {shapes(inputs)} ({kinds}): {str(error).splitlines()[0]}"
        ) from error
