"""Plain networks, built by name; each ends in a Linear layer named `head`."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError, checked, refuse_beyond_memory, shortened, unknown
from thresher.core.examples import Examples
from thresher.data.preparation import RowPreparation
from thresher.models.cnn9 import CNN9
from thresher.models.external import from_module, from_timm, import_here
from thresher.models.lenet import LeNet
from thresher.models.linear_head import LinearHead, LinearModel
from thresher.models.mobilenet import MobileNet
from thresher.models.norm import batch_to_group_norm, freeze_batch_norm
from thresher.models.preactivation import resnet11, wrn_28_10
from thresher.models.pretrained import FROZEN, name_and_weights
from thresher.models.quick import QuickNet
from thresher.models.resnet import cifar_resnet, resnet18
from thresher.models.small_cnn import SmallCNN

__all__ = [
    "CNN9",
    "MLP",
    "MODELS",
    "Known",
    "LeNet",
    "LinearHead",
    "LinearModel",
    "MobileNet",
    "QuickNet",
    "SmallCNN",
    "batch_to_group_norm",
    "build",
    "cifar_resnet",
    "freeze_batch_norm",
    "names",
    "resnet11",
    "resnet18",
    "wrn_28_10",
]

EMBEDDING = 100  # numbers from which on a vector is taken for an embedding


class MLP(nn.Module):
    """Linear layers with an activation after each but the last.

    >>> [list(p.shape) for p in MLP((1, 8, 8), 10, hidden=(32,)).parameters()]
    [[32, 64], [32], [10, 32], [10]]
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        outputs: int,
        hidden: Sequence[int] = (256, 256),
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise ThresherError(f"mlp needs hidden layers of at least one unit, not {list(hidden)}: write mlp:256x256.")
        sizes = [math.prod(input_shape), *hidden]
        layers = [layer for size, following in pairwise(sizes) for layer in (nn.Linear(size, following), activation())]
        self.body = nn.Sequential(nn.Flatten(), *layers)
        self.head = nn.Linear(sizes[-1], outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs


@dataclass(frozen=True)
class Known:
    """A registered model: what makes it, and how to read the setting that may follow its name and a colon."""

    make: Callable[..., nn.Module]  # (input_shape, outputs) or (input_shape, outputs, setting)
    setting: Callable[[str], Any] | None = None
    example: str = ""  # a setting that is understood, for the error message


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("x"))


def _relu_and_dropout() -> nn.Module:
    return nn.Sequential(nn.ReLU(), nn.Dropout(0.5))


_WITH_BATCH_NORM = {
    "small-cnn": Known(SmallCNN),
    "cnn9": Known(CNN9),
    "resnet11": Known(resnet11),
    "resnet18": Known(resnet18),
    "resnet20": Known(partial(cifar_resnet, depth=20)),
    "resnet32": Known(partial(cifar_resnet, depth=32)),
    "resnet56": Known(partial(cifar_resnet, depth=56)),
    "resnet110": Known(partial(cifar_resnet, depth=110)),
    "wrn-28-10": Known(wrn_28_10, setting=float, example="0.3"),
    "mobilenet": Known(MobileNet, setting=float, example="2"),
    "quick": Known(QuickNet, setting=int, example="64"),
}

MODELS: dict[str, Known] = {
    "head": Known(LinearHead, setting=float, example="0.5"),
    "linear": Known(LinearModel),
    "mlp": Known(MLP, setting=_sizes, example="256x256"),
    "mlp-leaky": Known(partial(MLP, activation=nn.LeakyReLU), setting=_sizes, example="256x256"),
    "mlp-dropout": Known(partial(MLP, activation=_relu_and_dropout), setting=_sizes, example="256x256"),
    "lenet": Known(LeNet),
    **_WITH_BATCH_NORM,
}


# What may follow the name of a model with BatchNorm, for methods that need each example's own gradient.
NORMS: dict[str, Callable[[nn.Module], nn.Module]] = {"-gn": batch_to_group_norm, "-frozen": freeze_batch_norm}


def names() -> list[str]:
    """Every registered name: the models, and those with BatchNorm also with GroupNorm (-gn) or frozen (-frozen)."""
    return [*MODELS, *(f"{name}{ending}" for ending in NORMS for name in _WITH_BATCH_NORM)]


@checked
def build(name: str, *, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """A fresh model for inputs of this shape (without the batch), giving this many outputs.

    `mlp:512x512` sets the hidden sizes, `mobilenet:2` the width, `wrn-28-10:0.3` and `head:0.8` the dropout; `cnn9-gn`
    has GroupNorm, `cnn9-frozen` BatchNorms that stay as they are made. `timm:NAME` is a model of timm,
    `timm:NAME@weights.safetensors` one with the weights of a file, of which `,frozen` trains a new last layer only.
    `package.module:factory` is what this function returns; the module is installed or lies in the current folder.

    >>> build("mlp:32", input_shape=(1, 8, 8), outputs=3).head
    Linear(in_features=32, out_features=3, bias=True)
    """
    if outputs < 1:
        raise ThresherError(f"A model needs at least one output, not {outputs}: give the classes or real targets.")
    base, colon, setting = name.partition(":")
    if base in names():
        return _registered(base, setting if colon else None, input_shape, outputs)
    if base == "timm":
        return from_timm(setting, input_shape, outputs)
    if not colon:
        raise unknown("model", name, [*MODELS, "timm:NAME", "package.module:factory"])
    try:
        module = import_here(base)
    except (ImportError, ValueError) as failed:
        fix = f"did you mean {nearest}?" if (nearest := _nearest(base)) else "give package.module:factory."
        raise ThresherError(f"There is no model {shortened(name)!r} ({failed!s:.200}): {fix}") from failed
    return from_module(module, setting, input_shape, outputs)


IN_TRAINING = 4  # times its parameters: their gradients and Adam's two averages beside them


@dataclass(frozen=True)
class NamedModel:
    """A function that makes the model of a name: `build` with everything settled, so that a run can remember it."""

    name: str
    input_shape: tuple[int, ...]
    outputs: int

    def __call__(self) -> nn.Module:
        refuse_larger_than_memory(self.name, self.input_shape, self.outputs)
        return build(self.name, input_shape=self.input_shape, outputs=self.outputs)


def refuse_larger_than_memory(name: str, input_shape: tuple[int, ...], outputs: int) -> None:
    """Refuse a network of a known name whose training would not fit into this machine's memory."""
    largest = max([outputs, *(int(each) for each in re.findall(r"\d+", name.partition(":")[2]))])
    ordinary = largest < 10_000 and math.prod(input_shape) < 1_000_000  # which need not be counted
    if ordinary or is_foreign(name) or name.startswith("timm"):
        return
    what = f"Training the model {shortened(name)} with {outputs} outputs"
    fix = "choose a smaller one, or renumber the labels"
    refuse_beyond_memory(4.0 * IN_TRAINING * largest, what, fix)  # torch counts no further than to 2⁶³
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        made = build(name, input_shape=input_shape, outputs=outputs)
    size = IN_TRAINING * sum(each.numel() * each.element_size() for each in made.parameters())
    refuse_beyond_memory(size, what, fix)


def is_foreign(name: str) -> bool:
    """Whether the name of a model says which code to import, which a stored file must not decide.

    >>> is_foreign("mlp:32"), is_foreign("my.package:make")
    (False, True)
    """
    base = name.partition(":")[0]
    return base not in names() and base != "timm"


def without_weights(name: str) -> str:
    """The name of a model like this one, for parameters that a run holds: no file of weights has to be there.

    >>> without_weights("timm:resnet18@r18.safetensors,frozen"), without_weights("mlp:32")
    ('timm:resnet18,frozen', 'mlp:32')
    """
    base, _, setting = name.partition(":")
    if base != "timm":
        return name
    known, _, frozen = name_and_weights(setting)
    return f"timm:{known}{FROZEN if frozen else ''}"


def default_model(input_shape: tuple[int, ...], *, embeddings: bool = False, on_cpu: bool = False) -> str:
    """The model that is trained where none is chosen; on a CPU, larger images get one that is quick there.

    >>> [default_model(shape) for shape in [(14,), (1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 224, 224)]]
    ['mlp', 'mlp', 'lenet', 'resnet32', 'resnet18']
    >>> default_model((512,), embeddings=True), default_model((3, 64, 64), on_cpu=True)
    ('head', 'small-cnn')
    """
    side = max(input_shape[-2:]) if len(input_shape) == 3 else 0
    if side == 0 and embeddings:
        return "head"
    if side > 28 and on_cpu:
        return "small-cnn"
    return next((name for most, name in ((16, "mlp"), (28, "lenet"), (32, "resnet32")) if side <= most), "resnet18")


def model_for(train: Examples, device: torch.device) -> str:
    """The default model for these examples on this device."""
    return default_model(train.input_shape, embeddings=are_embeddings(train), on_cpu=device.type == "cpu")


def are_embeddings(train: Examples) -> bool:
    """Whether the inputs are long vectors that are no rows of a table."""
    vectors = len(train.input_shape) == 1 and train.input_shape[0] >= EMBEDDING
    return vectors and not isinstance(train.preparation, RowPreparation)


def _registered(name: str, setting: str | None, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    ending = next((each for each in NORMS if name.endswith(each)), "")
    known = MODELS[name.removesuffix(ending)]
    if setting is None:
        model = known.make(input_shape, outputs)
    elif known.setting is None:
        raise ThresherError(f"{name} takes no setting: write {name} instead of {name}:{setting}.")
    else:
        try:
            value = known.setting(setting)
        except ValueError as failed:
            raise ThresherError(f"{name}:{setting} is not understood: write {name}:{known.example}.") from failed
        model = known.make(input_shape, outputs, value)
    return NORMS[ending](model) if ending else model


def _nearest(name: str) -> str | None:
    return next(iter(get_close_matches(name, [*names(), "timm:NAME"], n=1)), None)
