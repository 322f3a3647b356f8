"""The files of a question: what people are asked to label, for Label Studio, for a spreadsheet and to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thresher.annotate.folder import write_json
from thresher.annotate.tasks import IMAGE, Shown, interface, tasks
from thresher.errors import ThresherError
from thresher.files import write_whole
from thresher.report.gallery import png_address
from thresher.template import filled_in

LARGEST = 512  # pixels on the longer side of a picture that goes along with a task


def write_question(folder: Path, ids: Sequence[int], seen: Sequence[Shown], class_names: Sequence[str]) -> None:
    """Write tasks.json, interface.xml, answers.csv and preview.html, each whole or not at all."""
    shown = [_with_picture(each) for each in seen]
    write_json(folder / "tasks.json", tasks(ids, shown))
    texts = {
        "interface.xml": interface(class_names, shown[0]),
        "answers.csv": "".join(["id,label\n", *(f"{id_},\n" for id_ in ids)]),
        "preview.html": _preview(ids, shown, class_names),
    }
    for name, text in texts.items():
        if name != "answers.csv" or not (folder / name).exists():  # somebody may have begun to fill it in
            _write(folder / name, text)


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def _with_picture(seen: Shown) -> dict[str, Any]:
    """What is shown, an image not by its path, which Label Studio may not open, but as itself."""
    return {**seen, IMAGE: picture_address(seen[IMAGE])} if IMAGE in seen else dict(seen)


def picture_address(path: Path) -> str:
    """An image file as a data address: small ones with crisp pixels, large ones made smaller."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except OSError as error:
        raise ThresherError(f"{path} cannot be read as an image ({error}): replace or remove it.") from error
    return png_address(np.moveaxis(np.asarray(upright), 2, 0), LARGEST)


def _preview(ids: Sequence[int], shown: Sequence[Shown], class_names: Sequence[str]) -> str:
    cards = [
        {"id": id_, "image": each.get(IMAGE), "row": each.get("row", {})} for id_, each in zip(ids, shown, strict=True)
    ]
    return filled_in("annotate", "preview.html", cards=cards, class_names=class_names)
