"""thresher label"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thresher.app.commands import options

if TYPE_CHECKING:
    from rich.console import Console

    from thresher.app.label_rounds import Asked

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that was trained with --pool.")]
Answers = Annotated[
    Path | None,
    typer.Argument(
        metavar="[ANSWERS]",
        help="Label Studio's JSON export, or a CSV of id,label; if not given, a training that was stopped goes on.",
    ),
]


def label(
    run: Run,
    answers: Answers = None,
    replace: Annotated[bool, typer.Option("--replace", help="Let answers that contradict earlier ones count.")] = False,
    model: options.OwnModel = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take in what people have labelled, and train again from scratch on all labels.

    Example: thresher label runs/photos export.json

    The answers are checked before anything is kept. Where people disagree the majority counts, with a warning; a tie
    stays open. The same answers again change nothing. A command that was stopped goes on when it is given again.
    """
    from thresher.app.label_rounds import latest, open_pool
    from thresher.app.terminal import plain_console
    from thresher.report import check_installed, write_loop_report
    from thresher.report.summary import score_text

    aside = plain_console(stderr=True)
    check_installed()  # before anything is trained
    asked = open_pool(run, model)
    new = [] if answers is None else _take_in(asked, answers, replace, aside)
    asked = asked.now()
    trained = latest(asked, aside, model)
    page = write_loop_report([run], run / "loop.html")
    last, round_ = trained.history[-1], asked.last_round
    labelled, left = len(asked.labelled(round_)), len(asked.pooled.pool_ids()) - len(asked.known())
    if as_json:
        found = {name: last[name] for name in ("metric", "score")}
        print(json.dumps({"round": round_, "new": len(new), "labelled": labelled, "left": left, **found}))
        return
    print(
        f"{len(new)} new labels; {labelled:,} to learn from, {left:,} without one.\n"
        f"Round {round_}: {last['metric']} {score_text(last['score'], last['metric'])}\nReport: {page}"
    )


def _take_in(asked: "Asked", path: Path, replace: bool, aside: "Console") -> list[int]:
    """Check the answers of a file and remember them; the ids that are new."""
    from thresher.app.annotate.stored_answers import add_answers
    from thresher.app.annotate.votes import read_votes, settle

    settled = settle(read_votes(path), asked.pooled.pool_ids(), asked.class_names, path.name)
    nothing = f"{path.name} answers nothing: if people did label, export with the interface of thresher query."
    for warning in settled.warnings or (() if settled.answers else (nothing,)):
        aside.print(f"Warning: {warning}", soft_wrap=True)
    named = {id_: asked.class_names[label] for id_, label in settled.answers.items()}
    return add_answers(asked.folder, named, replace=replace)
