"""Predict by the exported model, without Thresher: python load.py INPUTS.npy, or import predict from here."""

import json
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

warnings.filterwarnings("ignore", message="The given buffer is not writable")  # of torch's about its own reading
about = cache(lambda: json.loads(Path(__file__).with_name("export.json").read_text(encoding="utf-8")))
model = cache(lambda: torch.export.load(Path(__file__).with_name("model.pt2")).module())


def read(inputs: Any) -> torch.Tensor:
    """Inputs [n, ...] as the model takes them: bytes are normalised, all else is as it was given."""
    how = about()["preprocessing"]
    given = torch.as_tensor(np.asarray(inputs)).to(getattr(torch, how["dtype"]))
    if how["mean"] is None:
        return given
    return (given.float() - torch.tensor(how["mean"])) / torch.tensor(how["deviation"])


@torch.no_grad()
def predict(inputs: Any) -> torch.Tensor:
    """The probability of each class [n, classes], in the order of export.json's class_names; or real targets [n, d]."""
    outputs: torch.Tensor = model()(read(inputs))
    return outputs


if __name__ == "__main__":
    for found in predict(np.load(sys.argv[1])):
        classes = about()["class_names"]
        print(found.tolist() if classes is None else f"{classes[int(found.argmax())]} {float(found.max()):.3f}")
