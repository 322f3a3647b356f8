"""Does an audit find wrong real targets better than others do from the same judges, and does its interval hold?

Results are added to the file; what it holds is not measured again. The page of the docs is made from the newest result
of each cell. DATA holds tabular/NAME.tsv.gz; cleanlab is needed everywhere. With --keep-peers stored cells are measured
again at the present code, but for peers that train regressors of their own, whose numbers do not depend on it.

    python benchmarks/audit_targets.py --sets houses friedman2 --seeds 3 --data-dir DATA
    python benchmarks/audit_targets.py --show
"""

import argparse
import json
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from audit import in_order, scored
from audit_page import OURS
from audit_target_sets import NOISES, SETS, Array, noisy
from audit_targets_page import best_peer, page
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from thresher import Examples, audit
from thresher.auditing.targets import regressors
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read_lines

Trusts, Flags = dict[str, Array], dict[str, Array]


def quick_peers(inputs: Array, targets: Array, judged: dict[str, Array]) -> Trusts:
    """Scores of the targets [n] by the audit's own judges, low where one is likely wrong."""
    from cleanlab.regression.rank import get_label_quality_scores

    trusts: Trusts = {"residual, neighbours": -np.abs(targets - of_neighbours(inputs, targets))}
    for name, values in {**judged, "mean of all": np.mean(list(judged.values()), 0)}.items():
        trusts[f"residual, {name}"] = -np.abs(targets - values)
        trusts[f"outre, {name}"] = get_label_quality_scores(targets, values, method="outre")
    return trusts


def own_trainings(inputs: Array, targets: Array, seed: int) -> tuple[Trusts, Flags]:
    """Scores of peers that train regressors themselves, and which targets cleanlab flags."""
    from cleanlab.regression.learn import CleanLearning

    trusts, flags = Trusts(), Flags()
    for name, judge in regressors(seed).items():
        folds = KFold(5, shuffle=True, random_state=seed)
        squared = {"boosting": "squared_error"}.get(name)  # as most people have it
        if squared is not None:
            plain = cross_val_predict(clone(judge).set_params(loss=squared), inputs, targets, cv=folds)
            trusts[f"residual, {name} of squared errors"] = -np.abs(targets - plain)
        found = CleanLearning(model=clone(judge), seed=seed).find_label_issues(inputs, targets)
        trusts[f"CleanLearning, {name}"] = found["label_quality"].to_numpy()
        flags[f"CleanLearning, {name}"] = found["is_label_issue"].to_numpy()
    return trusts, flags


def of_neighbours(inputs: Array, targets: Array) -> Array:
    """The median target of the 20 nearest others [n]."""
    near = NearestNeighbors(n_neighbors=20).fit(inputs).kneighbors(return_distance=False)
    return np.asarray(np.median(targets[near], 1))


def measured(name: str, noise: str, seed: int, data: Path, older: dict[str, Any] | None = None) -> dict[str, Any]:
    """One cell: the ranking, the labels flagged, and how many values the interval covers.

    older  an earlier result of the cell, which tells what peers that train for themselves had
    """
    inputs, true, given = noisy(name, noise, seed, data)
    wrong = np.abs(given - true) > 1e-4 * true.std()
    started = time.process_time()
    with TemporaryDirectory() as folder:
        examples = Examples(torch.from_numpy(inputs), torch.from_numpy(given[:, None]))
        issues = audit(examples, out=folder, method=None, seed=seed)
        seconds = time.process_time() - started
        judged = {path.stem: np.load(path)["values"][:, 0] for path in (Path(folder) / "audit").glob("*.npz")}
    trusts, flags = quick_peers(inputs, given, judged), Flags()
    if older is None:
        theirs, flags = own_trainings(inputs, given, seed)
        trusts |= theirs
    trusts[OURS], flags[OURS] = in_order(issues, "trust"), in_order(issues, "is_issue").astype(bool)
    low, high = in_order(issues, "low"), in_order(issues, "high")
    has_wrong = bool(wrong.any())
    covered, residuals = (low <= true) & (true <= high), (true - in_order(issues, "expected"))[~wrong]
    within = {"right": float(covered[~wrong].mean()), "wrong": float(covered[wrong].mean()) if has_wrong else None}
    narrowest = 2 * np.quantile(np.abs(residuals), 0.9)  # one width for all that covers 90% of the right ones
    found = {
        "examples": len(given), "true": float(wrong.mean()), "noise_rate": issues.summary["noise_rate"],
        "audit_cpu_seconds": seconds, "cleanlab": version("cleanlab"),
        "scores": {who: scored(trust, wrong) for who, trust in trusts.items()} if has_wrong else {},
        "f1": {who: float(f1_score(wrong, flagged)) for who, flagged in flags.items()} if has_wrong else {},
        "flagged": {who: float(flagged.mean()) for who, flagged in flags.items()},
        "covered": within, "width": float((high - low).mean() / narrowest),
    }  # fmt: skip
    return found if older is None else with_peers_of(older, found)


def with_peers_of(older: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The result with what it lacks of an older one of the same data, judges and cleanlab."""
    same = ("examples", "true", "cleanlab")
    if [older[name] for name in same] != [found[name] for name in same]:
        raise SystemExit(f"The stored result has other {', '.join(same)}: measure the peers again.")
    kept = {name: {**older[name], **found[name]} for name in ("scores", "f1", "flagged")}
    return {**found, **kept, "peers of commit": older.get("peers of commit", older["commit"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["diabetes"], choices=list(SETS))
    parser.add_argument("--noises", nargs="+", default=list(NOISES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--results", type=Path, default=Path("results/audit-targets.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/audit-targets.md"))
    parser.add_argument("--keep-peers", action="store_true", help="Measure stored cells again, but not slow peers.")
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="lbfgs failed to converge")  # HuberRegressor, on wrong targets
    known = {(row["set"], row["noise"], row["seed"]): row for row in stored(given.results)}
    commit = provenance("cpu")["commit"]
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    asked = [(name, noise, seed) for name in given.sets for noise in given.noises for seed in seeds]
    for name, noise, seed in [] if given.show else asked:
        older = known.get((name, noise, seed))
        wanted = older is None if not given.keep_peers else older is not None and older["commit"] != commit
        if wanted:
            cell = {"set": name, "noise": noise, "seed": seed}
            found = measured(name, noise, seed, given.data_dir, older)
            append(given.results, {"status": "done", **cell, **found, **provenance("cpu")})
            best = best_peer(found, "auroc") if found["scores"] else None
            print(json.dumps({**cell, "audit": found["scores"].get(OURS), "best": best}), flush=True)
    text = page(stored(given.results))
    print(text)
    given.docs.write_text(text)


def stored(results: Path) -> list[dict[str, Any]]:
    """The newest result of each cell; older ones stay in the file."""
    newest = {(row["set"], row["noise"], row["seed"]): row for row in read_lines(results)[0]}
    return sorted(newest.values(), key=lambda row: (list(SETS).index(row["set"]), list(NOISES).index(row["noise"])))


if __name__ == "__main__":
    main()
