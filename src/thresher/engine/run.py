"""A run: what training leaves behind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from thresher.core.errors import FOLDER, ThresherError, is_whole, refuse_unless, unknown
from thresher.core.examples import Examples
from thresher.core.one_output import one_output
from thresher.core.recipe import Recipe, View, seen_through
from thresher.core.tasks import CLASSES, LABELS, POSITIONS, REAL, predicted_classes
from thresher.core.trees import Tree, call
from thresher.data.preparation_record import preparation_from_record
from thresher.engine.loop.sweeper import Sweeper
from thresher.engine.step.learner import evaluating
from thresher.engine.store.checkpoint import Record
from thresher.engine.store.model_json import refuse_another_shape
from thresher.objectives import as_objective
from thresher.record.issues import Issues
from thresher.record.ledger import Ledger
from thresher.record.run_folder import ISSUES, REPORT

AT_ONCE = 64  # examples whose outputs at all positions are in memory
KINDS: dict[str, type] = {"int": int, "bool": bool}  # of labels that are no texts


class _Through(nn.Module):
    """A network that sees its inputs through a view, by the same draws for the same inputs."""

    def __init__(self, view: View, network: nn.Module, device: torch.device):
        super().__init__()
        self.view, self.network = view, network
        self.generator = torch.Generator(device).manual_seed(0)

    def forward(self, seen: Tree) -> Tensor:
        return call(self.network, seen_through(self.view, seen, self.generator))


@dataclass(frozen=True, repr=False)
class Run:
    """The trained networks, the history (one record an epoch), the ledger, and how new inputs are prepared.

    recipe  by which it was trained; None for a run that was opened and whose method is several trainings
    about   what its folder remembers: the method, the model's name, classes, preprocessing
    """

    recipe: Recipe | None
    models: Sequence[nn.Module]
    averages: Sequence[nn.Module]
    history: list[Record]
    ledger: Ledger
    out: Path | None = None
    stopped: bool = field(default=False)  # `until` was reached
    chosen: int | None = None  # the epoch that did best on the validation set, whose parameters were kept
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    finished: bool = True  # False: opened while it was interrupted

    def __repr__(self) -> str:
        known = {"method": self.about.get("method"), "model": self.about.get("model")}
        told = [f"{name}={value!r}" for name, value in known.items() if value is not None]
        score = self.last()
        told += [f"epochs={len(self.history)}", *([] if score is None else [f"last={score:.3f}"])]
        told += [] if self.finished else ["finished=False"]
        return f"Run({', '.join([*told, *([] if self.out is None else [f'out={str(self.out)!r}'])])})"

    @property
    def model(self) -> nn.Module:
        return self.models[0]

    @property
    def task(self) -> str:
        """What its targets are: "classification", "regression", "multi-label" or "dense"."""
        told: str | None = self.about.get("task")  # which folders of earlier versions lack
        return told or (REAL if self.about["classes"] is None else CLASSES)

    @property
    def class_names(self) -> list[str] | None:
        """The names of the classes, in the order of the outputs, where they have some."""
        names: list[str] | None = self.about.get("class_names")
        return names

    @property
    def scores(self) -> list[float]:
        """The score of every epoch on the test set: accuracy, or R²."""
        return [record["score"] for record in self.history if record["score"] is not None]

    def last(self, epochs: int = 10) -> float | None:
        """The mean score of the last epochs, which is what to compare: the best one cannot be known in advance."""
        refuse_unless("epochs", epochs, is_whole(epochs, 1), "a whole number of at least 1")
        return fmean(self.scores[-epochs:]) if self.scores else None

    def best(self) -> float | None:
        """The score of the best epoch, chosen on the test set: only to be read beside `last`."""
        return max(self.scores) if self.scores else None

    def chosen_score(self) -> float | None:
        """The test score of the epoch whose parameters were kept because it did best on the validation set."""
        return None if self.chosen is None else self.history[self.chosen - 1]["score"]

    def clean_share(self, epochs: int = 10) -> float | None:
        """The share of clean targets among the examples kept in the last epochs, where the truth is known."""
        refuse_unless("epochs", epochs, is_whole(epochs, 1), "a whole number of at least 1")
        shares = [record["clean_share"] for record in self.history[-epochs:] if record["clean_share"] is not None]
        return fmean(shares) if shares else None

    def trust(self) -> tuple[Tensor, Tensor]:
        """(ids, trust): how far each example's given target was believed over the run, 0 to 1."""
        return self.ledger.trust()

    def issues(self) -> Issues:
        """What an audit found out about every example, the worst first."""
        return Issues.read(self._folder("Issues are kept in"))

    def weights(self) -> NDArray[np.float64]:
        """How far each example should count [n], in the order of their ids: `sample_weight` of any other learner.

        Those of the audit where there is one in the run's folder. Else the least trusted count nothing, as large a
        share as the noise rate that the run was told or found; without a rate all count as far as they are trusted.
        """
        if self.out is not None and (self.out / ISSUES).is_file():
            return self.issues().weights()
        ids, trust = self.trust()
        trusted = trust[ids.argsort()].double().numpy()
        rate = self._noise_rate()
        if rate is None:
            return trusted
        least = np.argsort(trusted, kind="stable")[: round(rate * len(trusted))]
        weights = np.ones(len(trusted))
        weights[least] = 0.0
        return weights

    def _noise_rate(self) -> float | None:
        """The share of wrong targets that the run estimated, or was given."""
        told = self.about.get("noise_rate")
        found = next((record["noise_rate"] for record in self.history if record.get("noise_rate")), {"rate": told})
        return float(found["rate"]) if isinstance(found["rate"], int | float) else None

    def predict(self, raw: Any, *, networks: str = "models", views: Sequence[View] = ()) -> NDArray[Any]:
        """The likeliest class of each input [n], as labels were given; or real targets [n, d], in their own unit.

        Of several labels 0 or 1 for each [n, labels]; of tokens or pixels the likeliest class of each [n, ...].

        raw  what the run was trained on: tensors, arrays, or a dict or tuple of such; rows (a DataFrame, a table's
             path, a list of dicts); images (a path, a folder, a list of paths); a torch Dataset of inputs as the model
             takes them; or a DataLoader, whose collate function is then used, in the order of its dataset
        networks, views  of what it is the mean: "models", "averages" (moving averages of them) or "all" of both, each
             seeing the input as it is and through every view, such as Flip(1.0)
        """
        if self.task == POSITIONS:
            return self._at_positions(raw, networks, views)
        outputs = self._outputs(raw, networks, views)
        if self.task == LABELS:
            return (outputs.sigmoid().mean(0) > 0.5).long().numpy()
        if self.task == REAL:
            real, scale = outputs.double().mean(0).numpy(), self.about["target_scale"]
            return np.asarray(real if scale is None else real * np.array(scale[1]) + np.array(scale[0]))
        likeliest = outputs.softmax(2).mean(0).argmax(1).numpy()
        return np.asarray(self.labels()[likeliest])

    def labels(self) -> NDArray[Any]:
        """The label of each class [classes], of the kind that labels had: whole numbers, truth values or texts."""
        names, kind = self.class_names, self.about.get("label_kind", "text")
        if names is None:
            return np.arange(self.about["classes"])
        return np.array([name == "True" for name in names] if kind == "bool" else names, dtype=KINDS.get(kind))

    def predict_proba(self, raw: Any, *, networks: str = "models", views: Sequence[View] = ()) -> NDArray[Any]:
        """The probability of each class [n, classes], or label, the mean over networks and views as in `predict`."""
        if self.task not in (CLASSES, LABELS):
            raise ThresherError(f"This run has {self.task} targets and gives no probabilities: call predict().")
        outputs = self._outputs(raw, networks, views)
        chances = outputs.sigmoid() if self.task == LABELS else outputs.softmax(2)
        return chances.mean(0).numpy()

    def _outputs(self, raw: Any, networks: str = "models", views: Sequence[View] = ()) -> Tensor:
        """The outputs of each network, seeing each view [networks · views, n, ...], on the host."""
        examples = self.prepare(raw)
        objective = as_objective(None, REAL)
        found = []
        for model, placed in self._seeing(examples, networks, views):
            found.append(Sweeper()(model, objective.to(placed.targets.device), placed).outputs.cpu())
        outputs = torch.stack(found)
        one = one_output(outputs[0], self.task, self.about["classes"])
        return outputs if one is None else torch.stack([one(each) for each in outputs])

    def _seeing(self, examples: Examples, which: str, views: Sequence[View]) -> Iterator[tuple[nn.Module, Examples]]:
        """Each network, seeing inputs as they are and through every view, with the examples where it is."""
        fits = isinstance(views, Sequence) and all(map(callable, views))
        refuse_unless("views", views, fits, "a list of views, such as [Flip(1.0)]")
        for model in self._networks(which):
            device = next((each.device for each in model.parameters()), torch.device("cpu"))
            placed = examples.to(device).in_type_of(model)
            for seeing in (model, *(_Through(view, model, device) for view in views)):
                yield seeing, placed

    def _at_positions(self, raw: Any, which: str, views: Sequence[View]) -> NDArray[Any]:
        """The likeliest class of each token or pixel, a few examples at a time; shorter rows end in -100."""
        examples, found = self.prepare(raw), []
        for rows in torch.split(torch.arange(len(examples)), AT_ONCE):
            total: Tensor | float = 0.0
            for model, placed in self._seeing(examples, which, views):
                inputs = next(placed.batches([rows.to(placed.targets.device)]))
                with torch.no_grad(), evaluating(model):
                    outputs = call(model, inputs).float()
                total = total + outputs.softmax(-1 if outputs.ndim == 3 else 1).cpu()
            assert isinstance(total, Tensor)
            found += list(predicted_classes(total, tokens=total.ndim == 3))
        longest = len({each.shape for each in found}) > 1
        return (pad_sequence(found, batch_first=True, padding_value=-100) if longest else torch.stack(found)).numpy()

    def _networks(self, which: str) -> Sequence[nn.Module]:
        known = {"models": self.models, "averages": self.averages, "all": [*self.models, *self.averages]}
        if which not in known:
            raise unknown("choice of networks", which, known)
        if not known[which]:
            raise ThresherError("This run keeps no moving average: predict by networks='models'.")
        return known[which]

    def prepare(self, raw: Any) -> Examples:
        """Raw inputs as examples that the networks take: read and scaled as those that the run was trained on."""
        if isinstance(raw, Examples):
            return raw
        made = preparation_from_record(self.about["preparation"]).examples(raw)
        if made.in_memory and self.about.get("input_shape") is not None:
            refuse_another_shape(self.about, made.input_shape)
        return made

    def report(self, path: Path | str | None = None) -> Path:
        """Write the report of this run, by default to report.html in its folder, and return its path."""
        from thresher.report import write_report

        refuse_unless("path", path, path is None or FOLDER[0](path), "the path of a page")
        folder = self._folder("A report is made of")
        return write_report([folder], folder / REPORT if path is None else Path(path))

    def _folder(self, why: str) -> Path:
        if self.out is None:
            raise ThresherError(f"{why} a run's folder: train with fit(out=...).")
        return self.out
