"""Models of timm with weights from a file, tuned as a whole or frozen below their last layer."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from thresher.core.errors import ThresherError
from thresher.core.files import expanded

FROZEN = ",frozen"


class Probe(nn.Module):
    """A linear layer on the features of a network that stays as it is, in evaluation mode even while training."""

    def __init__(self, body: nn.Module, features: int, outputs: int):
        super().__init__()
        self.body = body.requires_grad_(False).eval()
        self.head = nn.Linear(features, outputs)

    def train(self, mode: bool = True) -> "Probe":
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs


def name_and_weights(setting: str) -> tuple[str, Path | None, bool]:
    """The name of a model, the file of its weights, and whether all but the last layer is frozen.

    >>> name_and_weights("resnet18@r18.safetensors,frozen")[0::2], name_and_weights("resnet18")[1]
    (('resnet18', True), None)
    """
    name, at, file = setting.removesuffix(FROZEN).partition("@")
    return name, expanded(file) if at else None, setting.endswith(FROZEN)


def load_weights(model: nn.Module, path: Path, last: tuple[str, ...]) -> None:
    """Load the weights of a file into a model; only the layers named `last` may have other shapes or be missing."""
    found, own = _read(path), model.state_dict()
    fitting = {name: value for name, value in found.items() if name in own and own[name].shape == value.shape}
    lacking = [name for name in own if name not in fitting and not name.startswith(last)]
    if lacking:
        raise ThresherError(
            f"{path} has no weights that fit {lacking[0]} and {len(lacking) - 1} more of the model: "
            "give the weights of this very architecture."
        )
    model.load_state_dict(fitting, strict=False)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ThresherError(f"There is no file {path}: check the path of the weights.")
    try:
        found: Any = _safetensors(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except ThresherError:
        raise
    except Exception as error:  # each format and each version raises others
        raise ThresherError(f"{path} cannot be read as weights: give a .safetensors or .pth file.") from error
    if not isinstance(found, dict):
        raise ThresherError(f"{path} holds a {type(found).__name__}: give the parameters of a model by name.")
    found = next((found[key] for key in ("state_dict", "model") if isinstance(found.get(key), dict)), found)
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(path)
    return tensors
