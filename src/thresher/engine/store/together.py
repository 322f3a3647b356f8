"""The folder of a run of several processes: the first writes; shards are written by all."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from thresher.core.errors import needs_extra
from thresher.engine.several.ranks import Ranks, agreed
from thresher.engine.store.checkpoint import Record, RunFolder, with_shards
from thresher.record.ledger import Ledger
from thresher.record.run_folder import SHARDS


class SharedFolder(RunFolder):
    """A run's folder among several processes; all of them call its methods, in the same order."""

    def __init__(self, path: Path | str, identity: Mapping[str, Any], about: Mapping[str, Any], ranks: Ranks):
        super().__init__(path, identity, about)
        self.ranks, self.in_shards, self.writes = ranks, ranks.sharded, ranks.is_first
        if ranks.sharded:
            needs_extra("sharded=True with a folder", "export", "safetensors")

    @contextmanager
    def opened(self) -> Iterator[dict[str, Any] | None]:
        """What the first process finds in the folder, in every process; or its refusal. Each takes its own shards."""
        with ExitStack() as stack:
            alone = super().opened()
            saved = agreed(self.ranks, lambda: stack.enter_context(alone))
            if saved is not None and self.in_shards:
                saved = with_shards(self.path, saved, self.ranks.mesh)
            yield saved

    def commit(self, state: Mapping[str, Any], ledger: Ledger, history: list[Record]) -> None:
        """Save everything: each process its shards, and then the first the rest, from which moment all of it counts."""
        if self.in_shards:
            from thresher.engine.several.shard_files import save_shards

            folder = self.path / SHARDS / f"epoch-{state['epoch']}"
            state = save_shards(state, folder)
            files = {file.name: file.stat().st_size for file in folder.iterdir()} if self.writes else {}
            state = {**state, "shards": {"folder": folder.name, "files": files}}
        if self.writes:
            super().commit(state, ledger, history)
        else:
            ledger.pending = []
