"""Preparations from the records that run folders hold."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import torch

from thresher.core.errors import ThresherError
from thresher.core.files import misfit
from thresher.data.column_encoders import encoder_from_record
from thresher.data.image_files import refuse_no_size
from thresher.data.image_pixels import Ranges
from thresher.data.preparation import (
    ArrayPreparation,
    ImagePreparation,
    Normalise,
    Preparation,
    RowPreparation,
    TreePreparation,
)
from thresher.data.table_options import TableOptions


def preparation_from_record(record: Mapping[str, Any]) -> Preparation:
    """The preparation whose `record()` this is, exactly.

    >>> words = preparation_from_record({"kind": "arrays", "shape": [2], "dtype": "float32", "normalise": None})
    >>> words([[1, 2]])
    tensor([[1., 2.]])
    """
    try:
        return KINDS[record["kind"]](record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ThresherError(
            f"The record of how inputs are prepared is damaged ({error!r}): restore it from a copy, or train again."
        ) from error


class OfRows(TypedDict):
    """The record of a preparation of rows; earlier versions wrote fewer parts."""

    columns: list[dict[str, Any]]
    targets: list[str]
    carried: NotRequired[list[str]]
    na: NotRequired[list[str]]
    sep: NotRequired[str | None]


def _rows(record: Mapping[str, Any]) -> RowPreparation:
    wrong = misfit(record, OfRows)
    if wrong is not None or not record["columns"]:
        raise ValueError(wrong or "it has no columns")
    TableOptions(sep=record.get("sep"))  # refuses what is not one character
    return RowPreparation(
        tuple(encoder_from_record(each) for each in record["columns"]),
        tuple(record["targets"]),
        carried=tuple(record.get("carried", ())),
        na=tuple(record.get("na", ())),
        sep=record.get("sep"),
    )


def _images(record: Mapping[str, Any]) -> ImagePreparation:
    values = record.get("ranges", {})  # which runs of earlier versions lack
    ranges = Ranges(**{name: (float(low), float(high)) for name, (low, high) in values.items()})
    refuse_no_size(size := int(record["size"]))
    return ImagePreparation(size, ranges, normalise=_normalise(record["normalise"]))


def _trees(record: Mapping[str, Any]) -> TreePreparation:
    dtypes = {name: _dtype(dtype) for name, dtype in record["dtypes"].items()}
    return TreePreparation(dtypes, normalise=_normalise(record["normalise"]))


def _arrays(record: Mapping[str, Any]) -> ArrayPreparation:
    shape, dtype = tuple(map(int, record["shape"])), _dtype(record["dtype"])
    return ArrayPreparation(shape, dtype, normalise=_normalise(record["normalise"]))


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name} is not a dtype")
    return dtype


def _normalise(record: Sequence[Mapping[str, Any]] | None) -> Normalise | None:
    if record is None:
        return None
    mean, deviation = (torch.tensor(part["values"], dtype=_dtype(part["dtype"])) for part in record)
    return mean, deviation


KINDS: dict[str, Callable[[Mapping[str, Any]], Preparation]] = {
    RowPreparation.kind: _rows,
    ImagePreparation.kind: _images,
    ArrayPreparation.kind: _arrays,
    TreePreparation.kind: _trees,
}
