"""Checkpoints: ledger, history and parameters saved together, or not at all."""

import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from thresher.core.errors import ThresherError, needs_extra, refuse_endless
from thresher.core.files import alone_in, check, damaged, parsed_json, refuse_as_folder, write_whole
from thresher.engine.store.about import FORMAT, same_description, write_about
from thresher.engine.store.unsaved import nothing_left_unless_saved
from thresher.record.ledger import Ledger
from thresher.record.run_folder import (
    CHECKPOINT,
    EXAMPLES,
    FINE_TUNED,
    HISTORY,
    LEDGER,
    MODEL,
    NOISE_RATE,
    OF_AN_AUDIT,
    RECALL_OF_NONE,
    SETTINGS,
    SHARDS,
    STAGES,
    Epoch,
)

Record = dict[str, Any]  # what history keeps of one epoch
OF_LATER = ("state at the start", "teacher", "list of classes")  # which runs of earlier versions did not store


class OfALearner(TypedDict):
    """What is saved of one network."""

    model: dict[str, Any]
    objective: dict[str, Any]
    optimizer: dict[str, Any]
    average: dict[str, Any] | None
    moves: Tensor
    batch_memory: dict[str, Tensor]
    epoch_memory: dict[str, Tensor]


class Best(TypedDict):
    """The epoch that did best on the validation set."""

    epoch: int


class Shards(TypedDict):
    """Where parameters lie that were saved in shards: the folder, and its files with their sizes."""

    folder: str
    files: dict[str, int]


class Saved(TypedDict):
    """What a checkpoint holds."""

    identity: str
    learners: list[OfALearner]
    history: list[Epoch]
    ledger: list[str]
    best: Best | None
    finished: bool
    stopped: bool
    epoch: int
    steps_done: int
    carry: Tensor
    clean_carry: Tensor | None
    observed: list[Any]
    shifts: list[Tensor]
    shards: NotRequired[Shards]


WHERE_KNOWN = ("clean_share", "clean_weight", "train_score")  # what a training notes of an epoch if it can be told
NOT_ALWAYS = {*WHERE_KNOWN, "noise_rate"}  # only where it is to be estimated
OF_AN_EPOCH = tuple(name for name in Epoch.__annotations__ if name not in NOT_ALWAYS)  # what every training notes


def read_checkpoint(folder: Path, whole: bool = True) -> dict[str, Any]:
    """What the run in this folder saved last; no code that a file may hold is run.

    Where parameters were saved in shards they are put together, in this process alone, if `whole` ones are wanted.
    """
    file = folder / CHECKPOINT
    refuse_endless(file)
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ThresherError(f"{folder} has saved no epoch yet: run the same training again.") from None
    except Exception as error:  # torch and pickle name no kinds of their own
        raise ThresherError(f"{file} is damaged and cannot be read: delete {folder} to start the run again.") from error
    check(state, Saved, file, start_again(folder))
    for record in state["history"]:
        for name in WHERE_KNOWN:
            record.setdefault(name, None)
    wrong = _odd_epochs(state)
    if wrong is not None:
        raise damaged(file, wrong, start_again(folder))
    return with_shards(folder, state) if whole else state


def _odd_epochs(state: Mapping[str, Any]) -> str | None:
    """What no training would have noted of its epochs, in words, or None."""
    if state["finished"] and not state["history"]:
        return "it is finished without an epoch"
    for record in state["history"]:
        lost = next((name for name in OF_AN_EPOCH if name not in record), None)
        if lost is not None:
            return f"an epoch lacks {lost!r}"
        if odd := next(filter(RECALL_OF_NONE.match, record["scores"]), None):
            return f"an epoch has the score {odd}, which is that of no class"
        score = record["score"]
        if score is not None and record["metric"].endswith("accuracy") and not 0 <= score <= 1:
            return f"an epoch has the {record['metric']} {score:g}"
    return None


def with_shards(folder: Path, state: dict[str, Any], mesh: Any = None) -> dict[str, Any]:
    """The state with the shards that lie beside it, if there are any: whole, or over the processes of a mesh."""
    if "shards" not in state:
        return state
    needs_extra(f"{folder}, which was saved in shards,", "export", "safetensors")
    from thresher.engine.several.shard_files import filled

    place = folder / SHARDS / Path(state["shards"]["folder"]).name
    try:
        for name, size in state["shards"]["files"].items():
            if (place / Path(name).name).stat().st_size != size:
                raise OSError(name)  # a lost file may else be taken for zeros
        made: dict[str, Any] = filled(state, place, mesh)
    except OSError as error:
        raise damaged(place, "a shard is lost or cannot be read", start_again(folder)) from error
    return made


def start_again(folder: Path) -> str:
    """What helps where a run cannot go on."""
    return f"delete {folder} to start the run again"


def refuse_lost_parts(folder: Path, parts: Sequence[str]) -> None:
    """Refuse a run whose ledger lacks one of its parts, or has one that cannot be read to its end."""
    for part in parts:
        try:
            if Path(part).name != part:
                raise ValueError("outside of the ledger")
            refuse_endless(folder / LEDGER / part)
            with pq.ParquetFile(folder / LEDGER / part) as file:
                for _ in file.iter_batches():  # damage inside a page shows only when it is read
                    pass
        except (OSError, pa.ArrowException, ValueError) as error:
            raise ThresherError(
                f"{part} of the ledger is lost or damaged: delete {folder} to start the run again."
            ) from error


class RunFolder:
    """The folder of a run: `ledger/`, `history.jsonl` and `checkpoint.pt`, committed together."""

    def __init__(self, path: Path | str, identity: Mapping[str, Any], about: Mapping[str, Any]):
        self.path, self.identity, self.about = Path(path), json.loads(json.dumps(identity)), about
        self.in_shards, self.writes = False, True
        self.outdated = False  # whether the outcome in the folder is that of fewer epochs, until more are saved

    @contextmanager
    def opened(self) -> Iterator[dict[str, Any] | None]:
        """The last committed state, or None in a new folder, which is this process's alone until the block ends."""
        refuse_as_folder(self.path)
        with nothing_left_unless_saved(self.path):
            if not (self.path / CHECKPOINT).exists():
                self._refuse_foreign_files()
                self._make()
            with alone_in(self.path):
                saved = self._load()
                if saved is None:
                    write_about(self.path, self.about)
                yield saved

    def _load(self) -> dict[str, Any] | None:
        """The last committed state; anything newer than it is removed."""
        file = self.path / CHECKPOINT
        if not file.exists():
            Ledger(self.path / LEDGER).discard_uncommitted()
            self._remove_shards_but({})
            return None
        state = read_checkpoint(self.path, whole=not self.in_shards)
        theirs = parsed_json(state["identity"], dict[str, Any], file, start_again(self.path))
        self._refuse_another_run(theirs)
        if theirs["epochs"] != self.identity["epochs"]:
            self._train_on(state)
        refuse_lost_parts(self.path, state["ledger"])
        Ledger(self.path / LEDGER, state["ledger"]).discard_uncommitted()
        self._write_history(state["history"])
        self._remove_shards_but(state)
        return state

    def commit(self, state: Mapping[str, Any], ledger: Ledger, history: list[Record]) -> None:
        """Save everything; the move of the checkpoint into place is the moment at which all of it counts."""
        if self.outdated:
            (self.path / EXAMPLES).unlink(missing_ok=True)
            self.outdated = False
        ledger.commit()
        self._write_history(history)
        buffer = io.BytesIO()
        identity = json.dumps(self.identity)
        torch.save({**state, "identity": identity, "ledger": ledger.parts, "history": history}, buffer)
        write_whole(self.path / CHECKPOINT, lambda path: path.write_bytes(buffer.getbuffer()))
        self._remove_shards_but(state)

    def _remove_shards_but(self, state: Mapping[str, Any]) -> None:
        """Remove shards that a checkpoint does not name: older ones, and those of an epoch not saved to its end."""
        named = state.get("shards", {}).get("folder")
        for found in (self.path / SHARDS).glob("*"):
            if found.name != named:
                shutil.rmtree(found)

    def _write_history(self, history: list[Record]) -> None:
        text, path = "".join(json.dumps(record) + "\n" for record in history), self.path / HISTORY
        refuse_endless(path)
        if not (path.exists() and path.read_text(errors="replace") == text):  # what is finished may be read-only
            write_whole(path, lambda place: place.write_text(text))

    def _make(self) -> None:
        """Make the folder now, so that a place that cannot be written to is known before training."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ThresherError(f"{self.path} cannot be made ({error.strerror}): choose another folder.") from error

    def _refuse_another_run(self, theirs: Mapping[str, Any]) -> None:
        if "format" not in theirs:
            raise ThresherError(
                f"{self.path} was begun by an earlier version of Thresher: choose another folder, or delete this one."
            )
        if theirs["format"] > FORMAT:
            raise ThresherError(f"{self.path} was written by a newer version of Thresher: install that version.")
        gone = {name: None for name in theirs if name.endswith(" set") and name not in self.identity}
        for name, ours in (self.identity | gone).items():
            stored = theirs.get(name)
            if name in OF_LATER and name not in theirs:
                continue
            if same_description(stored, ours) or (name == "epochs" and _is_longer(ours, stored)):
                continue
            told = f"is {stored}, not {ours}" if name == "epochs" else "differs"
            if name == "recipe" and _is_longer(self.identity["epochs"], theirs["epochs"]):
                told += ", and a run goes on to more epochs only by the recipe that it began with"
            raise ThresherError(
                f"{self.path} holds another run (its {name} {told}): choose another folder, or delete this one."
            )

    def _train_on(self, state: dict[str, Any]) -> None:
        """Let a run that was finished, or meant to be shorter, go on to more epochs; its outcome is written anew."""
        if state["best"] is not None or any((self.path / inside).exists() for inside in (STAGES, FINE_TUNED)):
            raise ThresherError(
                f"{self.path} cannot be trained for more epochs (it kept its best epoch, was fine-tuned, or is several "
                "trainings): choose another folder."
            )
        state["finished"] = state["stopped"]
        self.outdated = True

    def _refuse_foreign_files(self) -> None:
        """Refuse to fill a folder that holds files of something else."""
        ours = {SETTINGS, HISTORY, LEDGER, STAGES, MODEL, NOISE_RATE, SHARDS, *OF_AN_AUDIT}
        if not self.path.exists():
            return
        foreign = [
            entry.name for entry in self.path.iterdir() if entry.name not in ours and not entry.name.startswith(".")
        ]
        if foreign:
            raise ThresherError(f"{self.path} is not empty (it has {foreign[0]}): choose a new folder for the run.")


def _is_longer(ours: Any, theirs: Any) -> bool:
    """Whether a training of so many epochs may go on from one of so many: from the end of an epoch, to a later one.

    >>> _is_longer(5, 3), _is_longer(3, 5), _is_longer(2, 1.5), _is_longer(2, None)
    (True, False, False, False)
    """
    return isinstance(theirs, int | float) and ours is not None and theirs == int(theirs) and ours > theirs
