"""Rules in trainers that are not Thresher's: plain loops, Accelerate, Lightning, Hugging Face; and loggers for runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from thresher.core.errors import needs_extra

if TYPE_CHECKING:
    from thresher.trainers.huggingface import ThresherTrainer, weighted
    from thresher.trainers.lightning import WeigherCallback
    from thresher.trainers.loggers import MLflow, TensorBoard, WandB, save_weights
    from thresher.trainers.numbered import Numbered
    from thresher.trainers.weigher import Weigher

_WHERE = {
    "MLflow": "loggers",
    "Numbered": "numbered",
    "TensorBoard": "loggers",
    "ThresherTrainer": "huggingface",
    "WandB": "loggers",
    "Weigher": "weigher",
    "WeigherCallback": "lightning",
    "save_weights": "loggers",
    "weighted": "huggingface",
}
_EXTRAS = {"huggingface": ("text", "transformers", "accelerate"), "lightning": ("lightning", "lightning")}
__all__ = [
    "MLflow",
    "Numbered",
    "TensorBoard",
    "ThresherTrainer",
    "WandB",
    "Weigher",
    "WeigherCallback",
    "save_weights",
    "weighted",
]


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first asked for: none of these packages has to be installed for the others."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _WHERE[name] in _EXTRAS:
        needs_extra(name, *_EXTRAS[_WHERE[name]])
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
