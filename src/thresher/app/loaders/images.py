"""Predict by the exported model, without Thresher: python load.py IMAGE..., or import predict from here."""

import json
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps

warnings.filterwarnings("ignore", message="The given buffer is not writable")  # of torch's about its own reading
about = cache(lambda: json.loads(Path(__file__).with_name("export.json").read_text(encoding="utf-8")))
model = cache(lambda: torch.export.load(Path(__file__).with_name("model.pt2")).module())


def in_colour(image: Image.Image, integers: list[float], reals: list[float]) -> Image.Image:
    """16-bit and real pixels scaled from their range; transparent ones over white, or over black where ink is white."""
    if image.mode[0] in "IF":
        low, high = integers if image.mode[0] == "I" else reals
        shares = (np.nan_to_num(np.asarray(image, np.float32), nan=low) - low) / ((high - low) or 1)
        return Image.fromarray((shares.clip(0, 1) * 255).round().astype(np.uint8)).convert("RGB")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        grey, alpha = np.asarray(image.convert("RGB").convert("L")), np.asarray(image.getchannel("A"), float)
        ground = "black" if (grey * alpha).sum() / max(alpha.sum(), 1) >= 224 else "white"
        image = Image.alpha_composite(Image.new("RGBA", image.size, ground), image)
    return image.convert("RGB")


def read(path: str) -> torch.Tensor:
    """One image as the model takes it [3, size, size]: upright, in colour, its centre scaled, and normalised."""
    how = about()["preprocessing"]
    with Image.open(path) as image:
        image.draft("RGB", (2 * how["size"], 2 * how["size"]))  # large photographs are decoded smaller
        upright = in_colour(ImageOps.exif_transpose(image), **how["ranges"])
    pixels = np.array(ImageOps.fit(upright, (how["size"], how["size"]))).transpose(2, 0, 1)
    return (torch.tensor(pixels).float() - torch.tensor(how["mean"])) / torch.tensor(how["deviation"])


@torch.no_grad()
def predict(paths: list[str]) -> torch.Tensor:
    """The probability of each class [n, classes], in the order of export.json's class_names; or real targets [n, d]."""
    outputs: torch.Tensor = model()(torch.stack([read(path) for path in paths]))
    return outputs


if __name__ == "__main__":
    for name, found in zip(sys.argv[1:], predict(sys.argv[1:]), strict=True):
        classes = about()["class_names"]
        print(name, found.tolist() if classes is None else f"{classes[int(found.argmax())]} {float(found.max()):.3f}")
