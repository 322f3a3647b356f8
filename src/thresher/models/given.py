"""What is no model: neither a network nor a function that makes one."""

import inspect
from typing import Any

from torch import nn

from thresher.core.errors import ThresherError


def refuse_no_model(given: Any) -> None:
    """Refuse what is neither a module nor a function without arguments."""
    if isinstance(given, nn.Module):
        if any(each.is_meta for each in given.parameters()):
            raise ThresherError("The model is on the device meta, which holds no numbers: make it on another device.")
        return
    if not callable(given):
        raise ThresherError(
            f"A {type(given).__name__} is no model: give a torch.nn.Module, a function that makes one, or a name."
        )
    try:
        inspect.signature(given).bind()
    except TypeError as error:
        raise ThresherError(
            f"The model function cannot be called without arguments ({error}): pass one that can, lambda: MyModel(...)."
        ) from None
