"""The state of a weigher, for the checkpoints of other trainers: numbers, texts and tensors alone.

They are loaded by `torch.load` with `weights_only`. Several processes train as one: all ask for the state at the same
moment, which has the notes of all, and after loading it the first process has them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from thresher.core.errors import ThresherError, is_whole, refuse_unless
from thresher.record.ledger import Ledger
from thresher.trainers.epoch_notes import EpochNotes
from thresher.trainers.processes import from_all, processes, rank
from thresher.trainers.written import Written

VERSION = 1


FOREIGN = "This is not the state of a weigher{}: give what Weigher.state_dict() returned."


@contextmanager
def reading(state: Mapping[str, Any]) -> Iterator[None]:
    """Refuse a state that this version cannot read, or whose parts are missing or of another kind."""
    if not isinstance(state, Mapping) or state.get("version") != VERSION:
        raise ThresherError(FOREIGN.format(""))
    try:
        refuse_unless("epoch", state["epoch"], is_whole(state["epoch"], 0), "what was saved")
        yield
    except ThresherError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, pa.ArrowException) as error:
        raise ThresherError(FOREIGN.format(f" ({type(error).__name__}: {error!s:.60})")) from error


def of_generator(draws: torch.Generator | None) -> dict[str, Any] | None:
    return None if draws is None else {"device": draws.device.type, "state": draws.get_state()}


def into_generator(draws: torch.Generator, saved: Mapping[str, Any] | None) -> torch.Generator:
    """The generator where the saved one was; another kind of device has other draws, from the epoch's beginning."""
    if saved is not None and saved["device"] == draws.device.type:
        draws.set_state(saved["state"].cpu())
    return draws


def of_notes(notes: EpochNotes) -> dict[str, Any]:
    own = notes.noted()
    told = [each for of_process in from_all(own) for each in of_process] if processes() > 1 else own
    return {"task": notes.task, "classes": notes.classes, "shift": notes.shift, "host": told}


def into_notes(saved: Mapping[str, Any]) -> EpochNotes:
    told = [dict(each) for each in saved["host"]] if rank() == 0 else []
    return EpochNotes(saved["task"], saved["classes"], saved["shift"], host=told)


def of_written(written: Written) -> dict[str, Any]:
    """The records and the rows that are in memory; of a folder the names of its parts."""
    return {
        "history": json.dumps(written.history), "skipped": written.skipped,
        "parts": list(written.ledger.parts), "rows": [_packed(table) for table in written.ledger.pending],
    }  # fmt: skip


def into_written(written: Written, saved: Mapping[str, Any]) -> None:
    """Take over rows and records; parts of the folder that came after the state was saved are removed."""
    written.begun = True
    parts: Sequence[str] = saved["parts"]
    missing = [name for name in parts if written.ledger.folder is None or not (written.ledger.folder / name).is_file()]
    if missing:
        raise ThresherError(
            f"The ledger's folder has no {missing[0]}, which the saved state goes on from: pass the out= that the "
            "weigher had when it was saved."
        )
    written.history, written.skipped = json.loads(saved["history"]), saved["skipped"]
    written.ledger = Ledger(written.ledger.folder, parts)
    for table in map(_unpacked, saved["rows"]):
        written.ledger.add(table)
    if rank() == 0:
        written.ledger.discard_uncommitted()


def _packed(table: pa.Table) -> Tensor:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return torch.frombuffer(bytearray(sink.getvalue()), dtype=torch.uint8)


def _unpacked(packed: Tensor) -> pa.Table:
    with pa.ipc.open_stream(packed.cpu().numpy().tobytes()) as reader:
        return reader.read_all()
