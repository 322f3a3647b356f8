"""Does `thresher correct` make labels better? How many are right before and after, on sets whose true labels are known.

Without --below or --count a correction takes the suggestions that are likelier right than wrong. Beside it stands the
correction of all issues. The rule was chosen on the sets of the part development. Results are added to the file; what
it holds is not measured again. The page of the docs is made from the newest result of each cell. SETS is written by
benchmarks/noise_rate_sets.py.

    python benchmarks/corrections.py --sets SETS --part report
    python benchmarks/corrections.py --show
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from noise_rate_evidence import Cell

import thresher as th
from thresher.bench.run.provenance import provenance
from thresher.bench.run.results import append, read_lines
from thresher.corruption import corrupt

Array = np.ndarray[Any, Any]
PEOPLE = "given"
MOST = 6000  # examples of a set
NOISES: dict[str, tuple[str | None, ...]] = {
    "development": (None, "symmetric:0.1", "pairflip:0.2"),
    "report": (None, "symmetric:0.05", "symmetric:0.2"),
}
SEEDS = {"development": 0, "report": 2}
CORRUPTED = {
    "development": ("magic", "satimage", "sst2"),
    "report": ("spambase", "shuttle", "adult", "digits", "snips7"),
}
LABELLED = {  # by people or rules
    "development": (
        "cifar10n-aggre_resnet18", "cifar10n-aggre_swin", "cifar10n-worst_resnet18", "mr_raters", "noisyag_news",
    ),
    "report": (
        "cifar10n-aggre_resnet18-2", "cifar10n-aggre_swin-2", "cifar10n-worst_resnet18-2", "cifar10n-worst_swin-2",
        "youtube_spam_weak", "embeddings-aggre-2", "embeddings-random1-2", "embeddings-worse-2", "mr_raters-2",
        "noisyag_news-2", "chemprot_weak",
    ),
}  # fmt: skip
PAGE = """# Does a correction make labels better?

<!-- Made from results/corrections.jsonl by `python benchmarks/corrections.py --show`: run that again, do not edit. -->

Of every 1,000 labels, how many more are right after `thresher correct` with nothing else said, and after a correction
of all issues; below 0, labels became worse. *None* are sets without a wrong label. The rule was chosen on the
development sets.

{summary}

## The report sets

`-2`: other examples of a set of the development part.

{sets}
"""


def cells(part: str) -> Iterator[Cell]:
    for name in LABELLED[part]:
        yield Cell(name, "", PEOPLE, 0)
    for name in CORRUPTED[part]:
        for noise in NOISES[part]:
            yield Cell(name, "", noise, SEEDS[part])


def measured(cell: Cell, sets: Path) -> dict[str, Any]:
    """How many labels are right, by what is corrected."""
    with np.load(sets / f"{cell.set}.npz") as stored:
        data = {name: values[:MOST] for name, values in stored.items()}
    true = data["labels"].astype(np.int64)
    inputs, more = _inputs(data, cell.set)
    given = data["given"].astype(np.int64) if cell.corruption == PEOPLE else _corrupted(inputs, true, cell)
    issues = th.audit(inputs, given, method=None, seed=cell.seed, **more)
    order = np.argsort(issues.column("id"), kind="stable")
    suggested = np.array(issues.table["suggested"].to_pylist())[order].astype(np.int64)
    corrected, is_issue = issues.corrected().astype(np.int64), issues.column("is_issue").astype(bool)[order]
    rate = issues.summary["noise_rate"]
    return {
        "set": cell.set, "noise": cell.corruption, "seed": cell.seed, "examples": len(true),
        "before": int((given == true).sum()),
        "after": int((corrected == true).sum()), "changed": int((corrected != given).sum()),
        "after_all_issues": int((np.where(is_issue, suggested, given) == true).sum()),
        "changed_all_issues": int((is_issue & (suggested != given)).sum()),
        "rate": rate["rate"], "low": rate["low"], "high": rate["high"],
    }  # fmt: skip


def _inputs(data: dict[str, Array], name: str) -> tuple[Array, dict[str, Any]]:
    """Vectors, and what a user would give beside them: embeddings, or probabilities of networks."""
    if "probabilities" in data:
        probabilities = data["probabilities"].astype(np.float64) + 1e-6
        return probabilities.astype(np.float32), {"probabilities": probabilities}
    inputs = data["inputs"].reshape(len(data["labels"]), -1).astype(np.float32)
    return inputs, {"features": inputs} if name.startswith("embeddings") else {}


def _corrupted(inputs: Array, true: Array, cell: Cell) -> Array:
    if cell.corruption is None:
        return true
    examples = th.Examples(torch.from_numpy(inputs), torch.from_numpy(true), classes=int(true.max()) + 1)
    found: Array = corrupt(examples, cell.corruption, seed=cell.seed).targets.numpy()
    return found


def gain(row: dict[str, Any], after: str) -> float:
    return 1000 * float(row[after] - row["before"]) / float(row["examples"])


def kind(row: dict[str, Any]) -> str:
    names = {None: "none", PEOPLE: "people's or rules' labels"}
    return str(names.get(row["noise"], str(row["noise"]).partition(":")[0]))


def summary(results: list[dict[str, Any]]) -> str:
    lines = [
        "| part | noise | sets | wrong before | corrected: mean | worst | all issues: mean | worst |",
        "|---" * 8 + "|",
    ]
    for part in ("development", "report"):
        rows = [row for row in results if row["part"] == part]
        for name in (*dict.fromkeys(map(kind, rows)), "all"):
            own = [row for row in rows if name in ("all", kind(row))]
            if own:
                wrong = fmean(1000 * (1 - row["before"] / row["examples"]) for row in own)
                found = [[gain(row, after) for row in own] for after in ("after", "after_all_issues")]
                numbers = " | ".join(f"{fmean(each):+.1f} | {min(each):+.1f}" for each in found)
                lines.append(f"| {part} | {name} | {len(own)} | {wrong:.0f} | {numbers} |")
    return "\n".join(lines)


def sets_table(results: list[dict[str, Any]]) -> str:
    lines = [
        "| set | noise | labels | wrong | changed | wrong after | all issues changed | wrong after |",
        "|---" * 8 + "|",
    ]
    for row in results:
        wrong = [f"{row['examples'] - row[name]:,}" for name in ("before", "after", "after_all_issues")]
        told = f"{row['changed']:,}" if row["rate"] is not None else "cannot tell"
        noise = row["noise"] if row["noise"] and row["noise"] != PEOPLE else kind(row)
        cells = [row["set"], noise, f"{row['examples']:,}", wrong[0], told, wrong[1], f"{row['changed_all_issues']:,}"]
        lines.append(f"| {' | '.join([*cells, wrong[2]])} |")
    return "\n".join(lines)


def show(results: list[dict[str, Any]], docs: Path) -> None:
    report = [row for row in results if row["part"] == "report"]
    docs.write_text(PAGE.format(summary=summary(results), sets=sets_table(report)), encoding="utf-8")
    print(summary(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, help="The folder that benchmarks/noise_rate_sets.py wrote.")
    parser.add_argument("--part", default="report", choices=sorted(NOISES))
    parser.add_argument("--minutes", type=float, default=60.0, help="Begin no other set after that.")
    parser.add_argument("--results", type=Path, default=Path("results/corrections.jsonl"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results/corrections.md"))
    parser.add_argument("--show", action="store_true", help="Show what is stored and measure nothing.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = {(row["set"], row["noise"], row["seed"]) for row in stored(given.results)}
    until = time.monotonic() + 60 * given.minutes
    for cell in () if given.show else cells(given.part):
        if (cell.set, cell.corruption, cell.seed) not in known and time.monotonic() < until:
            found = measured(cell, given.sets)
            append(given.results, {"status": "done", "part": given.part, **found, **provenance("cpu")})
            print(found, flush=True)
    show(stored(given.results), given.docs)


def stored(results: Path) -> list[dict[str, Any]]:
    """The newest result of each cell, in the order of the cells; older ones stay in the file."""
    newest = {(row["set"], row["noise"], row["seed"]): row for row in read_lines(results)[0]}
    places = [(cell.set, cell.corruption, cell.seed) for part in NOISES for cell in cells(part)]
    return [newest[place] for place in places if place in newest]


if __name__ == "__main__":
    main()
