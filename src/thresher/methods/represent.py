"""A start without labels: a network learns its inputs first, by views of them that should look alike.

The last Linear layer is replaced by a small projection, which is dropped afterwards. Starts are stored once, by what
they were learned from and how, and runs on the same inputs share them.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor, nn

from thresher.core.errors import ThresherError, refuse_endless, unknown
from thresher.core.examples import Examples
from thresher.core.files import expanded, write_whole
from thresher.core.recipe import Recipe, View
from thresher.core.seeding import preserved, seed_global
from thresher.engine.device.placement import find_device
from thresher.engine.settings import MOST_EPOCHS, TrainSettings, training_part
from thresher.engine.start.checks import first_of
from thresher.engine.start.gradient_trial import last_linear
from thresher.engine.store.about import checksum, describe
from thresher.engine.train import Moment, train_recipe
from thresher.objectives import Contrastive, CrossCorrelation, Objective
from thresher.slots.start_views import different_for

WIDTH = 128  # of the projection
BATCH = 512
RATE = 0.06 / 128  # of sgd, for each example of a batch
OBJECTIVES: dict[str, Callable[[], Objective]] = {"contrastive": Contrastive, "correlation": CrossCorrelation}
FOLDER = "THRESHER_STARTS"  # the variable that names the folder of stored starts


@dataclass(frozen=True)
class Start:
    """The parameters and buffers of a network that has seen its inputs, without those of its last layer."""

    state: dict[str, Tensor]
    head: str
    seconds: float  # that learning it took

    def into(self, network: nn.Module) -> nn.Module:
        """The network with this start; its last layer stays as it was made."""
        found = network.load_state_dict(self.state, strict=False)
        kept = {name for name in found.missing_keys if name.startswith(f"{self.head}.")}
        if found.unexpected_keys or set(found.missing_keys) != kept:
            wrong = next(iter([*found.unexpected_keys, *(set(found.missing_keys) - kept)]))
            raise ThresherError(f"The start does not fit the network ({wrong}): give the start of such a network.")
        return network


@dataclass(frozen=True)
class Started:
    """A function that makes networks, each with this start."""

    make: Callable[[], nn.Module]
    start: Start

    def __call__(self) -> nn.Module:
        return self.start.into(self.make())


def represent(
    make: Callable[[], nn.Module],
    train: Examples,
    *,
    epochs: int = 200,
    objective: Objective | None = None,
    views: tuple[View, ...] = (),
    settings: TrainSettings | None = None,
    watch: Callable[[Moment], None] | None = None,
    out: Path | str | None = None,
) -> Start:
    """Learn the inputs without their targets; with an `out` folder an interrupted call continues.

    make      a function that makes the network, whose last layer is a Linear one
    objective  Contrastive(), CrossCorrelation(), or another that compares views; views are two of `different_for`
    settings  device, precision, seed, workers and whether to compile; all else is settled here
    """
    settings = TrainSettings() if settings is None else settings
    unlabelled = _unlabelled(train)
    device = find_device(None if settings.device == "auto" else settings.device)
    with preserved(device):
        seed_global(device, settings.seed, "represent")
        network = make()
        head = last_linear(network, first_of(unlabelled, 2).inputs.cpu())
        _replace(network, head, _projection(network.get_submodule(head)))
    batch = min(BATCH, max(2, len(train) // 4))
    run = train_recipe(
        Recipe(objective=objective or Contrastive(), views=views or 2 * (different_for(train.input_shape),)),
        network,
        unlabelled,
        settings=_how(settings, epochs, batch),
        watch=None if watch is None else lambda moment: watch(replace(moment, record=None)),
        out=out,
    )
    state = {name: value.cpu() for name, value in run.model.state_dict().items() if not name.startswith(f"{head}.")}
    return Start(state, head, sum(record["seconds"] for record in run.history))


def start_for(
    spec: str,
    make: Callable[[], nn.Module],
    train: Examples,
    settings: TrainSettings,
    watch: Callable[[Moment], None] | None = None,
) -> Start:
    """The start of this description: "represent:200", "represent:200:correlation", or a file that holds one.

    It is learned where none is stored for these inputs, this network and this description.
    """
    if spec.endswith(".pt"):
        return read_start(Path(spec))
    epochs, objective = _understood(spec)
    settings = training_part(settings, seed=0)  # runs of all seeds share it
    folder = expanded(os.environ.get(FOLDER) or Path.home() / ".cache" / "thresher" / "starts")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{_key(spec, make, train)}.pt"
    with FileLock(file.with_suffix(".lock")):
        if not file.exists():
            begun = file.with_suffix(".run")
            learned = represent(
                make, train, epochs=epochs, objective=objective, settings=settings, watch=watch, out=begun
            )
            write_start(learned, file)
            shutil.rmtree(begun, ignore_errors=True)
    return read_start(file)


def write_start(start: Start, file: Path) -> None:
    """Store a start as a file that `start=` takes."""
    write_whole(file, partial(torch.save, {"state": start.state, "head": start.head, "seconds": start.seconds}))


def read_start(file: Path) -> Start:
    """The start that a file holds."""
    refuse_endless(file)
    try:
        return Start(**torch.load(file, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        raise ThresherError(f"There is no start {file}: give the file of one, or represent:200.") from None
    except Exception as error:  # torch and pickle name no kinds of their own
        raise ThresherError(f"{file} holds no start: give the file of one, or represent:200.") from error


def _understood(spec: str) -> tuple[int, Objective]:
    """The epochs and the objective of a description."""
    word, _, rest = spec.partition(":")
    length, _, name = rest.partition(":")
    if word != "represent" or not length.isdecimal() or not 1 <= int(length) <= MOST_EPOCHS:
        raise ThresherError(f"start={spec!r} is not understood: write represent:200, or the file of a start (.pt).")
    if (name or "contrastive") not in OBJECTIVES:
        raise unknown("objective of a start", name, OBJECTIVES)
    return int(length), OBJECTIVES[name or "contrastive"]()


def _unlabelled(train: Examples) -> Examples:
    """The same inputs; the classes stand for the outputs of the projection, and nothing reads the targets."""
    n, device = len(train), train.targets.device
    return replace(
        train,
        targets=torch.zeros(n, dtype=torch.long, device=device),
        ids=torch.arange(n, device=device),
        classes=WIDTH,
        columns={},
        class_names=None,
        target_scale=None,
        checked=False,
    )


def _how(settings: TrainSettings, epochs: int, batch: int) -> TrainSettings:
    kept = ("seed", "precision", "compiled", "captured", "channels_last", "deterministic", "device", "workers")
    told: dict[str, Any] = {name: getattr(settings, name) for name in kept}
    return TrainSettings(
        epochs=epochs, batch=batch, optimizer="sgd", learning_rate=RATE * batch, momentum=0.9, weight_decay=5e-4,
        schedule="cosine", **told,
    )  # fmt: skip


def _projection(head: nn.Module) -> nn.Module:
    assert isinstance(head, nn.Linear)
    wide = head.in_features
    return nn.Sequential(nn.Linear(wide, wide), nn.BatchNorm1d(wide), nn.ReLU(), nn.Linear(wide, WIDTH))


def _replace(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, module)


def _key(spec: str, make: Callable[[], nn.Module], train: Examples) -> str:
    """What a stored start depends on: the inputs, the network, and how it is learned."""
    with preserved(torch.device("cpu")):
        network = repr(make())
    told = [checksum(_unlabelled(train)), network, spec, describe(different_for(train.input_shape)), BATCH, RATE]
    return blake2b(repr(told).encode(), digest_size=16).hexdigest()
