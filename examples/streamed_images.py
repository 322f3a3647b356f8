"""Images that do not fit in memory: any map-style dataset is streamed by workers and gives the same run."""

import torch
from torch.utils.data import Dataset

from thresher import Examples, fit, load
from thresher.corruption import corrupt


class Files(Dataset[torch.Tensor]):
    """Stands for images on disk: an item is decoded when it is asked for."""

    def __init__(self, images: torch.Tensor):
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, position: int) -> torch.Tensor:
        return self.images[position]


digits = load("digits")
in_memory = corrupt(digits.train, "symmetric:0.4", seed=0)
images = torch.as_tensor(in_memory.inputs)
streamed = Examples(Files(images), in_memory.targets, classes=10, columns=in_memory.columns)


def train_on(examples: Examples) -> float:
    run = fit("prl-l", "mlp", examples, test=digits.test, noise_rate=0.4, epochs=5, batch=64)
    return run.scores[-1]


print(f"in memory {train_on(in_memory):.3f}, streamed {train_on(streamed):.3f}")
assert train_on(in_memory) == train_on(streamed)
