"""Features of a three-layer CNN for the faces, as the PRL paper has them for CelebA: writes face-features.npz.

    python benchmarks/face_features.py --data-dir DATA

The network learns clean landmarks from the faces of half of the training people; the experiment gets its 512 features
of all others: those of the other half to train on, and the test people. In the paper the network learns from the
training images of CelebA, and the experiment is about the test images, of which a fifth is held out.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from thresher import Examples, Recipe, fit
from thresher.data import Splits, load, standardise_targets

EPOCHS, BATCH, WIDTH = 12, 64, 512
SHIFT, COPIES = 8, 5


def network(outputs: int) -> nn.Sequential:
    """Three convolutions and 512 features; the last layer gives the landmarks."""
    layers: list[nn.Module] = []
    for before, after in ((1, 16), (16, 32), (32, 32)):  # 96 -> 48 -> 24 -> 12 pixels
        layers += [nn.Conv2d(before, after, 5, stride=2, padding=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 144, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs))


def shifted(examples: Examples) -> Examples:
    """The faces as they are, and COPIES more of each, moved by up to SHIFT pixels, landmarks and all."""
    draws = torch.Generator().manual_seed(0)
    images, targets = [examples.inputs], [examples.targets]
    padded = pad(examples.inputs.float(), [SHIFT] * 4, mode="replicate").to(examples.inputs.dtype)
    side = examples.inputs.shape[-1]
    for _ in range(COPIES):
        moves = torch.randint(-SHIFT, SHIFT + 1, (len(examples), 2), generator=draws)  # right, down
        corners = (SHIFT - moves).tolist()
        images.append(torch.stack([padded[i, :, y : y + side, x : x + side] for i, (x, y) in enumerate(corners)]))
        targets.append(examples.targets + moves.repeat(1, examples.targets.shape[1] // 2))
    return replace(examples, inputs=torch.cat(images), targets=torch.cat(targets), ids=None, columns={}, checked=False)


def by_person(train: Examples) -> tuple[Examples, Examples]:
    """Both halves of the people, each with all of its faces."""
    people = train.columns["group"]
    first = torch.isin(people, people.unique()[::2])
    return train.subset(first), train.subset(~first)


def features(model: nn.Sequential, examples: Examples) -> Tensor:
    """What the last layer reads [n, 512]."""
    model.eval()
    with torch.no_grad():
        return torch.cat([model[:-1](part) for part in torch.split(examples.as_model_input(examples.inputs), 256)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    folder = parser.parse_args().data_dir
    train, test = load("faces", data_dir=folder)
    learnt, kept = by_person(train)
    both = standardise_targets(Splits(shifted(learnt), test))
    model = network(train.outputs)
    run = fit(
        Recipe(), model, both.train, test=both.test, epochs=EPOCHS, batch=BATCH, learning_rate=1e-3, schedule="cosine",
        seed=0, device="cpu",
    )  # fmt: skip
    print(f"{len(learnt)} faces of half of the people: R² {run.scores[-1]:.3f} on the test people")
    arrays = {}
    for name, part in (("train", kept), ("test", test)):
        arrays[f"{name}_images"] = features(model, part).numpy()
        arrays[f"{name}_targets"] = part.targets.numpy()
        arrays[f"{name}_groups"] = part.columns["group"].numpy()
    np.savez(folder / "face-features.npz", **arrays)


if __name__ == "__main__":
    main()
