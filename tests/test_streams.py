"""Streams that are read once into files: what comes back, by which ids, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from thresher import Examples, ThresherError, fit
from thresher.core.trees import call
from thresher.data import from_stream
from thresher.engine.store.about import checksum


class Counted:
    """A shard of mappings, and how often it was read."""

    def __init__(self, first: int, count: int, **more: Any):
        self.first, self.count, self.more, self.reads = first, count, more, 0

    def __iter__(self) -> Any:
        self.reads += 1
        for place in range(self.first, self.first + self.count):
            pixels = np.full((2, 3), place % 256, np.uint8)
            yield {"pixels": pixels, "length": [place / 2], "kind": ["even", "odd"][place % 2], **self.more}


def shards() -> list[Counted]:
    return [Counted(0, 300), Counted(300, 0), Counted(300, 7)]


def test_a_stream_that_breaks_leaves_nothing_of_itself(tmp_path: Path) -> None:
    def broken() -> Any:
        yield from ({"pixels": [place], "label": place % 2} for place in range(300))
        yield {"pixels": [1.0]}

    with pytest.raises(ThresherError, match="item at position 300"):
        from_stream(broken(), tmp_path / "new" / "folder")
    assert list(tmp_path.iterdir()) == []
    sound = [{"pixels": [place], "label": place % 2} for place in range(4)]
    with pytest.raises(ThresherError, match="item at position 300"):
        from_stream([sound, broken()], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["shard-00000"]
    assert len(from_stream([sound, sound], tmp_path)) == 8


def test_what_was_streamed_is_found_at_any_place(tmp_path: Path) -> None:
    made = from_stream(shards(), tmp_path, target="kind")
    assert made.ids.tolist() == list(range(307))
    assert made.class_names == ["even", "odd"]
    assert made.targets.tolist() == [place % 2 for place in range(307)]
    some = torch.tensor([306, 0, 299, 300, 256])
    (batch,) = made.batches([some])
    assert batch["pixels"].shape == (5, 2, 3)
    assert torch.equal(batch["pixels"][:, 1, 2], (some % 256).to(torch.uint8))
    assert torch.equal(batch["length"], some[:, None] / 2)
    assert not made.in_memory
    (from_items,) = made.subset(some).batches([torch.arange(5)], workers=1)
    assert torch.equal(from_items["length"], batch["length"])


def test_a_stream_is_read_once_and_a_shard_that_was_not_finished_again(tmp_path: Path) -> None:
    first = from_stream(shards(), tmp_path, target="kind")
    again = shards()
    assert checksum(from_stream(again, tmp_path, target="kind")) == checksum(first)
    assert [each.reads for each in again] == [0, 0, 0]
    (tmp_path / "shard-00002" / "shard.json").unlink()
    assert checksum(from_stream(again, tmp_path, target="kind")) == checksum(first)
    assert [each.reads for each in again] == [0, 0, 1]


def test_training_is_that_of_the_same_examples_in_memory(tmp_path: Path) -> None:
    class Lengths(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(1, 2)

        def forward(self, length: torch.Tensor) -> torch.Tensor:
            return self.head(length)

    def network() -> nn.Module:
        torch.manual_seed(0)
        return Lengths()

    streamed = from_stream(Pairs(), tmp_path)
    held = Examples({"length": torch.arange(50)[:, None] / 9}, torch.arange(50) % 2)
    runs = [fit("prl-l", network, data, noise_rate=0.2, epochs=2, batch=10) for data in (streamed, held)]
    for one, other in zip(*(run.ledger.table().columns for run in runs), strict=True):
        assert one.equals(other)
    assert call(runs[0].model, {"length": torch.zeros(1, 1)}).shape == (1, 2)


class Pairs:
    """Fifty (input, target) pairs, whose inputs are dicts."""

    def __iter__(self) -> Any:
        return (({"length": [place / 9]}, place % 2) for place in range(50))


def test_ids_of_the_items_are_kept(tmp_path: Path) -> None:
    items = [{"x": [float(n)], "label": n % 2, "id": torch.tensor(90 - 3 * n)} for n in range(20)]
    made = from_stream(iter(items), tmp_path / "a")
    assert made.ids.tolist() == [90 - 3 * n for n in range(20)]
    with pytest.raises(ThresherError, match="give all of them ids, or none"):
        from_stream([items, [{"x": [0.0], "label": 1}]], tmp_path / "b")


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "the stream is empty"),
        ([([1.0], 0), ([1.0, 2.0], 1)], "bring all to one shape and type"),
        ([{"x": [1.0], "label": 0, "id": "a"}], "not all whole numbers"),
        ([{"x": [1.0]}], "say which is the target"),
        ([({"a": {"b": torch.ones(1)}}, 0)], "nested"),
        ([([1.0], None)], "has no target"),
        ([3], "let the dataset give .input, target. pairs"),
    ],
)
def test_what_cannot_be_kept_is_refused(items: list[Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ThresherError, match=words):
        from_stream(iter(items), tmp_path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    made = from_stream(iter([([1.0], 0), ([2.0], 1)]), tmp_path)
    (tmp_path / "shard-00000" / "inputs.bin").write_bytes(b"")
    with pytest.raises(ThresherError, match=r"inputs.bin is damaged .*: remove it to read the stream again"):
        list(made.batches([torch.tensor([0])]))
    (tmp_path / "shard-00000" / "shard.json").write_text("{}")
    with pytest.raises(ThresherError, match=r"shard.json is damaged"):
        from_stream(iter([]), tmp_path)


def test_a_dataset_of_hugging_face_names_its_classes_and_reads_labels_alone() -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"row": [[0.0, 1.0], [1.0, 0.0]] * 10, "label": [0, 1] * 10}
    kinds = datasets.Features(
        row=datasets.Sequence(datasets.Value("float32")), label=datasets.ClassLabel(names=["cat", "dog"])
    )
    data = datasets.Dataset.from_dict(rows, features=kinds).with_format("torch")
    run = fit("standard", Linear, data, epochs=1, batch=5)
    assert run.about["class_names"] == ["cat", "dog"]


class Linear(nn.Module):
    """A network called with the part `row` of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)

    def forward(self, row: torch.Tensor) -> torch.Tensor:
        return self.head(row)
