"""Several processes that train together. `several_worker.start(counts, folder)` forks them: torch is imported once.

All cases run in one process group, because starting a process takes longer than any of them. The test process runs the
same cases alone, by `outcomes(folder)`, and compares.
"""

import os
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor

from thresher import Examples, Recipe, acquire, active_loop, fit, signals
from thresher.core.errors import ThresherError
from thresher.data import from_stream
from thresher.methods import acquisition
from thresher.objectives import CrossCorrelation, DeterminantLoss
from thresher.rules import FacilityLocation, KeepSmallest, MetaGradient, from_peer, streamed_facility_location, warmup
from thresher.slots import ClusterMixup, Flip, Mixup, PadCrop

IN_PARTS: dict[str, Any] = {"signals_at_once": 6e-6}  # GiB: three parts, so that of four processes one has none
BATCH = 50  # which four processes share as 13, 13, 12 and 12
DIES = {2: 1, 4: 0}  # which process is killed, of how many: the first one writes the files
Found = dict[str, Any]


def digits(count: int = 203) -> Examples:
    """Images in double precision, so that parameters differ by less than the ledger's single precision shows."""
    inputs, targets = load_digits(return_X_y=True)
    made = Examples(
        torch.as_tensor(inputs[:count] / 16).view(-1, 1, 8, 8), torch.as_tensor(targets[:count]), classes=10
    )
    return replace(made, ids=1000 - 3 * torch.arange(count), checked=False)


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10)).double()


def dropout_network() -> nn.Module:
    return nn.Sequential(
        nn.Dropout2d(0.2), *network()[:2], nn.Dropout(0.5, inplace=True), nn.Tanh(), nn.Linear(16, 10).double()
    )


class Items:
    """The same as a map-style dataset, whose items draw noise of their own."""

    def __init__(self, inputs: Tensor):
        self.inputs = inputs.float()

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, position: int) -> Tensor:
        return self.inputs[position] + 0.01 * torch.randn(1, 8, 8)


@dataclass
class Shard:
    """Every third of the digits with their ids, as a stream that notes who reads it."""

    place: int
    folder: Path

    def __iter__(self) -> Any:
        with open(self.folder / f"readers of {_count()}", "a") as file:
            file.write(f"{self.place} {distributed.get_rank() if _count() > 1 else 0}\n")
        data = digits()
        for at in range(self.place, len(data), 3):
            yield {"pixels": data.inputs[at], "label": data.targets[at], "id": data.ids[at]}


class Doubled(nn.Module):
    """The part `pixels` of what a stream holds, in double precision again."""

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return inputs["pixels"].double()


def _count() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


def _recipes() -> dict[str, tuple[Any, dict[str, Any]]]:
    half = KeepSmallest(by=signals.loss, fraction=0.5)
    crust = Recipe(each_epoch=warmup(1, FacilityLocation(by=signals.output_gradient, fraction=0.5)), mix=ClusterMixup())
    made: dict[str, tuple[Any, Found]] = {
        name: (name, {"noise_rate": 0.3}) for name in ("standard", "prl-l", "prl-g", "co-teaching", "reclaim")
    }
    return made | {
        "found rate": ("prl-l", {"epochs": 5}),
        "l2rw": (Recipe(each_batch=MetaGradient()), {"clean": digits().subset(torch.arange(30))}),
        "few clean": (Recipe(each_batch=MetaGradient()), {"clean": digits().subset(torch.arange(3))}),
        "crust": (crust, {}),
        "views": (Recipe(each_batch=half, views=(PadCrop(1), Flip())), {}),
        "mixup": (Recipe(each_batch=half, mix=Mixup()), {}),
        "peers": (Recipe(peers=2, each_batch=from_peer(half)), {}),
        "batch objective": (Recipe(objective=DeterminantLoss()), {}),
        "quantiles": ("mentornet", {"noise_rate": 0.3}),
        "clipped": (Recipe(clip=0.1, each_batch=half), {}),
        "clipped shards": (Recipe(clip=0.1), {"sharded": True}),
        "in parts": (Recipe(each_epoch=FacilityLocation(by=signals.output_gradient, count=60)), IN_PARTS),
        "sharded": ("standard", {"sharded": True, "average": 0.9}),
        "sharded rule": ("prl-l", {"sharded": True, "noise_rate": 0.3}),
        "sharded norms": ("prl-g", {"sharded": True, "noise_rate": 0.3}),
    }


def outcomes(folder: Path) -> Found:
    """The ledger, parameters and history of every case, and what acquisitions choose."""
    warnings.filterwarnings("ignore", "The rule is asked about")
    warnings.filterwarnings("ignore", ".*torch.jit.*deprecated", DeprecationWarning)  # torch of itself
    train, found = digits(), Found()
    for name, (what, given) in _recipes().items():
        run = fit(what, network, train, batch=BATCH, device="cpu", test=train, **{"epochs": 3, **given})
        found[name] = seen(run)
    dropping = Recipe(each_batch=KeepSmallest(by=signals.loss, fraction=0.5), views=(PadCrop(1), Flip()))
    found["dropout"] = seen(fit(dropping, dropout_network, train, batch=BATCH, device="cpu", epochs=3))
    with torch.compiler.set_stance(force_backend="eager"):  # traced as always, and then run without a compiler of C++
        found["compiled"] = seen(fit("prl-l", network, train, noise_rate=0.3, epochs=2, batch=BATCH, compiled=True))
    shards = [Shard(place, folder.parent) for place in range(3)]
    stored = from_stream(shards, folder.parent / f"shards of {_count()}", name="digits")
    found["shards"] = seen(
        fit("prl-l", lambda: nn.Sequential(Doubled(), network()), stored, noise_rate=0.3, epochs=2, batch=BATCH)
    )
    streamed = replace(train, inputs=Items(train.inputs))
    found["stream"] = seen(fit("prl-l", lambda: network().float(), streamed, noise_rate=0.3, epochs=2, batch=BATCH))
    model, averaged = (fit("standard", network, train, epochs=1, seed=seed, device="cpu").model for seed in (0, 1))
    for name in ("badge", "s-badge", "margin", "coreset"):
        more = {"average": averaged} if name == "s-badge" else {}
        more |= {"labelled": train.subset(torch.arange(20))} if name == "coreset" else {}
        rule = acquisition(name).rule(15)
        found[name] = acquire(rule, model, train, batch=32, **more).tolist()
    found["badge in parts"] = acquire(acquisition("badge").rule(15), model, train, batch=32, **IN_PARTS).tolist()
    choose = FacilityLocation(by=signals.features, count=12, select=_streamed)
    found["streamed coreset"] = acquire(choose, model, train, batch=32, on_disk=folder / "pool").tolist()
    return found


def _streamed(embeddings: Tensor, count: int) -> Any:
    return streamed_facility_location(embeddings.split(40), count)


def seen(run: Any) -> Found:
    table = run.ledger.table()
    columns = {name: table[name].to_numpy() for name in table.column_names}
    history = [{name: value for name, value in record.items() if name != "seconds"} for record in run.history]
    parameters = [_whole(value) for model in run.models for value in model.state_dict().values()]
    return {"ledger": columns, "history": history, "parameters": parameters}


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.clone()


def go_on(folder: Path, epochs: int, **more: Any) -> Found:
    """A run in a folder, to so many epochs."""
    settings: Found = {"epochs": epochs, "batch": BATCH, "out": folder, "device": "cpu", **more}
    return seen(fit("prl-l", network, digits(), noise_rate=0.3, **settings))


def looped(folder: Path) -> Found:
    """A loop that buys labels, and its files."""
    loop = active_loop(
        Recipe(), network, digits(), by="badge", start=40, count=10, rounds=2, test=digits(), device="cpu", epochs=1,
        batch=20, out=folder,
    )  # fmt: skip
    kept = [{name: value for name, value in record.items() if name != "seconds"} for record in loop.history]
    return {"bought": loop.bought, "history": kept}


@dataclass
class Death:
    """Which process is to end, where, and when this one was last at work."""

    rank: int = 1
    folder: Path | None = None
    noticed: float = 0.0


DEATH = Death()


def _die_if_it_is_meant() -> None:
    if distributed.get_rank() == DEATH.rank:
        os.kill(os.getpid(), signal.SIGKILL)


def last_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy, until the second epoch is saved: then one process is killed."""
    DEATH.noticed = time.monotonic()
    history = None if DEATH.folder is None else DEATH.folder / "history.jsonl"
    if history is not None and history.is_file() and len(history.read_text().splitlines()) == 2:
        _die_if_it_is_meant()
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def trained_by_last_losses(folder: Path) -> Found:
    settings: Found = {"epochs": 4, "batch": BATCH, "device": "cpu", "commit_every": 0.0, "out": folder}
    return seen(fit(Recipe(objective=last_losses), network, digits(), **settings))


def killed(folder: Path, rank: int) -> float:
    """How many seconds it takes a process to notice that another one is gone, in the third epoch."""
    DEATH.folder, DEATH.rank = folder, rank
    try:
        trained_by_last_losses(folder)
    except RuntimeError:  # which torch.distributed raises
        return time.monotonic() - DEATH.noticed
    raise AssertionError("the run went on without a process")


def _refusals() -> list[str]:
    """What several processes are told that they cannot do."""
    clean, said = digits().subset(torch.arange(30)), []
    tries: list[tuple[Recipe, Found]] = [
        (Recipe(), {"batch": 1}),
        (Recipe(objective=CrossCorrelation(), views=(Flip(), Flip())), {}),
        (Recipe(each_batch=MetaGradient()), {"clean": clean, "sharded": True}),
        (Recipe(), {"epochs": 1 + distributed.get_rank()}),
    ]
    for recipe, given in tries:
        try:
            fit(recipe, network, digits(), **{"batch": BATCH, "epochs": 1, "device": "cpu", **given})
        except ThresherError as error:
            said.append(str(error))
    return said


def _about_graphs() -> list[str]:
    """What a run says that asks for CUDA graphs, in the first process."""
    said: list[str] = []

    def watch(moment: Any) -> None:
        said.extend([moment.note] if moment.note else [])

    fit("standard", network, digits(), steps=1, batch=BATCH, device="cpu", captured=True, watch=watch)
    return said


def _with_batch_norm() -> Found:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))
        run = fit("prl-l", model, digits(), noise_rate=0.3, batch=BATCH, epochs=2, device="cpu")
    return {"said": " ".join(str(each.message) for each in said), **seen(run)}


def main(rank: int, count: int, folder: Path) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    store = f"file://{folder}/store{count}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
    found: Found = outcomes(folder / f"of{rank}")
    found["resumed"] = go_on(folder / "resumed", count, sharded=count == 2)
    found["sharded on"] = go_on(folder / "sharded on", count, sharded=True)
    found["loop"] = [looped(folder / f"loop{count}") for _ in range(2)]  # the second reads what the first wrote
    found["graphs"] = _about_graphs()
    found["refused"], found["batch norm"] = _refusals(), _with_batch_norm()
    torch.save(found, folder / f"found{count}-{rank}.pt")
    noticed = killed(folder / f"killed{count}", DIES[count])
    (folder / f"noticed{count}-{rank}").write_text(str(noticed))


def _forked(rank: int, count: int, folder: Path) -> int:
    """The id of a new process that is the one of this rank, and then ends without the teardown of an interpreter."""
    if child := os.fork():
        return child
    try:
        main(rank, count, folder)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


def start(counts: tuple[int, ...], folder: Path) -> None:
    """Run all cases in so many processes, one count after the other, and store with which code each process ended."""
    torch.set_num_threads(1)
    fit("standard", network, digits(), steps=1, batch=BATCH, device="cpu")  # which imports what each would import
    for count in counts:
        processes = [_forked(rank, count, folder) for rank in range(count)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        (folder / f"codes{count}").write_text(repr(codes))
