"""What the processes of one training tell each other: the one place that speaks with torch.distributed."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from thresher.core.evidence import OTHER_EXAMPLES, Evidence


def processes() -> int:
    """How many processes train together, 1 where there is only this one."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this process is, from 0."""
    return dist.get_rank() if processes() > 1 else 0


def from_all(value: Any) -> list[Any]:
    """The values of all processes, in the order of their ranks."""
    if processes() == 1:
        return [value]
    values: list[Any] = [None] * processes()
    dist.all_gather_object(values, value)
    return values


def of_all(evidence: Evidence) -> tuple[Evidence, slice]:
    """Evidence about the examples of all processes, so that a rule sees the whole batch; and which of them are ours.

    Only what a rule may read is told: ids, targets, outputs [n, d] and the signals that were computed.
    """
    if processes() == 1:
        return evidence, slice(None)
    told = from_all(_told(evidence))
    sizes = [len(each["ids"]) for each in told]
    start = sum(sizes[: rank()])
    return _joined(evidence, told), slice(start, start + sizes[rank()])


def _told(evidence: Evidence) -> dict[str, Any]:
    others = {name: _told(other) for name, other in evidence.others.items() if name not in OTHER_EXAMPLES}
    flat = {"targets": evidence.targets, "outputs": evidence.outputs.detach()}
    told: dict[str, Any] = {name: value.cpu() for name, value in flat.items() if value.ndim <= 2}
    signals = [value.detach().cpu() for key, value in evidence.known.items() if not isinstance(key, str)]
    return {**told, "ids": evidence.ids.cpu(), "signals": signals, "others": others}


def _joined(evidence: Evidence, told: list[dict[str, Any]]) -> Evidence:
    device = evidence.ids.device

    def joined(name: str) -> Tensor | None:
        return torch.cat([each[name] for each in told]).to(device) if name in told[0] else None

    keys = [key for key in evidence.known if not isinstance(key, str)]
    columns = zip(*(each["signals"] for each in told), strict=True)
    known = {key: torch.cat(column).to(device) for key, column in zip(keys, columns, strict=True)}
    others = {
        name: other if name in OTHER_EXAMPLES else _joined(other, [each["others"][name] for each in told])
        for name, other in evidence.others.items()
    }
    ids, targets, outputs = joined("ids"), joined("targets"), joined("outputs")
    assert ids is not None
    return evidence.replace(
        ids=ids, targets=ids if targets is None else targets, raw_outputs=ids if outputs is None else outputs,
        inputs=None, columns={}, layers={}, others=others, known=known,
    )  # fmt: skip
