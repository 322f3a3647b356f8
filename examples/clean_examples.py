"""L2RW in a loop of your own: twelve clean pictures say how much each of the others should count.

    python examples/clean_examples.py [resnet18]

The network is one of timm's, where that is installed: by its name a pretrained one, which is downloaded, else a very
small one from random weights, so that this runs in seconds. Torchvision's, and any other, go through the same loop.
"""

import sys

import torch
from torch.nn.functional import cross_entropy

from thresher import Examples, weigh
from thresher.corruption import corrupt
from thresher.data import take_clean
from thresher.models import build
from thresher.rules import MetaGradient

COLOURS = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])


def squares(count: int, seed: int) -> Examples:
    """Noisy pictures [count, 3, 32, 32] of a square somewhere; its colour is the class."""
    draws = torch.Generator().manual_seed(seed)
    pictures, labels = torch.randn(count, 3, 32, 32, generator=draws) / 2, torch.arange(count) % 4
    for picture, label in zip(pictures, labels, strict=True):
        top, left = torch.randint(0, 16, (2,), generator=draws).tolist()
        picture[:, top : top + 16, left : left + 16] += 2 * COLOURS[label][:, None, None]
    return Examples(pictures, labels)


def network() -> torch.nn.Module:
    try:
        import timm
    except ModuleNotFoundError:
        return build("resnet20", input_shape=(3, 32, 32), outputs=4)
    name = sys.argv[1] if len(sys.argv) > 1 else "test_resnet"
    return timm.create_model(name, pretrained=len(sys.argv) > 1, num_classes=4)


# Four in ten labels are those of the next class.
noisy, clean = take_clean(corrupt(squares(612, seed=0), "pairflip:0.4", seed=0), 12)
test = squares(200, seed=1)

torch.manual_seed(0)
model = network()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
spent = {"right": 0.0, "wrong": 0.0}

for _ in range(2):
    for index in torch.randperm(len(noisy)).split(50):
        inputs, targets = noisy.inputs[index], noisy.targets[index]
        weights = weigh(MetaGradient(), model, inputs, targets, clean=(clean.inputs, clean.targets))
        losses = cross_entropy(model(inputs), targets, reduction="none")
        loss = (weights * losses).sum()  # the weights add up to one, or are all zero where no example helps
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wrong = noisy.columns["is_corrupt"][index]
        spent["wrong"] += weights[wrong].sum().item()
        spent["right"] += weights[~wrong].sum().item()

with torch.no_grad():
    accuracy = (model.eval()(test.inputs).argmax(1) == test.targets).float().mean()
share = spent["right"] / sum(spent.values())
print(f"60% of the labels are right; they got {share:.0%} of the weight. Accuracy on clean pictures: {accuracy:.3f}")
assert share > 0.9
assert accuracy > 0.9
