"""How long a training will take on a CPU, from the time of one pass, before it begins."""

import time

import torch

from thresher.core.examples import Examples
from thresher.core.seeding import preserved
from thresher.data.decoded import in_time
from thresher.models import build, default_model

QUICK = 0.5  # seconds below which a pass is timed again with more examples, to be more exact
BACKWARD_TOO = 3.0  # a backward pass takes about twice as long as a forward pass
WORTH_SAYING = 60.0  # seconds of training


def about_time(model: str, train: Examples, epochs: float, device: torch.device) -> str | None:
    """What to say before larger images are trained on a CPU: how long it takes, and what would be quicker."""
    if device.type != "cpu" or len(train.input_shape) != 3 or max(train.input_shape) <= 28:
        return None
    quick = default_model(train.input_shape, on_cpu=True)
    seconds = seconds_an_example(model, train) * len(train) * epochs
    height, width = train.input_shape[-2:]
    if model == quick:
        took = f": about {in_time(seconds)}" if seconds > WORTH_SAYING else ""
        return f"There is no GPU, so {model} is trained on images of {height} x {width} pixels{took}."
    if seconds < WORTH_SAYING:
        return None
    other = seconds_an_example(quick, train) * len(train) * epochs
    if other > seconds:
        return f"There is no GPU: {model} takes about {in_time(seconds)}."
    return (
        f"There is no GPU: {model} on {height} x {width} pixels takes about {in_time(seconds)}, --model {quick} "
        f"about {in_time(other)}; fewer --epochs or smaller images (DATA:32) help as well."
    )


def seconds_an_example(name: str, train: Examples) -> float:
    """The time of a step of this model for one example on the CPU: three times that of a forward pass."""
    with preserved(torch.device("cpu")):
        model = build(name, input_shape=train.input_shape, outputs=train.outputs)
        _pass(model, train.input_shape, 2)  # the first pass of a process takes longer
        taken = _pass(model, train.input_shape, 2)
        return taken / 2 if taken > QUICK else _pass(model, train.input_shape, 16) / 16


def _pass(model: torch.nn.Module, input_shape: tuple[int, ...], count: int) -> float:
    inputs = torch.randn(count, *input_shape)
    begun = time.perf_counter()
    with torch.no_grad():
        model(inputs)
    return BACKWARD_TOO * (time.perf_counter() - begun)
