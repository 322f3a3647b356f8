"""Streams on disk: items read once, shared by the processes of a group, and afterwards mapped into memory."""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from thresher.core.datasets import as_input
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import LOCK, UNREADABLE, alone_in, damaged, read_json, write_whole
from thresher.core.trees import Tree
from thresher.data.given import as_examples
from thresher.data.given_items import named_items, split_item
from thresher.data.given_tensors import unmixed

AT_ONCE = 256  # items that are written together
ABOUT = "shard.json"  # written last: a shard without it is read from its stream again
AGAIN = "remove it to read the stream again"
ALONE = ""  # the name of inputs that are one tensor


class About(TypedDict):
    """What a shard holds."""

    count: int
    inputs: dict[str, list[Any]]  # name -> dtype and shape of one item
    checksum: str
    has_ids: bool


class Item(NamedTuple):
    """One item of a stream."""

    input: Tree
    target: Any
    id: Any


def from_stream(streams: Any, folder: Path | str, *, target: str | None = None, name: str = "the stream") -> Examples:
    """Examples of a stream that fits into no memory: read once into files of a folder, from which batches are taken.

    streams  an iterable of (input, target) pairs or of mappings, whose target is `target`, `labels` or `label`; or a
             list of such, its shards. In a process group process r reads the shards r, r + count, ..., and all see all
    folder   where the files go, seen by all processes. A shard that is there already is not read again
    An item's id is its whole number `id`, where mappings have one, else its position, counted through the shards; so
    it does not depend on the number of processes.

    >>> import tempfile
    >>> shards = [[([0.0, 1.0], "cat"), ([2.0, 3.0], "dog")], [([4.0, 5.0], "cat")]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pets = from_stream(shards, folder)
    ...     next(pets.batches([torch.tensor([2, 0])])).tolist(), pets.class_names, pets.ids.tolist()
    ([[4.0, 5.0], [0.0, 1.0]], ['cat', 'dog'], [0, 1, 2])
    """
    given = list(streams) if isinstance(streams, list | tuple) else [streams]
    shards = [Shard(Path(folder) / f"shard-{place:05}") for place in range(len(given))]
    together = distributed.is_available() and distributed.is_initialized()
    rank, count = (distributed.get_rank(), distributed.get_world_size()) if together else (0, 1)

    def write_own() -> None:
        for shard, stream in list(zip(shards, given, strict=True))[rank::count]:
            shard.write(stream, target, name)

    _in_all(write_own, count)
    stored = Stored([shard for shard in shards if shard.about["count"]])
    if not len(stored):
        raise ThresherError(f"{name} is empty: give at least one example.")
    made = as_examples(stored, name=name)
    ids = stored.ids()
    return made if ids is None else replace(made, ids=ids, checked=False)


def _in_all(work: Callable[[], None], count: int) -> None:
    """Do this process's work; what one of them refuses is refused in all."""
    refused: list[str | None] = [None] * count
    own = None
    try:
        work()
    except ThresherError as error:
        own = str(error)
    if count > 1:
        distributed.all_gather_object(refused, own)
    else:
        refused = [own]
    found = next((each for each in refused if each is not None), None)
    if found is not None:
        raise ThresherError(found)


@dataclass
class Shard:
    """The items of one stream: a file of bytes for each tensor of an input, one of targets, and one of ids."""

    folder: Path

    def write(self, stream: Iterable[Any], target: str | None, name: str) -> None:
        """Read the stream to its end, unless that was done before; an error leaves nothing of it."""
        if (self.folder / ABOUT).is_file():
            return
        made = [each for each in (self.folder, *self.folder.parents) if not each.exists()]
        self.folder.mkdir(parents=True, exist_ok=True)
        with alone_in(self.folder):
            for old in self.folder.glob("*.bin"):  # of a process that did not come to the end
                old.unlink()
            try:
                about = self._written(stream, target, name)
            except Exception:
                with suppress(OSError):  # where other shards are
                    for each in (*self.folder.glob("*.bin"), *self.folder.glob("*.npy"), self.folder / LOCK):
                        each.unlink()
                    for each in made:
                        each.rmdir()
                raise
        write_whole(self.folder / ABOUT, lambda path: path.write_text(json.dumps(about), encoding="utf-8"))

    def _written(self, stream: Iterable[Any], target: str | None, name: str) -> About:
        targets, ids, rows = list[Any](), list[Any](), list[Tree]()
        written = Written(self.folder)
        for item, where in named_items(stream, name):
            own = _item(item, target, where)
            targets.append(own.target)
            ids.append(own.id)
            rows.append(own.input)
            if len(rows) == AT_ONCE:
                written.add(rows, name)
                rows = []
        written.add(rows, name)
        self._write_facts(targets, ids, name)
        return About(
            count=len(targets), inputs=written.kinds, checksum=written.digest.hexdigest(), has_ids=ids[:1] != [None]
        )

    def _write_facts(self, targets: Sequence[Any], ids: Sequence[Any], name: str) -> None:
        known = np.asarray(unmixed(targets))
        if known.dtype.kind not in "biufU":
            raise ThresherError(f"The targets of {name} are {known.dtype}: give numbers, texts or truth values.")
        np.save(self.folder / "targets.npy", known, allow_pickle=False)
        if ids[:1] != [None]:
            if not all(isinstance(each, int) for each in ids):
                raise ThresherError(f"The ids of {name} are not all whole numbers: give each item such an id, or none.")
            np.save(self.folder / "ids.npy", np.array(ids, np.int64), allow_pickle=False)

    @property
    def about(self) -> About:
        path = self.folder / ABOUT
        if not path.is_file():
            raise ThresherError(f"{self.folder} is not seen by this process: give a folder that all machines share.")
        found: About = read_json(path, About, AGAIN)
        return found

    def facts(self, name: str) -> NDArray[Any]:
        """The targets or the ids."""
        try:
            found: NDArray[Any] = np.load(self.folder / f"{name}.npy", allow_pickle=False)
        except UNREADABLE as error:
            raise damaged(self.folder / f"{name}.npy", error, AGAIN) from error
        return found

    def mapped(self) -> dict[str, NDArray[Any]]:
        """The tensors of all inputs, read where they are looked at."""
        about, found = self.about, dict[str, NDArray[Any]]()
        for name, (dtype, shape) in about["inputs"].items():
            path = self.folder / _file(name)
            try:  # copies on writing: nothing writes, and torch wants an array that could be written
                found[name] = np.memmap(path, dtype, "c", shape=(about["count"], *shape))
            except UNREADABLE as error:
                raise damaged(path, error, AGAIN) from error
        return found


class Written:
    """What has been written of a shard."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.kinds: dict[str, list[Any]] = {}
        self.count = 0
        self.digest = blake2b(digest_size=16)

    def add(self, rows: Sequence[Tree], name: str) -> None:
        """Append these inputs, which have to be like those before."""
        arrays = [_arrays(row, name) for row in rows]
        for each in arrays:
            where, kinds = f"item at position {self.count} of {name}", _kinds(each)
            if not all(np.isfinite(array).all() for array in each.values() if array.dtype.kind == "f"):
                raise ThresherError(f"The input of the {where} is NaN or infinite: clean it before training.")
            self.kinds = self.kinds or kinds
            if kinds != self.kinds:
                raise ThresherError(
                    f"The input of the {where} is {_said(kinds)}, and those before are {_said(self.kinds)}: bring all "
                    "to one shape and type."
                )
            self.count += 1
        for key in self.kinds if arrays else ():
            block = b"".join(each[key].tobytes() for each in arrays)
            self.digest.update(block)
            with open(self.folder / _file(key), "ab") as file:
                file.write(block)


@dataclass
class Stored:
    """A map-style dataset: the inputs of several shards, one after another."""

    shards: list[Shard]
    checksums: list[str] = field(init=False)  # by which a run knows its data
    ends: list[int] = field(init=False)
    targets: NDArray[Any] = field(init=False)
    cache: list[dict[str, NDArray[Any]]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        about = [shard.about for shard in self.shards]
        if any(each["inputs"] != about[0]["inputs"] for each in about):
            raise ThresherError("The shards of a stream hold inputs of different shapes: bring all to one.")
        self.checksums = [each["checksum"] for each in about]
        self.ends = list(accumulate(each["count"] for each in about))
        self.targets = np.concatenate([shard.facts("targets") for shard in self.shards] or [np.empty(0)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": None}  # every worker maps the files itself

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, position: int) -> Tree:
        made = self.inputs_at([position])
        return made[0] if isinstance(made, Tensor) else {name: rows[0] for name, rows in made.items()}

    def inputs_at(self, positions: list[int]) -> Tree:
        """The inputs at these positions as one batch."""
        if self.cache is None:
            self.cache = [shard.mapped() for shard in self.shards]
        found = [bisect_right(self.ends, place) for place in positions]
        places = [place - (self.ends[shard - 1] if shard else 0) for shard, place in zip(found, positions, strict=True)]
        made = {
            name: torch.from_numpy(np.stack([self.cache[s][name][p] for s, p in zip(found, places, strict=True)]))
            for name in self.cache[0]
        }
        return made.get(ALONE, made)

    def ids(self) -> Tensor | None:
        """The ids that the items brought, or None."""
        brought = [shard.about["has_ids"] for shard in self.shards]
        if not any(brought):
            return None
        if not all(brought):
            raise ThresherError("Some shards of a stream bring ids and some do not: give all of them ids, or none.")
        return torch.from_numpy(np.concatenate([shard.facts("ids") for shard in self.shards]))


def _item(item: Any, target: str | None, where: str) -> Item:
    """An item of a stream; of a mapping everything else than target and id is its input."""
    given, known = split_item(item, target, where)
    if known is None:
        raise ThresherError(f"The {where} has no target: leave it out, or label it.")
    own = None
    if isinstance(given, Mapping):
        given = dict(given)
        own = given.pop("id", None)
    return Item(as_input(given, f"the {where}"), known, own.item() if isinstance(own, Tensor | np.generic) else own)


def _arrays(row: Tree, name: str) -> dict[str, NDArray[Any]]:
    """The tensors of an input by their names; a single one has none."""
    parts = {str(key): part for key, part in row.items()} if isinstance(row, Mapping) else {ALONE: row}
    if not all(isinstance(part, Tensor) for part in parts.values()):
        raise ThresherError(f"The inputs of {name} are nested: let an item be a tensor, or a dict of tensors.")
    kept = {key: part.float() if part.dtype == torch.bfloat16 else part for key, part in parts.items()}
    return {key: part.detach().cpu().contiguous().numpy() for key, part in kept.items()}


def _kinds(arrays: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    return {key: [array.dtype.name, list(array.shape)] for key, array in arrays.items()}


def _said(kinds: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{name} {dtype} {shape}".strip() for name, (dtype, shape) in kinds.items())


def _file(name: str) -> str:
    """Where the parts of this name are kept; names may hold what no file may be called."""
    return f"inputs{'-' * bool(name)}{name.encode().hex()}.bin"
