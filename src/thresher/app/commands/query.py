"""thresher query"""

import json
from pathlib import Path
from typing import Annotated

import typer

from thresher.app.commands import options

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that was trained with --pool.")]
By = Annotated[
    str, typer.Option(help="How to choose: s-badge, badge, margin, confidence, entropy, coreset, random, ...")
]


def query(
    run: Run,
    count: Annotated[int, typer.Option(help="How many examples to ask about.")] = 100,
    by: By = "s-badge",
    avoid: Annotated[
        str | None, typer.Option(help="trust: keep away from what is like labels that the model could not believe.")
    ] = None,
    on_disk: Annotated[
        Path | None, typer.Option(help="A folder for features and outputs of a pool so large that memory is too small.")
    ] = None,
    model: options.OwnModel = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Choose what people should label next, and write the tasks for Label Studio.

    Example: thresher query runs/photos --count 100 --by s-badge

    A new folder inside the run has tasks.json and interface.xml, which Label Studio imports; answers.csv, which can be
    filled in instead; and preview.html. The same question again chooses the same. Then: thresher label.
    """
    from thresher.app.annotate.question import write_question
    from thresher.app.annotate.tasks import Answers
    from thresher.app.label_rounds import keep_picks, latest, open_pool, remember
    from thresher.app.terminal import plain_console
    from thresher.core.errors import ThresherError
    from thresher.core.seeding import derive
    from thresher.methods.acquisitions import acquisition
    from thresher.methods.active_loop import chosen
    from thresher.rules.expected_trust import scaled_by_trust

    if avoid not in (None, "trust"):
        raise ThresherError(f"--avoid {avoid} is not understood: give --avoid trust.")
    rule, asked = acquisition(by).rule(count), open_pool(run, model)
    pool, round_ = asked.unlabelled(), asked.last_round
    if count > len(pool):
        raise ThresherError(f"--count {count} is more than the {len(pool)} that have no label: ask for fewer.")
    if avoid is not None:
        scaled_by_trust(rule, pool.ids, pool.ids)  # refused now, not after a training
    aside = plain_console(stderr=True)
    trained = latest(asked, aside, model)
    if avoid is not None:
        rule = scaled_by_trust(rule, *trained.trust())
    seed = derive(asked.settings.seed, "query", round_)
    name = by if avoid is None else f"{by}-avoid-{avoid}"
    aside.print(f"{name} reads {len(pool):,} examples of the pool, to choose {count:,}", soft_wrap=True)
    labelled, workers = asked.job(round_).train, asked.settings.workers
    picked = chosen(rule, trained, pool, labelled, seed=seed, workers=workers, on_disk=on_disk)
    ids = picked.ids.tolist()
    folder = run / "queries" / f"{round_}-{name}-{count}"
    write_question(folder, ids, asked.pooled.show(ids), Answers(asked.class_names))
    keep_picks(asked, round_, picked)
    remember(asked, name)
    if as_json:
        print(json.dumps({"round": round_, "by": name, "ids": ids, "out": str(folder)}))
        return
    print(
        f"{len(ids)} of {len(pool):,} to label, chosen by {name}: {folder}\n"
        "Import tasks.json into Label Studio (interface.xml is its labelling interface), or fill in answers.csv.\n"
        f"Then: thresher label {run} ANSWERS"
    )
