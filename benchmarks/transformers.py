"""What a training step of a language model costs that weighs its sequences, against a plain step written by hand.

    python benchmarks/transformers.py results/transformers-gpu.jsonl     # GPT-2 small, sequences of 512, bf16, on CUDA
    python benchmarks/transformers.py --tiny                             # a tiny one on the CPU, in seconds
    python benchmarks/transformers.py results/transformers-cpu.jsonl --tiny --rounds 60 --seconds 900

All train the same GPT-2, built from its config, once whole and once by LoRA. Standard is written by hand; standard,
prl-l, prl-g and l2rw (with a clean batch of a quarter) are steps of the engine. Beside them: the sequences with the
smallest gradient norms kept by vmap(grad), and norms clipped by Opacus's ghost clipping, where it is installed, on a
copy whose head is untied and whose Conv1D layers are Linear ones, which Opacus needs. Contestants take turns in one
process; memory is the peak of a step, with parameters and the optimizer's state.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.append(sys.path.pop(0))  # this folder last, or this file would be imported as the package of its name

import torch
from timing import write
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from thresher import Examples, Recipe, signals
from thresher.core.evidence import Now
from thresher.core.rule import needs_of, signals_of
from thresher.engine.device.placement import autocast_on
from thresher.engine.start.gradient_trial import choose_strategy
from thresher.engine.step.forward import Batch
from thresher.engine.step.learner import Learner
from thresher.engine.step.passes import Passes
from thresher.engine.step.step import Step
from thresher.objectives import PositionCrossEntropy
from thresher.record.epoch_rows import EpochRows
from thresher.rules import KeepSmallest, MetaGradient

KEPT = 0.6
RECIPES = {
    "standard": Recipe(),
    "prl-l": Recipe(each_batch=KeepSmallest(by=signals.output_gradient_norm, fraction=KEPT)),
    "prl-g": Recipe(each_batch=KeepSmallest(by=signals.gradient_norm, fraction=KEPT)),
    "l2rw": Recipe(each_batch=MetaGradient()),
}
GOALS = {"standard": 1.05, "prl-l": 1.05, "prl-g": 1.3, "l2rw": 1.6}
MEMORY_GOAL = 1.3
Work = Callable[[], object]


@dataclass(frozen=True)
class Size:
    """A GPT-2, its batches, and how often each contestant has a turn."""

    words: int = 50_257
    width: int = 768
    layers: int = 12
    heads: int = 12
    length: int = 512
    batch: int = 32
    clean: int = 8
    rank: int = 8
    warm: int = 3
    rounds: int = 12


TINY = Size(words=500, width=64, layers=2, heads=2, length=48, batch=16, clean=4, rank=4, warm=1, rounds=3)


class Tokens(nn.Module):
    """A language model as a function of token ids [n, T] that returns its outputs alone, [n, T, words]."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        outputs: Tensor = self.model(input_ids=ids, use_cache=False).logits
        return outputs


def next_token(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of each sequence [n], from outputs [n, T, words] and targets [n, T], -100 for none."""
    flat = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
    tokens = flat.reshape(targets.shape)
    return tokens.sum(1) / (targets != -100).sum(1)


def sequences(size: Size, count: int, seed: int, device: torch.device) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, size.words, (count, size.length), generator=generator).to(device)
    targets = functional.pad(ids[:, 1:], (0, 1), value=-100)
    return Batch(torch.arange(count, device=device), torch.arange(count, device=device), ids, targets, {})


def network(size: Size, lora: bool, device: torch.device, tied: bool = True) -> nn.Module:
    import peft
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=size.words, n_embd=size.width, n_layer=size.layers, n_head=size.heads, n_positions=size.length,
        bos_token_id=0, eos_token_id=0, tie_word_embeddings=tied,
    )  # fmt: skip
    with device:
        model = transformers.GPT2LMHeadModel(config)
        if lora:
            how = peft.LoraConfig(r=size.rank, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
            model = peft.get_peft_model(model, how)
    return Tokens(model).to(device).train()


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4)


def trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@dataclass(frozen=True)
class Contestant:
    """One way to make a step, with what it keeps between steps."""

    step: Work
    model: nn.Module
    optimizer: torch.optim.Optimizer

    def resident(self) -> int:
        """Bytes of the parameters and of the optimizer's state."""
        held = [value for state in self.optimizer.state.values() for value in state.values()]
        tensors = {id(value): value for value in [*self.model.parameters(), *held] if isinstance(value, Tensor)}
        return sum(value.numel() * value.element_size() for value in tensors.values())


@dataclass(frozen=True)
class Setting:
    """What all contestants are given."""

    size: Size
    lora: bool
    device: torch.device
    batch: Batch
    clean: Batch

    @property
    def precision(self) -> torch.dtype | None:
        return torch.bfloat16 if self.device.type == "cuda" else None  # which CPUs are slow at

    def autocast(self) -> AbstractContextManager[Any]:
        return autocast_on(self.device, self.precision)()


def by_hand(given: Setting) -> Contestant:
    model = network(given.size, given.lora, given.device)
    optimizer = torch.optim.AdamW(trained(model), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with given.autocast():
            outputs = model(given.batch.inputs)
        next_token(outputs.float(), given.batch.targets).mean().backward()
        optimizer.step()

    return Contestant(step, model, optimizer)


def ours(given: Setting, name: str) -> Contestant:
    """A step of the engine, ledger included."""
    model, recipe, objective = network(given.size, given.lora, given.device), RECIPES[name], PositionCrossEntropy()
    learner = Learner(model, objective, adamw, None)
    clean = given.clean if "clean" in needs_of(recipe.each_batch) else None
    few = [None if batch is None else _first(batch) for batch in (given.batch, clean)]
    strategy = choose_strategy(model, objective, signals_of(recipe.each_batch), *few, None)
    rows = EpochRows(Examples(given.batch.inputs, given.batch.targets))
    step = Step(recipe, Passes(recipe, [learner], None, given.autocast, strategy, None), [rows], given.size.batch)
    now = Now(0, 1.0, torch.Generator(given.device), {})
    return Contestant(lambda: step(given.batch, [given.batch], None, now, clean=clean), model, learner.optimizer)


def _first(batch: Batch) -> Batch:
    """Two sequences, enough to find out how the model can be differentiated."""
    return Batch(*(part[:2] for part in (batch.rows, batch.ids, batch.inputs, batch.targets)), {})


def smallest(norms: Tensor) -> Tensor:
    """Weights [n] that average over the sequences with the smallest norms."""
    count = round(KEPT * len(norms))
    return torch.zeros_like(norms).scatter(0, norms.topk(count, largest=False).indices, 1 / count)


def by_vmap(given: Setting) -> Contestant:
    """vmap does not go through autocast: the whole model is copied to the lower precision in every step."""
    model = network(given.size, given.lora, given.device)
    optimizer = torch.optim.AdamW(trained(model), lr=1e-4, fused=True)
    own, dtype = dict(model.named_parameters()), given.precision or torch.float32

    def loss(parameters: dict[str, Tensor], frozen: dict[str, Tensor], ids: Tensor, targets: Tensor) -> Tensor:
        outputs = functional_call(model, (parameters, frozen), (ids[None],))
        return next_token(outputs.float(), targets[None])[0]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        copies = {name: value.detach().to(dtype) for name, value in own.items()}
        parameters = {name: copies.pop(name) for name, value in own.items() if value.requires_grad}
        each = vmap(grad(loss), (None, None, 0, 0), randomness="different")
        samples = each(parameters, copies, given.batch.inputs, given.batch.targets)
        weights = smallest(torch.stack([s.flatten(1).float().norm(dim=1) for s in samples.values()]).norm(dim=0))
        for name, sample in samples.items():
            own[name].grad = torch.tensordot(weights.to(dtype), sample, 1).float()
        optimizer.step()

    return Contestant(step, model, optimizer)


class EachItsPositions(nn.Module):
    """A GPT-2 that gets positions [n, T] rather than [1, T], which Opacus needs."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1)
        outputs: Tensor = self.model(input_ids=ids, position_ids=positions, use_cache=False).logits
        return outputs


def with_linear_layers(model: nn.Module) -> nn.Module:
    """The same model with Linear layers in the place of Conv1D ones."""
    for name, layer in list(model.named_modules()):
        if type(layer).__name__ == "Conv1D":
            linear = nn.Linear(*layer.weight.shape, device=layer.weight.device)
            linear.weight.data.copy_(layer.weight.data.mT)
            linear.bias.data.copy_(layer.bias.data)
            linear.requires_grad_(layer.weight.requires_grad)
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, linear)
    return model


def by_opacus(given: Setting) -> Contestant:
    warnings.filterwarnings("ignore")  # Opacus's own, about backward hooks
    from opacus.grad_sample import GradSampleModuleFastGradientClipping

    inner = network(given.size, given.lora, given.device, tied=False).model
    model = EachItsPositions(inner if given.lora else with_linear_layers(inner)).train()
    wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True, strict=False)
    optimizer = torch.optim.AdamW(trained(model), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        wrapped.enable_hooks()
        with given.autocast():
            outputs = wrapped(given.batch.inputs)
        losses = next_token(outputs.float(), given.batch.targets)
        losses.mean().backward(retain_graph=True)
        shares = wrapped.get_clipping_coef().float() / len(losses)
        optimizer.zero_grad(set_to_none=True)
        wrapped.disable_hooks()
        shares.dot(losses).backward()
        optimizer.step()

    return Contestant(step, model, optimizer)


CONTESTANTS: dict[str, Callable[[Setting], Contestant]] = {
    "by hand": by_hand,
    **{name: partial(ours, name=name) for name in RECIPES},
    "vmap(grad)": by_vmap,
    "opacus ghost": by_opacus,
}


def finished(device: torch.device) -> float:
    """Now, after all work given to the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def peak(contestant: Contestant) -> float | None:
    """MiB on the GPU at the peak of a step, parameters and optimizer's state included."""
    if not torch.cuda.is_available():
        return None
    for parameter in contestant.model.parameters():
        parameter.grad = None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    contestant.step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before + contestant.resident()) / 2**20


@dataclass
class Race:
    """Contestants that take turns until the time is up; one that fails leaves the others where they are."""

    given: Setting
    ready: dict[str, Contestant] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)  # seconds of every turn that counts
    memory: dict[str, float | None] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def tried(self, who: str, work: Callable[[], Any]) -> Any:
        """What the work gives; where it fails the contestant is out, and its row says why."""
        try:
            return work()
        except Exception as error:
            self.failed[who] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            print(f"  {who:14} is out: {self.failed[who]}", flush=True)
            self.ready.pop(who, None)
            if self.given.device.type == "cuda":
                torch.cuda.empty_cache()
            return None

    def enter(self, deadline: float) -> None:
        """Make every contestant, let it warm up, and see what it holds."""
        for who, make in CONTESTANTS.items():
            if time.monotonic() > deadline and self.ready:
                self.failed[who] = "there was no time left"
                continue
            began = time.monotonic()
            contestant = self.tried(who, partial(make, self.given))
            if contestant is None:
                continue
            self.ready[who], self.times[who] = contestant, []
            for _ in range(self.given.size.warm):
                if who in self.ready:
                    self.tried(who, contestant.step)
            if who in self.ready:
                self.memory[who] = self.tried(who, partial(peak, contestant))
                print(f"  {who:14} is ready after {time.monotonic() - began:.1f} s", flush=True)

    def run(self, deadline: float) -> None:
        """Rounds in which each has a turn; a round that is not finished in time does not count."""
        for turn in range(self.given.size.rounds):
            taken = {}
            for who, contestant in list(self.ready.items()):
                started = finished(self.given.device)
                self.tried(who, contestant.step)
                taken[who] = finished(self.given.device) - started
                if time.monotonic() > deadline and turn:
                    return
            for who in self.ready:
                self.times[who].append(taken[who])

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each contestant: seconds a step and memory, as medians and as ratios to the step by hand."""
        base, held = self.times.get("by hand", []), self.memory.get("by hand")
        for who in CONTESTANTS:
            row: dict[str, Any] = {"who": who, "lora": self.given.lora}
            if who in self.ready and base:
                row |= compared(who, self.times[who], base, self.memory[who], held)
            else:
                row["failed"] = self.failed.get(who, "the step by hand failed")
            yield row


def compared(
    who: str, taken: Sequence[float], base: Sequence[float], memory: float | None, held: float | None
) -> dict[str, Any]:
    """The figures of one contestant; printed too."""
    ratio = statistics.median(one / other for one, other in zip(taken, base, strict=True))
    row: dict[str, Any] = {"seconds": statistics.median(taken), "against_hand": ratio, "turns": len(taken)}
    line = f"  {who:14}{row['seconds'] * 1e3:9.1f} ms{ratio:7.2f}x"
    if who in GOALS:
        row["goal"] = GOALS[who]
        line += f" (goal {GOALS[who]:.2f}x)"
    if memory is not None and held is not None:
        row |= {"memory_mib": round(memory), "memory_against_hand": memory / held, "memory_goal": MEMORY_GOAL}
        line += f"{memory:10.0f} MiB{memory / held:7.2f}x"
    print(line, flush=True)
    return row


def show_kernels(race: Race) -> None:
    """Print where the steps of all contestants spend the device's time."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = race.given.device.type == "cuda"
    for who, contestant in race.ready.items():
        with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
            contestant.step()
            finished(race.given.device)
        print(who, seen.key_averages().table(sort_by=f"self_{race.given.device.type}_time_total", row_limit=18,
                                             max_name_column_width=90), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU")
    parser.add_argument("--seconds", type=float, default=95.0, help="at most, for both, without the first imports")
    parser.add_argument(
        "--rounds", type=int, help="how many turns each has; three of a tiny one, twelve of GPT-2 small"
    )
    parser.add_argument("--kernels", action="store_true", help="print where each step spends its time, too")
    settings = parser.parse_args()
    for package in ("transformers", "peft"):  # which takes long the first time
        import_module(package)
    began = time.monotonic()
    device = torch.device("cpu" if settings.tiny else "cuda")
    size = TINY if settings.tiny else Size()
    size = replace(size, rounds=settings.rounds or size.rounds)
    if settings.tiny:
        torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    rows: list[dict[str, Any]] = []
    for part, lora in enumerate((False, True)):
        print(f"GPT-2, {'LoRA' if lora else 'whole'}, batch {size.batch} + {size.clean} of {size.length}", flush=True)
        end = began + settings.seconds * (0.55, 1.0)[part]
        batch, clean = sequences(size, size.batch, 0, device), sequences(size, size.clean, 1, device)
        race = Race(Setting(size, lora, device, batch, clean))
        race.enter(end - settings.seconds / 8)
        race.run(end)
        if settings.kernels:
            show_kernels(race)
        rows += [row | vars(size) for row in race.rows()]
        write(rows, settings.out, torch.get_num_threads(), device.type)


if __name__ == "__main__":
    main()
