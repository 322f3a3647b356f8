"""The HTML page of one or several runs, and how any page is filled in and written."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from thresher.core.errors import FOLDER, ThresherError, needs_extra, refuse_unless
from thresher.core.files import caches, write_whole
from thresher.record.run_folder import REPORT
from thresher.report.charts import Figure
from thresher.report.figures import disagreements, run_colours, run_figures, training_figures
from thresher.report.findings import findings, first_sentence
from thresher.report.gallery import Block, gallery
from thresher.report.run_record import RunRecord, read_run
from thresher.report.summary import (
    is_against_given_labels,
    metric_of,
    noise_rate_text,
    percent,
    score_text,
    seconds_text,
    summarise,
)
from thresher.report.teacher import have_one_teacher

# A setting that says nothing where the other one is off.
ONLY_WITH = {"fine_tune_steps": "fine_tune", "clean_batch": "clean"}
MARK, LOOKED_AT = b"Thresher report</title>", 10_000  # what each report has within its first bytes
WORTH_SAYING = 0.02  # a share of wrong labels that changes what a score means


def check_installed() -> None:
    """Refuse where a package that the report needs is missing; a command asks this before it trains."""
    needs_extra("The report", "report", "vl_convert", "jinja2", "PIL")


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the report of these runs to `out`, whole or not at all, and return its path."""
    check_installed()
    _refuse_no_folders(folders)
    if not folders:
        raise ThresherError("There is no run to report on: give at least one run folder.")
    return _written(page([read_run(Path(folder)) for folder in folders]), out)


def write_loop_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the report of these active-learning loops to `out`, whole or not at all, and return its path."""
    check_installed()
    from thresher.report.loops import loop_page, read_loop_record  # which stand on this file

    _refuse_no_folders(folders)
    if not folders:
        raise ThresherError("There is no loop to report on: give at least one folder of active_loop.")
    return _written(loop_page([read_loop_record(Path(folder)) for folder in folders]), out)


def _refuse_no_folders(folders: object) -> None:
    fits = isinstance(folders, Sequence) and not isinstance(folders, str) and all(map(FOLDER[0], folders))
    refuse_unless("folders", folders, fits, "a list of folders")


def _written(html: str, out: Path) -> Path:
    out = Path(out)
    _refuse_other_page(out)
    try:
        write_whole(out, lambda unfinished: unfinished.write_text(html, encoding="utf-8"))
    except OSError as error:
        raise ThresherError(f"{out} cannot be written ({error.strerror}): choose another path.") from error
    return out


def _refuse_other_page(out: Path) -> None:
    """Refuse to replace a page that is no report; a file of the name that reports have is one, whatever it holds."""
    if out.name != REPORT and out.is_file() and out.stat().st_size:
        with out.open("rb") as file:
            if MARK not in file.read(LOOKED_AT):
                raise ThresherError(f"{out} is no report, and would be replaced: choose another path.")


def page(runs: Sequence[RunRecord]) -> str:
    """The whole report as one HTML text; equal runs give equal texts."""
    specs: list[dict[str, Any]] = []
    colours = dict(zip(map(id, runs), run_colours(runs).items(), strict=True))
    trained = [run for run in runs if run.history]
    training = placed(training_figures(trained), specs) if trained else []
    shown = runs[0].has_teacher and have_one_teacher(runs)
    sections = [_section(run, *colours[id(run)], specs, shown, 1 / len(runs)) for run in runs]
    return rendered(
        "page.html",
        specs,
        title=_title(runs),
        lead=_lead(runs),
        headline=[_headline(run, *colours[id(run)]) for run in trained],
        caution=_caution(trained),
        training=training,
        sections=sections,
    )


def rendered(template: str, specs: list[dict[str, Any]], **values: Any) -> str:
    """A page from its template, with its charts and the programs that draw them."""
    from markupsafe import Markup

    own = {
        "style": Markup(_source("page.css") + _source("gallery.css")),
        "gallery_program": Markup(_source("example.js") + _source("gallery.js")),
        "chart_program": Markup(_chart_program()),
        "chart_drawing": Markup(_source("charts.js")),
    }
    return filled_in("report", template, specs=specs, **own, **values)


def filled_in(folder: str, template: str, **values: Any) -> str:
    """The template in this folder of the package with these values, which are escaped; a missing value is an error."""
    needs_extra(f"The page {template}", "report", "jinja2")
    html: str = _environment(folder).get_template(template).render(**values)
    return html


@cache
def _environment(folder: str) -> Any:
    """Where the templates of this folder are compiled, each once."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("thresher", folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _source(name: str) -> str:
    """A style or program of the page, which lies beside this file."""
    return files("thresher.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _chart_program() -> str:
    """The program that draws the charts, Vega with all it needs; kept among the user's caches, for it takes seconds."""
    place = caches() / f"charts-{version('vl-convert-python')}.js"
    kept = _kept_program(place)
    if kept is not None:
        return kept
    import vl_convert

    program: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    program = program.replace("</script", "<\\/script")  # nothing in a script may look like its end
    with suppress(OSError):  # a home that cannot be written to only costs the time of the next report
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, lambda path: path.write_text(f"{_checksum(program)}\n{program}", encoding="utf-8"))
    return program


def _kept_program(place: Path) -> str | None:
    """What an earlier report has kept, if it is whole."""
    try:
        checksum, _, program = place.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return program if checksum == _checksum(program) else None


def _checksum(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def placed(figures: Sequence[Figure], specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each figure an element of the page, and add its chart to the page's list of charts."""
    elements = []
    for figure in figures:
        element = f"chart-{len(specs)}"
        specs.append({"element": element, "spec": figure.spec})
        elements.append({"element": element, "title": figure.title, "words": figure.words, "square": figure.square})
    return elements


def _section(
    run: RunRecord, name: str, colour: str, specs: list[dict[str, Any]], teacher_shown: bool, share: float
) -> dict[str, Any]:
    block = gallery(run, share)
    return {
        "name": name,
        "colour": colour,
        "figures": placed(run_figures(run, teacher_shown), specs),
        "disagreements": disagreements(run),
        "sentence": first_sentence(run.issues) if run.issues is not None else "",
        "findings": findings(run.issues) if run.issues is not None else None,
        "gallery": None if block is None else _in_a_script(block),
        "gallery_words": "" if block is None else _gallery_words(run, block),
        "settings": _settings(run),
    }


def _in_a_script(block: Block) -> Any:
    """The block as JSON in which nothing looks like markup."""
    from markupsafe import Markup

    text = json.dumps(block, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _gallery_words(run: RunRecord, block: Block) -> str:
    said = "target" if run.is_regression else "label"
    words = f"Examples by how little the model believed their given {said}, over the whole run."
    if 0 < len(block["shown"]) < len(block["id"]) and block["pictures"]:
        words += f" The {len(block['shown']):,} least trusted have a picture."
    return words


def _settings(run: RunRecord) -> dict[str, str]:
    """What was set, without what is off and what only matters with something that is."""
    given = {key: value for key, value in run.settings.items() if value is not False and value != ""}
    applied = {key: value for key, value in given.items() if ONLY_WITH.get(key, key) in given}
    found = {} if run.noise_rate is None else {"noise rate found": noise_rate_text(run.noise_rate)}
    return {key: _setting_text(value) for key, value in applied.items()} | found


def _headline(run: RunRecord, name: str, colour: str) -> dict[str, Any]:
    summary, metric = summarise(run), metric_of(run)

    def score(value: float | None) -> str | None:
        return None if value is None else score_text(value, metric)

    return {
        "name": name,
        "colour": colour,
        "last": score(summary.last),
        "spread": score(summary.spread),
        "best": score(summary.best),
        "best_epoch": summary.best_epoch,
        "chosen": score(summary.chosen),
        "chosen_epoch": summary.chosen_epoch,
        "tuned": score(summary.tuned),
        "kept": None if summary.kept is None else percent(summary.kept),
        "clean_share": None if summary.clean_share is None else percent(summary.clean_share),
        "seconds": None if summary.seconds is None else seconds_text(summary.seconds),
    }


def _caution(runs: Sequence[RunRecord]) -> str:
    """What a score means where the examples to test on are a part of labels that look wrong."""
    held_out = [run for run in runs if is_against_given_labels(run.folder, run.settings)]
    rates = [rate for run in held_out if (rate := _rate(run)) is not None]
    if not rates or max(rates) < WORTH_SAYING or all(summarise(run).last is None for run in runs):
        return ""
    return (
        f"Scores are against held-out labels of yours, of which about {max(rates):.0%} look wrong: a model that is "
        "right scores lower than it deserves."
    )


def _rate(run: RunRecord) -> float | None:
    found: Mapping[str, Any] = (run.issues.summary.get("noise_rate") if run.issues else run.noise_rate) or {}
    return found.get("rate")


def _title(runs: Sequence[RunRecord]) -> str:
    if len(runs) == 1 and runs[0].issues is not None:
        return first_sentence(runs[0].issues)
    data = list(dict.fromkeys(str(run.settings["data"]) for run in runs if "data" in run.settings))
    place = f" on {data[0]}" if len(data) == 1 else ""
    return f"{runs[0].method}{place}" if len(runs) == 1 else f"{len(runs)} runs{place}"


def _lead(runs: Sequence[RunRecord]) -> str:
    """The settings that all runs share, in one line."""
    audited = len(runs) == 1 and runs[0].issues is not None
    facts = []
    for key in (*(("data", "method") if audited else ()), "corruption", "model", "epochs", "seed"):
        values = {_setting_text(run.settings[key]) for run in runs if key in run.settings}
        if len(values) == 1:
            facts.append(f"{'' if key == 'data' else f'{key} '}{values.pop()}")
    counts = {len(run.examples["id"]) for run in runs if "id" in run.examples}
    if len(counts) == 1 and not audited:
        facts.insert(0, f"{counts.pop():,} training examples")
    return " · ".join(facts)


def _setting_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
