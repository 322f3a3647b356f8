"""Is any learner better on clean rows after an audit has weighed or dropped its training rows?

Results are added to the file; what it holds is not measured again. The page of the docs is made from it. DATA holds
tabular/NAME.tsv.gz; LightGBM and cleanlab are needed.

    python benchmarks/clean_then_fit.py --data-dir DATA --seeds 3
    python benchmarks/clean_then_fit.py --show
"""

import argparse
import json
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from audit_sets import table
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from thresher import Examples, audit
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read_lines
from thresher.corruption import corrupt

Array = NDArray[Any]
TRAIN, TEST = 2000, 2000
SETS = ("adult", "letter", "magic", "satimage", "shuttle", "spambase")
NOISES = ("symmetric:0.2", "symmetric:0.4", "pairflip:0.2", "pairflip:0.4")
FOLDS = 5
WAYS = ("alone", "cleanlab", "audit: weights", "audit: dropped", "true labels only")
DEVELOPMENT = 100  # seeds from here on served for choosing


def learners(seed: int) -> dict[str, Any]:
    from lightgbm import LGBMClassifier

    return {
        "LightGBM": LGBMClassifier(random_state=seed, verbose=-1, n_jobs=1),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=seed),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    }


def fitted(learner: Any, inputs: Array, labels: Array, weights: Array | None = None) -> Any:
    """A copy of the learner, fitted; rows of weight 0 are left out."""
    keep = np.ones(len(labels), bool) if weights is None else weights > 0
    last = learner.steps[-1][0] + "__" if "steps" in vars(learner) else ""
    told = {} if weights is None else {f"{last}sample_weight": weights[keep]}
    return clone(learner).fit(inputs[keep], labels[keep], **told)


def by_cleanlab(learner: Any, inputs: Array, labels: Array, seed: int) -> Any:
    """cleanlab's CleanLearning around the learner: out-of-fold probabilities, their issues dropped, fitted again."""
    from cleanlab.classification import CleanLearning

    return CleanLearning(clone(learner), cv_n_folds=FOLDS, seed=seed).fit(inputs, labels)


def measured(name: str, noise: str, seed: int, folder: Path) -> dict[str, Any]:
    """Accuracy on rows with true labels, for each learner and way."""
    everything = table(name, TRAIN + TEST, folder).examples
    order = torch.as_tensor(np.random.default_rng(seed).permutation(len(everything)))
    train, test = everything.subset(order[:TRAIN]), everything.subset(order[TRAIN:])
    noisy = corrupt(Examples(train.inputs, train.labels, classes=everything.classes), noise, seed=seed)
    inputs, given, true = np.asarray(train.inputs), noisy.labels.numpy(), train.labels.numpy()
    issues = audit(inputs, given, seed=seed)
    ways: dict[str, Callable[[Any], Any]] = {
        "alone": lambda learner: fitted(learner, inputs, given),
        "cleanlab": lambda learner: by_cleanlab(learner, inputs, given, seed),
        "audit: weights": lambda learner: fitted(learner, inputs, given, issues.weights()),
        "audit: dropped": lambda learner: fitted(learner, inputs, given, 1.0 * (issues.weights() > 0)),
        "true labels only": lambda learner: fitted(learner, inputs, given, 1.0 * (given == true)),
    }
    found: dict[str, dict[str, float]] = {}
    for called, learner in learners(seed).items():
        made = {way: fit(learner) for way, fit in ways.items()}
        found[called] = {
            way: float(np.mean(model.predict(np.asarray(test.inputs)) == test.labels.numpy()))
            for way, model in made.items()
        }
    return {
        "wrong": float((given != true).mean()), "accuracy": found,
        "versions of peers": {peer: version(peer) for peer in ("cleanlab", "lightgbm")},
    }  # fmt: skip


def table_of(results: list[dict[str, Any]], learner: str) -> str:
    """A line a set and noise, as Markdown: mean accuracies over the seeds."""
    heads = ["set", "noise", *WAYS, "seeds"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, noise in dict.fromkeys((r["set"], r["noise"]) for r in results):
        rows = [r["accuracy"][learner] for r in results if (r["set"], r["noise"]) == (name, noise)]
        cells = [f"{100 * fmean(row[way] for row in rows):.1f}" for way in WAYS]
        lines.append(f"| {' | '.join([name, noise, *cells, str(len(rows))])} |")
    means = [f"**{100 * fmean(r['accuracy'][learner][way] for r in results):.1f}**" for way in WAYS]
    return "\n".join([*lines, f"| **mean** | | {' | '.join(means)} | |"])


def counts(results: list[dict[str, Any]], learner: str, way: str, other: str) -> str:
    """How often the first way is ahead by more than half a point, level, and behind."""
    gaps = [row["accuracy"][learner][way] - row["accuracy"][learner][other] for row in results]
    ahead, behind = sum(gap > 0.005 for gap in gaps), sum(gap < -0.005 for gap in gaps)
    return f"{ahead} ahead, {len(gaps) - ahead - behind} level, {behind} behind"


PAGE = """# Is any learner better after an audit?

<!-- Made from results/clean-then-fit.jsonl by `python benchmarks/clean_then_fit.py --show`: do not edit. -->

Accuracy in percent on {test:,} rows with true labels, after training on {train:,} rows, of which a share has a wrong
label; means over the seeds. *alone*: the learner on all rows; *cleanlab*: `CleanLearning` of cleanlab {cleanlab} around
the learner, {folds} folds; *audit: weights*: with `th.audit(X, y).weights()` as `sample_weight`; *audit: dropped*: on
the rows whose weight is not 0; *true labels only*: on the rows whose label is right, which is unknown. The audit's
judges are its own, whatever the learner, so that a weak learner profits from stronger judges, for more fits than
cleanlab's; its settings are the default ones. Seeds from {development} on served for choosing how weights are made.

{learners}
"""

SECTION = """## {learner}

By more than half a point against cleanlab: weights {weights}; dropped {dropped}. Weights against the learner alone:
{alone}.

{table}
"""


def page(results: list[dict[str, Any]]) -> str:
    reported = [row for row in results if row["seed"] < DEVELOPMENT]
    sections = [
        SECTION.format(
            learner=learner,
            weights=counts(reported, learner, "audit: weights", "cleanlab"),
            dropped=counts(reported, learner, "audit: dropped", "cleanlab"),
            alone=counts(reported, learner, "audit: weights", "alone"),
            table=table_of(reported, learner),
        )
        for learner in reported[0]["accuracy"]
    ]
    return PAGE.format(
        test=TEST,
        train=TRAIN,
        folds=FOLDS,
        development=DEVELOPMENT,
        cleanlab=", ".join(sorted({row["versions of peers"]["cleanlab"] for row in reported})),
        learners="\n".join(sections),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help=f"From {DEVELOPMENT} on: not on the page.")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--results", type=Path, default=Path("results/clean-then-fit.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/clean-then-fit.md"))
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    known = {(r["set"], r["noise"], r["seed"]) for r in read_lines(given.results)[0]}
    for name in [] if given.show else given.sets:
        for noise in NOISES:
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                if (name, noise, seed) not in known:
                    found = measured(name, noise, seed, given.data_dir)
                    append(given.results, {"status": "done", "set": name, "noise": noise, "seed": seed, **found,
                                           **provenance("cpu")})  # fmt: skip
                    print(json.dumps({"set": name, "noise": noise, "seed": seed, **found["accuracy"]}), flush=True)
    text = page(read_lines(given.results)[0])
    print(text)
    given.docs.write_text(text)


if __name__ == "__main__":
    main()
