"""A training that stops and goes on from a weigher's state equals one that never stopped: parameters and ledger."""

import io
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainers import BATCH, CLEAN, EPOCHS, TRAIN, N, X, Y, net, orders, sgd
from torch import Tensor

from thresher import Recipe, Rule
from thresher.core.errors import ThresherError
from thresher.core.evidence import Evidence
from thresher.record.ledger import Ledger
from thresher.rules import Centrality, per_class
from thresher.trainers import Weigher

BATCHES = [(epoch, index) for epoch, order in enumerate(orders()) for index in order]
PER_EPOCH = N // BATCH


class Drawn(Rule):
    """Random weights, which depend on the draws of the epoch so far."""

    def __call__(self, evidence: Evidence) -> Tensor:
        return torch.rand(len(evidence), generator=evidence.generator)


def made(what: str, **more: Any) -> Weigher:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mix of CRUST is left out
        if what == "drawn":
            return Weigher(Drawn(), epochs=EPOCHS, **more)
        if what == "whole set":
            return Weigher(Recipe(each_epoch=per_class(Centrality(fraction=0.5))), epochs=EPOCHS, train=TRAIN, **more)
        clean = {"clean": CLEAN, "clean_batch": 3} if what == "l2rw" else {}
        return Weigher(what, noise_rate=0.3, epochs=EPOCHS, classes=2, **clean, **more)


class Training:
    """Networks, their optimizers and a weigher; what is saved goes through a file."""

    def __init__(self, weigher: Weigher):
        self.weigher = weigher
        self.nets = [net(seed) for seed in range(2 if weigher.recipe.peers > 1 else 1)]
        self.optimizers = [sgd(each.parameters()) for each in self.nets]

    def saved(self) -> io.BytesIO:
        file = io.BytesIO()
        parts = [*self.nets, *self.optimizers, self.weigher]
        torch.save([part.state_dict() for part in parts], file)
        file.seek(0)
        return file

    def load(self, file: io.BytesIO) -> None:
        saved = torch.load(file, weights_only=True)
        for part, state in zip([*self.nets, *self.optimizers, self.weigher], saved, strict=True):
            part.load_state_dict(state)

    def run(self, steps: slice) -> None:
        for epoch, index in BATCHES[steps]:
            if epoch != self.weigher.epoch or self.weigher.resumed:
                self.weigher.begin_epoch(epoch)
            for place, (each, optimizer) in enumerate(zip(self.nets, self.optimizers, strict=True)):
                peer = self.nets[1 - place] if len(self.nets) > 1 else None
                optimizer.zero_grad()
                self.weigher.loss(each, X[index], Y[index], ids=TRAIN.ids[index], peer=peer).backward()
                optimizer.step()


@pytest.mark.parametrize("stop", [PER_EPOCH + 1, 2 * PER_EPOCH], ids=["amid an epoch", "at its end"])
@pytest.mark.parametrize("what", ["drawn", "whole set", "l2rw", "co-teaching", "prl-g", "mentornet"])
def test_going_on_equals_never_stopping(what: str, stop: int) -> None:
    whole, first, second = (Training(made(what)) for _ in range(3))
    whole.run(slice(None))
    first.run(slice(stop))
    second.load(first.saved())
    first.run(slice(stop, stop + 1))  # which the state must not share
    second.run(slice(stop, None))
    for each in (whole, second):
        each.weigher.end_epoch()
    for mine, other in zip(second.nets, whole.nets, strict=True):
        for ours, theirs in zip(mine.parameters(), other.parameters(), strict=True):
            assert torch.equal(ours, theirs)
    found, expected = (each.weigher.ledger.to_pandas() for each in (second, whole))
    assert found.equals(expected)
    assert second.weigher.history == whole.weigher.history
    assert len(expected) == EPOCHS * N * len(whole.nets)


def test_a_plain_loop_goes_on_with_the_next_epoch(tmp_path: Path) -> None:
    """The folder's parts that came after the state was saved are written again."""
    weigher, model = made("drawn", out=tmp_path), net()
    kept: dict[str, Any] = {}
    seen = []
    for epoch in weigher.epochs():
        weigher.loss(model, X, Y, ids=TRAIN.ids)
        weigher.end_epoch()
        if epoch == 0:
            kept = weigher.state_dict()
    again = made("drawn", out=tmp_path)
    again.load_state_dict(kept)
    assert Ledger.read(tmp_path).table()["epoch"].unique().to_pylist() == [1]
    for epoch in again.epochs():
        seen.append(epoch)
        again.loss(model, X, Y, ids=TRAIN.ids)
    assert seen == [1, 2]
    assert Ledger.read(tmp_path).to_pandas().equals(weigher.ledger.to_pandas())
    assert again.history == weigher.history
    with pytest.raises(ThresherError, match=r"folder has no part-00000\.parquet, which the saved state goes on from"):
        made("drawn", out=tmp_path / "other").load_state_dict(kept)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(ThresherError, match=r"give what Weigher.state_dict\(\) returned"):
        made("drawn").load_state_dict({"epoch": 3})


def test_a_batch_dropped_under_a_scaler_moves_nothing() -> None:
    """The scaler looks at the gradients before the step; the next step moves again."""
    model = net()
    optimizer, weigher = sgd(model.parameters()), Weigher("standard")
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for factor, moves in ((1.0, True), (0.0, False), (1.0, True)):
        before = [parameter.clone() for parameter in model.parameters()]
        optimizer.zero_grad()
        scaler.scale(weigher.loss(model, X, Y, ids=TRAIN.ids, weight=torch.full((N,), factor))).backward()
        weigher.skip_if_empty(optimizer)
        scaler.step(optimizer)
        scaler.update()
        same = [torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
        assert all(same) != moves
    weigher.end_epoch()
    assert weigher.history[0]["skipped"] == 1
