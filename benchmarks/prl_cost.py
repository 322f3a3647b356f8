"""What an epoch of PRL costs beside the paper's Table 6: prints docs/results/prl-cost.md.

    python benchmarks/prl_cost.py > docs/results/prl-cost.md

From what benchmarks/engine.py (CPU) and benchmarks/engine_gpu.py (GPU) have stored; nothing is measured here.
"""

import json
from pathlib import Path
from typing import Any

TABLE_6 = {"standard": 37.0, "prl-l": 54.8, "prl-g": 145.6}  # seconds of one epoch on CIFAR-10, by Opacus for PRL(G)
NAMES = {"standard": "Standard", "prl-l": "PRL(L)", "prl-g": "PRL(G)", "prl-g by opacus": "PRL(G) by Opacus"}
HEAD = """\
# What an epoch of PRL costs

<!-- Made from results/engine-cpu.jsonl and results/engine-gpu.jsonl by `python benchmarks/prl_cost.py`. -->

**What holds here.** The paper's Table 6 has PRL(L) at {l:.2f}× and PRL(G) at {g:.2f}× of a plain epoch on CIFAR-10.
That choosing by the loss layer is cheap and choosing by whole gradients dearer holds here; the factors do not: exact
norms come from one backward chain, where the paper forms the gradient of every example by Opacus. Each ratio is from
one run in which the contestants took turns; how it varies from run to run was not measured.
"""


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def lines(rows: list[dict[str, Any]], where: str, seconds: str) -> list[str]:
    """A line of the table for each contestant that the paper has; ratios are of the times printed."""
    known = [row for row in rows if row["who"] in NAMES]
    plain = next(row[seconds] for row in known if row["who"] == "standard")
    made = []
    for row in known:
        paper = TABLE_6.get(row["who"])
        printed = "" if paper is None else f"{paper / TABLE_6['standard']:.2f}×"
        made.append(f"| {where} | {NAMES[row['who']]} | {row[seconds]:.2f} | {row[seconds] / plain:.2f}× | {printed} |")
    return made


def page() -> str:
    plain = TABLE_6["standard"]
    parts = [HEAD.format(l=TABLE_6["prl-l"] / plain, g=TABLE_6["prl-g"] / plain)]
    parts.append("| where | method | seconds an epoch | against Standard | the paper's, against its Standard |")
    parts.append("|---|---|---|---|---|")
    cpu = [row for row in read("results/engine-cpu.jsonl") if row["contest"].startswith("GroupNorm")]
    parts += lines(cpu, "cnn9 with GroupNorm, 2 CPU threads", "epoch_seconds")
    gpu = [row for row in read("results/engine-gpu.jsonl") if row["kind"] == "speed" and row["batch"] == 128]
    for model in ("resnet32", "resnet32-gn"):
        here = [row for row in gpu if row["model"] == model]
        parts += lines(here, f"{model}, {here[0]['gpu']}, batch 128, bfloat16", "epoch")
    commits = {row.get("commit") for row in gpu}
    parts.append("")
    parts.append(
        "PRL(G) needs a network without BatchNorm, as in the paper. "
        + ("The rows from the GPU were stored before rows had a commit; they came into the history with 75a5621."
           if None in commits else f"GPU rows: commit {min(map(str, commits))[:7]}.")
    )  # fmt: skip
    return "\n".join(parts)


if __name__ == "__main__":
    print(page())
