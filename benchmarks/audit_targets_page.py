"""The page of benchmarks/audit_targets.py, from its results."""

from collections.abc import Callable
from statistics import fmean
from typing import Any

from audit_page import OURS
from audit_target_sets import DEVELOPMENT

Row = dict[str, Any]
PEERS = {f"best {start}": start for start in ("residual", "outre", "CleanLearning")}  # how their names begin
PAGE = """# Does an audit find wrong real targets?

<!-- Made from results/audit-targets.jsonl by `python benchmarks/audit_targets.py --show`: do not edit. -->

AUROC / precision at the number of wrong targets, means over the seeds; {examples} examples a set. `audit` has its
default settings. Of the others the table shows the best *in hindsight*: the plain residual from each judge's
out-of-fold predictions, from their mean, from boosting of squared errors and from the median of 20 neighbours; cleanlab
{version}'s `outre` score of the same predictions; and its `CleanLearning`, which trains each of the judges about
seventy times. F1 is that of the targets flagged, by the audit and by the best `CleanLearning`.
*Covered* is the share of values inside the expected interval, which should be 90% of the right ones: of the right
targets, and of the true values of the wrong ones. *Width* is that of the interval beside the one width that covers 90%
of the right targets. The last column is the commit of the code that was measured: rows of several may differ by more
than their sets.

The wrong targets: `uninoise` draws any value between the smallest and the largest, `signflip` mirrors a target at the
mean, `linadv` follows another line of up to 15 deviations, `onesided` adds 2 to 6 deviations, and `shift` adds or
subtracts one deviation, which is small beside what some of these sets leave unexplained.

The audit is first, or within 0.005 of the best peer in hindsight, in {reported}
of the reported results, and in {developed} of those
on {development}. Its F1 is first, or within 0.005 of the best `CleanLearning`, in {flagged} of the
reported results. In {missed} of them it flags nothing: wrong targets that are small beside what a set leaves
unexplained, or so many on one side that the judges follow them, pass for the tails of a clean set; {told_clean} of
these are told to be clean, with an interval that holds the true rate in {held}.

## Reported

{table}

## Development

{chosen}
"""


def best_peer(row: Row, key: str, start: str = "") -> tuple[str, float]:
    """Of the peers whose name begins so, the best in hindsight."""
    found = {who: score[key] for who, score in row["scores"].items() if who != OURS and who.startswith(start)}
    who = max(found, key=found.__getitem__)
    return who, found[who]


def best_f1(row: Row) -> float:
    return max(value for who, value in row["f1"].items() if who != OURS)


def mean(rows: list[Row], value: Callable[[Row], float]) -> float:
    return fmean(value(row) for row in rows)


def ranked(rows: list[Row], value: Callable[[Row, str], float]) -> str:
    return " / ".join(f"{fmean(value(row, key) for row in rows):.3f}" for key in ("auroc", "precision"))


def table(results: list[Row]) -> str:
    """A line a set and noise, as Markdown: means over the seeds."""
    heads = ["set", "noise", "wrong", "audit", *PEERS, "F1 audit", "F1 CleanLearning", "flagged", "rate found"]
    heads += ["covered: right", "wrong", "width", "commit"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, noise in dict.fromkeys((row["set"], row["noise"]) for row in results):
        rows = [row for row in results if (row["set"], row["noise"]) == (name, noise)]
        lines.append(f"| {' | '.join([name, noise, *cells(rows)])} |")
    return "\n".join(lines)


def cells(rows: list[Row]) -> list[str]:
    scores = ["–"] * (1 + len(PEERS) + 2)
    if rows[0]["scores"]:
        scores = [ranked(rows, lambda row, key: row["scores"][OURS][key])]
        scores += [ranked(rows, lambda row, key, own=own: best_peer(row, key, own)[1]) for own in PEERS.values()]
        scores += [f"{mean(rows, lambda row: row['f1'][OURS]):.3f}", f"{mean(rows, best_f1):.3f}"]
    told = [row["noise_rate"]["rate"] for row in rows if row["noise_rate"]["rate"] is not None]
    wrong = [row["covered"]["wrong"] for row in rows if row["covered"]["wrong"] is not None]
    return [
        f"{mean(rows, lambda row: row['true']):.0%}", *scores,
        f"{mean(rows, lambda row: row['flagged'][OURS]):.0%}", f"{fmean(told):.0%}" if told else "cannot tell",
        f"{mean(rows, lambda row: row['covered']['right']):.0%}", f"{fmean(wrong):.0%}" if wrong else "–",
        f"{mean(rows, lambda row: row['width']):.2f}", ", ".join(sorted({row["commit"][:7] for row in rows})),
    ]  # fmt: skip


def firsts(results: list[Row]) -> str:
    """In how many results the audit is first or within 0.005 of the best peer in hindsight."""
    asked = [row for row in results if row["scores"]]
    counts = [
        sum(row["scores"][OURS][key] >= best_peer(row, key)[1] - 0.005 for row in asked)
        for key in ("auroc", "precision")
    ]
    return f"{counts[0]} of {len(asked)} by AUROC, {counts[1]} of {len(asked)} by precision"


def page(results: list[Row]) -> str:
    chosen = [row for row in results if row["set"] in DEVELOPMENT]
    reported = [row for row in results if row["set"] not in DEVELOPMENT]
    flagged = [row["f1"][OURS] >= best_f1(row) - 0.005 for row in reported if row["f1"]]
    counts = [row["examples"] for row in results]
    missed = [row for row in reported if row["true"] and not row["flagged"][OURS]]
    told_clean = [row["noise_rate"] | {"true": row["true"]} for row in missed if row["noise_rate"]["rate"] == 0]
    return PAGE.format(
        table=table(reported), chosen=table(chosen), reported=firsts(reported), developed=firsts(chosen),
        flagged=f"{sum(flagged)} of {len(flagged)}", development=", ".join(DEVELOPMENT),
        missed=len(missed), told_clean=len(told_clean),
        held=sum(each["low"] <= each["true"] <= each["high"] for each in told_clean),
        version=", ".join(sorted({row["cleanlab"] for row in results})),
        examples=f"{min(counts):,} to {max(counts):,}" if len(set(counts)) > 1 else f"{max(counts, default=0):,}",
    )  # fmt: skip
