"""A run's model as files that need no Thresher: a program, its weights, what it was trained on, and a loader."""

import copy
import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from thresher.app import loaders
from thresher.app.exported_cells import EncodedCells
from thresher.app.folders import refuse_in_use, written_whole
from thresher.core.errors import ThresherError, needs_extra
from thresher.data.column_encoders import Categories, Encoder
from thresher.data.preparation import ArrayPreparation, ImagePreparation, Preparation, RowPreparation
from thresher.data.preparation_record import preparation_from_record
from thresher.data.table_files import missing_texts
from thresher.engine.run import Run
from thresher.engine.store.model_json import refuse_another_shape

ABOUT, WEIGHTS, PROGRAM, ONNX, LOADER = "export.json", "model.safetensors", "model.pt2", "model.onnx", "load.py"
COLUMNS = ("numbers", "categories", "dates")  # the kinds of columns that the loader of rows knows
BYTES = 255.0


class Predictor(nn.Module):
    """What a run predicts: probabilities, or targets in their unit; the mean of its networks.

    Of a table it takes cells as numbers, of all else prepared inputs.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        networks: Sequence[nn.Module],
        classes: int | None,
        scale: Sequence[Sequence[float]] | None,
        encoded: nn.Module,
    ):
        super().__init__()
        self.networks = nn.ModuleList(copy.deepcopy(network).cpu().eval() for network in networks)
        self.encoded = encoded
        self.is_classifier, self.is_scaled = classes is not None, scale is not None
        mean, deviation = scale or ([0.0], [1.0])
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float64))
        self.register_buffer("deviation", torch.tensor(deviation, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        encoded = self.encoded(inputs)
        outputs = torch.stack([network(encoded) for network in self.networks])
        if self.is_classifier:
            return outputs.softmax(2).mean(0)
        real = outputs.double().mean(0)
        return (real * self.deviation + self.mean if self.is_scaled else real).float()


def export_run(run: Run, out: Path) -> list[str]:
    """Write the export into a new folder, whole or not at all; what could not be written, and why, is returned."""
    refuse_in_use(out, "the export")
    needs_extra("An export", "export", "safetensors")
    about = describe(run)
    encoded, example = _encoded(run), _example(run)
    refuse_another_shape(run.about, encoded(example).shape[1:])
    predictor = Predictor(run.models, run.about["classes"], run.about["target_scale"], encoded).eval()
    with written_whole(out) as folder:
        program = _program(predictor, example)
        torch.export.save(program, folder / PROGRAM)
        _write_weights(predictor.networks, folder / WEIGHTS)
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        (folder / ABOUT).write_text(text, encoding="utf-8")
        shutil.copyfile(Path(loaders.__file__).with_name(f"{about['kind']}.py"), folder / LOADER)
        return _write_onnx(program, folder / ONNX)


def describe(run: Run) -> dict[str, Any]:
    """What export.json says: classes, preprocessing, and what goes in and comes out."""
    from thresher import __version__

    preparation = preparation_from_record(run.about["preparation"])
    classes = run.about["classes"]
    names = None if classes is None else run.class_names or [str(label) for label in range(classes)]
    example = _example(run)
    return {
        "thresher": __version__,
        "method": run.about.get("method"),
        "model": run.about["model"],
        "networks": len(run.models),
        "kind": preparation.kind,
        "class_names": names,
        "inputs": {"name": "inputs", "shape": ["n", *example.shape[1:]], "dtype": _dtype(example.dtype)},
        "outputs": "real targets [n, d]" if classes is None else "the probability of each class [n, classes]",
        "preprocessing": _preprocessing(preparation),
    }


def _preprocessing(preparation: Preparation) -> dict[str, Any]:
    if isinstance(preparation, RowPreparation):
        columns = [_column(encoder, preparation.na) for encoder in preparation.encoders]
        return {"columns": columns, "targets": list(preparation.targets), "sep": preparation.sep}
    if isinstance(preparation, ImagePreparation):
        ranges = preparation.record()["ranges"]
        return {"size": preparation.size, "crop": "centre", "ranges": ranges, **_normalise(preparation)}
    if isinstance(preparation, ArrayPreparation):
        is_bytes = preparation.dtype == torch.uint8
        return {
            "dtype": _dtype(preparation.dtype),
            **(_normalise(preparation) if is_bytes else {"mean": None, "deviation": None}),
        }
    raise ThresherError(f"Inputs that are {preparation.kind} cannot be exported: use thresher predict.")


def _column(encoder: Encoder, na: Sequence[str]) -> dict[str, Any]:
    """The record of a column, and the texts that mean a missing cell there.

    `NA` and its like mean one among numbers, also those that name categories, but are texts among other texts.
    """
    if encoder.kind not in COLUMNS:
        raise ThresherError(
            f"Column {encoder.column} holds {encoder.kind}, which the loader of an export cannot read: train without "
            "it."
        )
    are_texts = isinstance(encoder, Categories) and not all(
        each.lstrip("-").isdecimal() for each in encoder.known if each
    )
    return {**encoder.as_record(), "missing": ["", *na] if are_texts else missing_texts(na)}


def _normalise(preparation: Preparation) -> dict[str, Any]:
    """What is subtracted from bytes, and by what they are divided then."""
    mean, deviation = preparation.normalise or (torch.tensor(0.0), torch.tensor(BYTES))
    return {"mean": mean.tolist(), "deviation": deviation.tolist()}


def _example(run: Run) -> Tensor:
    """Inputs of two examples, as the program takes them."""
    preparation = preparation_from_record(run.about["preparation"])
    if isinstance(preparation, RowPreparation):
        return torch.zeros(2, len(preparation.encoders), dtype=torch.float64)
    dtype = preparation.dtype if isinstance(preparation, ArrayPreparation) else torch.float32
    return torch.zeros(2, *run.about["input_shape"], dtype=torch.float32 if dtype == torch.uint8 else dtype)


def _encoded(run: Run) -> nn.Module:
    """What makes the networks' inputs of what the program takes."""
    preparation = preparation_from_record(run.about["preparation"])
    return EncodedCells(preparation.encoders) if isinstance(preparation, RowPreparation) else nn.Identity()


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _program(predictor: Predictor, example: Tensor) -> torch.export.ExportedProgram:
    try:
        with torch.no_grad():
            return torch.export.export(predictor, (example,), dynamic_shapes=({0: torch.export.Dim("n")},))
    except Exception as error:  # torch names no common base of what export may raise
        reason = str(error).strip().partition("\n")[0]
        raise ThresherError(
            f"The network is no program that torch can export ({reason}): its steps must not depend on values."
        ) from error


def _write_weights(networks: nn.ModuleList, path: Path) -> None:
    """The weights of the network under their own names; of several, the number of the network stands before each."""
    from safetensors.torch import save

    only = networks[0] if len(networks) == 1 else networks
    weights = {name: value.detach().clone().contiguous() for name, value in only.state_dict().items()}
    path.write_bytes(save(weights))  # save_file leaves a file that only its owner can read


def _write_onnx(program: torch.export.ExportedProgram, path: Path) -> list[str]:
    """Write the program as ONNX; where that cannot be done, a sentence that says why."""
    try:
        needs_extra(f"Without {path.name}, which", "export", "onnx", "onnxscript")
    except ThresherError as missing:
        return [str(missing)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own parts
            torch.onnx.export(
                program, (), path, input_names=["inputs"], output_names=["outputs"], external_data=False, verbose=False
            )
    except Exception as error:  # torch names no common base of what export may raise
        reason = str(error).strip().partition("\n")[0]
        return [f"Without {path.name}: the network has parts that ONNX does not know ({reason})."]
    return []
