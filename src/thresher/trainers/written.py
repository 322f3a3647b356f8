"""What a weigher writes of a training: the ledger, one record an epoch, and in the end trust in every example."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thresher.core.examples import Examples
from thresher.core.files import write_whole
from thresher.engine.loop.history import epoch_record
from thresher.record.ledger import Ledger, epoch_table
from thresher.record.outcome import write_outcome, write_trust
from thresher.record.run_folder import HISTORY, LEDGER
from thresher.trainers.processes import rank

Rows = tuple[int, Examples, Mapping[str, np.ndarray[Any, Any]]]  # of one network: its place, examples, columns


class Written:
    """The ledger and the history of one training; of several processes the first writes them to the folder."""

    def __init__(self, folder: Path | None, train: Examples | None):
        self.folder, self.train = folder, train
        self.ledger = Ledger(None if self.folder is None else self.folder / LEDGER)
        self.history: list[dict[str, Any]] = []
        self.skipped = 0

    def add(self, networks: Sequence[Rows], epoch: int) -> None:
        """The rows of one epoch, whose number is from 0."""
        if not networks:
            return
        for place, examples, columns in networks:
            self.ledger.add(epoch_table(examples, columns, {}, epoch=epoch + 1, peer=place))
        record = epoch_record([columns for _, _, columns in networks], networks[0][1])
        self.history.append({**record, "epoch": epoch + 1, "skipped": self.skipped})
        self.skipped = 0
        if self.folder is not None and rank() == 0:
            self.ledger.commit()
            lines = "".join(json.dumps(each) + "\n" for each in self.history)
            write_whole(self.folder / HISTORY, lambda path: path.write_text(lines, encoding="utf-8"))

    def finish(self) -> None:
        if self.folder is None or not self.history or rank() > 0:
            return
        if self.train is None:
            write_trust(self.folder, self.ledger)
        elif len(self.ledger.trust()[0]) == len(self.train):
            write_outcome(self.folder, self.train, self.ledger)
