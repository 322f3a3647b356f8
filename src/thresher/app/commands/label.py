"""thresher label"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thresher.app.commands import options
from thresher.record.run_folder import ISSUES, LOOP_REPORT

if TYPE_CHECKING:
    from rich.console import Console

    from thresher.app.annotate.settled import Settled
    from thresher.app.label_rounds import Asked

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of an audit, or of a run that was trained with --pool.")
]
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
    """Take in what people have labelled: as corrections of an audit, or to train again from scratch on all labels.

    Example: thresher label runs/photos export.json

    The answers are checked before anything is kept. Where people disagree the majority counts, with a warning; a tie
    stays open; of numbers the median counts. The same answers again change nothing. A command that was stopped goes on
    when it is given again.
    Answers to thresher review are kept in the folder of the audit, where thresher correct finds them.
    """
    if (run / ISSUES).exists():
        _correct(run, answers, replace, as_json)
    else:
        _train_again(run, answers, replace, model, as_json)


def _train_again(run: Path, answers: Path | None, replace: bool, model: str | None, as_json: bool) -> None:
    """Take in answers about a pool, and train on all labels."""
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
    page = write_loop_report([run], run / LOOP_REPORT)
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
    from thresher.app.annotate.settled import settle
    from thresher.app.annotate.stored_answers import add_answers
    from thresher.app.annotate.votes import read_votes

    settled = settle(read_votes(path), asked.pooled.pool_ids(), asked.class_names, path.name)
    _warn(settled, path, aside)
    return add_answers(asked.folder, settled.answers, replace=replace)


def _warn(settled: "Settled", path: Path, aside: "Console") -> None:
    nothing = f"{path.name} answers nothing: if people did label, export with the interface that thresher wrote."
    for warning in settled.warnings or (() if settled.answers else (nothing,)):
        aside.print(f"Warning: {warning}", soft_wrap=True)


def _correct(run: Path, path: Path | None, replace: bool, as_json: bool) -> None:
    """Check answers about the labels of an audit and remember them."""
    from thresher.app.annotate.review import answers_to
    from thresher.app.annotate.settled import settle
    from thresher.app.annotate.stored_answers import add_answers
    from thresher.app.annotate.votes import read_votes
    from thresher.app.corrections import answers_in, is_other
    from thresher.app.terminal import plain_console
    from thresher.core.errors import ThresherError
    from thresher.record.issues import Issues

    if path is None:
        raise ThresherError(f"There are no answers to take in: give the file that people filled in for {run}.")
    issues = Issues.read(run)
    ids = issues.column("id").tolist()
    settled = settle(read_votes(path), ids, answers_to(issues).class_names, path.name, among="the audit")
    _warn(settled, path, plain_console(stderr=True))
    new = add_answers(run, settled.answers, replace=replace)
    given = dict(zip(ids, issues.column("label").tolist(), strict=True))
    answered = answers_in(run, issues)
    changed = sum(is_other(label, given[id_]) for id_, label in answered.items())
    if as_json:
        print(json.dumps({"new": len(new), "answered": len(answered), "changed": changed}))
        return
    print(
        f"{len(new)} new answers; of {len(answered):,} so far {changed:,} give another label.\n"
        f"Then: thresher correct {run} --out DEST"
    )
