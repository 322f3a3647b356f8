"""PRL(L) in somebody's LightningModule: one line of its training_step, and a callback.

    python examples/lightning_module.py

The loader, its sampler, the optimizer, precision, clipping, accumulation and the number of processes stay Lightning's.
"""

import warnings

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from thresher import load
from thresher.corruption import corrupt
from thresher.models import build
from thresher.trainers import Weigher, WeigherCallback

warnings.filterwarnings("ignore", module="lightning")  # its advice about workers

digits = load("digits")
train = corrupt(digits.train, "symmetric:0.4", seed=0)


class Digits(pl.LightningModule):
    def __init__(self, weigher: Weigher) -> None:
        super().__init__()
        self.net = build("mlp", input_shape=train.input_shape, outputs=10)
        self.weigher = weigher

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets, ids = batch
        loss: torch.Tensor = self.weigher.loss(self.net, inputs, targets, ids=ids)  # was: cross_entropy(...)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


pl.seed_everything(0, verbose=False)
weigher = Weigher("prl-l", noise_rate=0.4)
module = Digits(weigher)
trainer = pl.Trainer(
    max_epochs=12, accelerator="cpu", devices=1, gradient_clip_val=1.0, callbacks=[WeigherCallback(weigher)],
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
data = TensorDataset(torch.as_tensor(train.inputs), train.targets, torch.arange(len(train)))
trainer.fit(module, DataLoader(data, batch_size=64, shuffle=True))

with torch.no_grad():
    accuracy = (module.net(digits.test.inputs).argmax(1) == digits.test.targets).float().mean()
ids, trust = weigher.ledger.trust()
wrong = train.columns["is_corrupt"][ids].bool()
print(f"accuracy on clean test digits after training on 40% wrong labels: {accuracy:.3f}")
print(f"mean trust in right labels {trust[~wrong].mean():.2f}, in wrong ones {trust[wrong].mean():.2f}")
assert accuracy > 0.9
