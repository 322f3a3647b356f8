"""thresher correct"""

import json
from pathlib import Path
from typing import Annotated

import typer

from thresher.app.commands import options

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of an audit; with --undo, a corrected copy.")]
Out = Annotated[Path | None, typer.Option(help="The new folder for the corrected copy.")]
Below = Annotated[
    float | None,
    typer.Option(help="Correct what is trusted less than this, such as 0.1. [default: see above]"),
]
Count = Annotated[int | None, typer.Option(help="Correct so many of the worst instead.")]
Drop = Annotated[bool, typer.Option("--drop/--relabel", help="Leave the examples out, or give suggested labels.")]
Copy = Annotated[bool, typer.Option("--copy", help="Copy images instead of linking to them.")]
Undo = Annotated[bool, typer.Option("--undo", help="Make a corrected copy what the data were before.")]


def correct(
    run: Run,
    out: Out = None,
    below: Below = None,
    count: Count = None,
    drop: Drop = False,
    copy: Copy = False,
    undo: Undo = False,
    data: options.Where = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a corrected copy of audited data, with the list of changes; the data stay as they are.

    Example: thresher correct runs/photos --out corrected

    Images become links in the folder of their corrected class, and labels_corrected.csv names them all; a table gets
    one more column, TARGET_corrected; a file of arrays gets other labels, beside which the given ones stay. changes.csv
    lists every change and why it was made.
    What people answered (thresher review, thresher label) goes before suggestions. Without --below or --count only
    suggestions are taken that are likelier right than wrong, and none where the audit cannot tell how many labels are
    wrong. The way back: correct --undo.
    """
    from thresher.app.corrected_copies import undo_copy, write_copy
    from thresher.app.corrections import answers_in, changes_of, counted, why_none
    from thresher.app.sources import source_of
    from thresher.core.errors import ThresherError
    from thresher.record.issues import Issues

    if undo:
        options = {"--out": out, "--below": below, "--count": count, "--data": data, "--drop": drop, "--copy": copy}
        told = [name for name, value in options.items() if value not in (None, False)]
        if told:
            raise ThresherError(f"--undo takes back what was changed, and nothing else: leave out {told[0]}.")
        print(f"{undo_copy(run):,} changes taken back: {run}")
        return
    if out is None:
        raise ThresherError("There is no place for the corrected copy: give --out, a new folder.")
    issues = Issues.read(run)
    source = source_of(run, issues, data)
    changes = changes_of(issues, answers_in(run, issues), below=below, count=count, drop=drop, target=source.target)
    place = write_copy(out, source, issues, changes, copy=copy)
    found = counted(changes)
    if as_json:
        print(json.dumps({**found, "examples": len(issues), "out": str(out), "data": str(place)}))
        return
    print(
        f"{found['relabelled']:,} of {len(issues):,} examples have another label ({found['by_people']:,} by people), "
        f"{found['dropped']:,} are left out: {place}\n"
        f"Every change is in {out / 'changes.csv'}; the way back: thresher correct --undo {out}"
    )
    if below is None and count is None and found["relabelled"] + found["dropped"] == found["by_people"]:
        print(
            f"No suggestion {why_none(issues)}. Let people look (thresher review {run}), or take so many of the worst "
            "(--count 100)."
        )
