"""Work that can go on beside the rest of a captured step."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Aside:
    """Work that needs nothing of what the step does from here on; while a graph is recorded it gets its own stream.

    The pass over the clean batch is one: a small network leaves most of a GPU idle, so the clean pass and the training
    pass cost little more together than the longer of them alone. Outside a recording the work is done in its turn,
    with the same result. What it makes may be used after it: the step waits for it at its end.
    """

    def __init__(self, device: torch.device) -> None:
        self.start: torch.cuda.Event | None = None
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            self.start = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.start.record()

    @contextmanager
    def work(self) -> Iterator[None]:
        if self.start is None:
            yield
            return
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_event(self.start)
        with torch.cuda.stream(stream), warnings.catch_warnings():
            # Gradients of parameters meet in nodes of the main stream: autograd makes it wait, as we do right after.
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")
            yield
        torch.cuda.current_stream().wait_stream(stream)
