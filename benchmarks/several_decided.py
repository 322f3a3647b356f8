"""What a group of processes decides on a small set, for the benchmark of several processes."""

import json
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from thresher import Examples, Run, acquire, fit, signals
from thresher.methods import acquisition
from thresher.rules import FacilityLocation, streamed_facility_location

CLASSES, WIDTH = 10, 784
Found = dict[str, Any]
DECIDE = ("standard", "prl-l", "prl-g", "co-teaching", "l2rw", "crust", "reclaim")
CHOOSE = ("badge", "s-badge", "coreset", "streamed coreset")


def examples(count: int) -> Examples:
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, WIDTH, generator=draws)
    return Examples(inputs, torch.randint(0, CLASSES, (count,), generator=draws), classes=CLASSES)


def small() -> Examples:
    """Examples in double precision, whose batches no number of processes divides."""
    drawn = examples(503)
    assert isinstance(drawn.inputs, Tensor)
    return replace(drawn, inputs=drawn.inputs[:, :32].double(), checked=False)


class Rows(nn.Module):
    """Inputs, or their part `row`, as rows in double precision."""

    def forward(self, inputs: Tensor | dict[str, Tensor]) -> Tensor:
        return (inputs if isinstance(inputs, Tensor) else inputs["row"]).flatten(1).double()


def small_network(data: Examples) -> nn.Module:
    width = Rows()(next(data.batches([torch.arange(1)]))).shape[1]  # type: ignore[arg-type]
    return nn.Sequential(Rows(), nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, CLASSES)).double()


def decided(method: str, device: str, streamed: Examples | None = None, **more: Any) -> Found:
    """The ledger and parameters of eight epochs of a method, or of two on a stream."""
    data = small() if streamed is None else streamed
    more |= {"clean": data.subset(torch.arange(50))} if method == "l2rw" else {}
    run = fit(
        method, lambda: small_network(data), data, noise_rate=0.4, epochs=8 if streamed is None else 2, batch=50,
        device=device, precision="float32", **more,
    )  # fmt: skip
    values = [value for model in run.models for value in model.state_dict().values()]
    return {"ledger": columns(run), "parameters": [v.full_tensor() if isinstance(v, DTensor) else v for v in values]}


def chosen(name: str, device: str) -> Tensor:
    """The ids of twenty examples to label, in the order of the pool."""
    pool = small()
    model, average = (
        fit("standard", lambda: small_network(pool), pool, epochs=1, seed=seed, device=device).model for seed in (0, 1)
    )
    coreset = FacilityLocation(by=signals.features, count=20, select=_streamed)
    rule = coreset if name == "streamed coreset" else acquisition(name).rule(20)
    more = {"average": average} if name == "s-badge" else {}
    more |= {"labelled": pool.subset(torch.arange(30))} if name == "coreset" else {}
    return acquire(rule, model, pool, batch=32, **more)


def _streamed(embeddings: Tensor, count: int) -> Any:
    return streamed_facility_location(embeddings.split(40), count)


def alike(own: Tensor, its: Tensor) -> Tensor:
    """Where two columns hold the same numbers, or none."""
    return (own == its) | ((own != own) & (its != its))


def columns(run: Run) -> Found:
    """The ledger as tensors."""
    table = run.ledger.table()
    return {name: torch.from_numpy(table[name].to_numpy().copy()) for name in table.column_names}


def compared(count: int, found: Found, alone: Found) -> list[Found]:
    """How far what each method decided is what it decides in one process."""
    rows: list[Found] = []
    for method, run in found["runs"].items():
        its, weights = alone["runs"][method], run["ledger"]["weight"]
        equal = {name: alike(own, its["ledger"][name]) for name, own in run["ledger"].items()}
        apart = [(a - b).abs().max().item() for a, b in zip(run["parameters"], its["parameters"], strict=True)]
        row = {"decides": method, "processes": count, "weights": len(weights)}
        row |= {"same": equal["weight"].double().mean().item(), "left_out": (weights == 0).double().mean().item()}
        rows.append(row | {"whole": all(bool(each.all()) for each in equal.values()), "parameters": max(apart)})
    for name, ids in found["ids"].items():
        same = torch.equal(ids, alone["ids"][name])
        rows.append({"chooses": name, "processes": count, "ids": len(ids), "same": same})
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows
