"""Does an audit find wrong labels better than others do from the same trainings?

Results are added to the file; what it holds is not measured again: give another one to do so, and add its lines. The
page of the docs is made from the newest result of each cell. DATA holds NAME.npz, tabular/NAME.tsv.gz and
text/NAME.tsv.gz; cleanlab is needed everywhere, wordllama for texts and efficientnet_lite_pytorch for embedded images.

    python benchmarks/audit.py --sets digits magic --seeds 3 --data-dir DATA
    python benchmarks/audit.py --show
"""

import argparse
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from audit_page import OURS, best_peer, page
from audit_sets import SETS, Set, noises, noisy
from numpy.typing import NDArray
from sklearn.metrics import f1_score, roc_auc_score
from torch.nn.functional import cross_entropy

from thresher import Examples, audit
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read_lines
from thresher.models import NamedModel, default_model
from thresher.record.issues import Issues

Array = NDArray[Any]


def cleanlab_scores(probabilities: Array, labels: Array) -> dict[str, Array]:
    """Two scores of the labels [n] by out-of-sample probabilities: low where one is likely wrong."""
    from cleanlab.rank import get_label_quality_scores

    names = {"self-confidence": "self_confidence", "normalised margin": "normalized_margin"}
    return {
        name: np.asarray(get_label_quality_scores(labels, probabilities, method=how)) for name, how in names.items()
    }


def confident_learning(probabilities: Array, labels: Array) -> Array:
    """Which labels [n] cleanlab flags by its default, `prune_by_noise_rate`."""
    from cleanlab.filter import find_label_issues

    return np.asarray(find_label_issues(labels, probabilities, n_jobs=1))


def margin(votes: Array, labels: Array) -> Array:
    """The share of the given label minus the largest of another [n]."""
    rows, others = np.arange(len(labels)), votes.copy()
    others[rows, labels] = -1
    return np.asarray(votes[rows, labels] - others.max(1))


def area_under_margin(examples: Examples, model: str, epochs: int, seed: int) -> Array:
    """The mean over epochs of the margin of the given label's logit (Pleiss et al. 2020), of one long training."""
    torch.manual_seed(seed)
    network = NamedModel(model, examples.input_shape, examples.outputs)()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    margins = np.zeros(len(examples))
    for _ in range(epochs):
        order = torch.randperm(len(examples)).split(128)
        for rows, inputs in zip(order, examples.batches(order), strict=True):
            outputs, labels = network(inputs), examples.labels[rows]
            optimizer.zero_grad()
            cross_entropy(outputs, labels).backward()
            optimizer.step()
            logits = outputs.detach().clone()
            own = logits.gather(1, labels[:, None])[:, 0]
            margins[rows.numpy()] += (own - logits.scatter(1, labels[:, None], -torch.inf).max(1).values).numpy()
    return margins / epochs


def scored(trust: Array, wrong: Array) -> dict[str, float]:
    """AUROC, and the share of wrong ones among as many of the least trusted: one minus it are missed."""
    least = np.argsort(trust, kind="stable")[: wrong.sum()]
    return {"auroc": float(roc_auc_score(wrong, -trust)), "precision": float(wrong[least].mean())}


def measured(chosen: Set, noise: str, seed: int, epochs: int, folder: Path) -> dict[str, Any]:
    """One cell; `folder` keeps what the judges said, so that it can be measured again without training."""
    examples, wrong = noisy(chosen, noise, seed)
    labels = examples.labels.numpy()
    vectors = examples.inputs.numpy() if chosen.kind in ("embeddings", "texts") else None
    kept_before, started = (folder / "audit").exists(), time.perf_counter()
    issues = audit(
        examples, model=chosen.model, features=vectors, probabilities=chosen.probabilities, out=folder, method=None,
        seed=seed, epochs=epochs,
    )  # fmt: skip
    seconds = None if kept_before else time.perf_counter() - started
    stored = {path.stem: dict(np.load(path)) for path in (folder / "audit").glob("*.npz")}
    trusts = {OURS: in_order(issues, "trust")}
    judges = {name: each["probabilities"] for name, each in stored.items() if "probabilities" in each}
    if chosen.probabilities is not None:
        judges["given"] = chosen.probabilities
    if "network" in stored:
        judges["network"] = stored["network"]["outputs"]
        trusts["mean probability in training"] = stored["network"]["dynamics"]
        trusts["neighbours of the network"] = margin(stored["network"]["votes"], labels)
        model = default_model(examples.input_shape) if chosen.model == "auto" else chosen.model
        trusts["AUM"] = kept(folder / "aum.npy", lambda: area_under_margin(examples, model, 4 * epochs // 2, seed))
    if len(judges) > 1:
        judges["mean of all"] = np.mean(list(judges.values()), 0)
    for name, probabilities in judges.items():
        trusts |= {f"{how}, {name}": each for how, each in cleanlab_scores(probabilities, labels).items()}
    if chosen.probabilities is None:
        trusts["neighbours"] = neighbours(examples, labels)
    flags = {f"confident learning, {name}": confident_learning(each, labels) for name, each in judges.items()}
    flags[OURS] = in_order(issues, "is_issue").astype(bool)
    return {
        "kind": chosen.kind, "examples": len(labels), "classes": examples.outputs, "true": float(wrong.mean()),
        "noise_rate": issues.summary["noise_rate"], "audit_seconds": seconds, "cleanlab": version("cleanlab"),
        "scores": {name: scored(trust, wrong) for name, trust in trusts.items()},
        "f1": {name: float(f1_score(wrong, flagged)) for name, flagged in flags.items()},
        "flagged": {name: float(flagged.mean()) for name, flagged in flags.items()},
    }  # fmt: skip


def kept(path: Path, make: Callable[[], Array]) -> Array:
    """What the file holds, or what `make` gives, which is kept there."""
    if not path.exists():
        np.save(path, make())
    return np.asarray(np.load(path))


def neighbours(examples: Examples, labels: Array) -> Array:
    """The vote of the 20 nearest for the given label, as SimiFeat counts it, with equal votes."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    flat = StandardScaler().fit_transform(examples.inputs.reshape(len(labels), -1).float().numpy())
    near = NearestNeighbors(n_neighbors=21).fit(flat).kneighbors(flat, return_distance=False)[:, 1:]
    counts = np.stack([(labels[near] == label).mean(1) for label in range(examples.outputs)], 1)
    return margin(counts, labels)


def in_order(issues: Issues, name: str) -> Array:
    return issues.column(name)[np.argsort(issues.column("id"), kind="stable")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["digits"], choices=list(SETS))
    parser.add_argument("--noises", nargs="+", help="All those of the set by default.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--evidence", type=Path, help="Where to keep what judges say, to measure it again.")
    parser.add_argument("--results", type=Path, default=Path("results/audit.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/audit.md"))
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    known = {(r["set"], r["noise"], r["seed"]) for r in stored(given.results)}
    for name in [] if given.show else given.sets:
        make, count = SETS[name]
        chosen = make(count, given.data_dir)
        for noise in given.noises or noises(chosen):
            for seed in range(given.first_seed, 1 if noise == "people" else given.first_seed + given.seeds):
                if (name, noise, seed) in known:
                    continue
                with TemporaryDirectory() as folder:
                    place = Path(folder) if given.evidence is None else given.evidence / f"{name}_{noise}_{seed}"
                    found = measured(chosen, noise, seed, given.epochs, place)
                append(given.results, {"status": "done", "set": name, "noise": noise, "seed": seed, **found,
                                       **provenance("cpu")})  # fmt: skip
                print(json.dumps({"set": name, "noise": noise, "seed": seed, "audit": found["scores"][OURS],
                                  "best": best_peer(found, "auroc", "")}), flush=True)  # fmt: skip
    text = page(stored(given.results))
    print(text)
    given.docs.write_text(text)


def stored(results: Path) -> list[dict[str, Any]]:
    """The newest result of each cell; older ones stay in the file."""
    newest = {(row["set"], row["noise"], row["seed"]): row for row in read_lines(results)[0]}
    return sorted(newest.values(), key=lambda row: list(SETS).index(row["set"]))


if __name__ == "__main__":
    main()
