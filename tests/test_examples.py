"""Examples: the same batches from memory and from a stream, stable ids, and refusals that name the fix."""

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.files import write_whole
from thresher.core.seeding import derive, everything_seeded, generator, preserved, seed_global

N = 11
INPUTS = torch.arange(N * 6.0).view(N, 2, 3)
LABELS = torch.arange(N) % 3
IDS = torch.tensor([50, 3, 17, 99, 4, 61, 8, 0, 22, 35, 7])
ORDER = torch.tensor([[3, 0, 10], [5, 5, 1]])
RAGGED = [torch.tensor([9]), torch.tensor([0, 4, 2, 2])]


class Stored:
    """A map-style dataset whose items are what `item(position)` gives."""

    def __init__(self, inputs: Tensor, form: str):
        self.inputs, self.form = inputs, form

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, position: int) -> Any:
        if not 0 <= position < len(self):
            raise IndexError(position)
        value = self.inputs[position]
        forms = {"tensor": value, "tuple": (value, 7, "x"), "list": [value, 7], "numpy": value.numpy()}
        lists = {"plain": value.tolist(), "plain tuple": (value.tolist(), 7)}
        wrong = {"words": ("cat", 7), "ragged": value.flatten()[: 1 + position]}
        return (forms | lists | wrong)[self.form]


class Random(Stored):
    """Items changed by all three global random states, as augmentations do."""

    def __getitem__(self, position: int) -> Any:
        noise = torch.rand(1).item(), np.random.rand(), random.random()  # noqa: NPY002
        return self.inputs[position].flatten()[:1] * 0 + torch.tensor([*noise, float(position)])


def streamed(inputs: Tensor = INPUTS, form: str = "tuple", **facts: Any) -> Examples:
    return Examples(Stored(inputs, form), LABELS, ids=IDS, **facts)


def random_stream(ids: Tensor = IDS, positions: Tensor | None = None) -> Examples:
    examples = Examples(Random(INPUTS, ""), LABELS, ids=ids)
    return examples if positions is None else examples.subset(positions)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", ["tensor", "tuple", "list", "numpy", "plain", "plain tuple"])
@pytest.mark.parametrize("order", [ORDER, RAGGED], ids=["rectangle", "ragged"])
def test_a_stream_gives_the_batches_that_memory_gives(form: str, workers: int, order: Any) -> None:
    memory, stream = Examples(INPUTS, LABELS, ids=IDS), streamed(form=form)
    assert memory.in_memory
    assert not stream.in_memory
    expected = [INPUTS[row] for row in order]
    for examples in (memory, stream):
        batches = list(examples.batches(order, workers=workers))
        assert len(batches) == len(expected)
        assert all(torch.equal(batch, right) for batch, right in zip(batches, expected, strict=True))
    assert memory.input_shape == stream.input_shape == (2, 3)


@pytest.mark.parametrize("workers", [0, 2])
def test_bytes_are_normalised_alike_from_memory_and_stream(workers: int) -> None:
    pixels = (torch.arange(N * 6) * 3).view(N, 2, 3).to(torch.uint8)
    mean, std = torch.tensor([[100.0], [50.0]]), torch.tensor([[2.0], [5.0]])
    for normalise, expected in (
        (None, pixels.float() / 255),
        ((mean, std), torch.stack([(pixels[:, 0] - 100.0) / 2, (pixels[:, 1] - 50.0) / 5], 1)),
    ):
        for examples in (Examples(pixels, LABELS, normalise=normalise), streamed(pixels, normalise=normalise)):
            got = torch.cat(list(examples.batches(ORDER, workers=workers)))
            torch.testing.assert_close(got, expected[ORDER.flatten()])
            assert examples.subset([0, 1]).normalise is normalise


def test_anything_but_bytes_passes_as_it_is_even_with_normalise() -> None:
    normalise = torch.tensor(1.0), torch.tensor(2.0)
    for inputs in (INPUTS, INPUTS.long(), INPUTS.double()):
        examples = Examples(inputs, LABELS, normalise=normalise)
        assert torch.equal(examples.as_model_input(inputs), inputs)


@pytest.mark.parametrize("workers", [0, 2])
def test_random_transforms_depend_on_seed_epoch_and_id_only(workers: int) -> None:
    rows = [torch.arange(4), torch.arange(4, N)]
    whole = torch.cat(list(random_stream().batches(rows, seed=1, epoch=2, workers=workers)))
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    random.seed(99)
    backwards = torch.cat(list(random_stream().batches([torch.arange(N).flip(0)], seed=1, epoch=2)))
    assert torch.equal(backwards.flip(0), whole)
    picked = random_stream(positions=torch.tensor([6, 2])).batches([torch.tensor([0, 1])], seed=1, epoch=2)
    assert torch.equal(next(iter(picked)), whole[[6, 2]])
    noise = whole[:, :3]
    assert len(noise.unique()) == noise.numel()
    for changed in ({"seed": 2, "epoch": 2}, {"seed": 1, "epoch": 3}):
        other = torch.cat(list(random_stream().batches(rows, **changed)))[:, :3]
        assert not (other == noise).any()
    renamed = torch.cat(list(random_stream(ids=IDS.roll(1)).batches(rows, seed=1, epoch=2)))[:, :3]
    assert torch.equal(renamed, noise.roll(1, 0))


@pytest.mark.parametrize("workers", [0, 2])
def test_streaming_leaves_every_global_random_state_as_it_was(workers: int) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]  # noqa: NPY002
    list(random_stream().batches(ORDER, workers=workers))
    assert random_stream().input_shape == (4,)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # type: ignore[index]  # noqa: NPY002
    assert random.getstate() == before[2]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_with_nan_is_refused_when_it_comes(workers: int) -> None:
    broken = INPUTS.clone()
    broken[4, 0, 0] = float("nan")
    examples = streamed(broken)
    assert len(list(examples.batches(ORDER, workers=workers))) == 2
    with pytest.raises(ThresherError, match="NaN"):
        list(examples.batches(RAGGED, workers=workers))


def test_numbers_alone_are_all_of_an_input() -> None:
    rows = INPUTS.flatten(1)
    for item in (list, tuple):
        examples = Examples([item(row) for row in rows.tolist()], LABELS)
        assert examples.input_shape == (6,)
        assert torch.equal(next(iter(examples.batches(ORDER))), rows[ORDER[0]])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("words", "is a str, "),
        ("ragged", r"shape \[4\] and one before it \[1\]: bring all to one shape"),
    ],
)
def test_items_that_make_no_batch_are_refused_with_what_would(form: str, says: str, workers: int) -> None:
    with pytest.raises(ThresherError, match=says):
        next(iter(streamed(form=form).batches(ORDER.sort().values, workers=workers)))


def test_targets_of_every_kind_say_what_a_model_must_give() -> None:
    classes = Examples(INPUTS, LABELS.to(torch.uint8))
    assert (classes.classes, classes.outputs, classes.is_regression) == (3, 3, False)
    assert classes.targets.dtype == torch.long
    assert Examples(INPUTS, LABELS.tolist()).classes == 3  # type: ignore[arg-type]
    assert Examples(INPUTS, LABELS, classes=10).outputs == 10
    one = Examples(INPUTS, torch.rand(N).double())
    assert (one.classes, one.outputs, one.targets.shape, one.targets.dtype) == (None, 1, (N, 1), torch.float32)
    assert Examples(INPUTS, torch.rand(N, 4)).outputs == 4
    with pytest.raises(ThresherError, match="no single label each"):
        _ = one.labels


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.long, torch.bool])
def test_soft_labels_are_probabilities_whose_label_is_the_likeliest(kind: torch.dtype) -> None:
    rows = torch.eye(3)[LABELS]
    soft = 0.6 * rows + 0.4 / 3 if kind.is_floating_point else rows
    examples = Examples(INPUTS, soft.to(kind), classes=3)
    assert examples.targets.dtype == torch.float32
    assert examples.outputs == 3
    assert torch.equal(examples.labels, LABELS)
    assert torch.nn.functional.cross_entropy(torch.zeros(N, 3), examples.targets).item() == pytest.approx(np.log(3))


@pytest.mark.parametrize("form", ["memory", "tuple"])
def test_a_subset_keeps_order_ids_columns_and_everything_else(form: str) -> None:
    facts: dict[str, Any] = {"classes": 5, "class_names": list("abcde"), "name": "letters"}
    facts["columns"] = {"is_corrupt": torch.arange(N) > 5, "score": torch.rand(N, 2)}
    whole = Examples(INPUTS, LABELS, ids=IDS, **facts) if form == "memory" else streamed(**facts)
    for positions in ([7, 2, 10], torch.tensor([7, 2, 10]), np.array([7, 2, 10]), [7, 2, -1]):
        part = whole.subset(positions)  # type: ignore[arg-type]
        assert part.ids.tolist() == [0, 17, 7]
        assert torch.equal(part.targets, LABELS[[7, 2, 10]])
        assert torch.equal(next(iter(part.batches([torch.arange(3)]))), INPUTS[[7, 2, 10]])
        assert part.columns["is_corrupt"].tolist() == [True, False, True]
        assert torch.equal(part.columns["score"], whole.columns["score"][[7, 2, 10]])
        assert (part.classes, part.class_names, part.name) == (5, list("abcde"), "letters")
    again = whole.subset([7, 2, 10]).subset([1])
    assert again.ids.tolist() == [17]
    assert torch.equal(next(iter(again.batches([torch.tensor([0])]))), INPUTS[[2]])


def test_a_mask_chooses_where_it_is_true() -> None:
    whole = Examples(INPUTS, LABELS, ids=IDS, columns={"is_corrupt": LABELS == 1})
    assert torch.equal(whole.subset(whole.columns["is_corrupt"]).ids, IDS[LABELS == 1])
    assert torch.equal(whole.subset((LABELS == 1).tolist()).ids, IDS[LABELS == 1])


def test_columns_and_targets_are_replaced_in_a_copy() -> None:
    whole = Examples(INPUTS, LABELS, columns={"a": torch.zeros(N)})
    more = whole.with_columns(b=torch.ones(N), a=torch.full((N,), 2.0))
    assert set(whole.columns) == {"a"}
    assert whole.columns["a"][0] == 0
    assert (more.columns["a"][0], more.columns["b"][0]) == (2, 1)
    flipped = whole.with_targets((LABELS + 1) % 3, true_target=LABELS)
    assert torch.equal(flipped.targets, (LABELS + 1) % 3)
    assert torch.equal(flipped.columns["true_target"], LABELS)
    assert "a" in flipped.columns
    assert torch.equal(whole.targets, LABELS)


def test_everything_in_memory_moves_together() -> None:
    normalise = torch.zeros(1), torch.ones(1)
    moved = Examples(INPUTS, LABELS, columns={"a": LABELS}, normalise=normalise).to("meta")
    tensors = [moved.inputs, moved.targets, moved.ids, moved.columns["a"], *moved.normalise]  # type: ignore[misc]
    assert {tensor.device.type for tensor in tensors} == {"meta"}  # type: ignore[union-attr]
    stream = streamed()
    assert stream.to("cpu").inputs is stream.inputs


def with_nan(values: Tensor, number: float = float("nan")) -> Tensor:
    values = values.clone()
    values.flatten()[3] = number
    return values


REFUSALS = {
    "empty": (lambda: Examples(INPUTS[:0], LABELS[:0]), "empty"),
    "fewer inputs": (lambda: Examples(INPUTS[:-1], LABELS), "10 inputs, 11 targets"),
    "fewer ids": (lambda: Examples(INPUTS, LABELS, ids=IDS[:-1]), "10 ids"),
    "stream too short": (lambda: Examples(Stored(INPUTS[:-1], "tuple"), LABELS), "10 inputs"),
    "ids repeat": (lambda: Examples(INPUTS, LABELS, ids=IDS * 0), "repeat"),
    "column too short": (lambda: Examples(INPUTS, LABELS, columns={"a": LABELS[:2]}), "Column a"),
    "column of one": (lambda: Examples(INPUTS, LABELS, columns={"a": torch.tensor(1)}), "Column a"),
    "added column": (lambda: Examples(INPUTS, LABELS).with_columns(a=LABELS[:2]), "Column a"),
    "NaN input": (lambda: Examples(with_nan(INPUTS), LABELS), "1 examples with NaN"),
    "infinite input": (lambda: Examples(with_nan(INPUTS, float("inf")), LABELS), "infinite"),
    "NaN input of one number": (lambda: Examples(with_nan(torch.rand(N)), LABELS), "NaN"),
    "NaN target": (lambda: Examples(INPUTS, with_nan(torch.rand(N))), "targets that are NaN"),
    "infinite target": (lambda: Examples(INPUTS, with_nan(torch.rand(N, 2), float("-inf"))), "targets that are NaN"),
    "other targets": (lambda: Examples(INPUTS, torch.rand(N)).with_targets(with_nan(torch.rand(N))), "NaN"),
    "negative label": (lambda: Examples(INPUTS, LABELS - 1), "labels from -1 to 1"),
    "label too large": (lambda: Examples(INPUTS, LABELS, classes=2), "raise classes="),
    "changed label too large": (lambda: Examples(INPUTS, LABELS).with_targets(LABELS + 1), "labels from 1 to 3"),
    "real labels": (lambda: Examples(INPUTS, LABELS + 0.5, classes=3), "real labels"),
    "soft labels too wide": (lambda: Examples(INPUTS, torch.eye(3)[LABELS], classes=4), "width 3"),
    "soft labels no probabilities": (lambda: Examples(INPUTS, torch.ones(N, 3), classes=3), "not probabilities"),
    "soft labels negative": (
        lambda: Examples(INPUTS, torch.tensor([[1.5, -0.5]]).expand(N, 2), classes=2),
        "not proba",
    ),
    "whole numbers in rows": (lambda: Examples(INPUTS, LABELS[:, None]), "class ids \\[11\\]"),
    "targets in blocks": (lambda: Examples(INPUTS, torch.rand(N, 2, 2)), "reshape"),
    "empty subset": (lambda: Examples(INPUTS, LABELS).subset([]), "empty"),
    "subset with repeats": (lambda: streamed().subset([1, 1]), "repeat"),
}


@pytest.mark.parametrize(("make", "says"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_no_training_can_use_is_refused_with_a_reason(make: Any, says: str) -> None:
    with pytest.raises(ThresherError, match=says):
        make()


def test_seeds_depend_on_every_part_and_their_order() -> None:
    parts = [(0,), (1,), (0, 1), (1, 0), (0, "1"), ("0", 1), (0, 11), (0, 0, 1)]
    seeds = [derive(*each) for each in parts]
    assert len(set(seeds)) == len(set(parts))
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive(0, 1) == 9017893900260303862  # the same on every machine and in every process
    assert torch.equal(torch.rand(3, generator=generator(1, "a")), torch.rand(3, generator=generator(1, "a")))


def test_global_states_are_seeded_inside_and_restored_afterwards_even_after_an_error() -> None:
    def states() -> tuple[float, float, float]:
        return torch.rand(1).item(), float(np.random.rand()), random.random()  # noqa: NPY002

    with everything_seeded(5):
        inside = states()
    kept = torch.get_rng_state(), random.getstate()
    with suppress(KeyError), everything_seeded(5):
        assert states() == inside
        raise KeyError
    with suppress(KeyError), preserved():
        seed_global(torch.device("cpu"), 3)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), kept[0])
    assert random.getstate() == kept[1]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_whole(path, lambda place: place.write_text("first"))
    assert path.read_text() == "first"
    assert path.stat().st_mode & 0o444 == 0o444  # readable by others, unlike a temporary file

    with open(path) as reader:  # whoever has the old file open goes on reading it, because nobody writes into it
        write_whole(path, lambda place: place.write_text("second"))
        assert reader.read() == "first"
    assert path.read_text() == "second"

    def break_off(place: Path) -> None:
        place.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(path, break_off)
    assert path.read_text() == "second"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


def test_a_full_disk_says_so_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fill_up(place: Path) -> None:
        place.write_text("half")
        with open("/dev/full", "w") as full:
            full.write("x")

    with pytest.raises(ThresherError, match="disk is full"):
        write_whole(path, fill_up)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]
