"""A weigher in Lightning: a callback that tells it of epochs and steps, and logs what it kept."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch.optim import Optimizer

from thresher.trainers.given import refuse_no_weigher
from thresher.trainers.loggers import named_numbers
from thresher.trainers.weigher import Weigher


class WeigherCallback(Callback):
    """`Trainer(callbacks=[WeigherCallback(weigher)])`, with `weigher.loss(...)` in the module's training_step.

    Samplers, accumulation, clipping, precision and processes are the trainer's, as without it. The weigher's state is
    in the trainer's checkpoints, so that `Trainer.fit(..., ckpt_path=...)` goes on with it.
    """

    def __init__(self, weigher: Weigher):
        refuse_no_weigher(weigher)
        self.weigher = weigher

    def state_dict(self) -> dict[str, Any]:
        return self.weigher.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.weigher.load_state_dict(state_dict)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        if trainer.max_epochs is not None and trainer.max_epochs > 0:
            self.weigher.total = trainer.max_epochs

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        self.weigher.begin_epoch(trainer.current_epoch)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:  # noqa: ARG002
        self.weigher.skip_if_empty(optimizer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        self.weigher.end_epoch()
        if self.weigher.history and trainer.logger is not None:
            trainer.logger.log_metrics(named_numbers(self.weigher.history[-1]), step=trainer.global_step)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        self.weigher.finish()
