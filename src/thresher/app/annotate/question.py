"""The files of a question: examples to label, for Label Studio, for a spreadsheet and to look at."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thresher.app.annotate.stored_answers import write_json
from thresher.app.annotate.tasks import IMAGE, QUESTION, Answers, Shown, interface, tasks
from thresher.core.files import write_whole
from thresher.data.image_files import open_image
from thresher.record import run_folder
from thresher.report import filled_in
from thresher.report.gallery import picture_address

LARGEST = 512  # pixels on the longer side of a picture that goes along with a task


def write_question(folder: Path, ids: Sequence[int], seen: Sequence[Shown], answers: Answers) -> None:
    """Write tasks, interface, the sheet for answers and a preview, each whole or not at all."""
    shown = [_with_picture(each) for each in seen]
    write_json(folder / run_folder.TASKS, tasks(ids, shown))
    texts = {
        run_folder.INTERFACE: interface(answers, shown[0]),
        run_folder.ANSWERS: _sheet(ids, shown),
        run_folder.PREVIEW: _preview(ids, shown, answers),
    }
    for name, text in texts.items():
        if name != run_folder.ANSWERS or not (folder / name).exists():  # a person may have begun to fill it in
            _write(folder / name, text)


def _sheet(ids: Sequence[int], shown: Sequence[Shown]) -> str:
    """The CSV to fill in: an id and an empty label a line, and what is asked where there is a question."""
    asked = QUESTION in shown[0]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["id", QUESTION, "label"] if asked else ["id", "label"])
    rows.writerows([id_, *([each[QUESTION]] if asked else []), ""] for id_, each in zip(ids, shown, strict=True))
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def _with_picture(seen: Shown) -> dict[str, Any]:
    """What is shown; an image as data and not by its path, which Label Studio may not open."""
    if not isinstance(seen.get(IMAGE), Path):
        return dict(seen)
    kind = "jpeg" if seen[IMAGE].suffix.lower() in (".jpg", ".jpeg") else "png"  # a photo as PNG is ten times as large
    return {**seen, IMAGE: picture_address(open_image(seen[IMAGE]), LARGEST, kind)}


def _preview(ids: Sequence[int], shown: Sequence[Shown], answers: Answers) -> str:
    cards = [
        {"id": id_, "image": each.get(IMAGE), "row": each.get("row", {}), "question": each.get(QUESTION)}
        for id_, each in zip(ids, shown, strict=True)
    ]
    return filled_in("app/annotate", "preview.html", cards=cards, class_names=answers.class_names)
