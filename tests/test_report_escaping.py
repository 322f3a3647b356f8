"""User texts on a page are texts: they change no markup, end no script, and are shown as they are."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from fake_run import write_fake_issues, write_fake_run
from test_loop_report import write_fake_loop

from thresher.app.annotate.question import write_question
from thresher.app.annotate.tasks import Answers
from thresher.report import write_loop_report, write_report

TEXTS = ["<b>", "[/b]", "</script>", "<!--<script> \" onload='x &lt; {{ 7 * 7 }} </style><img src=x>"]


def texts_in(value: Any) -> list[str]:
    """All texts of what JSON holds."""
    if isinstance(value, dict):
        return [*value, *texts_in(list(value.values()))]
    return [text for part in value for text in texts_in(part)] if isinstance(value, list) else [str(value)]


class Structure(HTMLParser):
    """The tags of a page with the names of their attributes, its texts and titles, and its charts."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[Any] = []
        self.shown: list[str] = []
        self.charts = ""
        self.inside = self.is_data = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, [name for name, _ in attrs]))
        self.shown += [value or "" for name, value in attrs if name == "title"]
        self.inside = ("id", "charts") in attrs
        self.is_data = ("type", "application/json") in attrs

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(tag)
        self.inside = self.is_data = False

    def handle_data(self, data: str) -> None:
        self.shown += texts_in(json.loads(data)) if self.is_data else [data]
        self.charts += data if self.inside else ""

    def handle_comment(self, data: str) -> None:
        self.tags.append(f"comment {data}")


def report(folder: Path, text: str) -> str:
    """A page of two runs, of pictures and of rows, with this text in every name that a user may choose."""
    runs = []
    for kind in ("pictures", "rows"):
        run = write_fake_run(
            folder / f"{kind} {text.replace('/', '_')}",
            method=f"method {text}",
            epochs=1,
            pictures=kind == "pictures",
            class_names=[f"class {digit} {text}" for digit in range(10)],
        )
        values = {"data": f"folder {text}", f"key {text}": f"value {text}", "method": f"method {text}"}
        lines = (f"{json.dumps(key)} = {json.dumps(value)}" for key, value in values.items())
        (run / "run.toml").write_text("\n".join(lines))
        examples = pq.read_table(run / "examples.parquet")
        files = [[f"photos/{text}/file {text.replace('/', '_')}.png"] * len(examples)]
        pq.write_table(examples.append_column("file", files), run / "examples.parquet")
        if kind == "rows":
            with np.load(run / "previews.npz") as stored:
                arrays = {name: stored[name] for name in stored.files if name != "feature_names"}
            row = json.dumps({f"column {text}": f"cell {text}", "plain": 3})
            np.savez(run / "previews.npz", row=np.array([row] * len(arrays["ids"])), **arrays)
        else:
            write_fake_issues(run, [f"class {digit} {text}" for digit in range(10)])
        runs.append(run)
    return write_report(runs, folder / "report.html").read_text(encoding="utf-8")


def loop_report(folder: Path, text: str) -> str:
    run = write_fake_loop(folder / "loop", f"rule {text}", 0, pictures=False)
    stored = json.loads((run / "loop.json").read_text())
    stored["class_names"] = [f"class {digit} {text}" for digit in range(10)]
    for record in stored["rounds"]:
        record["by"] = f"round's rule {text}"
    (run / "loop.json").write_text(json.dumps(stored))
    for path in (run / "picks").glob("*.npz"):
        with np.load(path) as picks:
            arrays = {name: picks[name] for name in picks.files}
        row = json.dumps({f"column {text}": f"cell {text}"})
        np.savez(path, row=np.array([row] * len(arrays["ids"])), **arrays)
    return write_loop_report([run], folder / "loop.html").read_text(encoding="utf-8")


def question(folder: Path, text: str) -> str:
    write_question(
        folder, [3, 4], [{"row": {f"column {text}": f"cell {text}"}}] * 2, Answers([f"class {text}", "other"])
    )
    choices = ElementTree.parse(folder / "interface.xml").iter("Choice")
    assert [choice.get("value") for choice in choices] == [f"class {text}", "other"]
    return (folder / "preview.html").read_text(encoding="utf-8")


SHOWN: dict[str, tuple[Callable[[Path, str], str], list[str]]] = {
    "report": (
        report,
        [
            "method {}",
            "folder {}",
            "key {}",
            "value {}",
            "class 3 {}",
            "column {}",
            "cell {}",
            "photos/{}/",
            "truly is class 3 {} is",
        ],
    ),
    "loop report": (loop_report, ["rule {}", "round's rule {}", "class 3 {}", "column {}", "cell {}"]),
    "question": (question, ["class {}", "column {}", "cell {}"]),
}
IN_CHARTS = {"report": ["method {}", "class 3 {}"], "loop report": ["rule {}"], "question": []}


@pytest.fixture(scope="module")
def plain_tags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("plain")
    return {kind: Structure(write(folder / kind, "plain")).tags for kind, (write, _) in SHOWN.items()}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", SHOWN)
def test_texts_change_no_markup_and_are_shown_as_they_are(
    tmp_path: Path, plain_tags: dict[str, list[Any]], kind: str, text: str
) -> None:
    write, shown = SHOWN[kind]
    page = Structure(write(tmp_path, text))
    assert page.tags == plain_tags[kind]
    for words in shown:
        assert any(words.format(text) in part for part in page.shown), words
    charts = json.dumps(json.loads(page.charts)) if page.charts else ""
    for words in IN_CHARTS[kind]:
        assert json.dumps(words.format(text))[1:-1] in charts
