"""Speed against peers, as pictures of ratios and of growth, from what the benchmarks have stored."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from website.charts import bars, lines
from website.made import Made

OURS = {"exact": "Thresher, exact", "partitioned": "Thresher, partitioned", "streamed": "Thresher, streamed",
        "stochastic": "Thresher, stochastic"}  # fmt: skip
Stored = dict[str, Any]


def _read(folder: Path, name: str) -> list[Stored]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines() if line]


def _medians(rows: Iterable[Stored], value: str, *by: str) -> dict[tuple[Any, ...], float]:
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if value in row:
            found.setdefault(tuple(row[key] for key in by), []).append(row[value])
    return {key: median(values) for key, values in found.items()}


def _ratios(seconds: dict[str, float], first: str) -> list[Stored]:
    """A point for each name, the fastest first: its time as a multiple of that of `first`."""
    ordered = sorted(seconds, key=lambda name: seconds[name])
    return [
        {
            "who": OURS.get(who, who),
            "times": seconds[who] / seconds[first],
            "told": f"{seconds[who] / seconds[first]:.2f}×",
        }
        for who in ordered
    ]


def facility_location(folder: Path) -> Made:
    rows = [row for row in _read(folder, "coreset-cpu") if row["status"] == "done"]
    against = _medians([row for row in rows if row["part"] == "peers"], "seconds", "n", "who")
    files, text = {}, []
    for n in sorted({n for n, _ in against}):
        points = _ratios({who: each for (size, who), each in against.items() if size == n}, "exact")
        files[f"speed-facility-{n}.svg"] = bars(
            points, "times", "time, times ours", own=OURS["exact"], logarithmic=True
        )
        text.append(
            f"{n:,} examples, half of them chosen:\n\n![Facility location, {n:,} examples](speed-facility-{n}.svg)"
        )
    growth = _medians([row for row in rows if row["part"] == "growth"], "seconds", "who", "n")
    files["speed-facility-growth.svg"] = lines(
        [{"who": OURS.get(who, who), "n": n, "seconds": each} for (who, n), each in sorted(growth.items())],
        "n", "seconds", ("examples", "seconds, 1,000 medoids"),
    )  # fmt: skip
    text.append("![How facility location grows](speed-facility-growth.svg)")
    return Made("\n\n".join(text), files)


def start(folder: Path) -> Made:
    points = [
        {"who": row["who"], "times": row["cpu_seconds"], "told": f"{row['cpu_seconds']:.2f} s"}
        for row in sorted(_read(folder, "start-cpu"), key=lambda row: float(row["cpu_seconds"]))
    ]
    return Made("![What starting costs](speed-start.svg)", {"speed-start.svg": bars(points, "times", "CPU seconds")})


def badge(folder: Path) -> Made:
    rows = _read(folder, "acquire-cpu")
    against = {row["who"]: row["seconds"] for row in rows if row["kind"] == "against"}
    points = _ratios(against, "thresher")
    growth = [
        {"who": f"{row['classes']:,} classes", "n": row["n"], "seconds": row["seconds"]}
        for row in sorted(rows, key=lambda row: row["n"])
        if row["kind"] == "growth"
    ]
    files = {
        "speed-badge.svg": bars(points, "times", "time, times ours", own="thresher", logarithmic=True),
        "speed-badge-growth.svg": lines(growth, "n", "seconds", ("examples", "seconds, 100 picks")),
    }
    return Made("![BADGE against peers](speed-badge.svg)\n\n![How BADGE grows](speed-badge-growth.svg)", files)


def gradient_norms(folder: Path) -> Made:
    rows = [
        row
        for row in _read(folder, "engine-cpu")
        if "prl-g by vmap" in row["who"] or row["contest"].startswith("GroupNorm")
    ]
    points = [
        {"who": row["who"], "times": row["against_standard"], "told": f"{row['against_standard']:.2f}×"}
        for row in sorted(rows, key=lambda row: row["against_standard"])
        if row["who"].startswith("prl-g")
    ]
    picture = bars(points, "times", "time of an epoch, times plain training", own="prl-g")
    return Made("![PRL(G) by factors, by opacus and by vmap](speed-prl-g.svg)", {"speed-prl-g.svg": picture})


def l2rw(folder: Path) -> Made:
    times = _medians(_read(folder, "l2rw-cpu"), "cpu_against_standard", "model", "clean_batch", "who")
    points = [
        {"who": f"{who}, {model}, {clean} clean", "times": each, "told": f"{each:.2f}×"}
        for (model, clean, who), each in sorted(times.items(), key=lambda item: item[1])
        if who != "standard"
    ]
    picture = bars(points, "times", "CPU time of a step, times plain training")
    return Made("![A step of L2RW](speed-l2rw.svg)", {"speed-l2rw.svg": picture})


def engine(folder: Path) -> Made:
    cpu = [
        {"who": f"{row['who']}, {row['contest']}", "times": row["against_hand"]}
        for row in _read(folder, "engine-cpu")
        if row["who"] != "by hand" and " by " not in row["who"]
    ]
    gpu = [
        {"who": f"{row['who']}, {row['model']}, batch {row['batch']}", "times": row["against_hand"]}
        for row in _read(folder, "engine-gpu")
        if row["kind"] == "speed" and row["who"] != "by hand"
    ]
    files = {}
    for name, points in (("cpu", cpu), ("gpu", gpu)):
        ordered = [{**each, "told": f"{each['times']:.2f}×"} for each in sorted(points, key=lambda each: each["times"])]
        files[f"speed-engine-{name}.svg"] = bars(
            ordered, "times", "time of an epoch, times a hand-written loop of plain training"
        )
    text = "On a CPU:\n\n![fit on a CPU](speed-engine-cpu.svg)\n\nOn an H200:\n\n![fit on a GPU](speed-engine-gpu.svg)"
    named = "{who}, {model}, batch {batch}".format
    table = [row for row in _read(folder, "engine-gpu-table") if row["epoch"] and row["part"] != "kernels"]
    last = {named(**row): row["epoch"] for row in table}
    points = [{"who": who, "times": seconds, "told": f"{seconds:.3f} s"} for who, seconds in last.items()]
    files["speed-engine-gpu-table.svg"] = bars(points, "times", "seconds an epoch")
    text += "\n\nSeconds of an epoch by the last command below:\n\n![Seconds an epoch](speed-engine-gpu-table.svg)"
    return Made(text, files)


def language_models(folder: Path) -> Made:
    rows = _read(folder, "transformers-gpu")
    first = rows[0]
    text = [
        f"GPT-2 of {first['layers']} layers and width {first['width']}, {first['words']:,} words, batches of "
        f"{first['batch']} sequences of {first['length']} tokens, {first['clean']} clean ones for l2rw, "
        f"{first['machine']['gpu']}, bfloat16. Medians of {first['turns']} turns; memory is the peak of a step.",
        "| | whole, ms | times by hand | memory | LoRA, ms | times by hand | memory |\n" + "|---" * 7 + "|",
    ]
    for who in dict.fromkeys(row["who"] for row in rows):
        cells = [who]
        for lora in (False, True):
            row = next(row for row in rows if (row["who"], row["lora"]) == (who, lora))
            goal = f" (goal {row['goal']:.2f})" if "goal" in row else ""
            cells += (
                [row["failed"], "", ""]
                if "failed" in row
                else [f"{1e3 * row['seconds']:.0f}", f"{row['against_hand']:.2f}×{goal}",
                      f"{row['memory_mib'] / 1024:.1f} GiB, {row['memory_against_hand']:.2f}×"]
            )  # fmt: skip
        text[-1] += f"\n| {' | '.join(cells)} |"
    return Made("\n\n".join([*text, _tiny_language_models(_read(folder, "transformers-cpu"))]))


def _tiny_language_models(rows: list[dict[str, Any]]) -> str:
    """The same contest on a CPU, as one sentence for the whole model and one for LoRA."""
    first = rows[0]
    text = (
        f"On one core of a CPU, beside other work, a tiny one ({first['layers']} layers, width {first['width']}, "
        f"{first['batch']} sequences of {first['length']} tokens; medians of {first['turns']} turns), in multiples of "
        "by hand,"
    )
    for lora, name in ((False, "whole"), (True, "LoRA")):
        told = [f"{row['who']} {row['against_hand']:.2f}" for row in rows if row["lora"] is lora][1:]
        text += f"{';' if lora else ''} {name}: {', '.join(told)}"
    return text + "."


CONTESTS: dict[str, Callable[[Path], Made]] = {
    "facility-location": facility_location, "badge": badge, "gradient-norms": gradient_norms, "l2rw": l2rw,
    "engine": engine, "start": start, "language-models": language_models,
}  # fmt: skip
