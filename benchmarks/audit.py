"""Does an audit find wrong labels better than others do from the same trainings?

Results are added to the file; what it holds is not measured again. The page of the docs is made from it. DATA holds
NAME.npz, tabular/NAME.tsv.gz and text/NAME.tsv.gz; texts need wordllama, embedded images efficientnet_lite_pytorch.

    python benchmarks/audit.py --sets digits magic --seeds 2 --data-dir DATA
    python benchmarks/audit.py --show
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from audit_sets import DEVELOPMENT, SETS, Set, noises, noisy
from numpy.typing import NDArray
from sklearn.metrics import f1_score, roc_auc_score
from torch.nn.functional import cross_entropy

from thresher import Examples, audit
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read
from thresher.models import NamedModel, default_model
from thresher.noise import confident_joint
from thresher.record.issues import Issues

Array = NDArray[Any]
OURS = "audit"
PEERS = ("self-confidence", "normalised margin", ("mean probability", "neighbours", "AUM"))  # how their names begin


def self_confidence(probabilities: Array, labels: Array) -> Array:
    """cleanlab's: the probability of the given label."""
    return np.asarray(probabilities[np.arange(len(labels)), labels])


def normalised_margin(probabilities: Array, labels: Array) -> Array:
    """cleanlab's: that minus the largest probability of another."""
    others = probabilities.copy()
    others[np.arange(len(labels)), labels] = -1
    return np.asarray(self_confidence(probabilities, labels) - others.max(1))


def confident_learning(probabilities: Array, labels: Array) -> Array:
    """Which labels cleanlab's `prune_by_noise_rate` would flag: of each pair of classes, the lowest margins."""
    joint = confident_joint(torch.from_numpy(probabilities), torch.from_numpy(labels)).double().numpy()
    given = np.bincount(labels, minlength=len(joint))
    joint = joint / np.maximum(joint.sum(1, keepdims=True), 1) * given[:, None]
    flagged = np.zeros(len(labels), bool)
    for label in range(len(joint)):
        members = np.flatnonzero(labels == label)
        for other in np.flatnonzero(np.arange(len(joint)) != label):
            count = round(joint[label, other])
            gap = probabilities[members, other] - probabilities[members, label]
            flagged[members[np.argsort(-gap, kind="stable")[:count]]] = True
    return flagged & (probabilities.argmax(1) != labels)


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


def measured(chosen: Set, noise: str, seed: int, epochs: int) -> dict[str, Any]:
    examples, wrong = noisy(chosen, noise, seed)
    labels = examples.labels.numpy()
    vectors = examples.inputs.numpy() if chosen.kind in ("embeddings", "texts") else None
    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        issues = audit(
            examples, model=chosen.model, features=vectors, out=folder, method=None, seed=seed, epochs=epochs
        )
        seconds = time.perf_counter() - started
        stored = {path.stem: dict(np.load(path)) for path in (Path(folder) / "audit").glob("*.npz")}
    trusts = {OURS: in_order(issues, "trust")}
    judges = {name: each["probabilities"] for name, each in stored.items() if "probabilities" in each}
    if "network" in stored:
        judges["network"] = stored["network"]["outputs"]
        trusts["mean probability in training"] = stored["network"]["dynamics"]
        trusts["neighbours of the network"] = normalised_margin(stored["network"]["votes"], labels)
        model = default_model(examples.input_shape) if chosen.model == "auto" else chosen.model
        trusts["AUM"] = area_under_margin(examples, model, 4 * epochs // 2, seed)
    if len(judges) > 1:
        judges["mean of all"] = np.mean(list(judges.values()), 0)
    for name, probabilities in judges.items():
        trusts[f"self-confidence, {name}"] = self_confidence(probabilities, labels)
        trusts[f"normalised margin, {name}"] = normalised_margin(probabilities, labels)
    trusts["neighbours"] = neighbours(examples, labels)
    flags = {f"confident learning, {name}": confident_learning(each, labels) for name, each in judges.items()}
    flags[OURS] = in_order(issues, "is_issue").astype(bool)
    return {
        "kind": chosen.kind, "examples": len(labels), "classes": examples.outputs, "true": float(wrong.mean()),
        "noise_rate": issues.summary["noise_rate"], "audit_seconds": seconds,
        "scores": {name: scored(trust, wrong) for name, trust in trusts.items()},
        "f1": {name: float(f1_score(wrong, flagged)) for name, flagged in flags.items()},
    }  # fmt: skip


def neighbours(examples: Examples, labels: Array) -> Array:
    """The vote of the 20 nearest for the given label, as SimiFeat counts it, with equal votes."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    flat = StandardScaler().fit_transform(examples.inputs.reshape(len(labels), -1).float().numpy())
    near = NearestNeighbors(n_neighbors=21).fit(flat).kneighbors(flat, return_distance=False)[:, 1:]
    counts = np.stack([(labels[near] == label).mean(1) for label in range(examples.outputs)], 1)
    return normalised_margin(counts, labels)


def in_order(issues: Issues, name: str) -> Array:
    return issues.column(name)[np.argsort(issues.column("id"), kind="stable")]


def best_peer(row: dict[str, Any], name: str, start: str | tuple[str, ...]) -> tuple[str, float]:
    """Of the peers whose name begins so, the best in hindsight."""
    found = {who: score[name] for who, score in row["scores"].items() if who != OURS and who.startswith(start)}
    who = max(found, key=found.__getitem__)
    return who, found[who]


def peer_score(row: dict[str, Any], name: str, start: str | tuple[str, ...]) -> float:
    return best_peer(row, name, start)[1]


def table(results: list[dict[str, Any]]) -> str:
    """A line a set and noise, as Markdown: means over the seeds."""
    heads = ["set", "noise", "wrong", "audit", "best self-confidence", "best normalised margin", "best of the rest"]
    heads += ["F1 audit", "F1 confident learning", "rate found", "seeds"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, noise in dict.fromkeys((r["set"], r["noise"]) for r in results):
        rows = [r for r in results if (r["set"], r["noise"]) == (name, noise)]
        cells = [both(rows, lambda row, key: row["scores"][OURS][key])]
        cells += [both(rows, partial(peer_score, start=start)) for start in PEERS]
        ours = fmean(r["f1"][OURS] for r in rows)
        peers = fmean(max(value for who, value in r["f1"].items() if who != OURS) for r in rows)
        rates = [r["noise_rate"] for r in rows if r["noise_rate"]["rate"] is not None]
        told = "cannot tell" if not rates else (
            f"{fmean(r['rate'] for r in rates):.0%} ({fmean(r['low'] for r in rates):.0%} to "
            f"{fmean(r['high'] for r in rates):.0%})"
        )  # fmt: skip
        wrong = f"{fmean(r['true'] for r in rows):.0%}"
        lines.append(
            f"| {' | '.join([name, noise, wrong, *cells, f'{ours:.3f}', f'{peers:.3f}', told, str(len(rows))])} |"
        )
    return "\n".join(lines)


def both(rows: list[dict[str, Any]], value: Any) -> str:
    return " / ".join(f"{fmean(value(row, key) for row in rows):.3f}" for key in ("auroc", "precision"))


def firsts(results: list[dict[str, Any]]) -> str:
    """In how many results the audit is first or within 0.005 of the best peer in hindsight."""
    counts = [
        sum(row["scores"][OURS][key] >= best_peer(row, key, "")[1] - 0.005 for row in results)
        for key in ("auroc", "precision")
    ]
    return f"{counts[0]} of {len(results)} by AUROC, {counts[1]} of {len(results)} by precision"


PAGE = """# Does an audit find wrong labels better than others?

<!-- Made from results/audit.jsonl by `python benchmarks/audit.py --show`: run that again, do not edit. -->

AUROC / precision at the number of wrong labels (one minus it is the share missed at that budget), means over the seeds.
`audit` has its default settings. The others read the same trainings: self-confidence and normalised margin are
cleanlab's scores of the out-of-fold probabilities of each judge and of the judges' mean, of which the table shows the
best *in hindsight*, the rest are the mean probability in training, AUM (one training as long as all folds together) and
the votes of neighbours, again the best in hindsight. F1 is that of the labels flagged: by the audit at the rate it
found, and by confident learning, the best judge in hindsight.

How judges are combined was chosen on {development} only; that the noise matrix should enter trust was
tried after a first look at reported results, and kept because it helped on the development sets. The audit is first,
or within 0.005 of the best peer in hindsight, in {reported} of the
reported results, and in {developed} of those on the development sets.

## Reported

{table}

## Development

{chosen}
"""


def page(results: list[dict[str, Any]]) -> str:
    chosen = [r for r in results if r["set"] in DEVELOPMENT]
    reported = [r for r in results if r["set"] not in DEVELOPMENT]
    return PAGE.format(
        development=", ".join(DEVELOPMENT), table=table(reported), chosen=table(chosen),
        reported=firsts(reported), developed=firsts(chosen),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["digits"], choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--results", type=Path, default=Path("results/audit.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/audit.md"))
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    known = {(r["set"], r["noise"], r["seed"]) for r in read(given.results)[0]}
    for name in [] if given.show else given.sets:
        make, count = SETS[name]
        chosen = make(count, given.data_dir)
        for noise in noises(chosen):
            for seed in range(1 if noise == "people" else given.seeds):
                if (name, noise, seed) in known:
                    continue
                found = measured(chosen, noise, seed, given.epochs)
                append(given.results, {"status": "done", "set": name, "noise": noise, "seed": seed, **found,
                                       **provenance("cpu")})  # fmt: skip
                print(json.dumps({"set": name, "noise": noise, "seed": seed, "audit": found["scores"][OURS],
                                  "best": best_peer(found, "auroc", "")}), flush=True)  # fmt: skip
    text = page(read(given.results)[0])
    print(text)
    given.docs.write_text(text)


if __name__ == "__main__":
    main()
