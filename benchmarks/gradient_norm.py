"""What a step costs that keeps the examples with the smallest gradient norms, against a plain step.

Every contestant takes exact gradient norms of all examples, keeps the smallest 60% and moves the parameters by the mean
gradient of those. Times are medians of interleaved steps in one process; peak memory is of a process of its own.

    python benchmarks/gradient_norm.py --rounds 5 --batch 128
"""

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial

import torch
from timing import medians, peak_memory, take_turns
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from thresher.engine.gradients.factored import record
from thresher.models import CNN9, batch_to_group_norm

Step = Callable[[Tensor, Tensor], None]


def network() -> nn.Module:
    """The nine-layer CNN of Co-teaching with GroupNorm and without dropout, which vmap(grad) refuses."""
    torch.manual_seed(0)
    return batch_to_group_norm(CNN9((3, 32, 32), 10, dropout=lambda _: nn.Identity()))


def smallest(norms: Tensor, fraction: float = 0.6) -> Tensor:
    """Weights [n] that average over the examples with the smallest norms."""
    count = round(fraction * len(norms))
    return torch.zeros_like(norms).scatter(0, norms.topk(count, largest=False).indices, 1 / count)


def plain(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def factored(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad()
        with record(model) as recorder:
            outputs = model(inputs)
        factors = recorder.differentiate(cross_entropy(outputs, targets, reduction="none"))
        factors.accumulate(smallest(factors.norms()))
        optimizer.step()

    return step


def opacus(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    warnings.filterwarnings("ignore")  # Opacus's own, about backward hooks
    from opacus import GradSampleModule

    wrapped = GradSampleModule(model, loss_reduction="sum")

    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad()
        cross_entropy(wrapped(inputs), targets, reduction="sum").backward()  # type: ignore[no-untyped-call]
        samples: list[Tensor] = [parameter.grad_sample for parameter in model.parameters()]  # type: ignore[attr-defined]
        weights = smallest(torch.stack([each.flatten(1).norm(dim=1) for each in samples]).norm(dim=0))
        for parameter, each in zip(model.parameters(), samples, strict=True):
            parameter.grad = torch.tensordot(weights, each, 1)
            parameter.grad_sample = None  # type: ignore[attr-defined]
        optimizer.step()

    return step


def by_vmap(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def loss(parameters: dict[str, Tensor], example: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, parameters, (example[None],)), target[None])

    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad()
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
        samples = vmap(grad(loss), (None, 0, 0))(parameters, inputs, targets)
        weights = smallest(torch.stack([each.flatten(1).norm(dim=1) for each in samples.values()]).norm(dim=0))
        for name, parameter in model.named_parameters():
            parameter.grad = torch.tensordot(weights, samples[name], 1)
        optimizer.step()

    return step


CONTESTANTS = {"plain": plain, "factored": factored, "opacus": opacus, "vmap": by_vmap}


def make(name: str) -> Step:
    model = network()
    return CONTESTANTS[name](model, torch.optim.Adam(model.parameters(), 1e-3))


def peak_of(name: str, batch: int) -> float:
    """MiB of resident memory at the peak of two steps in a fresh process."""
    command = [sys.executable, __file__, "--only", name, "--batch", str(batch)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", choices=CONTESTANTS, help="two steps of one contestant; prints its peak memory")
    settings = parser.parse_args()
    torch.set_num_threads(settings.threads)
    inputs, targets = torch.randn(settings.batch, 3, 32, 32), torch.randint(0, 10, (settings.batch,))
    if settings.only:
        step = make(settings.only)
        for _ in range(2):
            step(inputs, targets)
        print(peak_memory())
        return
    print(f"GroupNorm cnn9, batch {settings.batch}, {settings.threads} threads, medians of {settings.rounds}")
    steps = {name: partial(make(name), inputs, targets) for name in CONTESTANTS}
    medians(take_turns(steps, settings.rounds), base="plain")
    for name in CONTESTANTS:
        print(f"  {name:22}{peak_of(name, settings.batch):8.0f} MiB at the peak")


if __name__ == "__main__":
    main()
