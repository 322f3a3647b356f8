"""thresher audit"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thresher.app.cli import taking
from thresher.app.commands import options
from thresher.record.run_folder import ISSUES_CSV, REPORT

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from thresher.app.audit_job import AuditJob
    from thresher.record.issues import Issues

JUDGES = "How to judge"
UNBROKEN = 1000  # columns of a list that no terminal shows, where paths stay in one piece
OF_TRAINING_ONLY = (
    "data", "noise_rate", "clean", "validation", "early_stop", "fine_tune", "fine_tune_steps", "pool",
)  # fmt: skip

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A folder of images, a table, an .npz file, or a name such as digits.")
]
Target = Annotated[str | None, typer.Option(help="The column of a table that holds the labels or values (target).")]
Folds = Annotated[int, typer.Option(rich_help_panel=JUDGES, help="How many trainings, each judging what it lacks.")]
Probabilities = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=JUDGES, help="An .npy file [examples, classes] from a model that did not see the labels."
    ),
]
Count = Annotated[int, typer.Option(help="How many of the worst to show.")]


@taking({name: kind for name, kind in options.SETTINGS.items() if name not in OF_TRAINING_ONLY})
def audit(
    given: dict[str, Any],
    data: Data,
    target: Target = None,
    out: options.Out = None,
    folds: Folds = 5,
    probabilities: Probabilities = None,
    count: Count = 10,
    as_json: options.Json = False,
    commit_every: options.CommitEvery = 30.0,
) -> None:
    """Find the examples whose labels look wrong, and leave a list of all, the worst first, and a model.

    Example: thresher audit photos/ --out runs/photos

    Every example is judged by models that did not see its label. The folder gets issues.csv, issues.parquet and
    issues.json, and a run by a method that tolerates the noise found (the one that suits, unless --method says it).
    An audit that was stopped goes on when the same command is given again.
    """
    from thresher.app.audit_job import prepare_audit
    from thresher.app.folders import free_folder, usual_name
    from thresher.app.settings import make_settings
    from thresher.auditing import EPOCHS, FINAL
    from thresher.core.errors import ThresherError

    if count < 0:
        raise ThresherError(f"--count {count} shows nothing: give a whole number of at least 0.")
    chosen = {"method": FINAL, **given, "data": data if target is None else f"{data}:{target}"}
    if "epochs" not in given and "steps" not in given:
        chosen["epochs"] = EPOCHS
    job = prepare_audit(make_settings(chosen), folds=folds, probabilities=probabilities)
    folder = out or free_folder(job.settings, Path("runs") / f"audit-{usual_name(job.settings)}")
    _audit_and_tell(job, folder, commit_every, count, as_json)


def _audit_and_tell(job: "AuditJob", folder: Path, commit_every: float, count: int, as_json: bool) -> None:
    from thresher.app.audit_job import find_issues, run_to_leave
    from thresher.app.terminal import plain_console, progress
    from thresher.app.train_job import refuse_within_data, start
    from thresher.auditing.store import refuse_other_folder
    from thresher.data import notes_of
    from thresher.report.findings import across_what

    refuse_within_data(folder, job.settings)
    refuse_other_folder(folder)
    console, aside = plain_console(), plain_console(stderr=True)
    for note in notes_of(job.examples):
        aside.print(note, soft_wrap=True)
    issues = _judged(job, folder, aside, find_issues)
    training = run_to_leave(job, issues)
    if training.chosen is not None:
        aside.print(training.chosen, soft_wrap=True)
    with progress([training.settings.method], aside) as [watch]:
        start(training, folder, watch, commit_every)
    page = _report(folder)
    if as_json:
        print(json.dumps({**issues.summary, "headline": issues.headline(), "out": str(folder)}))
        return
    console.print(f"\n{issues.headline()}\n", soft_wrap=True)
    wide = console if console.is_terminal else plain_console(width=UNBROKEN)
    wide.print(worst(issues, count))
    if groups := issues.summary.get("duplicates"):
        console.print(f"\nGroups of duplicates: {len(groups):,}, {across_what(groups)}", soft_wrap=True)
    marked = int(issues.column("is_issue").sum())
    console.print(
        f"\nAll {len(issues):,}, the worst first, {marked:,} of them marked as issues: {folder / ISSUES_CSV}",
        soft_wrap=True,
    )
    console.print(f"Report: {page}", soft_wrap=True)


def _judged(job: "AuditJob", folder: Path, aside: "Console", find: Any) -> "Issues":
    """The issues, while the terminal shows how far the judges are."""
    from contextlib import ExitStack

    from thresher.app.terminal import progress

    with ExitStack() as shown:

        def tell(stage: str) -> Any:
            shown.close()  # the bar of the stage before
            if stage.startswith("fold"):
                return shown.enter_context(progress([stage], aside))[0]
            aside.print(f"Judging by {stage}." if stage != "writing issues" else "Writing issues.", soft_wrap=True)
            return None

        found: Issues = find(job, folder, tell)
        return found


def _report(folder: Path) -> Path:
    from thresher.report import write_report

    return write_report([folder], folder / REPORT)


def worst(issues: "Issues", count: int) -> "Table":
    """The worst examples, a line each."""
    from rich.table import Table

    real = "expected" in issues.table.column_names
    place = "file" if "file" in issues.table.column_names else "row"
    middle = ["expected", "low", "high"] if real else ["suggested", "probability"]
    shown = [place, "label", *middle, "trust", "reason"]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in shown:
        table.add_column(name, overflow="fold")
    for row in issues.table.slice(0, count).select(shown).to_pylist():
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    return table


def _cell(name: str, value: Any) -> str:
    """A share in three digits, a number of the data in up to seven; anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if name in ("trust", "probability") else f"{value:.7g}" if name == "label" else f"{value:.5g}"
