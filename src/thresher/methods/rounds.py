"""The rounds of an active-learning loop on disk: the ids bought, and the scores."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import refuse_as_folder
from thresher.engine.device.placement import find_device, several
from thresher.engine.several.ranks import Ranks, agreed
from thresher.engine.store.about import same_description
from thresher.engine.store.checkpoint import Record
from thresher.record.loop import read_loop, save_picks, write_loop
from thresher.record.run_folder import ROUNDS


class Rounds:
    """The finished rounds of a loop, in one file that is written atomically; without a folder, in memory only.

    `rounds/3` is the folder of the third training while it goes on; only the latest is kept. `picks/3.npz` shows what
    that round chose. Of several processes the first reads and writes.
    """

    def __init__(self, out: Path | str | None, identity: Mapping[str, Any], class_names: Sequence[str] | None = None):
        self.out, self.class_names = None if out is None else Path(out), class_names
        self.identity: dict[str, Any] = json.loads(json.dumps(identity))
        self.ranks = Ranks(find_device("cpu")) if several() else None
        if self.ranks is not None:
            self.ranks.check_same("the loop that they run", json.dumps(self.identity, sort_keys=True).encode())
        self.writes = self.out is not None and (self.ranks is None or self.ranks.is_first)
        self.records: list[Record] = []
        if self.out is not None:
            refuse_as_folder(self.out)
            self.records = agreed(self.ranks, self._begun)

    def _begun(self) -> list[Record]:
        """The finished rounds of this loop, if the folder has any."""
        assert self.out is not None
        stored = read_loop(self.out)
        if stored is None:
            self._write()
            return []
        for name, ours in self.identity.items():
            if not same_description(stored["identity"].get(name, ours), ours):
                raise ThresherError(
                    f"{self.out} holds another loop (its {name} differs): choose another folder, or delete this one."
                )
        found: list[Record] = stored["rounds"]
        return found

    def folder(self, place: int) -> Path | None:
        """Where the training of this round is kept."""
        return None if self.out is None else self.out / ROUNDS / str(place)

    def finish(self, record: Record, picked: Examples | None) -> None:
        """Store a round and its picks; the round counts once its file is moved into place."""
        if self.out is not None and self.writes and picked is not None:
            save_picks(self.out, len(self.records), picked, targets=picked.targets)
        self.records.append(record if self.ranks is None else self.ranks.from_first(record))
        if self.out is not None and self.writes:
            self._write()
            for earlier in range(len(self.records) - 1):  # a kill may have left some
                shutil.rmtree(self.out / ROUNDS / str(earlier), ignore_errors=True)

    def _write(self) -> None:
        assert self.out is not None
        write_loop(self.out, self.identity, self.class_names, self.records)
