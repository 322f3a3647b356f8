"""The page of benchmarks/texts.py, from its results."""

from statistics import fmean, pstdev
from typing import Any

PAGE = """# Texts with noisy labels

<!-- Made from results/texts.jsonl by `python benchmarks/texts.py show`: do not edit. -->

Accuracy in percent on texts with true labels, mean and standard deviation over the seeds; the best row of each set is
bold. *TF-IDF + logistic regression* reads words and pairs of words; *cleanlab* is `CleanLearning` around it.
*embeddings* are the 256 numbers of a small pretrained encoder (wordllama) with an MLP behind them; *transformer* has
two layers of width 128 from random weights. Methods are Thresher's defaults, and find the noise rate themselves. Below,
the AUROC of wrong labels by the trust of each run.

{sets}

## Accuracy

{accuracy}

## Wrong labels found

{found}

{firsts}

{unfound}
"""


def page(results: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(row["set"] for row in results))
    whos = list(dict.fromkeys(row["who"] for row in results))
    facts = {name: next(row for row in results if row["set"] == name) for name in names}
    sets = ["| set | classes | trained on | wrong labels | tested on |", "|---" * 5 + "|"]
    for name, row in facts.items():
        sets.append(
            f"| {name}, {row['noise']} | {row['classes']} | {row['train']:,} | {row['wrong']:.1%} | {row['test']:,} |"
        )
    return PAGE.format(
        sets="\n".join(sets),
        accuracy=table(results, names, whos, "accuracy", 100, 1),
        found=table([row for row in results if "found" in row], names, whos, "found", 1, 3),
        firsts=" ".join(first(results, name) for name in names),
        unfound=unfound(results, names),
    )


def unfound(results: list[dict[str, Any]], names: list[str]) -> str:
    """On which sets prl-l did what standard does, because its runs took all labels for right."""
    known = {(row["set"], row["who"], row["seed"]): row["accuracy"] for row in results}
    pairs = {
        name: [
            found == known[name, who.replace("prl-l", "standard"), seed]
            for (of, who, seed), found in known.items()
            if of == name and "prl-l" in who and (of, who.replace("prl-l", "standard"), seed) in known
        ]
        for name in names
    }
    same = [f"{name} ({sum(found)} of {len(found)} runs)" for name, found in pairs.items() if any(found)]
    if not same:
        return ""
    return (
        f"On {', '.join(same)} prl-l gave what standard gives, because the run found a noise rate of 0 although labels "
        "are wrong there: give `noise_rate=` where you know it."
    )


def table(results: list[dict[str, Any]], names: list[str], whos: list[str], key: str, times: float, digits: int) -> str:
    lines = [f"| | {' | '.join(names)} | seeds |", "|---" * (len(names) + 2) + "|"]
    best = {name: max(means(results, name, key).values()) for name in names if means(results, name, key)}
    for who in whos:
        mine = [row for row in results if row["who"] == who]
        cells = []
        for name in names:
            values = [times * row[key] for row in mine if row["set"] == name]
            text = f"{fmean(values):.{digits}f}" if values else ""
            text += f" ± {pstdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"**{text}**" if values and fmean(values) >= times * best[name] - 1e-12 else text)
        if mine:
            counts = sorted({sum(row["set"] == name for row in mine) for name in names} - {0})
            lines.append(f"| {who} | {' | '.join(cells)} | {' to '.join(map(str, counts[:1] + counts[1:][-1:]))} |")
    return "\n".join(lines)


def means(results: list[dict[str, Any]], name: str, key: str) -> dict[str, float]:
    """The mean over the seeds of each contestant on one set."""
    whos = dict.fromkeys(row["who"] for row in results if row["set"] == name)
    return {
        who: fmean(row[key] for row in results if (row["set"], row["who"]) == (name, who)) for who in whos
    }  # fmt: skip


def first(results: list[dict[str, Any]], name: str) -> str:
    """Who is ahead on one set, and by how much of TF-IDF alone."""
    found = means(results, name, "accuracy")
    best, plain = max(found, key=found.__getitem__), found["TF-IDF + logistic regression"]
    ahead = 100 * (found[best] - plain)
    if ahead <= 0:
        return f"On {name} plain TF-IDF with logistic regression is ahead of everything."
    return f"On {name}, {best} is ahead: {ahead:.1f} points above plain TF-IDF with logistic regression."
