"""The page of benchmarks/audit.py, from its results."""

from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any

from audit_sets import DEVELOPMENT

OURS = "audit"
PEERS = ("self-confidence", "normalised margin", ("mean probability", "neighbours", "AUM"))  # how their names begin


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
        cells += [both(rows, partial(peer_score, start=start)) if has(rows[0], start) else "–" for start in PEERS]
        ours = fmean(r["f1"][OURS] for r in rows)
        peers = fmean(peer_f1(r) for r in rows)
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


def has(row: dict[str, Any], start: str | tuple[str, ...]) -> bool:
    return any(who.startswith(start) for who in row["scores"])


def both(rows: list[dict[str, Any]], value: Any) -> str:
    return " / ".join(f"{fmean(value(row, key) for row in rows):.3f}" for key in ("auroc", "precision"))


def firsts(results: list[dict[str, Any]]) -> str:
    """In how many results the audit is first or within 0.005 of the best peer in hindsight."""
    counts = [
        sum(row["scores"][OURS][key] >= best_peer(row, key, "")[1] - 0.005 for row in results)
        for key in ("auroc", "precision")
    ]
    return f"{counts[0]} of {len(results)} by AUROC, {counts[1]} of {len(results)} by precision"


def behind(results: list[dict[str, Any]]) -> str:
    """The lines of the table, means over the seeds, in which the audit is not first or level, by name."""
    lines = [
        (f"{name} {noise}", [r for r in results if (r["set"], r["noise"]) == (name, noise)])
        for name, noise in dict.fromkeys((r["set"], r["noise"]) for r in results)
    ]
    said = []
    for key, called in (("auroc", "AUROC"), ("precision", "precision")):
        gaps = {
            name: fmean(row["scores"][OURS][key] - best_peer(row, key, "")[1] for row in rows) for name, rows in lines
        }
        names = [name for name, gap in gaps.items() if gap < -0.005]
        said.append(f"{len(names)} of {len(lines)} by {called} ({'; '.join(names)})" if names else f"none by {called}")
    return ",\nand in ".join(said)


def flags(results: list[dict[str, Any]]) -> str:
    """How often the F1 of the flagged labels is first where a rate is told, and what is flagged where none is."""
    told, others = ([r for r in results if (r["noise_rate"]["rate"] is None) == none] for none in (False, True))
    behind = [sum(row["f1"][OURS] < peer_f1(row) - 0.005 for row in rows) for rows in (told, others)]
    return (
        f"{len(told) - behind[0]} of the {len(told)} reported\nresults where it tells a noise rate. In the other "
        f"{len(others)}, where only what is sure is flagged, it is behind in {behind[1]}:\nit flags "
        f"{flagged(others, own_flags)}, confident learning {flagged(others, best_flags)}."
    )


def flagged(results: list[dict[str, Any]], who: Callable[[dict[str, Any]], str]) -> str:
    """The mean share of the labels that are flagged, and of how many of them rightly."""
    shares = [row["flagged"][who(row)] for row in results]
    found = [row["f1"][who(row)] * (row["flagged"][who(row)] + row["true"]) / 2 for row in results]
    if not sum(shares):
        return "none"
    return f"{fmean(shares):.0%} of the labels ({sum(found) / sum(shares):.0%} of them rightly)"


def own_flags(row: dict[str, Any]) -> str:  # noqa: ARG001
    return OURS


def best_flags(row: dict[str, Any]) -> str:
    return max((who for who in row["f1"] if who != OURS), key=row["f1"].__getitem__)


def peer_f1(row: dict[str, Any]) -> float:
    """The best F1 of confident learning, in hindsight."""
    return float(row["f1"][best_flags(row)])


PAGE = """# Does an audit find wrong labels better than others?

<!-- Made from results/audit.jsonl by `python benchmarks/audit.py --show`: run that again, do not edit. -->

AUROC / precision at the number of wrong labels (one minus it is the share missed at that budget), means over the seeds.
`audit` has its default settings. The others read the same trainings: self-confidence and normalised margin are the
scores of cleanlab {version}, from the out-of-fold probabilities of each judge and of the judges' mean, of which the
table shows the best *in hindsight*; the rest are the mean probability in training, AUM (one training as long as all
folds together) and the votes of neighbours, again the best in hindsight. F1 is that of the labels flagged: by the
audit, and by cleanlab's confident learning (`find_label_issues`), again by the best judge in hindsight.

How judges are combined was chosen on {development} only; that the noise matrix should enter trust was
tried after a first look at reported results, and kept because it helped on the development sets. How far it enters, and
how many labels are flagged, was chosen on other seeds of the development sets, spambase, shuttle, sst2, clinc150 and
mr_raters, and on rows of CIFAR-10, Fashion-MNIST and CIFAR-10N that are not among those reported; that both needed it
was seen in these results. Of CIFAR-10N, the first 10,000 images are judged by probabilities
from elsewhere (`--probabilities`), out of sample, of the network that is named; that these alone, and not pixels that
are alike, say the noise rate there was decided after a first look at these results. The wrong labels of people are
those of hard or systematic cases, which models share: their rate is found too low.

The audit is first, or within 0.005 of the best peer in hindsight, in {reported} of
the reported results, and in {developed} of those on the development sets. Its F1 is
first, or within 0.005 of confident learning's best, in {flagged}

So it is not first everywhere. Of the lines of the table below, which are means over the seeds, it is behind in
{behind}.

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
        reported=firsts(reported), developed=firsts(chosen), flagged=flags(reported), behind=behind(reported),
        version=", ".join(sorted({r["cleanlab"] for r in results})),
    )  # fmt: skip
