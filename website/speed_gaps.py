"""Where the time of a step and of an epoch goes, as the benchmarks took them apart."""

from pathlib import Path

from thresher.bench.pages.markdown import table
from website.made import Made
from website.speed_goals import one, read

WORK = ("forward pass", "backward pass", "optimizer", "batch gathered")  # which a loop written by hand has too
CHAIN = "backward chain, norms or agreements"


def gaps_part(root: Path) -> Made:
    """What takes most time beyond the plain step, for each method on a CPU and for some on a GPU."""
    return Made("\n\n".join([_on_cpu(root / "results"), *_on_gpu(root / "results")]))


def _on_cpu(folder: Path) -> str:
    rows = {row["who"]: row for row in read(folder, "gaps-cpu")}
    hand, plain, lines = rows.pop("by hand"), rows["standard"]["parts"], []
    for who, row in rows.items():
        parts, base = row["parts"], {name: plain[name] for name in WORK} if who == "standard" else dict(plain)
        if CHAIN in parts:  # it takes the place of the backward pass
            base[CHAIN] = base["backward pass"]
        beyond = {name: took - base.get(name, 0.0) for name, took in parts.items()}
        largest = sorted(beyond, key=lambda name: beyond[name], reverse=True)[:3]
        told = ", ".join(f"{name} {beyond[name]:.0f}" for name in largest)
        lines.append([f"`{who}`", f"{row['step_us']:.0f}", f"{row['step_us'] / hand['step_us']:.2f}×", told])
    heads = ["method", "µs a step", "times by hand", "largest parts beyond the plain step, µs"]
    told = (
        f"On a CPU, an MLP on a table, where a step by hand takes {hand['step_us']:.0f} µs. For `standard`, parts that "
        "a loop by hand has not, for the others what they have more than `standard`:"
    )
    return f"{told}\n\n{table(heads, lines)}"


def _on_gpu(folder: Path) -> list[str]:
    rows, parts = read(folder, "engine-gpu-table"), list[str]()
    epoch = one(rows, part="reclaim", who="reclaim")
    if epoch.get("parts"):
        lines = [[name, f"{value:.3f} s"] for name, value in sorted(epoch["parts"].items())]
        parts.append(f"An epoch of `reclaim`, two views, {epoch['epoch']:.2f} s:\n\n" + table(["part", "time"], lines))
    step = one(rows, part="reclaim", who="reclaim, a step in parts")
    if step.get("parts"):
        lines = [[name, f"{value:.2f}"] for name, value in step["parts"].items() if "kernels" not in name and value]
        told = "A step of it, neither compiled nor captured, without what the backward pass takes:"
        parts.append(f"{told}\n\n" + table(["part", "ms on the device"], lines))
    of_steps = [row for row in rows if row["part"] == "kernels" and row.get("parts")]
    steps = {(row["who"], row["model"], row["batch"]): row for row in of_steps}.values()  # the last of each
    if steps:
        heads = [
            "a step of",
            "ms",
            "gaps, ms",
            "kernels",
            "of them below 10 µs",
            "their ms",
            "largest kernel",
            "its ms",
        ]
        shown = ("a step, ms", "gaps, ms", "kernels", "kernels below 10 us", "kernels below 10 us, ms")
        lines = [
            [f"`{row['who']}`, {row['model']}, batch {row['batch']}", *(_number(row["parts"][name]) for name in shown),
             *_largest_kernel(row["parts"])]
            for row in steps
        ]  # fmt: skip
        parts.append("Steps as they run:\n\n" + table(heads, lines))
    return parts


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def _largest_kernel(parts: dict[str, float]) -> tuple[str, str]:
    """Its name without what the compiler added, and its time.

    >>> _largest_kernel({"a step, ms": 9.0, "kernel void at::native::(anonymous namespace)::Copy<at::x, ms": 4.01})
    ('`Copy`', '4.01')
    """
    name, took = max(((name, took) for name, took in parts.items() if name.startswith("kernel ")), key=lambda x: x[1])
    plain = name.removeprefix("kernel ").removesuffix(", ms").split("<")[0].split("::")[-1].strip()
    return f"`{plain.removeprefix('void ')[:48]}`", f"{took:.2f}"
