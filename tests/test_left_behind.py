"""What a run must not leave behind, mix up or forget: hooks, settings of others, stale columns, states."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import assert_same_tensors, examples, net
from torch import Tensor, nn

from thresher import Recipe, ThresherError, fit, signals, weigh
from thresher.core.evidence import Evidence
from thresher.core.rule import Decision, RuleLike
from thresher.engine.step.optimizer import load_optimizer
from thresher.methods import method
from thresher.objectives import CrossEntropy
from thresher.rules import (
    Agree,
    Dimensionality,
    KeepAbove,
    KeepSmallest,
    Uniform,
    average_teaches,
    average_teaches_held_out,
    every,
    from_average,
    from_peer,
    product,
    warmup,
)
from thresher.slots.relabel import PredictedLabels

TRAIN, HELD = examples(40, seed=1), examples(12, seed=7)
KEEP = KeepSmallest(by=signals.loss, fraction=0.5)
TAUGHT = Recipe(average=0.9, each_epoch=average_teaches(KeepAbove(by=signals.confidence, bound=0.2)))


def train(recipe: Recipe, model: Any = net, **more: Any) -> Any:
    return fit(recipe, model, TRAIN, **{"epochs": 2, "batch": 10, **more})


def hooks(model: nn.Module) -> int:
    return sum(len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in model.modules())


def test_refusals_leave_no_hooks() -> None:
    model, normed = net(seed=1), net(seed=1, batch_norm=True)
    recipe = Recipe(each_batch=method("prl-l").recipe().each_batch, each_epoch=Dimensionality())
    with pytest.raises(ThresherError, match="The noise rate is found"):
        train(recipe, model, epochs=1)
    both = KeepSmallest(by=signals.features, fraction=0.5), KeepSmallest(by=signals.gradient_norm, fraction=0.5)
    with pytest.raises(ThresherError, match="BatchNorm"):
        weigh(warmup(1, *both), normed, TRAIN.inputs, TRAIN.targets)  # type: ignore[arg-type]
    assert (hooks(model), hooks(normed)) == (0, 0)


@pytest.mark.parametrize("deterministic", [False, True])
def test_settings_of_the_process_stay_as_they_were(deterministic: bool) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        train(Recipe(), deterministic=deterministic)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_every_forgets_columns_that_the_latest_answer_does_not_have() -> None:
    def marked(evidence: Evidence) -> Decision:
        return Decision(torch.ones(len(evidence)), {"mark": torch.ones(len(evidence))})

    rule = every(2, warmup(1, Uniform(), before=marked))
    told = train(Recipe(each_epoch=rule), epochs=4).ledger.to_pandas()
    assert told.groupby("epoch")["mark"].count().tolist() == [40, 40, 0, 0]


class Learnt(CrossEntropy):
    """A loss with a parameter and a buffer."""

    def __init__(self, start: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("start", torch.tensor(start))

    def forward(self, evidence: Evidence) -> Tensor:
        losses: Tensor = self.scale * self.start * super().forward(evidence)
        return losses


def spoils(epoch: float, epochs: float) -> float:  # noqa: ARG001
    return 1.0 if epoch < 2 else 3000.0


def test_the_best_epoch_is_that_of_the_average_too() -> None:
    recipe = Recipe(average=0.5)
    run = train(recipe, epochs=5, validation=HELD, keep="best_on_validation", schedule=spoils)
    assert run.chosen is not None
    assert run.chosen < 5, "the case shows nothing if the last epoch is the best"
    stopped = train(recipe, epochs=5, schedule=spoils, until=lambda record: record["epoch"] == run.chosen)
    assert_same_tensors(list(run.averages[0].state_dict().values()), list(stopped.averages[0].state_dict().values()))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"validation": HELD, "keep": "best_on_validation"}, {"validation": TRAIN, "keep": "best_on_validation"}),
        ({"recipe": TAUGHT, "validation": HELD}, {"recipe": TAUGHT, "validation": TRAIN}),
        ({"recipe": Recipe(objective=Learnt())}, {"recipe": Recipe(objective=Learnt(2.0))}),
    ],
    ids=["validation set", "validation set that a rule reads", "buffers of the objective"],
)
def test_a_folder_is_not_continued_under_another(first: Any, second: Any, tmp_path: Path) -> None:
    given: dict[str, Any] = {"recipe": Recipe(), "out": tmp_path / "run"}
    train(**{**given, **first})
    train(**{**given, **first})
    with pytest.raises(ThresherError, match="another run"):
        train(**{**given, **second})


def test_an_optimizer_keeps_how_its_device_computes_wherever_its_state_was_saved() -> None:
    def made() -> torch.optim.Optimizer:
        return torch.optim.Adam(net(seed=1).parameters(), lr=0.5)

    saved, ours = made(), made()
    saved.param_groups[0]["lr"] = 0.25
    rate = torch.tensor(0.5)
    ours.param_groups[0] |= {"lr": rate, "capturable": True}
    load_optimizer(ours, saved.state_dict())
    assert ours.param_groups[0]["lr"] is rate
    assert float(rate) == 0.25
    assert ours.param_groups[0]["capturable"] is True
    load_optimizer(saved, ours.state_dict())
    assert saved.param_groups[0]["lr"] == 0.25
    assert saved.param_groups[0]["capturable"] is False


def test_a_batch_rule_may_ask_the_average_of_the_peer() -> None:
    both = Recipe(peers=2, average=0.9, each_batch=from_peer(from_average(KEEP)))
    assert train(both).history[-1]["kept"] == 0.5
    with pytest.raises(ThresherError, match="An average has no peer"):
        train(Recipe(peers=2, average=0.9, each_batch=from_average(from_peer(KEEP))))


def test_predictions_replace_labels_only_once_a_rule_says_how_far() -> None:
    recipe = Recipe(each_epoch=warmup(1, Dimensionality()), relabel=PredictedLabels())
    told = train(recipe, epochs=3).ledger.to_pandas()
    assert told.groupby("epoch")["given_share"].count().tolist() == [0, 40, 40]


TEACHING: list[tuple[RuleLike, str]] = [
    (average_teaches(KeepAbove(by=signals.confidence, bound=0.5)), "put it into each_epoch"),
    (average_teaches_held_out(Agree()), "put it into each_epoch"),
]


@pytest.mark.parametrize(("rule", "what"), TEACHING)
def test_the_average_teaches_on_the_epoch_clock(rule: RuleLike, what: str) -> None:
    with pytest.raises(ThresherError, match=what):
        train(Recipe(average=0.9, each_batch=rule), validation=HELD)


def test_held_out_examples_are_those_that_something_trusts() -> None:
    with pytest.raises(ThresherError, match="use it as the rest of trusting"):
        train(Recipe(average=0.9, each_epoch=average_teaches_held_out(Agree())))


def test_workers_are_counted() -> None:
    with pytest.raises(ThresherError, match="workers must be at least 0"):
        train(Recipe(), workers=-1)


def test_a_rule_keeps_its_memory_in_epochs_in_which_another_gives_some() -> None:
    seen = list[set[str]]()

    def now_and_then(evidence: Evidence) -> Decision:
        seen.append(set(evidence.memory))
        return Decision(torch.ones(len(evidence)), memory={"first": torch.ones(1)} if evidence.epoch == 0 else {})

    def always(evidence: Evidence) -> Decision:
        return Decision(torch.ones(len(evidence)), memory={"latest": torch.ones(1)})

    train(Recipe(each_epoch=product(now_and_then, always)), epochs=3)
    assert [bool(each) for each in seen] == [False, True, True]
