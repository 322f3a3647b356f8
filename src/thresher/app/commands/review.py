"""thresher review"""

import json
from typing import Annotated

import typer

from thresher.app.commands import options


def review(
    run: options.Audited,
    count: Annotated[int, typer.Option(help="How many examples to ask about.")] = 200,
    data: options.Where = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask people about the most doubtful labels, and write the tasks for Label Studio.

    Example: thresher review runs/photos --count 200

    A new folder inside the run has tasks.json and interface.xml, which Label Studio imports; answers.csv, which can be
    filled in instead; and preview.html. Each task names its file or row, the given and the suggested label; of real
    targets the given and the expected number. What is answered already is not asked again. Then: thresher label.
    """
    from thresher.app.annotate.question import write_question
    from thresher.app.annotate.review import answers_to, most_doubtful, shown
    from thresher.app.corrections import answers_in
    from thresher.app.sources import source_of
    from thresher.record.issues import Issues
    from thresher.record.run_folder import QUERIES

    issues = Issues.read(run)
    answered = answers_in(run, issues)
    places = most_doubtful(issues, count, list(answered))
    ids = [int(id_) for id_ in issues.column("id")[places]]
    folder = run / QUERIES / f"review-{count}-after-{len(answered)}"
    write_question(folder, ids, shown(run, source_of(run, issues, data), issues, places), answers_to(issues))
    if as_json:
        print(json.dumps({"ids": ids, "out": str(folder)}))
        return
    print(
        f"{len(ids):,} of {len(issues):,} labels to look at, the most doubtful first: {folder}\n"
        "Import tasks.json into Label Studio (interface.xml is its labelling interface), or fill in answers.csv.\n"
        f"Then: thresher label {run} ANSWERS"
    )
