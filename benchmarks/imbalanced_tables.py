"""On tables with rare classes, do weights in a network beat a balanced linear model or balanced boosting?

Results are added to the file; what it holds is not measured again. The page of the docs is made from it. DATA holds
tabular/NAME.tsv.gz.

    python benchmarks/imbalanced_tables.py --data-dir DATA --seeds 5
    python benchmarks/imbalanced_tables.py --show
"""

import argparse
import json
import warnings
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from audit_sets import table
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from thresher import Examples, fit
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read_lines
from thresher.corruption import corrupt

Array = NDArray[Any]
MOST = 6000  # rows of a set, before a half is held out
RATIO = 20  # how many times as frequent as the rarest class the commonest is, where a set is thinned
CLEAN = 10  # examples of each class, of the training rows, that l2rw may trust
PLAIN = "standard, mlp"
NETWORKS: dict[str, tuple[str, str, dict[str, Any]]] = {  # way -> method, model, settings
    **{f"{name}, mlp": (name, "mlp", {}) for name in ("standard", "proportion", "resample", "hard-mining", "l2rw")},
    **{f"{name}, linear": (name, "linear", {"learning_rate": 0.01}) for name in ("standard", "proportion")},
}
SIMPLER = ("logistic regression", "balanced logistic regression", "boosting", "balanced boosting")
WAYS = (*SIMPLER, *NETWORKS)
# Name -> the set, the label that is told from all others (None: all classes), and whether classes are thinned.
SETS: dict[str, tuple[str, int | None, bool]] = {
    "adult": ("adult", None, True),
    "breast cancer": ("breast_cancer", None, True),
    "magic": ("magic", None, True),
    "spambase": ("spambase", None, True),
    "digits: 8 or not": ("digits", 8, False),
    "letter: Z or not": ("letter", 25, False),
    "satimage: 4 or not": ("satimage", 3, False),
    "digits, long tail": ("digits", None, True),
    "letter, long tail": ("letter", None, True),
    "satimage, long tail": ("satimage", None, True),
    "shuttle": ("shuttle", None, False),
}


def rows_of(name: str, folder: Path) -> tuple[Array, Array]:
    """Inputs [n, d] and labels [n]; classes of fewer than 4 * CLEAN rows are left out."""
    if name in ("breast_cancer", "digits"):
        inputs, labels = (load_breast_cancer if name == "breast_cancer" else load_digits)(return_X_y=True)
    else:
        found = table(name, None, folder).examples
        inputs, labels = np.asarray(found.inputs), found.labels.numpy()
    kept = np.bincount(labels)[labels] >= 4 * CLEAN
    return inputs[kept], np.unique(labels[kept], return_inverse=True)[1]


def halves(name: str, seed: int, folder: Path) -> tuple[Array, Array, Array, Array]:
    """Standardised training inputs and their labels, with rare classes, and the same of held-out rows."""
    base, positive, thinned = SETS[name]
    inputs, labels = rows_of(base, folder)
    if positive is not None:
        labels = (labels == positive).astype(np.int64)
    if len(labels) > MOST:
        inputs, _, labels, _ = train_test_split(inputs, labels, train_size=MOST, stratify=labels, random_state=seed)
    x, x_test, y, y_test = train_test_split(inputs, labels, test_size=0.5, stratify=labels, random_state=seed)
    if thinned:
        if labels.max() == 1 and labels.mean() < 0.5:  # of two classes, `imbalance` makes the first rare
            y, y_test = 1 - y, 1 - y_test
        given = Examples(torch.as_tensor(x), torch.as_tensor(y), classes=int(labels.max()) + 1)
        made = corrupt(given, f"imbalance:{RATIO}", seed=seed)
        x, y = np.asarray(made.inputs), made.labels.numpy()
    scaler = StandardScaler().fit(x)
    return scaler.transform(x).astype(np.float32), y, scaler.transform(x_test).astype(np.float32), y_test


def estimators(seed: int) -> dict[str, Any]:
    found = (
        LogisticRegression(max_iter=1000),
        LogisticRegression(max_iter=1000, class_weight="balanced"),
        HistGradientBoostingClassifier(random_state=seed),
        HistGradientBoostingClassifier(random_state=seed, class_weight="balanced"),
    )
    return dict(zip(SIMPLER, found, strict=True))


def trusted(labels: Array, seed: int) -> Array:
    """The places of CLEAN examples of each class, or of all of one that has fewer."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.concatenate([order[labels[order] == each][:CLEAN] for each in np.unique(labels)])


def measured(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Balanced accuracy on the held-out rows for each way, by the default settings but for `NETWORKS`'s."""
    x, y, x_test, y_test = halves(name, seed, folder)
    found = {}
    for way, each in estimators(seed).items():
        found[way] = each.fit(x, y).predict(x_test)
    clean = trusted(y, seed)
    for way, (method, model, settings) in NETWORKS.items():
        given = {"clean": (x[clean], y[clean])} if method == "l2rw" else {}
        found[way] = fit(method, model, (x, y), seed=seed, device="cpu", **given, **settings).predict(x_test)
    return {
        "rows": len(y), "counts": np.bincount(y).tolist(),
        "balanced accuracy": {way: float(balanced_accuracy_score(y_test, each)) for way, each in found.items()},
    }  # fmt: skip


def means(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Set -> way -> its mean balanced accuracy over the seeds."""
    names = dict.fromkeys(row["set"] for row in results)
    return {
        name: {way: fmean(r["balanced accuracy"][way] for r in results if r["set"] == name) for way in WAYS}
        for name in names
    }


def table_of(found: dict[str, dict[str, float]]) -> str:
    """A line a way, as Markdown."""
    heads = ["way", *found, "mean"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for way in WAYS:
        scores = [each[way] for each in found.values()]
        cells = [f"{100 * score:.1f}" for score in scores]
        lines.append(f"| {' | '.join([way, *cells, f'**{100 * fmean(scores):.1f}**'])} |")
    return "\n".join(lines)


def ahead(found: dict[str, dict[str, float]], way: str, other: str) -> str:
    return f"{sum(each[way] > each[other] for each in found.values())} of {len(found)}"


PAGE = """# Rare classes in tables

<!-- Made from results/imbalanced-tables.jsonl by `python benchmarks/imbalanced_tables.py --show`: do not edit. -->

Balanced accuracy in percent on held-out rows, means over {seeds}. The training rows are {least:,} to {most:,}; the
commonest class is {ratio} times as frequent as the rarest, made so by leaving rows out, or, of *or not* and shuttle,
by nature. Logistic regression and boosting (`HistGradientBoostingClassifier`) are scikit-learn's, *balanced*
with `class_weight="balanced"`. The others are methods of ours: *mlp* is what `thresher train` makes of a table by
default, *linear* is `--model linear --learning-rate 0.01`. `l2rw` may trust {clean} rows of each class.
The rate of *linear* was chosen at another seed of six of these sets, after a first run at the default rate had left it
half trained; *mlp* has the default one.

A balanced linear model is often enough: scikit-learn's is ahead of `resample` on {linear} sets, balanced boosting on
{boosted}. `thresher train` says so in the line in which it names its choice.

{table}
"""


def page(results: list[dict[str, Any]]) -> str:
    found, seeds = means(results), 1 + max(row["seed"] for row in results)
    rows = [row["rows"] for row in results]
    return PAGE.format(
        table=table_of(found), seeds=f"{seeds} seeds" if seeds > 1 else "one seed", least=min(rows), most=max(rows),
        ratio=RATIO, clean=CLEAN, linear=ahead(found, SIMPLER[1], "resample, mlp"),
        boosted=ahead(found, SIMPLER[3], "resample, mlp"),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--results", type=Path, default=Path("results/imbalanced-tables.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/imbalanced-tables.md"))
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    known = {(r["set"], r["seed"]) for r in read_lines(given.results)[0]}
    for seed in range(0 if given.show else given.seeds):
        for name in given.sets:
            if (name, seed) not in known:
                found = measured(name, seed, given.data_dir)
                append(given.results, {"status": "done", "set": name, "seed": seed, **found, **provenance("cpu")})
                print(json.dumps({"set": name, "seed": seed, **found["balanced accuracy"]}), flush=True)
    text = page(read_lines(given.results)[0])
    print(text)
    given.docs.write_text(text)


if __name__ == "__main__":
    main()
