"""Models with weights from a file, frozen or tuned; models in the current folder; and what a CPU gets by default."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import thresher as th
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.data.preparation import RowPreparation
from thresher.models import build, model_for

SHAPE = (3, 32, 32)
NAME = "timm:resnet10t"


def weights(path: Path, outputs: int = 7) -> dict[str, torch.Tensor]:
    """The weights of an untrained network with so many outputs, in a file."""
    torch.manual_seed(0)
    state = build(NAME, input_shape=SHAPE, outputs=outputs).state_dict()
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save({"state_dict": state}, path)
    return state


@pytest.mark.parametrize("file", ["w.safetensors", "w.pth"])
@pytest.mark.parametrize("frozen", ["", ",frozen"])
def test_timm_takes_weights_from_a_file(file: str, frozen: str, tmp_path: Path) -> None:
    state = weights(tmp_path / file)
    model = build(f"{NAME}@{tmp_path / file}{frozen}", input_shape=SHAPE, outputs=3)
    own = model.state_dict()
    assert torch.equal(own["body.conv1.0.weight" if frozen else "conv1.0.weight"], state["conv1.0.weight"])
    assert model(torch.zeros(2, *SHAPE)).shape == (2, 3)
    learns = [name for name, each in model.named_parameters() if each.requires_grad]
    assert (learns == ["head.weight", "head.bias"]) == bool(frozen)


def test_a_frozen_network_stays_as_it_is_and_its_run_needs_no_file(tmp_path: Path) -> None:
    state = weights(tmp_path / "w.safetensors")
    inputs, labels = torch.rand(24, *SHAPE), torch.arange(24) % 2
    named = f"{NAME}@{tmp_path / 'w.safetensors'},frozen"
    run = th.fit("standard", named, (inputs, labels), epochs=2, batch=8, out=tmp_path / "run")
    own = run.model.state_dict()
    assert all(torch.equal(own[f"body.{name}"], value) for name, value in state.items() if not name.startswith("fc."))
    start = build(named, input_shape=SHAPE, outputs=2).state_dict()
    assert not torch.equal(own["head.weight"], start["head.weight"])
    (tmp_path / "w.safetensors").unlink()
    assert th.open_run(tmp_path / "run").predict(inputs).tolist() == run.predict(inputs).tolist()


def test_wrong_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_text("no weights")
    with pytest.raises(ThresherError, match="cannot be read as weights"):
        build(f"{NAME}@{tmp_path}/w.safetensors", input_shape=SHAPE, outputs=2)
    with pytest.raises(ThresherError, match="There is no file"):
        build(f"{NAME}@{tmp_path}/gone.pth", input_shape=SHAPE, outputs=2)
    save_file({"conv1.0.weight": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(ThresherError, match="of this very architecture"):
        build(f"{NAME}@{tmp_path}/w.safetensors", input_shape=SHAPE, outputs=2)


def test_a_factory_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_net.py").write_text(
        "import torch\ndef make(outputs):\n    return torch.nn.Linear(4, outputs)\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    try:
        assert build("my_own_net:make", input_shape=(4,), outputs=3).out_features == 3
        assert sys.path == before
    finally:
        sys.modules.pop("my_own_net", None)
    with pytest.raises(ThresherError, match="There is no model 'my_other_net:make'"):
        build("my_other_net:make", input_shape=(4,), outputs=3)
    assert sys.path == before


@pytest.mark.parametrize(
    ("shape", "on_cpu", "on_gpu"),
    [
        ((3, 64, 64), "small-cnn", "resnet18"),
        ((3, 32, 32), "small-cnn", "resnet32"),
        ((1, 28, 28), "lenet", "lenet"),
        ((512,), "head", "head"),
        ((20,), "mlp", "mlp"),
    ],
)
def test_the_default_suits_inputs_and_device(shape: tuple[int, ...], on_cpu: str, on_gpu: str) -> None:
    some = Examples(torch.zeros(2, *shape), torch.tensor([0, 1]))
    assert model_for(some, torch.device("cpu")) == on_cpu
    assert model_for(some, torch.device("cuda")) == on_gpu


def test_rows_of_a_wide_table_are_no_embeddings() -> None:
    rows = Examples(torch.zeros(2, 512), torch.tensor([0, 1]), preparation=RowPreparation((), ("target",)))
    assert model_for(rows, torch.device("cpu")) == "mlp"
