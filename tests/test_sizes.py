"""What is kept small, waited for or not believed: records of many classes, folders in use, absurd scores."""

import time

import pytest
import torch

from thresher import Examples, fit, load
from thresher.bench.run import worker
from thresher.core.files import InUseError
from thresher.engine.loop.history import LISTED, measure
from thresher.report.summary import LOWEST, score_text
from thresher.rules.coresets.centrality import parts_of


@pytest.mark.parametrize("classes", [LISTED, LISTED + 1])
def test_the_recalls_of_very_many_classes_are_not_listed(classes: int) -> None:
    labels = torch.arange(classes)
    found = measure(torch.eye(classes), Examples(torch.zeros(classes, 1), labels, classes=classes))
    assert found["balanced_accuracy"] == 1.0
    assert len(found) == 2 + (classes if classes <= LISTED else 0)


def test_an_absurd_score_is_not_shown_as_a_number() -> None:
    assert [score_text(value, "r2") for value in (0.5, -2.7, -3e33)] == ["0.500", "-2.700", f"below -{LOWEST}"]


def test_a_bench_waits_for_a_folder_in_which_another_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, tried = list[float](), list[int]()
    monkeypatch.setattr(time, "sleep", waited.append)

    def act() -> str:
        tried.append(1)
        if len(tried) < 3:
            raise InUseError("Another process is at work")
        return "done"

    assert worker._when_free(act) == "done"
    assert waited == [worker.LOOK_AGAIN] * 2


def test_selections_beyond_a_size_are_made_in_parts_and_say_so() -> None:
    with pytest.warns(UserWarning, match="in 3 parts of at most 40,000"):
        parts = parts_of(100_001, 1000)
    assert sorted(torch.cat([part for part, _ in parts]).tolist()) == list(range(100_001))
    assert sum(count for _, count in parts) == 1000


@pytest.mark.filterwarnings("ignore")
def test_inputs_that_are_all_equal_tell_no_noise_rate() -> None:
    labels = torch.arange(160) * 7 % 3 % 2
    run = fit("prl-l", "mlp:4", Examples(torch.ones(160, 2), labels), noise_rate="auto", epochs=6, batch=16)
    found = next(record["noise_rate"] for record in run.history if record.get("noise_rate"))
    assert found["rate"] is None
    assert "cannot tell" in found["why"]


def test_a_set_of_fewer_rows_than_a_usual_batch_trains_by_default() -> None:
    train, test = load("blobs:80,2")
    assert len(fit("standard", "mlp:4", train, test=test, epochs=1).history) == 1
