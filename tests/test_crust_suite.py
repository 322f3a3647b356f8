"""The suites of CRUST: the paper's tables as data, purity read from the ledger, and what their pages draw."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_prl_suite import ORIGIN
from tiny import examples, net

from thresher import Recipe, ThresherError, fit
from thresher.bench.compare.claims import verdict
from thresher.bench.compare.rows import compare
from thresher.bench.definition.grid import Entry
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Claim, Scale, Suite
from thresher.bench.pages import curves as plot
from thresher.bench.pages.number_plots import number_points, numbers_svg
from thresher.bench.pages.page import write_page
from thresher.bench.pages.side_by_side import insert_tables, insert_tables_in_pages, side_by_side
from thresher.bench.run.identity import head_of
from thresher.bench.run.jobs import jobs_of
from thresher.bench.run.results import read
from thresher.bench.suites import CRUST_SUITES, SUITES, crust, crust_parts
from thresher.bench.suites.crust_purity import CRUST_PURITY, SELECTIONS, Watched, cleaner, purities
from thresher.methods import METHODS, MethodFacts
from thresher.rules import FacilityLocation, ask

CRUST = SUITES["crust"]
ROOT = Path(__file__).parent.parent


def test_the_tables_are_whole() -> None:
    assert len(crust.TABLE_1) == 7 * 9
    assert CRUST.published["cifar10-symmetric-80", "incv"].value == 52.3
    assert CRUST.published["cifar100-derangement-40", "d2l"].spread == 5.8
    assert CRUST.published["mini-webvision", "crust"].value == 72.40
    for (cell, row), number in CRUST.published.items():
        assert number.score == "best", "the paper's code reports the best epoch"
        if row == "crust":
            assert CRUST.published[cell, "crust-released"] == number
    assert {entry.name for entry in CRUST.methods} - METHODS.keys() == {"d2l-later"}


def test_d2l_begins_as_its_code_does_on_small_images_and_in_a_row_of_its_own_as_on_cifar() -> None:
    made = {entry.name: entry.recipe_or_procedure(MethodFacts(None, 10, 120)) for entry in CRUST.methods}
    assert (made["d2l"].each_epoch.start, made["d2l-later"].each_epoch.start) == (12, 40)


@pytest.mark.parametrize("suite", CRUST_SUITES, ids=lambda suite: suite.name)
def test_every_result_can_be_asked_for_and_sent_to_a_worker(suite: Suite) -> None:
    for scale in suite.scales:
        jobs = pickle.loads(pickle.dumps(jobs_of(suite, scale)))
        assert len({repr(head_of(job)) for job in jobs}) == len(jobs), "no two jobs are the same question"
        in_all = {entry.name for entry in suite.methods if entry.drawn or scale == "small"}
        assert {job.entry.name for job in jobs} == in_all - (
            {"d2l-later"} if (suite.name, scale) == ("crust", "small") else set()
        )


def test_every_corruption_of_the_issue_and_what_methods_are_told() -> None:
    small = {cell.name: cell for cell in CRUST.scale("small").cells}
    wanted = ("symmetric-20", "symmetric-50", "symmetric-80", "asymmetric-40", "derangement-40", "instance-40")
    assert small.keys() == {f"{data}-{name}" for data in ("digits", "fashion") for name in wanted}
    assert small["digits-asymmetric-40"].noise_rate == 0.2
    assert small["digits-derangement-40"].noise_rate == 0.4
    assert small["fashion-symmetric-50"].changes["seeds"] == 5
    paper = {cell.name: cell for cell in CRUST.scale("paper").cells}
    short = paper["cifar10-symmetric-50-short"].changes
    whole = CRUST.scale("paper").setup
    assert whole.schedule is not None
    assert whole.epochs is not None
    times = whole.epochs / short["epochs"]
    assert times > 1
    for epoch in range(short["epochs"]):
        assert short["schedule"](epoch, short["epochs"]) == pytest.approx(whole.schedule(times * epoch, whole.epochs))


def test_the_parts_of_table_2_are_recipes_of_their_own() -> None:
    made = {entry.name: entry.recipe_or_procedure(MethodFacts(None, 10, 30)) for entry in crust_parts.ABLATED}
    assert len(made) == 8 == len({repr(recipe) for recipe in made.values()})
    assert made["central-predicted-mixed"] == METHODS["crust-central"].recipe()
    assert made["medoids-predicted-mixed"] == METHODS["crust"].recipe()
    assert made["medoids-given"].mix is None


def test_watching_changes_nothing_and_purity_comes_from_the_ledger() -> None:
    train = examples(60, corrupt=0.4)
    watching = Recipe(each_epoch=Watched(tuple(SELECTIONS.items())))
    run, plain = (
        fit(recipe, lambda: net(seed=1), train, epochs=2, batch=12, device="cpu") for recipe in (watching, Recipe())
    )
    for ours, theirs in zip(run.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    found = purities(run, train)
    clean = ~train.columns["is_corrupt"]
    table = run.ledger.to_pandas()
    for epoch in (1, 2):
        rows = table[table["epoch"] == epoch].set_index("id").loc[train.ids.tolist()]
        for name in SELECTIONS:
            weights = torch.tensor(rows[name].to_numpy())
            assert found[name][epoch - 1] == pytest.approx(float(clean[weights > 0].float().mean()))
            if name.startswith("facility"):
                share = float(weights[clean].sum() / weights.sum())
                assert found[f"{name}, by weight"][epoch - 1] == pytest.approx(share)
                assert weights.max() > 1


def test_what_is_watched_is_what_the_rule_says() -> None:
    from some_evidence import some_evidence

    evidence = some_evidence(40, "classes")
    rule = FacilityLocation(fraction=0.5)
    decision = ask(Watched((("medoids", rule),)), evidence)
    assert torch.equal(decision.columns["medoids"], ask(rule, evidence).weights)
    assert (decision.weights == 1).all()


def stored(suite: Suite, scale: str, **facts: Any) -> list[dict[str, Any]]:
    """Made-up results for every job: the score rises by one hundredth an epoch, from another place for each seed."""
    lines = []
    for place, job in enumerate(jobs_of(suite, scale)):
        scores = [0.5 + 0.01 * epoch + 0.001 * job.seed for epoch in range(5)]
        columns = {name: [None, *(0.6 + 0.01 * place for _ in range(4))] for name in suite.columns}
        lines.append(
            {
                **head_of(job), "status": "ok", "reason": None, "metric": "accuracy", "last": 0.5 + 0.01 * place,
                "best": 0.9, "spread": 0.0, "clean_share": 0.5, "seconds": 1.0, "examples_per_second": 1.0,
                "scores": scores, "columns": columns, **ORIGIN, **facts,
            }
        )  # fmt: skip
    return lines


def tiny_suite(**changes: Any) -> Suite:
    setup = Setup(model="mlp:8", batch=8, learning_rate=1e-3, epochs=5, seeds=2)
    cells = CRUST_PURITY.scale("small").cells[:1]
    return Suite("tiny", "Tiny", scales={"small": Scale(cells, setup)}, **{"columns": ("clean_share",), **changes})


def test_columns_are_drawn_over_the_epochs_and_sizes_against_scores(tmp_path: Path) -> None:
    methods = (
        Entry("standard", "Standard"),
        *(entry for entry in crust_parts.SIZED if entry.name.startswith("central")),
    )
    suite = tiny_suite(methods=methods, drawn=("clean_share",))
    rows = compare(suite, "small", stored(suite, "small"))
    points = plot.curve_points(rows[1], "clean_share")
    assert [point["epoch"] for point in points] == [2, 3, 4, 5], "an epoch without the column has no point"
    sizes = number_points(rows)
    line = [point for point in sizes if point["method"] == "most central"]
    assert [point["at"] for point in line] == [0.1, 0.3, 0.5, 0.7, 0.9]
    assert {point["mark"] for point in sizes} == {0.8}
    page = write_page(suite, "small", stored(suite, "small"), tmp_path, Path("results/tiny-small.jsonl"))
    names = {path.name for path in tmp_path.glob("*.svg")}
    assert names == {"tiny-small.svg", "tiny-small-digits-shares.svg", "tiny-small-share-kept.svg"}
    text = page.read_text()
    assert all(f"]({name})" in text for name in names)
    assert "clean share" in (tmp_path / "tiny-small-digits-shares.svg").read_text()
    assert "share kept" in (tmp_path / "tiny-small-share-kept.svg").read_text()


def test_one_method_with_several_columns_has_a_line_for_each() -> None:
    suite = tiny_suite(methods=(Entry("standard"),), columns=("a", "b"), drawn=("a", "b"))
    rows = compare(suite, "small", stored(suite, "small"))
    (svg,) = plot.columns_svg(suite, rows).values()
    assert all(f">{name}</text>" in svg for name in ("a", "b", "all of the data"))
    assert numbers_svg(rows) == {}
    with pytest.raises(ThresherError, match="add it to columns"):
        tiny_suite(methods=(Entry("standard"),), drawn=("nothing",))


def test_cells_stand_side_by_side() -> None:
    rows = compare(CRUST_PURITY, "small", stored(CRUST_PURITY, "small"))
    sentence, digits, *fashion = side_by_side(CRUST_PURITY, rows)
    assert sentence == "Clean share, last ten epochs, on digits:"
    assert len(fashion) == 2
    heads, _, all_data, medoids, *lines = digits.splitlines()
    assert heads.split("|")[2:-1] == [f" {cell.name} " for cell in CRUST_PURITY.scale("small").cells[:6]]
    assert all_data.startswith("| all of the data | 0.500 |")
    assert medoids.startswith("| facility location, given class | ")
    assert medoids.split("|")[2].strip() == "0.840 ± 0.190", "0.6 + 0.01 · (0, 12, 24, ...), a seed each"
    assert len(lines) == 9
    several = tiny_suite(
        methods=(Entry("standard", "Standard"), Entry("crust-central", "CRUST")), drawn=("clean_share",)
    )
    parts = side_by_side(several, compare(several, "small", stored(several, "small")))
    assert [part.partition(",")[0] for part in parts[::2]] == ["Accuracy", "Clean share"]
    assert parts[1].splitlines()[2:] == ["| Standard | 54.0 ± 3.2 |", "| CRUST | 55.0 ± 3.2 |"]
    assert side_by_side(tiny_suite(methods=several.methods), rows) == [], "a suite that draws nothing"
    assert side_by_side(replace(several, clock="round"), rows) == []


def test_tables_in_pages_are_those_of_the_stored_results() -> None:
    """`thresher bench show crust-purity` writes them."""
    results, _ = read(ROOT / "results" / "crust-purity-small.jsonl")
    tables = side_by_side(CRUST_PURITY, compare(CRUST_PURITY, "small", results))
    text = (ROOT / "docs" / "methods" / "crust-central.md").read_text()
    assert insert_tables(text, "crust-purity-small", tables) == text
    assert insert_tables(text, "crust-purity-small", []) != text


def test_pages_are_brought_up_to_date(tmp_path: Path) -> None:
    texts = {"one.md": "# One\n<!-- tables: a-small -->\nold\n<!-- end -->\nlast\n", "two.md": "# Two\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert insert_tables_in_pages(tmp_path, "a-small", ["| new |"]) == [tmp_path / "one.md"]
    assert (tmp_path / "one.md").read_text() == "# One\n<!-- tables: a-small -->\n\n| new |\n\n<!-- end -->\nlast\n"
    assert insert_tables_in_pages(tmp_path, "a-small", ["| new |"]) == []
    assert insert_tables_in_pages(tmp_path / "nowhere", "a-small", []) == []


def test_the_head_of_a_page_says_what_holds() -> None:
    suite = tiny_suite(
        methods=(Entry("standard", "Plain"), Entry("crust", "A"), Entry("crust-central", "B")),
        claims=(Claim(("crust",), ("standard",)), Claim(("crust-central",), ("crust", "standard"))),
    )
    rows = stored(suite, "small")
    for row in rows:
        row["last"] = {"standard": 0.5, "crust": 0.6, "crust-central": 0.55}[row["method"]] + 0.001 * row["seed"]
    said = verdict(suite, compare(suite, "small", rows))
    assert "- A. Above, as in the paper: Plain." in said
    assert "- B. Above, as in the paper: Plain. **Not above**: A (-5.0 ± 0.0, 5 seeds)." in said
    assert "(1 in all, 5 seeds)" in said
    one = verdict(suite, compare(suite, "small", [row for row in rows if row["seed"] == 0]))
    assert "Undecided: Plain (+10.0, one seed)." in one
    assert verdict(tiny_suite(methods=(Entry("standard", "S"),)), []).endswith("they are ours.")
    own = replace(suite, claims=(), verdict=lambda found: f"{len(found)} rows.")
    assert verdict(own, compare(own, "small", rows)) == "**What holds here.** 3 rows."


def test_purity_is_compared_with_all_of_the_data() -> None:
    rows = stored(CRUST_PURITY, "small", clean_share=0.7)
    for row in rows:
        row["columns"] = {name: [0.8 + 0.01 * row["seed"]] * 5 for name in row["columns"]}
        row["columns"]["facility-given"] = [0.6 + 0.01 * row["seed"]] * 5
    said = cleaner(compare(CRUST_PURITY, "small", rows))
    assert "facility location, given class: cleaner in 0, dirtier in 12, undecided 0" in said
    assert "centrality, predicted class: cleaner in 12, dirtier in 0, undecided 0" in said


def test_training_accuracy_is_that_of_the_true_labels() -> None:
    train = examples(60, corrupt=0.4)
    run = fit(METHODS["crust-central"].recipe(), lambda: net(seed=1), train, epochs=7, batch=12, device="cpu")
    for record in run.history:
        table = run.ledger.to_pandas()
        rows = table[table["epoch"] == record["epoch"]].set_index("id").loc[train.ids.tolist()]
        right = rows["prediction"].to_numpy() == train.columns["true_target"].numpy()
        assert record["train_right"] == pytest.approx(right.mean()), "of all examples, kept or not"
