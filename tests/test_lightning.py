"""A weigher in Lightning: the parameters of fit, accumulation, clipping, bf16, own samplers, and two processes."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainers import BATCH, EPOCHS, METHODS, TRAIN, Y, fitted, loop, net, orders, sgd
from test_trainers import X as INPUTS
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

L = pytest.importorskip("lightning.pytorch")

from thresher.record.ledger import Ledger  # noqa: E402
from thresher.trainers import Weigher, WeigherCallback  # noqa: E402


class Batches(Sampler[list[int]]):
    """A sampler of one's own: the batches of fit, epoch by epoch."""

    def __init__(self) -> None:
        self.epochs = [order.tolist() for order in orders()]

    def __iter__(self) -> Iterator[list[int]]:
        yield from self.epochs.pop(0)

    def __len__(self) -> int:
        return len(TRAIN) // BATCH


class Module(L.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self, weigher: Weigher):
        super().__init__()
        self.weigher, self.net = weigher, net()

    def training_step(self, batch: Any, index: int) -> torch.Tensor:  # noqa: ARG002
        inputs, targets, ids = batch
        return self.weigher.loss(self.net, inputs, targets, ids=ids)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return sgd(self.net.parameters())


def trained(weigher: Weigher, batches: Any = None, resume: Path | None = None, **options: Any) -> nn.Module:
    module = (Pair if weigher.recipe.peers == 2 else Module)(weigher)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice about workers
        trainer = L.Trainer(
            accelerator="cpu",
            callbacks=[WeigherCallback(weigher), *options.pop("callbacks", [])],
            **quiet | {"devices": 1, "max_epochs": EPOCHS} | options,
        )
        data = TensorDataset(INPUTS, Y, TRAIN.ids)
        trainer.fit(module, DataLoader(data, **(batches or {"batch_sampler": Batches()})), ckpt_path=resume)
    return module.net


@pytest.mark.parametrize("name", ["prl-l", "l2rw"])
def test_lightning_trains_as_fit_does(name: str) -> None:
    weigher, theirs = Weigher(name, **METHODS[name]), net()
    own, run = trained(weigher), fitted(name, theirs)
    for mine, other in zip(own.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    keys = [("epoch", "ascending"), ("id", "ascending")]
    found, expected = (each.table().sort_by(keys)["weight"].to_pylist() for each in (weigher.ledger, run.ledger))
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["spl", "prl-g", "l2rw", "crust"])
def test_accumulation_clipping_and_bf16_keep_the_ledger_whole(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CRUST's mix is left out
        weigher = Weigher(name, **METHODS.get(name, {"train": TRAIN}))
    model = trained(weigher, accumulate_grad_batches=2, gradient_clip_val=0.5, precision="bf16-mixed")
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    table = weigher.ledger.table()
    assert table.num_rows == EPOCHS * len(TRAIN)
    assert set(table["visited"].to_pylist()) == {True}
    assert [record["epoch"] for record in weigher.history] == [1, 2, 3]


@pytest.mark.parametrize("name", ["prl-l", "l2rw"])
def test_a_checkpoint_of_lightning_goes_on_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    """One epoch, and the others in a new trainer with a new weigher, from the file that ModelCheckpoint wrote."""
    whole, first, second = (Weigher(name, **METHODS[name]) for _ in range(3))
    keep = L.callbacks.ModelCheckpoint(dirpath=tmp_path, filename="kept")
    expected = trained(whole)
    trained(first, max_epochs=1, enable_checkpointing=True, callbacks=[keep])
    rest = Batches()
    rest.epochs = rest.epochs[1:]
    own = trained(second, {"batch_sampler": rest}, resume=tmp_path / "kept.ckpt")
    for mine, other in zip(own.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)
    assert second.ledger.to_pandas().equals(whole.ledger.to_pandas())
    assert [record["epoch"] for record in second.history] == [1, 2, 3]


def test_schedules_get_the_trainers_epochs() -> None:
    weigher = Weigher("co-teaching", noise_rate=0.3)
    trained_alone = Module(weigher)
    trained_alone.weigher.total = 1
    WeigherCallback(weigher).on_train_start(L.Trainer(max_epochs=7, logger=False, accelerator="cpu"), trained_alone)
    assert weigher.total == 7


class Halves(Sampler[list[int]]):
    """Every batch of twelve, of which each process takes its half: a sampler that knows the processes itself."""

    def __iter__(self) -> Iterator[list[int]]:
        place = torch.distributed.get_rank()
        yield from torch.arange(len(TRAIN)).view(-1, 2, BATCH // 2)[:, place].tolist()

    def __len__(self) -> int:
        return len(TRAIN) // BATCH


class Pair(Module):
    """Two networks, each of which learns from what the other selects, in one optimizer."""

    def __init__(self, weigher: Weigher):
        super().__init__(weigher)
        self.net = nn.ModuleList([net(0), net(1)])

    def training_step(self, batch: Any, index: int) -> torch.Tensor:  # noqa: ARG002
        return pair_loss(self.weigher, self.net, *batch)


def pair_loss(weigher: Weigher, nets: Any, inputs: Any, targets: Any, ids: Any) -> torch.Tensor:
    both = zip(nets, reversed(nets), strict=True)
    return sum(weigher.loss(own, inputs, targets, ids=ids, peer=other) for own, other in both)  # type: ignore[return-value]


IN_TWO: dict[str, dict[str, Any]] = {
    name: METHODS.get(name, more)
    for name, more in {
        "prl-l": {}, "prl-g": {}, "l2rw": {}, "crust": {"train": TRAIN}, "co-teaching": {"noise_rate": 0.3}
    }.items()
}  # fmt: skip
SCRIPT = """
import sys, torch, warnings
warnings.simplefilter("ignore")
import test_lightning as t
from thresher.trainers import Weigher

for name in t.IN_TWO:
    out = f"{sys.argv[1]}/{name}"
    weigher = Weigher(name, out=out, **t.IN_TWO[name])
    keep = t.L.callbacks.ModelCheckpoint(dirpath=out, filename="kept")
    options = {"devices": 2, "strategy": "ddp_fork", "use_distributed_sampler": False}
    options |= {"enable_checkpointing": True, "callbacks": [keep]}
    torch.save(t.trained(weigher, {"batch_sampler": t.Halves()}, **options).state_dict(), f"{out}/model.pt")
"""


def test_two_processes_decide_as_one(tmp_path: Path) -> None:
    """Rules see the batch of both; parameters are those of one process; every example has one row an epoch."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name, known in IN_TWO.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CRUST's mix is left out
            weigher = Weigher(name, epochs=EPOCHS, **known)
        model = nn.ModuleList([net(0), net(1)]) if name == "co-teaching" else net()
        optimizer = sgd(model.parameters())
        for _ in weigher.epochs():
            for index in torch.arange(len(TRAIN)).view(-1, BATCH):
                optimizer.zero_grad()
                batch = INPUTS[index], Y[index], TRAIN.ids[index]
                if name == "co-teaching":
                    loss = pair_loss(weigher, model, *batch)
                else:
                    loss = weigher.loss(model, *batch[:2], ids=batch[2])
                loss.backward()
                optimizer.step()
        stored, kept = (torch.load(tmp_path / name / file, weights_only=False) for file in ("model.pt", "kept.ckpt"))
        assert kept["callbacks"]["WeigherCallback"]["written"]["parts"] == [f"part-0000{at}.parquet" for at in range(3)]
        for key, value in model.state_dict().items():
            torch.testing.assert_close(stored[key], value, rtol=1e-5, atol=1e-6)
        keys = [("peer", "ascending"), ("epoch", "ascending"), ("id", "ascending")]
        found, expected = Ledger.read(tmp_path / name).table().sort_by(keys), weigher.ledger.table().sort_by(keys)
        assert found["id"].to_pylist() == expected["id"].to_pylist()
        for column in ("weight", "belief"):
            assert found[column].to_pylist() == pytest.approx(expected[column].to_pylist(), abs=1e-4)


def test_the_plain_loop_is_the_reference() -> None:
    """Without the callback's trainer, on the same batches."""
    weigher = Weigher("spl", epochs=EPOCHS, **METHODS["spl"])
    expected = net()
    loop(weigher, expected)
    own = trained(Weigher("spl", **METHODS["spl"]))
    for mine, other in zip(own.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
