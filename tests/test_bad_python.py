"""What a program gives wrongly is refused in one sentence before a parameter moves; see `bad_python` for the tables."""

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_doors import DOORS, loop, taught
from bad_handles import HANDLES
from bad_python import KINDS, OWN_CODE, STREAMS, WRONG_VALUES, Counted, call, images, losing, returning, weighing
from tiny import examples
from torch import Tensor

from thresher import Evidence, Examples, Recipe, Rule, Signal, ThresherError, rules
from thresher.signals import gradient_norm
from thresher.trainers import Weigher

PLAIN = (int, float, bool, Signal)
TABLE = {**KINDS, **DOORS, **HANDLES, **WRONG_VALUES}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("act", "words"), TABLE.values(), ids=TABLE)
def test_refused_before_a_parameter_moves(act: Callable[[], object], words: str, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    Counted.steps = 0
    with pytest.raises(ThresherError) as caught:
        act()
    assert re.search(words, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert Counted.steps == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("act", "words"), STREAMS.values(), ids=STREAMS)
def test_a_broken_item_of_a_stream_is_named(act: Callable[[], object], words: str) -> None:
    with pytest.raises(ThresherError, match=words) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("act", "kind", "stage"), OWN_CODE.values(), ids=OWN_CODE)
def test_errors_of_ones_own_code_pass_with_a_note(act: Callable[[], object], kind: type[Exception], stage: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert any(stage in note for note in caught.value.__notes__)


def test_the_tables_can_fail() -> None:
    """The same calls with nothing wrong train."""
    Counted.steps = 0
    call()
    call(Recipe(each_batch=weighing(lambda weights: weights)), returning(lambda outputs: outputs))
    call(losing(lambda losses: losses))
    assert Counted.steps == 15
    loop()
    taught(weights=None)


def test_a_weigher_writes_into_no_folder_that_holds_another_training(tmp_path: Path) -> None:
    rows, model = examples(), torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))

    def trained() -> None:
        weigher = Weigher(out=tmp_path / "run", train=rows)
        for _ in weigher.epochs():
            weigher.loss(model, rows.inputs, rows.targets, ids=rows.ids)

    trained()
    before = sorted(path.name for path in (tmp_path / "run").rglob("*"))
    with pytest.raises(ThresherError, match="holds a training already"):
        trained()
    assert sorted(path.name for path in (tmp_path / "run").rglob("*")) == before


KEEP = rules.KeepSmallest(by=gradient_norm, fraction=0.5)
NEEDED = {"rule": KEEP, "classes": 3}
SETTINGS = [each for each in vars(rules).values() if is_dataclass(each) and isinstance(each, type)]
SETTINGS = [each for each in SETTINGS if issubclass(each, Rule) and any(field.type in PLAIN for field in fields(each))]


@pytest.mark.parametrize("rule", SETTINGS, ids=lambda rule: rule.__name__)
def test_every_rule_refuses_settings_of_another_kind(rule: type[Any]) -> None:
    needed = {each.name: NEEDED.get(each.name, 0.5) for each in fields(rule) if each.default is MISSING}
    for field in fields(rule):
        if field.type in PLAIN:
            with pytest.raises(ThresherError, match=f"{field.name}.* is a value of type object"):
                rule(**{**needed, field.name: object()})


def test_labels_that_are_texts_simply_work() -> None:
    named = Examples(images(4), ["cat", "dog", "cat", "ant"])  # type: ignore[arg-type]
    assert named.targets.tolist() == [1, 2, 1, 0]
    assert named.class_names == ["ant", "cat", "dog"]


def test_a_weight_below_zero_in_a_later_step_is_refused_at_the_end_of_the_epoch() -> None:
    seen: list[int] = []

    def later(evidence: object) -> Tensor:  # noqa: ARG001
        seen.append(1)
        weights = torch.ones(8)
        return weights if len(seen) < 3 else weights.index_fill(0, torch.tensor([1]), -0.5)

    with pytest.raises(ThresherError, match="negative weights"):
        call(Recipe(each_batch=later), data=examples())


@dataclass(frozen=True)
class LessThanNothing(Rule):
    """A rule whose signal makes the step take its gradients from the layers."""

    by: Signal = gradient_norm

    def __call__(self, evidence: Evidence) -> Tensor:
        return -evidence.read(self.by)


def test_the_first_step_is_looked_at_where_gradients_come_from_the_layers() -> None:
    with pytest.raises(ThresherError, match="negative weight to the example"):
        call(Recipe(each_batch=LessThanNothing()))
