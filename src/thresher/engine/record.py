"""What an epoch leaves: rows for the examples it did not visit, and one record for the history."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thresher.engine.checkpoint import Record
from thresher.engine.evidence import Evidence
from thresher.engine.learner import Learner
from thresher.engine.sweep import Sweeper
from thresher.examples import Examples
from thresher.ledger import EpochRows, Note, residual_belief
from thresher.signals import loss

Columns = Mapping[str, np.ndarray[Any, Any]]


def fill_unvisited(
    rows: EpochRows, learner: Learner, train: Examples, sweeper: Sweeper, weights: Tensor | None, seen: Evidence
) -> Columns:
    """The epoch's columns [n] on the host; whoever no step visited is swept, or was when the epoch began."""
    missing = torch.from_numpy(np.flatnonzero(~rows.visited())).to(train.targets.device)
    if len(missing):
        if "outputs" in seen.known and not learner.objective.layers:
            outputs = seen.outputs[missing]
            with torch.no_grad():
                losses = seen.at(missing).losses
        else:
            swept = sweeper(
                learner.model, learner.objective, train, wanted=[loss], taps=learner.taps, positions=missing
            )
            outputs, losses = swept.outputs, swept.signals[loss]
        counts = torch.ones_like(losses) if weights is None else weights[missing]
        rows.fill(Note(missing, outputs, losses, counts))
    columns = rows.take()
    if train.is_regression:
        columns["p_given"] = columns["belief"] = residual_belief(columns["loss"])
    return columns


def epoch_record(networks: Sequence[Columns], train: Examples) -> Record:
    """Loss, share kept, the clean targets' share of them and of their weight, and effective size, over all networks."""
    visited = np.concatenate([columns["visited"] for columns in networks])
    weights = np.concatenate([columns["weight"] for columns in networks])[visited].astype(np.float64)
    losses = np.concatenate([columns["loss"] for columns in networks])[visited].astype(np.float64)
    kept = weights > 0
    record: Record = {
        "loss": float((weights * losses)[kept].sum() / max(weights.sum(), 1e-12)) if len(weights) else None,
        "kept": float(kept.mean()) if len(kept) else 0.0,
        "effective": float(weights.sum() ** 2 / max((weights**2).sum(), 1e-12) / max(len(weights), 1)),
        "clean_share": None,
        "clean_weight": None,
        "train_score": None,
    }
    if "is_corrupt" in train.columns:
        corrupt = np.tile(train.columns["is_corrupt"].cpu().numpy().astype(bool), len(networks))[visited]
        if kept.any():
            record["clean_share"] = float(1 - corrupt[kept].mean())
            record["clean_weight"] = float(weights[~corrupt].sum() / weights.sum())
    if not train.is_regression:
        right = np.concatenate([columns["prediction"][:, 0] for columns in networks]) == np.tile(
            train.labels.cpu().numpy(), len(networks)
        )
        record["train_score"] = float(right[visited].mean()) if visited.any() else None
    return record
