"""Records of epochs in TensorBoard, W&B and MLflow, and weights as safetensors."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainers import CLEAN, TRAIN, net

from thresher import Examples, fit
from thresher.core.errors import ThresherError
from thresher.trainers import MLflow, TensorBoard, WandB, save_weights


class Fake:
    """Keeps what `wandb.init()` or the package mlflow would be told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def log(self, numbers: dict[str, float]) -> None:
        self.told.append(numbers)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.told.append({**metrics, "step": step})


def run(watch: Any) -> Any:
    return fit(
        "spl", net(), TRAIN, noise_rate=0.3, epochs=2, batch=12, test=Examples(*CLEAN), watch=watch, device="cpu"
    )


def test_tensorboard_shows_every_epoch(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = run(TensorBoard(tmp_path))
    events = EventAccumulator(str(tmp_path)).Reload()
    for name, value in (("loss", "loss"), ("kept", "kept"), ("score", "score")):
        scalars = events.Scalars(f"thresher/{name}")
        assert [each.step for each in scalars] == [1, 2]
        assert [each.value for each in scalars] == pytest.approx([record[value] for record in found.history])
    assert "thresher/scores/balanced_accuracy" in events.Tags()["scalars"]


def test_wandb_and_mlflow_are_told_the_same() -> None:
    wandb, mlflow = Fake(), Fake()
    found, again = run(WandB(wandb)), run(MLflow(mlflow))
    assert found.history[0]["loss"] == again.history[0]["loss"]
    assert [each["thresher/epoch"] for each in wandb.told] == [each["step"] for each in mlflow.told] == [1, 2]
    assert [each["thresher/loss"] for each in wandb.told] == [record["loss"] for record in found.history]
    assert [each["thresher/loss"] for each in mlflow.told] == [record["loss"] for record in found.history]


def test_wandb_itself_keeps_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    settings = wandb.Settings(x_disable_stats=True, console="off")
    with wandb.init(mode="offline", dir=tmp_path, settings=settings) as opened:
        found = run(WandB(opened))
        assert opened.summary["thresher/loss"] == found.history[-1]["loss"]
        assert opened.summary["thresher/epoch"] == 2


def test_mlflow_itself_keeps_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "told").as_uri())  # a folder that it makes
    with mlflow.start_run() as opened:
        found = run(MLflow())
    told = mlflow.MlflowClient().get_metric_history(opened.info.run_id, "thresher/loss")
    assert [each.step for each in told] == [1, 2]
    assert [each.value for each in told] == [record["loss"] for record in found.history]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("core.errors", "trainers.loggers"):
        monkeypatch.setattr(f"thresher.{module}.find_spec", {}.get)
    for make in (lambda: TensorBoard("x"), MLflow, lambda: save_weights(net(), "x")):
        with pytest.raises(ThresherError, match="pip install"):
            make()


def test_weights_are_saved_as_safetensors(tmp_path: Path) -> None:
    load = pytest.importorskip("safetensors.torch").load_model
    found, other = run(None), net(3)
    save_weights(found, tmp_path / "model.safetensors")
    load(other, tmp_path / "model.safetensors")
    for mine, theirs in zip(found.model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
