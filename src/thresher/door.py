"""The door: a name and raw data become a method and examples, and a folder becomes a run again."""

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from thresher.core.errors import (
    FOLDER,
    Kind,
    ThresherError,
    function_of,
    is_number,
    or_none,
    refuse_other_kinds,
    refuse_unless,
)
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.rule import Rule
from thresher.core.seeding import preserved
from thresher.data.features import with_features
from thresher.data.given import as_examples, examples_like
from thresher.data.splits import Splits
from thresher.engine.device.placement import find_device
from thresher.engine.run import Run
from thresher.engine.settings import DEFAULT_BATCH, TrainSettings, changed, lists_settings
from thresher.engine.store.checkpoint import Record, read_checkpoint, refuse_lost_parts, start_again
from thresher.engine.store.model_json import read_about
from thresher.engine.train import Moment
from thresher.methods import AUTO, METHODS, Choice, Method, Trainer, choose, method
from thresher.models import NamedModel, default_model, is_foreign, model_for, without_weights
from thresher.models.given import refuse_no_model
from thresher.noise import Estimate, noise_rate_by_folds
from thresher.record.ledger import Ledger
from thresher.record.run_folder import LEDGER, MODEL

Procedure = Callable[[Trainer], Run]


@lists_settings
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
    features: Any = None,
    until: Callable[[Record], bool] | None = None,
    watch: Callable[[Moment], None] | None = None,
    out: Path | str | None = None,
    settings: TrainSettings | None = None,
    **changes: Any,
) -> Run:
    """Train on data that cannot be fully trusted; with an `out` folder an interrupted run continues.

    what      a method by name ("prl-l", "incv", ...), "auto" for the one that suits (run.about["chosen"] says why), a
              Recipe, a rule, or a procedure (a function of a Trainer)
    model     a module, trained in place; a function that makes one (needed for methods with several networks); or a
              name that `thresher.models` knows, "auto" for one that suits the inputs
    data      (inputs, targets) as arrays, tensors or lists, inputs also as a dict or tuple of such; a DataFrame, with
              target= its column; a mapping, a dataset of such or of (input, target) pairs, or a DataLoader of it, whose
              batch size and collate function are then used; Examples; or what `load` gives, with its test set. Whole
              numbers, texts and truth values as targets are classes, decimals are real targets
    noise_rate  the share of wrong targets that the method assumes: a number, "auto" (found by the run) or "folds"
    test, clean, validation  further data: to measure on; whose targets can be trusted; as noisy as the training data
    features  embeddings of the training inputs, an array [n, width] or the file of one, in which rules look for
              neighbours in place of the network's own
    watch     is told a Moment after every step, which has the epoch's record after the last
    out       the folder of the run, from which `open_run` reads all of it
    settings  TrainSettings, which single ones of them by name change: epochs=30, batch=64, optimizer="sgd", ...

    >>> inputs, targets = torch.randn(200, 4), torch.randint(0, 2, (200,))
    >>> fit("prl-l", "mlp:8", (inputs, targets), noise_rate=0.25, epochs=1, batch=100).history[-1]["kept"]
    0.75
    """
    given = {"until": until, "watch": watch, "out": out, "target": target, "noise_rate": noise_rate}
    refuse_other_kinds(KINDS, {**given, "settings": settings})
    if isinstance(data, Splits) and test is None:
        test = data.test
    if isinstance(data, DataLoader):
        changes = _of_loader(data, settings) | changes
    train = as_examples(data, target=target)
    if train.classes is not None and train.classes < 2:
        raise ThresherError("The training data have examples of one class only: give examples of at least two.")
    if train.is_regression and len(train) > 1 and bool((train.targets == train.targets[0]).all()):
        raise ThresherError("The training data have the same target everywhere, so nothing can be learnt: give others.")
    train = train if features is None else with_features(train, features)
    if teacher is not None and not isinstance(teacher, nn.Module):
        raise ThresherError(f"A {type(teacher).__name__} is given as teacher: pass a trained torch.nn.Module.")
    told = changed(TrainSettings() if settings is None else settings, changes)
    if told.start is not None and isinstance(model, nn.Module):
        raise ThresherError("start= goes into networks that are made: pass a function that makes the model, or a name.")
    trainer = Trainer(
        model=_model(model, train, told.device),
        train=train,
        settings=told,
        test=examples_like(train, test, target, "the test set"),
        clean=examples_like(train, clean, target, "the clean set", apart=True),
        validation=examples_like(train, validation, target, "the validation set"),
        teacher=teacher,
        until=until,
        watch=watch,
        out=out,
    )
    return _train(what, trainer, noise_rate)


KINDS: dict[str, Kind] = {  # of what `fit` is given beside data, method and model
    "until": or_none(function_of(1, "a function of an epoch's record that says whether to stop")),
    "watch": or_none(function_of(1, "a function of a Moment")),
    "out": or_none(FOLDER),
    "target": or_none((lambda each: isinstance(each, str), "the name of a column")),
    "noise_rate": or_none(
        (
            lambda each: each in ("auto", "folds") or is_number(each),
            'a share of the data from 0 up to 1, "auto" or "folds"',
        )
    ),
    "settings": or_none((lambda each: isinstance(each, TrainSettings), "TrainSettings(...)")),
}


def _of_loader(loader: DataLoader[Any], settings: TrainSettings | None) -> dict[str, Any]:
    """The size of its batches and the processes that read, where no settings say them."""
    told = {} if loader.batch_size is None else {"batch": loader.batch_size, "workers": loader.num_workers}
    return told if settings is None else {}


def _train(what: Any, trainer: Trainer, noise_rate: float | str | None) -> Run:
    if what == AUTO:
        begun = None if trainer.out is None else _begun_by(Path(trainer.out))
        chosen = begun or choose(
            trainer.train, trainer.model, epochs=trainer.epochs, noise_rate=noise_rate, clean=trainer.clean is not None
        )
        what, trainer = chosen.method, trainer.changed(about={**trainer.about, "chosen": chosen.sentence()})
    if isinstance(what, str):
        what = method(what)
    if isinstance(what, Method):
        rate = _by_folds(what, trainer) if noise_rate == "folds" else noise_rate
        return what.train(trainer, rate)
    if noise_rate != "auto":
        raise ThresherError("noise_rate= is for methods by name: a recipe, a rule or a procedure says what it keeps.")
    if isinstance(what, Recipe):
        return trainer(what)
    if isinstance(what, Rule):
        return trainer(Recipe(each_batch=what) if "batch" in what.allowed_clocks() else Recipe(each_epoch=what))
    if isinstance(what, type):
        raise ThresherError(f"{what.__name__} is a class: make a rule of it first, as {what.__name__}(...).")
    if isinstance(what, nn.Module) or not callable(what):
        raise ThresherError(
            f"fit() trains by a method, not by a {type(what).__name__}: give its name, a Recipe, a rule or a procedure "
            "first, then the model."
        )
    return what(trainer) if _is_procedure(what) else trainer(Recipe(each_batch=what))


def _begun_by(folder: Path) -> Choice | None:
    """The method of the run in this folder, where one has begun that has a name."""
    name = read_about(folder).get("method") if (folder / MODEL).exists() else None
    return Choice.begun(name, folder) if name in METHODS else None


def _is_procedure(function: Callable[..., Any]) -> bool:
    """Whether the function takes a Trainer, as its annotation says, and not evidence as a rule does."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        raise ThresherError("The function given to fit() takes no argument: let it take evidence and give weights.")
    return first.annotation is Trainer or str(first.annotation).rpartition(".")[2] == "Trainer"


def _by_folds(what: Method, trainer: Trainer) -> float | None:
    """The noise rate by trainings that hold examples out, where the method asks for one."""
    if "noise_rate" not in what.needs:
        return None
    if isinstance(trainer.model, nn.Module):
        raise ThresherError("The noise rate by folds takes several trainings: pass a function that makes the model.")
    return estimate_by_folds(trainer.train, trainer.model, trainer.settings).assumed


def estimate_by_folds(train: Examples, model: Callable[[], nn.Module], settings: TrainSettings) -> Estimate:
    """The noise rate by folds, whose trainings have the optimizer, the seed and the device of these settings."""
    return noise_rate_by_folds(
        train, model, batch=min(settings.batch or DEFAULT_BATCH, len(train) // 2), seed=settings.seed,
        device=settings.device, optimizer=settings.optimizer, learning_rate=settings.learning_rate,
        momentum=settings.momentum, weight_decay=settings.weight_decay,
    )  # fmt: skip


def _model(given: Any, train: Examples, device: str | torch.device | None) -> nn.Module | Callable[[], nn.Module]:
    if isinstance(given, str):
        name = model_for(train, find_device(device)) if given == "auto" else given
        return NamedModel(name, train.input_shape, train.outputs)
    refuse_no_model(given)
    made: nn.Module | Callable[[], nn.Module] = given
    return made


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
    refuse_unless("folder", folder, isinstance(folder, Path | str), "the folder of a run")
    folder = Path(folder)
    about = read_about(folder)
    saved = read_checkpoint(folder)
    refuse_lost_parts(folder, saved["ledger"])
    make = _maker(folder, about, model)
    where = find_device(device)
    models, averages = [], []
    with preserved(where):
        for state in saved["learners"]:
            models.append(_loaded(make, state["model"], folder, where))
            if state["average"] is not None:
                averages.append(_loaded(make, state["average"], folder, where))
    best = saved["best"] if saved["finished"] else None  # whose parameters are put back at the end
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
        if given is None and is_foreign(name):
            raise ThresherError(
                f"{folder} names code to import as its model ({name}): pass model={name!r} if you trust it."
            )
        if about["input_shape"] is None:
            raise ThresherError(f"{folder} does not say of which shape its inputs are: {start_again(folder)}.")
        shape = tuple(about["input_shape"])
        return NamedModel(default_model(shape) if name == "auto" else without_weights(name), shape, about["outputs"])
    refuse_no_model(name)
    if isinstance(given, nn.Module):
        return lambda: copy.deepcopy(given)
    made: Callable[[], nn.Module] = given
    return made


def _loaded(make: Callable[[], nn.Module], state: dict[str, Any], folder: Path, device: torch.device) -> nn.Module:
    network = make()
    if not isinstance(network, nn.Module):
        raise ThresherError(f"The model function made a {type(network).__name__}: let it return a torch.nn.Module.")
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ThresherError(f"The model does not fit what {folder} holds ({reason}): pass the one it had.") from error
    if not all(bool(torch.isfinite(each).all()) for each in network.parameters()):
        raise ThresherError(f"The parameters that {folder} holds are not finite: {start_again(folder)}.")
    return network.to(device).eval()


def _recipe(about: dict[str, Any]) -> Recipe | None:
    """The recipe of the run, where its method is one training by a known recipe."""
    known = METHODS.get(about.get("method") or "")
    if known is None or known.make is None:
        return None
    return known.recipe(noise_rate=about.get("noise_rate"), classes=about["classes"], epochs=about.get("epochs", 1))
