"""The least trusted examples: a picture or a row of values each, with its labels and its trust."""

import io
import json
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thresher.report.run_record import CORRUPTED, UNKNOWN, Array, Columns, RunRecord, rows_of

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_FEATURES = 12
SMALLEST, LARGEST = 96, 192  # pixels on the longer side


@dataclass(frozen=True)
class Card:
    """One example: its picture (a data address) or its values, its labels as text, and whether it is corrupt."""

    id: int
    file: Path | None
    picture: str | None
    values: list[str]
    given: str | None
    predicted: str | None
    true: str | None
    trust: float | None
    corrupt: bool | None


def cards(run: RunRecord, most: int) -> list[Card]:
    """Cards of at most so many examples with previews, the least trusted first."""
    if "ids" not in run.previews or "id" not in run.examples:
        return []
    rows, found = rows_of(run.examples["id"], run.previews["ids"])
    trust = run.examples.get("trust", np.full(len(run.examples["id"]), np.nan))
    places = sorted(np.flatnonzero(found).tolist(), key=lambda place: (float(trust[rows[place]]), place))
    return [_card(run, place, int(rows[place])) for place in places[:most]]


def feature_names(run: RunRecord) -> list[str]:
    """Names of the shown columns of table previews; none for pictures."""
    return _columns(run)[:MOST_FEATURES]


def hidden_features(run: RunRecord) -> int:
    """How many columns of table previews there was no room for."""
    return max(0, len(_columns(run)) - MOST_FEATURES)


def _columns(run: RunRecord) -> list[str]:
    """The columns of the table as it was given, or else of what the model saw of it."""
    inputs = run.previews.get("inputs")
    if inputs is None or inputs.ndim != 2:
        return []
    if "row" in run.previews:
        return list(json.loads(str(run.previews["row"][0])))
    names = run.previews.get("feature_names")
    return [f"x{place}" for place in range(inputs.shape[1])] if names is None else [str(name) for name in names]


def _values(run: RunRecord, place: int) -> list[str]:
    if "row" in run.previews:
        return [_cell(value) for value in json.loads(str(run.previews["row"][place])).values()]
    return [f"{value:.4g}" for value in run.previews["inputs"][place].tolist()]


def _cell(value: Any) -> str:
    """A value of a table, short enough for many columns beside each other.

    >>> _cell(None), _cell("rent"), _cell(39), _cell(0.30000000000000004)
    ('', 'rent', '39', '0.3')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def png_address(image: Array) -> str:
    """An image [c, h, w] or [h, w] as a data address."""
    from PIL import Image

    return picture_address(Image.fromarray(_pixels(image)), LARGEST, "png")


def picture_address(picture: "Image", largest: int, kind: str) -> str:
    """A picture as a data address of this kind, png or jpeg: small ones with crisp pixels, large ones made smaller."""
    from PIL.Image import Resampling

    side = max(picture.size)
    if side < SMALLEST:
        factor = -(-SMALLEST // side)
        picture = picture.resize((picture.width * factor, picture.height * factor), Resampling.NEAREST)
    picture.thumbnail((largest, largest))
    buffer = io.BytesIO()
    picture.save(buffer, kind, optimize=True)
    return f"data:image/{kind};base64," + b64encode(buffer.getvalue()).decode()


def _pixels(image: Array) -> Array:
    """Bytes [h, w] or [h, w, 3]; floats outside 0..1 were normalised, so their own range becomes black to white.

    >>> _pixels(np.array([[[-1.0, 1.0]]])).tolist()
    [[0, 255]]
    """
    if image.ndim == 3:
        image = np.moveaxis(image, 0, 2) if len(image) == 3 else image[0]
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    image = np.nan_to_num(image.astype(np.float64))
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        image = (image - low) / max(high - low, 1e-12)
    return np.ascontiguousarray(np.rint(255 * image).astype(np.uint8))


def _card(run: RunRecord, place: int, row: int) -> Card:
    examples = run.examples
    shown = run.previews["inputs"][place] if "inputs" in run.previews else np.empty(())
    id_ = int(examples["id"][row])
    origin = examples["origin"][row] if "origin" in examples else UNKNOWN
    trust = float(examples["trust"][row]) if "trust" in examples else np.nan
    return Card(
        id=id_,
        file=Path(examples["file"][row]) if "file" in examples else None,
        picture=png_address(shown) if shown.ndim in (2, 3) else None,
        values=_values(run, place)[:MOST_FEATURES] if shown.ndim == 1 else [],
        given=_label(run, examples, "target", row),
        predicted=_predicted(run, id_),
        true=_label(run, examples, "true_target", row),
        trust=trust if np.isfinite(trust) else None,
        corrupt=None if origin == UNKNOWN else bool(origin == CORRUPTED),
    )


def _predicted(run: RunRecord, id_: int) -> str | None:
    """The last prediction of the first peer."""
    if "id" not in run.last_epoch:
        return None
    rows = np.flatnonzero(run.last_epoch["id"] == id_)
    return _label(run, run.last_epoch, "prediction", int(rows[0])) if len(rows) else None


def _label(run: RunRecord, columns: Columns, name: str, row: int) -> str | None:
    """A class by its name, real targets by up to three of their values."""
    if run.is_regression:
        values = [columns[part][row] for place in range(3) if (part := f"{name}_{place}") in columns]
        more = "; …" if f"{name}_3" in columns else ""
        return "; ".join(_number(float(value)) for value in values) + more if values else None
    if name not in columns or not np.isfinite(columns[name][row]):
        return None
    return run.class_name(int(columns[name][row]))


def _number(value: float) -> str:
    """Six digits, and all of those before the point.

    >>> _number(6949760.04), _number(1.5), _number(1e-7)
    ('6,949,760', '1.5', '1e-07')
    """
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
