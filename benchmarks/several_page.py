"""The page of what `several.py` has stored."""

from statistics import median
from typing import Any

CLASSES = 10


def message(batch: int, classes: int, signals: int = 1) -> int:
    """Bytes that every process receives in a step of a ranking rule: signals [n], and notes for the ledger.

    A note has the outputs, loss, weight and signal in 4 bytes each, and the position of its example in 8.
    """
    return batch * (4 * signals + 4 * (classes + 3) + 8)


def show(rows: list[dict[str, Any]]) -> str:
    """The stored figures as a page."""
    first, steps = rows[0], [row for row in rows if "who" in row]
    gathers = {(row["processes"], row["batch"]): row for row in steps if row["who"].startswith("gathers")}
    lines = [
        "# Several processes on two cores",
        "",
        "Steps of a network with 784 inputs and two hidden layers of 512 (670,000 parameters), gloo, one thread a "
        f"process, on {first['machine']['cpu']}; medians. The machine has two cores, and other work ran on them: read "
        "the ratios within a group, not the times.",
        "",
        "| scaling | processes | batch | who | ms a step | times DDP by hand |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['scaling']} | {row['processes']} | {row['batch']:,} | {row['who']} | {1000 * row['seconds']:.1f} | "
        f"{row['against_ddp']:.3f} |"
        for row in steps
        if row["seconds"] > 0
    ]
    lines += _decided([row for row in rows if "decides" in row]) + _chosen([row for row in rows if "chooses" in row])
    lines += _killed([row for row in rows if "killed" in row]) + _read([row for row in rows if "reads" in row])
    speed = max(message(batch, CLASSES) / row["seconds"] for (count, batch), row in gathers.items() if count > 1)
    lines += [
        "",
        f"The gathers bring {speed / 1e6:,.0f} MB a second to a process here. What they bring in an epoch of 1,000,000 "
        "examples does not depend on the number of processes or the batch; how long it takes, by this speed and at 10 "
        "GB a second, which is assumed for a network between GPUs:",
        "",
        "| classes | MB an epoch | seconds here | seconds at 10 GB/s |",
        "|---|---|---|---|",
    ]
    for classes in (10, 100, 1000):
        size = message(1_000_000, classes)
        lines.append(f"| {classes:,} | {size / 1e6:,.0f} | {size / speed:.1f} | {size / 1e10:.3f} |")
    lines += [
        "",
        "And what one step brings to each of 1,024 processes, whose ring passes 1,023 messages on (5 microseconds "
        "each, assumed), beside the gradients of 100 million parameters, which are twice 400 MB:",
        "",
        "| batch | classes | MB | ms at 10 GB/s | ms of the ring | ms of the gradients |",
        "|---|---|---|---|---|---|",
    ]
    for batch in (4096, 32768, 1048576):
        for classes in (10, 1000):
            size = message(batch, classes)
            lines.append(
                f"| {batch:,} | {classes:,} | {size / 1e6:,.1f} | {size / 1e7:,.2f} | {2 * 1023 * 5e-3:.1f} | 80.0 |"
            )
    return "\n".join([*lines, "", "Made by `python benchmarks/several.py --show results/several-cpu.jsonl`."])


def _decided(rows: list[dict[str, Any]]) -> list[str]:
    """How far the decisions of several processes are those of one."""
    if not rows:
        return []
    return [
        "",
        "Eight epochs of a small network in double precision, batches of 50 of 503 examples (two epochs of a stream): "
        "how many of the weights in the ledger are, to the last bit, those of one process; whether its whole ledger "
        "is, with order, ids, signals, losses and predictions; and how far parameters are apart at most.",
        "",
        "| method | processes | weights | of them zero | as in one process | whole ledger | parameters |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row['decides']} | {row['processes']} | {row['weights']:,} | {row['left_out']:.0%} | "
            f"{row['same']:.2%} | {'the same' if row['whole'] else 'differs'} | {row['parameters']:.0e} |"
            for row in rows
        ),
    ]


def _chosen(rows: list[dict[str, Any]]) -> list[str]:
    """Whether several processes choose what one chooses."""
    if not rows:
        return []
    said = "; ".join(
        f"{row['chooses']} in {row['processes']} processes: {'the same' if row['same'] else 'others'}" for row in rows
    )
    return ["", f"Of {rows[0]['ids']} examples that `acquire` chooses, against one process: {said}."]


def _killed(rows: list[dict[str, Any]]) -> list[str]:
    """What happens when a process is killed."""
    if not rows:
        return []
    lines = [
        "",
        "Groups of which one process was killed (SIGKILL) at a random moment, and then another number of processes "
        "went on in the same folder: how long it took until all others had ended, and how many of these runs came to "
        "the ledger, to the last bit, and the parameters of one that nothing disturbed (benchmarks/several_killed.py).",
        "",
        "| processes | killed | of them the first | seconds until the others ended, median | at most | gone on equal |",
        "|---|---|---|---|---|---|",
    ]
    for count in sorted({row["of"] for row in rows}):
        own = [row for row in rows if row["of"] == count]
        ends = sorted(row["others_end"] for row in own)
        first, same = sum(row["killed"] == 0 for row in own), sum(row["same"] for row in own)
        lines.append(f"| {count} | {len(own)} | {first} | {median(ends):.2f} | {ends[-1]:.2f} | {same} of {len(own)} |")
    return lines


def _read(rows: list[dict[str, Any]]) -> list[str]:
    """How quickly all processes together read their parts of the batches."""
    if not rows:
        return []
    counts = sorted({row["processes"] for row in rows})
    speed = {(row["reads"], row["processes"]): f"{row['a_second']:,.0f}" for row in rows}
    return [
        "",
        "Examples a second that all processes together read, each its part of every batch, and with so many workers of "
        "its own, beside other work on the machine: images of 64 × 64 pixels in a folder of PNG files, and rows of 784 "
        "numbers of a Hugging Face dataset (Arrow, mapped into memory).",
        "",
        "| what | " + " | ".join(f"{count} process{'es' * (count > 1)}" for count in counts) + " |",
        "|---" * (len(counts) + 1) + "|",
        *(
            f"| {name} | " + " | ".join(speed.get((name, count), "") for count in counts) + " |"
            for name in dict.fromkeys(row["reads"] for row in rows)
        ),
    ]
