"""Where and how a run computes: the device, the precision, and models that torch.compile has compiled."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import Lock
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parameter import is_lazy

from thresher.core.errors import ThresherError

Precision = torch.dtype | None
Autocast = Callable[[], AbstractContextManager[Any]]  # gives what a forward pass runs inside
Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]
MODELS = 256  # that one process may compile, each for a size of batch of its own; torch would stop at 8


def find_device(wanted: torch.device | str | None) -> torch.device:
    """The device that is wanted, or CUDA where there is one."""
    name = ("cuda" if torch.cuda.is_available() else "cpu") if wanted is None else wanted
    try:
        device = torch.device(name)
        if device.type == "cuda" and device.index is None and several():
            device = torch.device("cuda", torch.cuda.current_device())
        torch.empty(0, device=device)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ThresherError(f"There is no device '{name}' here ({reason}): choose another, such as cpu.") from error
    return device


def several() -> bool:
    """Whether this process is one of a group that trains together."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def precision_on(wanted: Precision, device: torch.device) -> Precision:
    """bfloat16 on CUDA unless something else is wanted; None stands for plain float32."""
    if wanted is None and device.type == "cuda":
        return torch.bfloat16
    return None if wanted == torch.float32 else wanted


def autocast_on(device: torch.device, precision: Precision) -> Autocast:
    """What gives the context in which this device computes in this precision."""
    if precision is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=precision, cache_enabled=False)


def placed(model: nn.Module, device: torch.device, channels_last: bool) -> nn.Module:
    """The model itself, on this device; where images are to be channels last, so are its parameters."""
    for name, each in (*model.named_parameters(), *model.named_buffers()):
        if each.is_meta and not is_lazy(each):
            raise ThresherError(f"The model's {name} is on the device meta, without numbers: make it on the CPU.")
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to(device)


def shard_of(tensor: Tensor) -> Tensor:
    """This process's shard of a tensor, which shares its memory; the tensor itself where it is whole."""
    kinds = sys.modules.get("torch.distributed.tensor")  # not imported: then nothing is sharded
    return tensor.to_local() if kinds is not None and isinstance(tensor, kinds.DTensor) else tensor


def plain(model: nn.Module) -> nn.Module:
    """The model itself, also where `torch.compile(model)` has wrapped it: its names are then its own."""
    inner = getattr(model, "_orig_mod", model)
    assert isinstance(inner, nn.Module)
    return inner


def compiler_of(model: nn.Module, wanted: bool) -> Compiler | None:
    """What compiles the passes of a model: its owner's choice where `torch.compile(model)` wrapped it, else ours."""
    if plain(model) is not model:
        if model._forward_hooks or model._forward_pre_hooks:
            raise ThresherError(
                "A compiled model has hooks that training would not call: put them on the model itself."
            )
        owners: Compiler = model.dynamo_ctx  # type: ignore[assignment]
        return owners
    return partial(torch.compile, dynamic=False) if wanted else None


@contextmanager
def compiling(models: Sequence[nn.Module], compilers: Sequence[Compiler | None]) -> Iterator[None]:
    """The models compiled for the one size of a batch; afterwards, when batches of any size may come, as they were.

    This is what `model.compile()` does, but for models whose `forward` is PyTorch's own: it skips an nn.Sequential.
    """
    before = [model._compiled_call_impl for model in models]
    for model, compiler in zip(models, compilers, strict=True):
        if compiler is not None:
            model._compiled_call_impl = compiler(_passes(model))
    try:
        with _LIMITS:
            yield
    finally:
        for model, call in zip(models, before, strict=True):
            model._compiled_call_impl = call


def _passes(model: nn.Module) -> Callable[..., Any]:
    def run(*inputs: Any, **named: Any) -> Any:
        return model._call_impl(*inputs, **named)  # type: ignore[no-untyped-call]

    return run


def as_written() -> AbstractContextManager[object]:
    """Inside, a compiled model runs as it was written, layer by layer.

    What looks into a model needs this: hooks, derivatives of single examples, other parameters in place of its own.
    """
    if "torch._dynamo" not in sys.modules:  # then nothing was compiled, and importing it takes seconds
        return nullcontext()
    if torch.compiler.is_dynamo_compiling():  # inside a step that the caller compiled
        return nullcontext()
    return _STANCE


class _Held:
    """A setting of the whole process: the first that enters makes it, and the last that leaves takes it back."""

    def __init__(self, make: Callable[[], AbstractContextManager[object]]):
        self.make, self.lock, self.inside = make, Lock(), 0
        self.entered: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.entered = self.make()
                self.entered.__enter__()
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.entered.__exit__(None, None, None)


def _many_models() -> AbstractContextManager[object]:
    import torch._dynamo  # takes a second

    # Graphs are kept for the whole process: without guards of hooks, one model would run by the graph of another.
    changes = {"recompile_limit": MODELS, "accumulated_recompile_limit": MODELS, "skip_nnmodule_hook_guards": False}
    patched: AbstractContextManager[object] = torch._dynamo.config.patch(changes)
    return patched


_STANCE = _Held(lambda: torch.compiler.set_stance("force_eager"))
_LIMITS = _Held(_many_models)
