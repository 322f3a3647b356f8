"""The laws of the engine, each test fails when its law is broken; 2 and 5 to 7 have files of their own."""

import ast
import gc
import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from every_recipe import KEEP, NearOrigin
from tiny import assert_same_tensors, by_id, close, copied, examples, hand_losses, hand_step, net, sgd
from torch import Tensor, nn
from torch.nn import functional

import thresher
from thresher import Recipe, fit, signals, weigh
from thresher.core.evidence import Evidence
from thresher.engine.gradients.strategy import Factored
from thresher.engine.loop.sweeper import Sweeper
from thresher.objectives import CrossEntropy
from thresher.rules import ClipNorm, Decision, KeepLargest, KeepSmallest, Rule, Uniform, from_peer, per_class, product
from thresher.slots.mix import Pairing

SOURCE = Path(thresher.__file__).parent


# 1. Every rule of a step is asked before any optimizer moves.


def test_law_1_every_rule_is_asked_before_any_optimizer_moves() -> None:
    events: list[str] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            events.append("move")
            return super().step(closure)

    def rule(evidence: Evidence) -> Tensor:
        events.append("ask")
        return torch.ones(len(evidence))

    def mix(evidence: Evidence) -> Pairing:
        events.append("ask")
        return Pairing(torch.arange(len(evidence)), torch.ones(len(evidence)))

    recipe = Recipe(peers=2, each_batch=from_peer(rule), mix=mix)
    fit(recipe, net, examples(), steps=3, batch=8, optimizer=lambda p: Watched(p, lr=0.1), device="cpu")
    assert events == ["ask", "ask", "ask", "move", "move"] * 3


def test_law_1_both_peers_are_judged_as_they_were_before_the_step() -> None:
    """The second network's rule must see the first one's losses from before it moved."""
    train, models = examples(8), [net(seed=1), net(seed=2)]
    before = [functional.cross_entropy(m(train.inputs), train.targets, reduction="none").detach() for m in models]
    supply, seen = iter(models), []

    def rule(evidence: Evidence) -> Tensor:
        peer = evidence.other("peer")
        seen.append((evidence.ids, evidence.losses.detach(), peer.losses.detach()))
        return torch.ones(len(evidence))

    class Reads(type(from_peer(rule))):  # declares that the peer is read, and reads it and its own
        def __call__(self, evidence: Evidence) -> Any:
            return self.rule(evidence)

    fit(Recipe(peers=2, each_batch=Reads(rule)), lambda: next(supply), train, steps=1, batch=8, optimizer=sgd)
    order = torch.stack([(train.ids == i).nonzero()[0, 0] for i in seen[0][0]])
    torch.testing.assert_close(seen[0][1], before[0][order])
    torch.testing.assert_close(seen[0][2], before[1][order])
    torch.testing.assert_close(seen[1][1], before[1][order])
    torch.testing.assert_close(seen[1][2], before[0][order])


class WhoAmI(Rule):
    """Tells each network in turn its place, as a column."""

    asked = itertools.count()

    def __call__(self, evidence: Evidence) -> Decision:
        place = next(self.asked) % 2
        return Decision(torch.ones(len(evidence)), {"place": torch.full((len(evidence),), place)})


def test_every_peer_gets_the_columns_of_its_own_decision() -> None:
    seen = []

    def rule(evidence: Evidence) -> Tensor:
        seen.append(evidence.columns["place"].unique().tolist())
        return torch.ones(len(evidence))

    fit(Recipe(peers=2, each_epoch=WhoAmI(), each_batch=rule), net, examples(), epochs=2, batch=22, device="cpu")
    assert seen == [[0], [1]] * 4


# 3. Sweeps run in eval mode, without augmentation, and touch no buffer and no global random state.


class Spy(nn.Module):
    """Notes in which mode it was called, and on how many examples."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[bool, int]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls.append((self.training, len(inputs)))
        return inputs


def everything_random() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002


def test_law_3_sweeps_leave_no_trace() -> None:
    train, spy = examples(44), Spy()
    model = nn.Sequential(net(dropout=0.5, batch_norm=True, seed=0), spy)
    viewed = [0]

    def view(images: Tensor, generator: torch.Generator) -> Tensor:
        viewed[0] += 1
        return images + torch.randn(images.shape, generator=generator)

    recipe = Recipe(each_epoch=KeepSmallest(by=signals.loss, fraction=0.8), views=(view,), average=0.9)
    before = everything_random()
    run = fit(
        recipe, model, train, epochs=3, batch=8, test=examples(20, seed=1), validation=examples(20, seed=2),
        keep="best_on_validation", device="cpu",
    )  # fmt: skip
    assert everything_random() == before
    steps = sum(record["steps"] for record in run.history)
    assert [size for training, size in spy.calls if training] == [8] * steps
    assert {size for training, size in spy.calls if not training} >= {44, 20}
    # One more to see at the start whether the view fits, and one each epoch for the statistics of the average.
    assert viewed[0] == steps + 1 + 3
    best = max(run.history, key=lambda record: record["validation"])
    counted = [b for name, b in model.named_buffers() if name.endswith("num_batches_tracked")]
    assert counted[0] == sum(record["steps"] for record in run.history[: best["epoch"]])


def test_law_3_views_that_draw_from_the_global_generator_leave_no_trace_either() -> None:
    def jitter(images: Tensor, _: torch.Generator) -> Tensor:
        return images + torch.randn_like(images)

    averages = []
    for outside in (1, 2):
        model = net(batch_norm=True, seed=0)
        torch.manual_seed(outside)
        before = everything_random()
        run = fit(Recipe(views=(jitter,), average=0.9), model, examples(44), epochs=2, batch=8, device="cpu")
        assert everything_random() == before
        averages.append(list(run.averages[0].state_dict().values()))
    assert_same_tensors(*averages)


@pytest.mark.parametrize("wanted", [signals.loss, signals.gradient_norm], ids=["loss", "gradient norm"])
def test_law_3_one_sweep(wanted: signals.Signal) -> None:
    train, model = examples(30), net(dropout=0.5, batch_norm=True, seed=0)
    model[0].eval()
    state, modes, random_state = copied(model.state_dict()), [m.training for m in model.modules()], everything_random()
    swept = Sweeper(batch=7, strategy=Factored((signals.gradient_norm,)))(model, CrossEntropy(), train, wanted=[wanted])
    assert_same_tensors(list(state.values()), list(model.state_dict().values()))
    assert [m.training for m in model.modules()] == modes
    assert everything_random() == random_state
    assert all(p.grad is None for p in model.parameters())
    torch.testing.assert_close(swept.outputs, model.eval()(train.inputs).detach(), rtol=1e-5, atol=1e-6)
    assert not swept.outputs.requires_grad


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_law_3_an_interrupted_run_leaves_the_random_state(error: type[BaseException]) -> None:
    def stop(moment: Any) -> None:
        if moment.step == 2:
            raise error("stop")

    before = everything_random()
    with pytest.raises(error) as caught:
        fit(Recipe(), net(dropout=0.5, seed=0), examples(), epochs=1, batch=8, watch=stop, device="cpu")
    assert everything_random() == before
    del caught
    torch.rand(3)
    before = everything_random()
    gc.collect()
    assert everything_random() == before


def test_law_3_weigh_leaves_no_trace() -> None:
    train, model = examples(30), net(dropout=0.5, batch_norm=True, seed=0)
    state, random_state = copied(model.state_dict()), everything_random()
    for rule in (KEEP, KeepLargest(by=signals.entropy, count=2), product(KEEP, per_class(KEEP)), NearOrigin()):
        weigh(rule, model, train.inputs, train.targets)
    assert_same_tensors(list(state.values()), list(model.state_dict().values()))
    assert everything_random() == random_state
    assert model.training
    assert all(p.grad is None for p in model.parameters())


# 4. Batch weight = epoch weight × batch rule's weight.


@pytest.mark.parametrize("norms", [False, True], ids=["plain", "factored"])
def test_law_4_epoch_weight_times_batch_weight(norms: bool) -> None:
    train, model, twin = examples(24), net(seed=1), net(seed=1)
    batch_rule: Any = by_id(lambda ids: 1 + ids % 2)
    batch_rule = product(batch_rule, ClipNorm(1e9)) if norms else batch_rule
    recipe = Recipe(each_epoch=by_id(lambda ids: ids % 4 * 0.5), each_batch=batch_rule)
    run = fit(recipe, model, train, epochs=1, batch=len(train) * 3 // 4, optimizer=sgd, device="cpu")
    table = run.ledger.to_pandas()
    assert (
        table["weight"][table["visited"]] == (table["id"] % 4 * 0.5 * (1 + table["id"] % 2))[table["visited"]]
    ).all()
    assert (table["visited"] == (table["id"] % 4 > 0)).all()
    assert (table["weight"][~table["visited"]] == 0).all()
    assert (table["kept"] == (table["weight"] > 0)).all()
    w = train.ids % 4 * 0.5 * (1 + train.ids % 2)
    close(model, hand_step(twin, (w * hand_losses(twin, train.inputs, train.targets)).sum() / w.sum()))


# 8. Rules know nothing of processes or devices.

RULES: dict[str, Any] = {
    "smallest": KEEP,
    "smallest gradient": KeepSmallest(by=signals.gradient_norm, fraction=0.4),
    "largest": KeepLargest(by=signals.entropy, count=5),
    "clip": ClipNorm(0.5),
    "uniform": Uniform(),
    "per class": per_class(KEEP, of=signals.given),
    "product": product(KEEP, ClipNorm(0.5)),
    "features": NearOrigin(),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_law_8_the_order_of_a_batch_does_not_matter(rule: Any) -> None:
    train, model = examples(20), net(seed=0)
    shuffle = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    weights = weigh(rule, model, train.inputs, train.targets)
    torch.testing.assert_close(weigh(rule, model, train.inputs[shuffle], train.targets[shuffle]), weights[shuffle])
    again = weigh(rule, model.double(), train.inputs.double(), train.targets)
    torch.testing.assert_close(again.float(), weights, rtol=1e-4, atol=1e-5)


# What may differ from one device to another, and why: these functions of core/chunks.py say how arrays are worked
# through in memory, and change no result (test_coreset.py runs what reads them as on another device, too).
MEMORY = {
    "rows_at_once": "a block should fit into the cache of a CPU, and fill another device",
    "product_type": "single precision keeps its digits on the host only",
    "multiply": "numpy keeps the digits of single precision, whatever torch was told",
    "places_below": "numpy finds places several times as quickly as torch on the host",
    "places_of_least": "numpy finds the least several times as quickly as torch on the host",
    "one_thread": "small blocks are quicker in one thread",
}
ASKS = {"is_cuda", "is_cpu", "is_mps", "is_xpu", "is_meta", "get_device", "get_device_name", "current_device"}
PROCESSES = {"cuda", "mps", "distributed", "get_rank", "multiprocessing", "accelerator", "cpu_count"}
IMPORTS = {"abc", "collections", "copy", "dataclasses", "enum", "functools", "itertools", "math", "numbers", "numpy"}
IMPORTS |= {"thresher", "torch", "typing", "warnings"}
READERS = [
    *sorted(SOURCE.glob("rules/**/*.py")),
    *sorted(SOURCE.glob("objectives/*.py")),
    *(SOURCE / "core" / f"{name}.py" for name in ("evidence", "objective", "rule", "schedules", "signals")),
]


def is_device(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "device") or (
        isinstance(node, ast.Name) and node.id == "device"
    )


def asks_about_a_device(node: ast.AST) -> bool:
    """Whether the code does more with a device than to pass it on: compares it, tests it, or reads a part of it."""
    if isinstance(node, ast.Compare):
        return any(is_device(side) for side in (node.left, *node.comparators))
    if isinstance(node, ast.Attribute):
        return is_device(node.value) or node.attr in ASKS
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        return is_device(node.test)
    if isinstance(node, ast.BoolOp):
        return any(map(is_device, node.values))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id != "_scalar" and any(map(is_device, node.args))
    if isinstance(node, ast.Match):
        return is_device(node.subject)
    return isinstance(node, ast.FormattedValue) and is_device(node.value)


@pytest.mark.parametrize("path", READERS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_law_8_what_reads_evidence_knows_nothing_of_processes_or_devices(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert {name.split(".")[0] for name in names} <= IMPORTS
        assert not {"torch.distributed", "torch.cuda", "torch.multiprocessing"} & set(names)
        if isinstance(node, ast.ImportFrom) and node.module == "thresher.core.chunks":
            assert {alias.name for alias in node.names} <= MEMORY.keys()
        if isinstance(node, ast.ImportFrom) and node.module == "thresher.core":
            assert "chunks" not in {alias.name for alias in node.names}, "import its functions, one by one"
        if isinstance(node, ast.Attribute):
            assert node.attr not in PROCESSES
        assert not asks_about_a_device(node), f"line {node.lineno} asks which device it is on"  # type: ignore[attr-defined]


def test_law_8_the_functions_about_memory_are_named_above() -> None:
    tree = ast.parse((SOURCE / "core" / "chunks.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in functions if not name.startswith("_")} == MEMORY.keys()
    asking = {name for name, body in functions.items() if any(map(asks_about_a_device, ast.walk(body)))}
    assert asking == {"_on_host"}


@pytest.mark.parametrize(
    "code",
    [
        'x.device.type == "cpu"',
        'x.device == torch.device("cpu")',
        "x.is_cuda",
        "1 if x.device else 2",
        'str(x.device) == "cpu"',
        'f"{x.device}"',
        "device.index",
        "x.get_device()",
        "match x.device:\n  case _: pass",
    ],
)
def test_law_8_questions_about_a_device_are_recognised(code: str) -> None:
    assert any(map(asks_about_a_device, ast.walk(ast.parse(code))))
    passed_on = "torch.zeros(3, device=x.device); y.to(x.device); device = x.device; torch.rand(2, device=device)"
    assert not any(map(asks_about_a_device, ast.walk(ast.parse(passed_on))))


# 9. Wrong input fails at the start: see test_refusals.py.
