"""The HTML page of one or several runs."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from thresher.report.confusion import disagreements
from thresher.report.figure import Figure
from thresher.report.figures import run_colours, run_figures, training_figures
from thresher.report.gallery import Card, cards, feature_names, hidden_features
from thresher.report.run_record import RunRecord
from thresher.report.summary import (
    metric_of,
    noise_rate_text,
    percent,
    score_text,
    seconds_text,
    summarise,
)
from thresher.report.teacher import have_one_teacher
from thresher.report.template import filled_in

MOST_CARDS, MOST_CARDS_OF_SEVERAL = 36, 18  # whole rows of nine, six or three


def page(runs: Sequence[RunRecord]) -> str:
    """The whole report as one HTML text; equal runs give equal texts."""
    specs: list[dict[str, Any]] = []
    training = placed(training_figures(runs), specs)
    colours = run_colours(runs)
    most = MOST_CARDS if len(runs) == 1 else MOST_CARDS_OF_SEVERAL
    show = partial(_section, most=most, specs=specs, teacher_shown=have_one_teacher(runs))
    sections = [show(run, *said) for run, said in zip(runs, colours.items(), strict=True)]
    return rendered(
        "page.html",
        specs,
        title=_title(runs),
        lead=_lead(runs),
        headline=[_headline(run, *said) for run, said in zip(runs, colours.items(), strict=True)],
        training=training,
        sections=sections,
    )


def rendered(template: str, specs: list[dict[str, Any]], **values: Any) -> str:
    """A page from its template, with its charts and the program that draws them."""
    return filled_in("report", template, specs=specs, chart_program=_chart_program(), **values)


@cache
def _chart_program() -> str:
    """The program that draws the charts, Vega with all it needs, made once a process."""
    import vl_convert

    program: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # Nothing in a script may look like its end.
    return program.replace("</script", "<\\/script")


def placed(figures: Sequence[Figure], specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each figure an element of the page, and add its chart to the page's list of charts."""
    elements = []
    for figure in figures:
        element = f"chart-{len(specs)}"
        specs.append({"element": element, "spec": figure.spec})
        elements.append({"element": element, "title": figure.title, "words": figure.words, "square": figure.square})
    return elements


def _section(
    run: RunRecord, name: str, colour: str, *, most: int, specs: list[dict[str, Any]], teacher_shown: bool
) -> dict[str, Any]:
    shown = cards(run, most)
    return {
        "name": name,
        "colour": colour,
        "figures": placed(run_figures(run, teacher_shown), specs),
        "disagreements": disagreements(run),
        "cards": shown,
        "cards_words": _cards_words(shown, "target" if run.is_regression else "label"),
        "real": run.is_regression,
        "truth_known": any(card.corrupt is not None for card in shown),
        "features": feature_names(run),
        "hidden_features": hidden_features(run),
        "settings": {key: _setting_text(value) for key, value in run.settings.items()} | _noise_rate(run),
    }


def _noise_rate(run: RunRecord) -> dict[str, str]:
    return {} if run.noise_rate is None else {"noise rate found": noise_rate_text(run.noise_rate)}


def _cards_words(shown: Sequence[Card], said: str) -> str:
    if not shown:
        return ""
    words = f"The {len(shown)} examples whose given {said} the model believed least, over the whole run."
    known = [card.corrupt for card in shown if card.corrupt is not None]
    if known:
        words += f" Of these, {sum(known)} truly have a corrupted {said}."
    return words


def _headline(run: RunRecord, name: str, colour: str) -> dict[str, Any]:
    summary, metric = summarise(run), metric_of(run)
    return {
        "name": name,
        "colour": colour,
        "last": score_text(summary.last, metric),
        "spread": score_text(summary.spread, metric),
        "best": score_text(summary.best, metric),
        "best_epoch": summary.best_epoch,
        "chosen": score_text(summary.chosen, metric),
        "chosen_epoch": summary.chosen_epoch,
        "tuned": None if summary.tuned is None else score_text(summary.tuned, metric),
        "kept": percent(summary.kept),
        "clean_share": percent(summary.clean_share),
        "seconds": seconds_text(summary.seconds),
    }


def _title(runs: Sequence[RunRecord]) -> str:
    data = list(dict.fromkeys(str(run.settings["data"]) for run in runs if "data" in run.settings))
    place = f" on {data[0]}" if len(data) == 1 else ""
    return f"{runs[0].method}{place}" if len(runs) == 1 else f"{len(runs)} runs{place}"


def _lead(runs: Sequence[RunRecord]) -> str:
    """The settings that all runs share, in one line."""
    facts = []
    for key, label in (("corruption", "corruption"), ("model", "model"), ("epochs", "epochs"), ("seed", "seed")):
        values = {_setting_text(run.settings[key]) for run in runs if key in run.settings}
        if len(values) == 1:
            facts.append(f"{label} {values.pop()}")
    counts = {len(run.examples["id"]) for run in runs if "id" in run.examples}
    if len(counts) == 1:
        facts.insert(0, f"{counts.pop():,} training examples")
    return " · ".join(facts)


def _setting_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
