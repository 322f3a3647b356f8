"""The door: a name and raw data become a method and examples, and a folder becomes a run again."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import Rule
from thresher.data.given import as_examples
from thresher.data.splits import Splits
from thresher.engine.device.placement import find_device
from thresher.engine.run import Run
from thresher.engine.settings import TrainSettings
from thresher.engine.store.about import read_about
from thresher.engine.store.checkpoint import Record, read_checkpoint
from thresher.engine.train import Moment
from thresher.methods import METHODS, Method, Trainer, method
from thresher.models import NamedModel, default_model, is_foreign
from thresher.noise import noise_rate_by_folds
from thresher.record.ledger import Ledger
from thresher.record.run_folder import LEDGER

Procedure = Callable[[Trainer], Run]


def fit(
    what: str | Recipe | Rule | Method | Procedure | Callable[..., Any],
    model: nn.Module | Callable[[], nn.Module] | str,
    data: Any,
    *,
    target: str | None = None,
    noise_rate: float | str | None = "auto",
    test: Any = None,
    clean: Any = None,
    validation: Any = None,
    teacher: nn.Module | None = None,
    until: Callable[[Record], bool] | None = None,
    watch: Callable[[Moment], None] | None = None,
    out: Path | str | None = None,
    settings: TrainSettings | None = None,
    **changes: Any,
) -> Run:
    """Train on data that cannot be fully trusted; a run with an `out` folder that was interrupted goes on.

    what      a method by name ("prl-l", "incv", ...), a Recipe, a rule, or a procedure
    model     a module, trained in place; a function that makes one (needed for methods with several networks); or a
              name that `thresher.models` knows, "auto" for one that suits the inputs
    data      (inputs, targets) as arrays, tensors or lists; a DataFrame, with target= its column; a dataset of (input,
              target) pairs; Examples; or what `load` gives, whose test set is then used
    noise_rate  the share of wrong targets that the method assumes: a number, "auto" (found by the run) or "folds"
    test, clean, validation  further data: to measure on; whose targets can be trusted; as noisy as the training data
    settings, changes  TrainSettings, and single ones of them by name: epochs=30, batch=64, optimizer="sgd", ...

    >>> inputs, targets = torch.randn(200, 4), torch.randint(0, 2, (200,))
    >>> fit("prl-l", "mlp:8", (inputs, targets), noise_rate=0.25, epochs=1, batch=100).history[-1]["kept"]
    0.75
    """
    if isinstance(data, Splits) and test is None:
        test = data.test
    train = as_examples(data, target=target)
    trainer = Trainer(
        model=_model(model, train),
        train=train,
        settings=TrainSettings() if settings is None else settings,
        test=_beside(test, train, target, "the test set"),
        clean=_beside(clean, train, target, "the clean set", apart=True),
        validation=_beside(validation, train, target, "the validation set"),
        teacher=teacher,
        until=until,
        watch=watch,
        out=out,
    ).changed(**changes)
    return _train(what, trainer, noise_rate)


def _train(what: Any, trainer: Trainer, noise_rate: float | str | None) -> Run:
    if isinstance(what, str):
        what = method(what)
    if isinstance(what, Method):
        rate = _by_folds(what, trainer) if noise_rate == "folds" else noise_rate
        return what.train(trainer, rate)
    if isinstance(what, Recipe):
        return trainer(what)
    if isinstance(what, Rule):
        return trainer(Recipe(each_batch=what) if "batch" in what.allowed_clocks() else Recipe(each_epoch=what))
    if callable(what):
        procedure = next(iter(inspect.signature(what).parameters.values())).annotation in (Trainer, "Trainer")
        return what(trainer) if procedure else trainer(Recipe(each_batch=what))
    raise ThresherError(
        f"fit() trains by a method, not by a {type(what).__name__}: give its name, a Recipe, a rule or a procedure."
    )


def _by_folds(what: Method, trainer: Trainer) -> float | str | None:
    """The noise rate by trainings that hold examples out, where the method asks for one."""
    if "noise_rate" not in what.needs:
        return None
    if isinstance(trainer.model, nn.Module):
        raise ThresherError("The noise rate by folds takes several trainings: pass a function that makes the model.")
    settings = trainer.settings
    batch = min(settings.batch or len(trainer.train), len(trainer.train) // 2)
    return noise_rate_by_folds(
        trainer.train, trainer.model, batch=batch, seed=settings.seed, device=settings.device,
        optimizer=settings.optimizer, learning_rate=settings.learning_rate, momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    ).rate  # fmt: skip


def _model(given: Any, train: Examples) -> nn.Module | Callable[[], nn.Module]:
    if isinstance(given, str):
        shape = train.input_shape
        return NamedModel(default_model(shape) if given == "auto" else given, shape, train.outputs)
    if not callable(given):
        raise ThresherError(
            f"A {type(given).__name__} is no model: give a torch.nn.Module, a function that makes one, or a name."
        )
    made: nn.Module | Callable[[], nn.Module] = given
    return made


def _beside(data: Any, train: Examples, target: str | None, name: str, apart: bool = False) -> Examples | None:
    """Further data as examples like the training set's; `apart` from it, they get ids of their own."""
    if data is None or isinstance(data, Examples):
        return data
    made = as_examples(data, target=target, name=name)
    if made.class_names != train.class_names and made.class_names is not None:
        made = _in_classes_of(made, train, name)
    ids = made.ids + int(train.ids.max()) + 1 if apart else made.ids
    return replace(made, ids=ids, classes=train.classes, class_names=train.class_names, checked=False)


def _in_classes_of(made: Examples, train: Examples, name: str) -> Examples:
    """The same examples under the class ids of the training set."""
    known = list(train.class_names or map(str, range(train.outputs)))
    names = list(made.class_names or ())
    for each in names:
        if each not in known:
            raise ThresherError(f"{name} has the class '{each}', which the training data lack: remove those examples.")
    places = torch.tensor([known.index(each) for each in names])
    return replace(made, targets=places[made.targets], classes=len(known), class_names=known, checked=False)


def open_run(
    folder: Path | str,
    *,
    model: nn.Module | Callable[[], nn.Module] | str | None = None,
    device: str | torch.device | None = None,
) -> Run:
    """Everything that a finished or interrupted run knows, from its folder alone.

    model   where the run was trained with a model of one's own: one like it, a function that makes it, or its name;
            a model that is code to import is never taken from the folder
    """
    folder = Path(folder)
    about = read_about(folder)
    saved = read_checkpoint(folder)
    make = _maker(folder, about, model)
    where = find_device(device)
    models, averages = [], []
    for state in saved["learners"]:
        models.append(_loaded(make, state["model"], folder, where))
        if state["average"] is not None:
            averages.append(_loaded(make, state["average"], folder, where))
    best = saved["best"]
    return Run(
        recipe=_recipe(about),
        models=models,
        averages=averages,
        history=list(saved["history"]),
        ledger=Ledger(folder / LEDGER, saved["ledger"]),
        out=folder,
        stopped=saved["stopped"],
        chosen=None if best is None else best["epoch"],
        about=about,
        finished=saved["finished"],
    )


def _maker(folder: Path, about: dict[str, Any], given: Any) -> Callable[[], nn.Module]:
    """What makes a network like those of the run."""
    if given is None and about["model"] is None:
        raise ThresherError(f"{folder} was trained with a model of your own: pass model=, one like it or its function.")
    name = about["model"] if given is None else given
    if isinstance(name, str):
        named = NamedModel(name, tuple(about["input_shape"]), about["outputs"])
        if given is None and is_foreign(name):
            raise ThresherError(
                f"{folder} names code to import as its model ({name}): pass model={name!r} if you trust it."
            )
        return named
    if isinstance(given, nn.Module):
        return lambda: copy.deepcopy(given)
    made: Callable[[], nn.Module] = given
    return made


def _loaded(make: Callable[[], nn.Module], state: dict[str, Any], folder: Path, device: torch.device) -> nn.Module:
    network = make()
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ThresherError(f"The model does not fit what {folder} holds ({reason}): pass the one it had.") from error
    return network.to(device).eval()


def _recipe(about: dict[str, Any]) -> Recipe | None:
    """The recipe of the run, where its method is one training by a known recipe."""
    known = METHODS.get(about.get("method") or "")
    if known is None or known.make is None:
        return None
    return known.recipe(noise_rate=about.get("noise_rate"), classes=about["classes"], epochs=about.get("epochs", 1))
