"""Damage for any file: changed bytes, and for files with a structure other values, types and shapes inside it."""

import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

Draws = random.Random
DEEP = 5000  # more than what Python's own recursion allows
VALUES: list[Any] = [None, "text", -1, 1e308, True, [], {}, [[]], {"a": {"b": []}}, 10**30, "", [None], float("nan")]


def mutated(path: Path, draws: Draws) -> bytes:
    """The file's bytes with some damage: half of the time inside its structure, where it has one."""
    sound = path.read_bytes()
    inside = STRUCTURED.get(path.suffix)
    if inside is not None and draws.random() < 0.6:
        return inside(sound, draws)
    return mutated_bytes(sound, draws)


def mutated_bytes(content: bytes, draws: Draws) -> bytes:
    """The bytes with some changed, cut off, doubled or replaced."""
    changed = bytearray(content or b"\0")
    kind = draws.randrange(5)
    if kind == 0:
        for _ in range(draws.randint(1, 8)):
            changed[draws.randrange(len(changed))] = draws.randrange(256)
    elif kind == 1:
        del changed[draws.randrange(len(changed)) :]
    elif kind == 2:
        start = draws.randrange(len(changed))
        changed[start:start] = changed[start : start + draws.randint(1, 64)]
    elif kind == 3:
        start = draws.randrange(len(changed))
        changed[start : start + 16] = draws.randbytes(16)
    else:
        return draws.randbytes(draws.randrange(64))
    return bytes(changed)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container inside a value with every key or position in it."""
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(inside):
        yield value, key
        yield from _places(each)


def other_value(value: Any, draws: Draws) -> Any:
    """The value with one part of it replaced, removed or doubled, changed in place; or another value altogether."""
    places = list(_places(value))
    if not places or draws.random() < 0.1:
        return draws.choice(VALUES)
    container, key = draws.choice(places)
    kind = draws.randrange(4)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, list):
        container.append(container[key])
    elif kind == 2 and isinstance(container, dict):
        container[f"{key}x"] = container.pop(key)
    else:
        container[key] = draws.choice(VALUES)
    return value


def _json(content: bytes, draws: Draws) -> bytes:
    if draws.random() < 0.1:
        return b"[" * DEEP + b"]" * DEEP
    return json.dumps(other_value(json.loads(content), draws)).encode()


def _json_lines(content: bytes, draws: Draws) -> bytes:
    lines = content.splitlines()
    place = draws.randrange(len(lines))
    lines[place] = _json(lines[place], draws)
    return b"\n".join(lines)


def _toml(content: bytes, draws: Draws) -> bytes:
    lines = content.decode().splitlines()
    place = draws.randrange(len(lines))
    name = lines[place].partition(" = ")[0]
    words = ['"text"', "-1", "1e308", "nan", "true", "[]", "{}", "10000000000000000000000", '""', "1979-05-27"]
    lines[place] = draws.choice([f"{name} = {draws.choice(words)}", f"{name}x = 1", lines[place] * 2, ""])
    return "\n".join(lines).encode()


def _csv(content: bytes, draws: Draws) -> bytes:
    lines = content.decode(errors="replace").splitlines()
    place = draws.randrange(len(lines))
    cells = lines[place].split(",")
    at = draws.randrange(len(cells))
    cells[at] = draws.choice(["", "text", "-1", "1e308", "9" * 30, '"', "nan", "=1+1", "\0", "a,b", "1.5"])
    lines[place] = draws.choice([",".join(cells), ",".join(cells[:at]), lines[place] + "\n" + lines[place]])
    return "\n".join(lines).encode()


def _npz(content: bytes, draws: Draws) -> bytes:
    with np.load(io.BytesIO(content)) as stored:
        arrays = dict(stored)
    name = draws.choice(sorted(arrays))
    array: Any = arrays[name]
    changes: list[Callable[[], Any]] = [
        lambda: array[:-1] if array.ndim else array,
        lambda: array[..., None],
        lambda: array.reshape(-1)[0] if array.size else array,
        lambda: array.astype(str),
        lambda: np.full(array.shape, np.nan),
        lambda: np.zeros((0, 3)),
        lambda: array.astype(complex) if array.dtype.kind in "biuf" else np.array("x"),
        lambda: np.full(array.shape, -(10**9)),
    ]
    arrays[name] = draws.choice(changes)()
    if draws.random() < 0.3:
        del arrays[name]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _parquet(content: bytes, draws: Draws) -> bytes:
    table = pq.read_table(io.BytesIO(content))
    place = draws.randrange(table.num_columns)
    name, count = table.column_names[place], table.num_rows
    columns = [
        pa.nulls(count, pa.int64()),
        pa.array(["text"] * count),
        pa.array([float("nan")] * count),
        pa.array([-(10**9)] * count),
        pa.array([[1]] * count, pa.list_(pa.int64())),
        pa.array([True] * count),
    ]
    kind = draws.randrange(4)
    if kind == 0:
        table = table.drop_columns([name])
    elif kind == 1:
        table = table.slice(0, draws.randrange(count + 1))
    elif kind == 2:
        table = pa.concat_tables([table, table.slice(0, 1)])
    else:
        table = table.set_column(place, name, draws.choice(columns))
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _checkpoint(content: bytes, draws: Draws) -> bytes:
    state = torch.load(io.BytesIO(content), weights_only=True)
    places = list(_places(state))
    container, key = draws.choice(places)
    others = [*VALUES, torch.zeros(2, 3), torch.tensor(float("nan")), torch.zeros(0, dtype=torch.long)]
    if draws.random() < 0.3:
        del container[key]
    else:
        container[key] = draws.choice(others)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


STRUCTURED: dict[str, Callable[[bytes, Draws], bytes]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".toml": _toml,
    ".csv": _csv,
    ".npz": _npz,
    ".parquet": _parquet,
    ".pt": _checkpoint,
}
