"""Loggers that people have: `fit(..., watch=TensorBoard("logs"))` sends them the record of every epoch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn

from thresher.core.errors import ThresherError, needs_extra, refuse_unless
from thresher.core.files import write_whole
from thresher.engine.run import Run
from thresher.engine.train import Moment


def named_numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an epoch's record, by name; those of mappings inside it too.

    >>> named_numbers({"epoch": 2, "kept": 0.6, "clean_share": None, "scores": {"accuracy": 0.9}})
    {'thresher/kept': 0.6, 'thresher/scores/accuracy': 0.9}
    """
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found |= {
                f"thresher/{name}/{key.partition('/')[2]}": number for key, number in named_numbers(value).items()
            }
        elif isinstance(value, int | float) and name != "epoch":
            found[f"thresher/{name}"] = float(value)
    return found


class Logger(ABC):
    """Told a Moment after every step, as `watch`, it logs the numbers of each epoch that has ended."""

    def __call__(self, moment: Moment) -> None:
        if moment.record is not None:
            self.log(named_numbers(moment.record), int(moment.record["epoch"]))

    @abstractmethod
    def log(self, numbers: dict[str, float], epoch: int) -> None: ...


def refuse_without(given: object, method: str, name: str, wanted: str) -> None:
    """Refuse what cannot be logged to, before anything is trained."""
    refuse_unless(name, given, callable(getattr(given, method, None)), wanted)


class TensorBoard(Logger):
    """Scalars in a folder that `tensorboard --logdir` shows, or in a SummaryWriter that is given."""

    def __init__(self, where: Any):
        if isinstance(where, str | Path):
            needs_extra("TensorBoard", "loggers", "tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            where = SummaryWriter(str(where))
        refuse_without(where, "add_scalar", "where", "a folder, or a SummaryWriter")
        self.writer = where

    def log(self, numbers: dict[str, float], epoch: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()


class WandB(Logger):
    """A run of Weights & Biases: what `wandb.init(...)` returned."""

    def __init__(self, run: Any):
        refuse_without(run, "log", "run", "what wandb.init(...) returned")
        self.run = run

    def log(self, numbers: dict[str, float], epoch: int) -> None:
        self.run.log({**numbers, "thresher/epoch": epoch})


class MLflow(Logger):
    """The active run of MLflow, or that of a client: anything with `log_metrics(metrics, step=)`, such as `mlflow`."""

    def __init__(self, client: Any = None):
        if client is None:
            if find_spec("mlflow") is None:
                raise ThresherError("MLflow is not installed: pip install mlflow, or give a client of it.")
            client = import_module("mlflow")
        refuse_without(client, "log_metrics", "client", "mlflow, or a client with log_metrics()")
        self.client = client

    def log(self, numbers: dict[str, float], epoch: int) -> None:
        self.client.log_metrics(numbers, step=epoch)


def save_weights(trained: Run | nn.Module, path: Path | str) -> None:
    """The parameters and buffers of a run's network, or of a module, as a .safetensors file, tied ones once."""
    refuse_unless("trained", trained, isinstance(trained, Run | nn.Module), "a run, or a torch.nn.Module")
    fits = isinstance(path, str | PathLike) and not Path(path).is_dir()
    refuse_unless("path", path, fits, "the file to write, such as model.safetensors")
    needs_extra("Saving weights", "export", "safetensors")
    from safetensors.torch import save_model

    module = trained.model if isinstance(trained, Run) else trained
    write_whole(Path(path), lambda place: save_model(module, str(place)))
