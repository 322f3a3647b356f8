"""A dry run of the model at the start, on an example or two of every set, so that nothing fails after an epoch."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thresher.core.calls import OneOutput, adapted, call, one_output
from thresher.core.errors import ThresherError
from thresher.core.evidence import Prepared, prepared_as
from thresher.core.examples import Examples
from thresher.core.objective import Objective
from thresher.core.recipe import Recipe
from thresher.core.rule import signals_of
from thresher.core.seeding import generator, preserved
from thresher.core.slots import seen_through
from thresher.core.tasks import expected_shape, fits
from thresher.core.trees import Tree, images_in, leaves, shapes
from thresher.engine.device.compile import as_written
from thresher.engine.gradients.strategy import Strategy
from thresher.engine.start.gradient_trial import choose_strategy
from thresher.engine.step.forward import Batch
from thresher.engine.step.learner import evaluating, last_linear


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
) -> Tried:
    """Try the model and the views on two examples, and on two clean ones where a rule reads those."""
    if not model.training:
        model.train()  # as it will be when it is trained
    asked = (recipe.each_batch, recipe.relabel_on("batch"), recipe.mix)
    swept = (recipe.each_epoch, recipe.relabel_on("epoch"))
    with preserved(train.targets.device):
        batch = first_of(train, 2, seed)
        inputs = batch.inputs
        _try_views(recipe, inputs, seed)
        first = train.subset(batch.rows)
        recipe.draw(torch.arange(len(first)), first, generator(seed, "check"))
        for layer in objective.layers:
            if layer not in dict(model.named_modules()):
                raise ThresherError(f"The objective reads the layer {layer!r}: name one of model.named_modules().")
        with torch.no_grad(), evaluating(model):
            outputs = _forward(model, inputs)
        adapter = one_output(outputs, train.task, train.classes)
        _check_shape(outputs if adapter is None else adapter(outputs), outputs, train, batch.targets, "")
        trusted = None if clean is None else first_of(clean, min(2, clean_batch), seed)
        head = last_linear(model, inputs) if prepared_as(Prepared.LAST_INPUTS, signals_of(recipe)) else None
        with adapted(model, adapter):
            in_step = choose_strategy(model, objective, signals_of(asked), batch, trusted, train.classes)
            with evaluating(model), evaluating(objective):
                in_sweep = choose_strategy(model, objective, signals_of(swept), batch, None, train.classes)
        return Tried(head, in_step, in_sweep, adapter)


def _try_views(recipe: Recipe, inputs: Tree, seed: int) -> None:
    if recipe.views and not isinstance(inputs, Tensor) and not images_in(inputs):
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
        adapter = one_output(outputs, train.task, train.classes)
        seen = outputs if adapter is None else adapter(outputs)
        _check_shape(seen, outputs, train, examples.targets[:1], f" of the {name} set")


def _check_shape(seen: Tensor, given: Tensor, train: Examples, targets: Tensor, whose: str) -> None:
    """Refuse outputs of another shape than the targets ask for; `seen` is how the `given` ones are read."""
    if fits(train.task, seen, targets, train.outputs):
        return
    count = f"{len(targets)} examples" if len(targets) > 1 else "one example"
    wanted = expected_shape(train.task, targets, train.outputs)
    raise ThresherError(
        f"The model gives outputs of shape {list(given.shape)} for {count}{whose}: make it give {wanted}."
    )


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
        with as_written():  # compiling for one or two examples would take long
            return call(model, inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        kinds = ", ".join(dict.fromkeys(str(leaf.dtype) for leaf in leaves(inputs)))
        raise ThresherError(
            f"The model cannot take inputs{whose} of shape {shapes(inputs)} ({kinds}): {str(error).splitlines()[0]}"
        ) from error
