"""Texts with noisy labels: a small transformer, and embeddings with an MLP, against TF-IDF with logistic regression.

    python benchmarks/texts.py prepare FOLDER --data-dir DATA    # needs wordllama, which makes the embeddings
    python benchmarks/texts.py run FOLDER --who peers            # TF-IDF + logistic regression, and cleanlab around it
    python benchmarks/texts.py run FOLDER --who embeddings
    python benchmarks/texts.py run FOLDER --who transformer --device cuda --seconds 110 [--part 0 --of 6]
    python benchmarks/texts.py show

Results are appended to results/texts.jsonl, and what is there is not measured again. Labels of noisyag_news are those
of annotators, of youtube_spam_weak and chemprot_weak those of rules (texts without one are left out), and of banking77
40% are changed at random. Scores are on texts with true labels. The noise rate is found by each run (`auto`).
Several processes may run side by side, each its `--part` of the rows; they append to one file.
"""

import argparse
import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from texts_page import page
from torch import Tensor, nn
from torch.nn import functional

from thresher import Examples, fit
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read_lines
from thresher.corruption import corrupt

SETS = {"noisyag_news": "", "banking77": "symmetric:0.4", "youtube_spam_weak": "", "chemprot_weak": ""}
METHODS = ("standard", "prl-l", "co-teaching", "crust", "reclaim")
LENGTH, WORDS, MOST_TESTED, BATCH = 48, 8_000, 4_000, 128
EPOCHS = {"embeddings": 30, "transformer": 20}
RATES = {"embeddings": 1e-3, "transformer": 5e-4}


def prepare(name: str, data: Path, folder: Path) -> None:
    """Write embeddings (as bytes), token ids, texts and labels of one set."""
    import pandas as pd

    rows = pd.read_csv(data / "text" / f"{name}.tsv.gz", sep="\t", quoting=3, keep_default_na=False, dtype=str)
    given = "noisy_label" if "noisy_label" in rows else "label"
    train = rows[(rows["split"] == "train") & (rows[given] != "")]
    test = rows[rows["split"] != "train"].sample(frac=1, random_state=0)[:MOST_TESTED]
    classes = sorted({*train["label"], *test["label"], *train[given]})
    counted = Counter(word for text in train["text"] for word in words_of(text))
    places = {word: at + 2 for at, (word, _) in enumerate(counted.most_common(WORDS))}
    kept: dict[str, Any] = {"classes": np.array(len(classes))}
    for part, table in (("train", train), ("test", test)):
        texts = table["text"].tolist()
        if find_spec("wordllama"):
            kept[f"{part}_embedded"] = embedded(texts)
        kept[f"{part}_tokens"] = tokens(texts, places)
        kept[f"{part}_true"] = np.array([classes.index(label) for label in table["label"]], np.int16)
        kept[f"{part}_texts"] = np.frombuffer("\n".join(text.replace("\n", " ") for text in texts).encode(), np.uint8)
    kept["train_given"] = np.array([classes.index(label) for label in train[given]], np.int16)
    np.savez_compressed(folder / f"{name}.npz", **kept)


def embedded(texts: list[str]) -> NDArray[np.int8]:
    """The direction of each text's embedding [n, 256], its largest number as 127."""
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    seen = np.asarray(model.embed(texts, norm=True), np.float32)
    return np.round(seen / (np.abs(seen).max(1, keepdims=True) / 127)).astype(np.int8)


def words_of(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else f" {letter} " for letter in text.lower()).split()


def tokens(texts: list[str], places: dict[str, int]) -> NDArray[np.uint16]:
    """The first words of each text [n, LENGTH] by their frequency; 0 is no word, 1 one that is rare."""
    found = np.zeros((len(texts), LENGTH), np.uint16)
    for row, text in enumerate(texts):
        ids = [places.get(word, 1) for word in words_of(text)[:LENGTH]] or [1]
        found[row, : len(ids)] = ids
    return found


class Block(nn.Module):
    """Attention and a layer of 4 · width, each behind a LayerNorm and beside its input."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, seen: Tensor, there: Tensor) -> Tensor:
        n, length, width = seen.shape
        parts = self.project(self.before(seen)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, attn_mask=there[:, None, None, :])
        seen = seen + self.join(mixed.transpose(1, 2).reshape(n, length, width))
        return seen + self.inner(self.between(seen))


class Transformer(nn.Module):
    """Two blocks of width 128 over at most LENGTH words, from random weights; the mean over the words is classified."""

    def __init__(self, classes: int, width: int = 128):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS + 2, width), nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))
        self.norm, self.head, self.dropout = nn.LayerNorm(width), nn.Linear(width, classes), nn.Dropout(0.2)

    def forward(self, ids: Tensor) -> Tensor:
        there = ids > 0
        seen = self.dropout(self.words(ids) + self.places)
        for block in self.blocks:
            seen = block(seen, there)
        shown = there[..., None].float()
        return self.head(self.dropout((self.norm(seen) * shown).sum(1) / shown.sum(1)))


def labels(stored: dict[str, Any], noise: str, seed: int) -> NDArray[np.int64]:
    """The labels to train on: those given, or true ones of which some are changed at random."""
    given = stored["train_given"].astype(np.int64)
    if not noise:
        return given
    plain = Examples(torch.zeros(len(given), 1), torch.from_numpy(given), classes=int(stored["classes"]))
    return corrupt(plain, noise, seed=seed).labels.numpy()


def by_network(kind: str, method: str, stored: dict[str, Any], noise: str, seed: int, device: str) -> dict[str, float]:
    """The accuracy of a run of ours on true labels, and how well its trust finds wrong ones."""
    given, classes = labels(stored, noise, seed), int(stored["classes"])

    def examples(part: str, targets: NDArray[Any]) -> Examples:
        inputs = torch.from_numpy(stored[f"{part}_tokens"].astype(np.int64))
        if kind == "embeddings":
            inputs = functional.normalize(torch.from_numpy(stored[f"{part}_embedded"].astype(np.float32))) * 16
        return Examples(inputs, torch.from_numpy(targets.astype(np.int64)), classes=classes)

    more: dict[str, Any] = {"mix": None} if kind == "transformer" and method in ("crust", "reclaim") else {}
    run = fit(
        method, "mlp:256" if kind == "embeddings" else partial(Transformer, classes), examples("train", given),
        test=examples("test", stored["test_true"]), epochs=EPOCHS[kind], batch=min(BATCH, len(given) // 4),
        learning_rate=RATES[kind], seed=seed, device=device, compiled=False, **more,
    )  # fmt: skip
    ids, trust = run.ledger.trust()
    wrong = (given != stored["train_true"])[ids.numpy()]
    return {"accuracy": run.last(5), "found": float(roc_auc_score(wrong, -trust.numpy()))}


def by_peer(name: str, stored: dict[str, Any], noise: str, seed: int) -> dict[str, float]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = {part: bytes(stored[f"{part}_texts"]).decode().split("\n") for part in ("train", "test")}
    given = labels(stored, noise, seed)
    reader = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    train, test = reader.fit_transform(texts["train"]), reader.transform(texts["test"])
    learner: Any = LogisticRegression(C=10.0, max_iter=300, random_state=seed)
    if name == "cleanlab":
        from cleanlab.classification import CleanLearning

        learner = CleanLearning(make_pipeline(learner), seed=seed)
    present, codes = np.unique(given, return_inverse=True)  # cleanlab wants every class to have a label
    predicted = present[learner.fit(train, codes).predict(test)]
    return {"accuracy": float((predicted == stored["test_true"]).mean())}


def contestants(who: str, device: str) -> Iterator[tuple[str, Callable[..., dict[str, float]]]]:
    if who == "peers":
        yield "TF-IDF + logistic regression", partial(by_peer, "alone")
        yield "TF-IDF + logistic regression, cleanlab", partial(by_peer, "cleanlab")
    else:
        for method in METHODS:
            yield f"{who}, {method}", partial(by_network, who, method, device=device)


def run(given: argparse.Namespace) -> None:
    """Measure what is not there yet, first one seed of everything; what fails is printed and left out."""
    started, failed = time.monotonic(), 0
    jobs = [(seed, *job) for seed in range(given.seeds) for job in product(SETS, contestants(given.who, given.device))]
    for seed, name, (who, measure) in jobs[given.part :: given.of]:
        known = {(row["set"], row["who"], row["seed"]) for row in read_lines(given.results)[0]}
        if (name, who, seed) in known or time.monotonic() - started > given.seconds:
            continue
        with np.load(given.folder / f"{name}.npz") as file:
            stored = dict(file)
        begun = time.perf_counter()
        try:
            found = measure(stored=stored, noise=SETS[name], seed=seed)
        except Exception as error:
            traceback.print_exc()
            failed += 1
            print(f"{name}, {who}, seed {seed} failed: {type(error).__name__}", flush=True)
            continue
        row = {"set": name, "noise": SETS[name] or "as given", "who": who, "seed": seed, **found}
        row |= {"train": len(stored["train_given"]), "test": len(stored["test_true"])}
        wrong = float((labels(stored, SETS[name], seed) != stored["train_true"]).mean())
        row |= {"wrong": wrong, "classes": int(stored["classes"]), "seconds": time.perf_counter() - begun}
        append(given.results, {"status": "done", **row, **provenance(given.device)})
        print(json.dumps(row), flush=True)
    if failed:
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run", "show"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path(".carry/texts"))
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--who", choices=("peers", "embeddings", "transformer"), default="peers")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--of", type=int, default=1, help="how many processes share the rows")
    parser.add_argument("--epochs", type=int, default=0, help="fewer than usual, to try things out")
    parser.add_argument("--seconds", type=float, default=1e9, help="No run begins after so many seconds.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, default=Path("results/texts.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/texts.md"))
    given = parser.parse_args()
    EPOCHS.update(dict.fromkeys(EPOCHS, given.epochs) if given.epochs else {})
    if given.what == "prepare":
        given.folder.mkdir(parents=True, exist_ok=True)
        for name in SETS:
            prepare(name, given.data_dir, given.folder)
    elif given.what == "run":
        run(given)
    else:
        given.docs.write_text(page(read_lines(given.results)[0]))


if __name__ == "__main__":
    main()
