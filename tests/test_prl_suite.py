"""The suites prl and prl-rates: the paper's tables as data, what is done to the sets, and pages made of results."""

import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from thresher import Examples, ThresherError
from thresher.__main__ import app
from thresher.bench.compare.claims import averages_table, claims_table
from thresher.bench.compare.rows import compare
from thresher.bench.definition.grid import Job
from thresher.bench.definition.published import printed
from thresher.bench.definition.setup import Setup
from thresher.bench.definition.suite import Claim, Suite
from thresher.bench.pages import terminal as display
from thresher.bench.pages.curves import curves_svg
from thresher.bench.pages.number_plots import numbers_svg
from thresher.bench.pages.page import write_page
from thresher.bench.run.identity import head_of
from thresher.bench.run.jobs import jobs_of
from thresher.bench.run.results import append
from thresher.bench.run.runner import RunOptions
from thresher.bench.run.task import load_task, run_task, summary
from thresher.bench.suites import SUITES, preparation, prl, prl_tables
from thresher.bench.suites.sensitivity import rates_around, sensitivity_suite
from thresher.data import Splits
from thresher.methods import METHODS

PRL, RATES = SUITES["prl"], SUITES["prl-rates"]
ORIGIN = {
    "commit": None,
    "dirty": None,
    "versions": {"thresher": "0"},
    "machine": {"cpu": "a cpu", "threads": 1, "cores": 2, "jobs": 1, "gpu": None},
}
SCALES = [(suite, name) for suite in (PRL, RATES) for name in suite.scales]


def test_the_tables_are_whole() -> None:
    assert (len(prl_tables.TABLE_1), len(prl_tables.TABLE_2)) == (20 * 8, 12 * 9)
    assert len(RATES.published) == 6 * 5
    assert PRL.published["cifar10-symmetric-50", "co-teaching"].value == 74.25
    assert PRL.published["cifar100-pairflip-45", "spl"].spread == 0.66
    assert PRL.published["celeba-linadv-40", "standard"].value == -32.22
    assert RATES.published["cifar10-symmetric-70-told-80", "co-prl-l"].value == 54.91
    # Table 3 repeats a column of Table 2, so a row that slipped would show.
    for name in ("cifar10-pairflip-45", "cifar10-symmetric-50", "cifar10-symmetric-70", "cifar100-symmetric-50"):
        told = RATES.published[f"{name}-told-{name[-2:]}", "co-prl-l"]
        assert told.value == PRL.published[name, "co-prl-l"].value


def test_a_printed_table_with_a_missing_number() -> None:
    assert printed("T", ["standard", "spl"], "a 1±0.5 -\n\n  b 2 3") .keys() == {
        ("a", "standard"), ("b", "standard"), ("b", "spl"),
    }  # fmt: skip
    with pytest.raises(ValueError):
        printed("T", ["standard", "spl"], "a 1±0.5")


def test_every_corruption_of_the_paper_at_its_rates() -> None:
    small = {cell.name: cell for cell in PRL.scale("small").cells}
    for data in ("digits", "fashion"):
        for name in ("symmetric-30", "symmetric-50", "symmetric-70", "pairflip-25", "pairflip-35", "pairflip-45"):
            assert small[f"{data}-{name}"].metric == "accuracy"
    for name in ("linadv", "signflip", "uninoise", "pairflip", "mixture"):
        for percent in (10, 20, 30, 40):
            assert small[f"faces-{name}-{percent}"].corruption == f"{name}:{percent / 100:g}"
    headline = {name for name, cell in small.items() if cell.changes["seeds"] == 5}
    assert {"digits-symmetric-50", "fashion-pairflip-45", "faces-linadv-40"} <= headline


@pytest.mark.parametrize(("suite", "scale"), SCALES, ids=lambda value: getattr(value, "name", value))
def test_cells_say_what_methods_are_told_and_ask_none_for_what_it_refuses(suite: Suite, scale: str) -> None:
    for cell in suite.scale(scale).cells:
        assert cell.noise_rate is not None
        assert cell.corruption is not None
        if suite is PRL:
            assert cell.noise_rate == float(cell.corruption.split(":")[1])
        task = "classification" if cell.metric == "accuracy" else "regression"
        assert cell.methods is not None
        assert all(task in METHODS[name].tasks for name in cell.methods)
        assert "standard" in cell.methods or suite is RATES
    assert pickle.loads(pickle.dumps(jobs_of(suite, scale)))


def test_the_small_scale_asks_for_every_method_and_the_paper_scale_for_those_that_bear_batch_norm() -> None:
    small = {name for cell in PRL.scale("small").cells for name in cell.methods or ()}
    assert small == {entry.name for entry in PRL.methods}
    assert {entry.name for entry in PRL.methods if entry.drawn} == {name for name in METHODS if known_to_prl(name)}
    for cell in PRL.scale("paper").cells:
        if cell.metric == "accuracy":
            assert not {"prl-g", "ignormclip"} & set(cell.methods or ())


def known_to_prl(name: str) -> bool:
    return METHODS[name].make is not None and METHODS[name].make.__module__ == "thresher.methods.prl"


def images(count: int, seed: int, shape: tuple[int, ...] = (1, 6, 6)) -> Examples:
    draws = torch.Generator().manual_seed(seed)
    return Examples(torch.randint(0, 256, (count, *shape), generator=draws, dtype=torch.uint8), torch.randn(count, 2))


@pytest.mark.parametrize("count", [20, 60], ids=["wide", "tall"])
def test_components_are_those_of_the_training_set(count: int) -> None:
    splits = Splits(images(count, 0), images(9, 1))
    found = preparation.components(splits, 7)
    train, test = (part.inputs.flatten(1).double() for part in splits)
    mean = train.mean(0)
    axes = torch.linalg.svd(train - mean, full_matrices=False).Vh[:7].T
    unit = ((train - mean) @ axes).std()
    for made, pixels in zip(found, (train, test), strict=True):
        assert isinstance(made.inputs, torch.Tensor)
        torch.testing.assert_close(
            made.inputs.abs().double(), ((pixels - mean) @ axes / unit).abs(), rtol=1e-3, atol=1e-3
        )
    assert torch.allclose(found.train.targets.mean(0), torch.zeros(2), atol=1e-6)
    assert not torch.allclose(found.test.targets.mean(0), torch.zeros(2), atol=1e-6)


def test_components_are_made_once_for_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = preparation.principal_components
    monkeypatch.setattr(preparation, "principal_components", lambda *given: calls.append(1) or real(*given))
    one, other = Splits(images(20, 5), images(9, 6)), Splits(images(20, 7), images(9, 6))
    first = [preparation.components(splits, 4) for splits in (one, one, other, one)]
    assert len(calls) == 3
    assert torch.equal(first[0].train.inputs, first[3].train.inputs)
    assert not torch.equal(first[0].train.inputs, first[2].train.inputs)
    relabelled = Splits(replace(one.train, targets=-one.train.targets), one.test)
    assert torch.equal(preparation.components(relabelled, 4).train.targets, -first[0].train.targets)
    assert len(calls) == 3, "the targets are not cached"
    with pytest.raises(ThresherError, match="ask for fewer"):
        preparation.components(one, 21)


class Files:
    """Images that are read one at a time, like those of CelebA."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, position: int) -> torch.Tensor:
        return torch.full((1, 4, 4), position % 7, dtype=torch.uint8)


def test_celeba_is_made_of_its_test_part() -> None:
    streamed = Examples(Files(), torch.randn(20, 2, generator=torch.Generator().manual_seed(0)))
    found = preparation.celeba_components(Splits(images(30, 0), streamed), 3)
    assert [len(part) for part in found] == [16, 4]
    assert found.train.input_shape == (3,)


def results_of(suite: Suite, score: Callable[[Job], float | None], scale: str = "small") -> list[dict[str, Any]]:
    """Results as if they had been measured; None where there is none."""
    made = []
    for job in jobs_of(suite, scale, seeds=2):
        value = score(job)
        if value is not None:
            scores = [value - 0.1, value]
            kept = {"last": value, "best": value, "spread": 0.0, "clean_share": 0.9, "seconds": 1.0}
            known = {"status": "ok", "reason": None, "metric": job.cell.metric, "scores": scores, "columns": {}}
            made.append({**head_of(job), **known, **kept, **ORIGIN})
    return made


def test_a_claim_is_held_against_every_cell() -> None:
    def score(job: Job) -> float | None:
        if job.cell.data not in ("digits", "face-features") or job.entry.name not in (
            "standard",
            "spl",
            "prl-l",
            "huber",
            "prl-g",
        ):
            return None
        if job.cell.name == "digits-pairflip-45" and job.entry.name == "prl-l":
            return 0.3
        return {"standard": 0.5, "spl": 0.6, "prl-l": 0.8, "huber": 0.25, "prl-g": 0.125}[job.entry.name]

    lines = claims_table(PRL, compare(PRL, "small", results_of(PRL, score)), PRL.claims)
    found = {(line[0], line[1]): line[2:] for line in lines}
    assert found["PRL(L)", "SPL"] == [
        "71.7 against 60.0: it holds (+11.7 ± 0.0, 2 seeds)", "6", "5", "0", "digits-pairflip-45 (30.0 against 60.0)",
    ]  # fmt: skip
    of_targets = found["PRL(G) on real targets", "Huber"]
    assert of_targets[0] == "0.125 against 0.250: **it does not hold** (-0.125 ± 0.000, 2 seeds)"
    assert of_targets[1:4] == ["20", "0", "0"]
    assert ("PRL(G) on real targets", "Normclip") not in found
    assert ("Co-PRL(L)", "Co-teaching") not in found


def test_a_claim_that_fails_on_one_data_set_says_so() -> None:
    def score(job: Job) -> float | None:
        if job.entry.name not in ("spl", "prl-l") or job.cell.metric != "accuracy":
            return None
        return {"spl": 0.5, "prl-l": 0.4 if job.cell.data == "digits" else 0.9}[job.entry.name]

    (line,) = claims_table(PRL, compare(PRL, "small", results_of(PRL, score)), PRL.claims)
    assert line[2] == (
        "65.0 against 50.0: it holds (+15.0 ± 0.0, 2 seeds), the other way on digits (40.0 against 50.0)"
    )
    assert line[3:6] == ["12", "6", "0"]


@pytest.mark.parametrize(
    ("gains", "said", "counts"),
    [
        ((0.1, 0.11), "it holds", ["6", "0"]),
        ((0.01, 0.2), "**undecided**", ["0", "6"]),
        ((-0.1, -0.11), "**it does not hold**", ["0", "0"]),
    ],
)
def test_a_claim_needs_differences_that_agree_over_seeds(
    gains: tuple[float, float], said: str, counts: list[str]
) -> None:
    def score(job: Job) -> float | None:
        if job.entry.name not in ("spl", "prl-l") or job.cell.data != "digits":
            return None
        return (0.5 + 0.2 * job.seed) + (gains[job.seed] if job.entry.name == "prl-l" else 0.0)

    results = results_of(PRL, score)
    (line,) = claims_table(PRL, compare(PRL, "small", results), PRL.claims)
    assert f": {said} (" in line[2]
    assert line[4:6] == counts
    first = [result for result in results if result["seed"] == 0]
    (line,) = claims_table(PRL, compare(PRL, "small", first), PRL.claims)
    assert line[2].endswith("one seed)")
    assert line[4:6] == ["0", "6"]


def test_averages_are_over_equal_cells_or_not_there() -> None:
    def score(job: Job) -> float | None:
        lacks = job.entry.name == "spl" and job.cell.name == "digits-symmetric-30"
        return None if job.cell.data != "digits" or lacks else 0.5

    heads, lines = averages_table(PRL, compare(PRL, "small", results_of(PRL, score)))
    found = {line[0]: dict(zip(heads[1:], line[1:], strict=True)) for line in lines}
    assert found["PRL(L)"]["digits (6 cells)"] == "50.0"
    assert found["SPL"]["digits (6 cells)"] == ""
    assert found["SPL"]["cifar10, the paper's (6 cells)"] == "68.6"
    assert found["PRL(G)"]["celeba-landmarks, the paper's (20 cells)"] == "0.873"


def test_averages_of_the_best_epoch_stand_alone() -> None:
    results = [
        {**found, "best": 0.75} for found in results_of(PRL, lambda job: 0.5 if job.cell.data == "digits" else None)
    ]
    heads, lines = averages_table(PRL, compare(PRL, "small", results), "best")
    assert heads == ["method", "digits (6 cells)"]
    assert ["PRL(L)", "75.0"] in lines


def test_a_claim_may_speak_of_one_data_set_and_only_of_known_methods() -> None:
    cells = PRL.scale("small").cells
    claim = Claim(("prl-l",), ("spl",), data="digits")
    assert {cell.data for cell in cells if claim.applies_to(cell)} == {"digits"}
    with pytest.raises(ThresherError, match="clean-only, which it lacks"):
        Suite(
            **{**vars(PRL), "claims": (Claim(("clean-only",), ("spl",)),)},
        )


def test_the_page_has_notes_conclusions_and_a_picture_for_each_data_set(tmp_path: Path) -> None:
    def score(job: Job) -> float | None:
        if job.cell.name.rpartition("-")[2] not in ("45", "40") or job.entry.name not in ("standard", "spl", "prl-l"):
            return None
        return -30.0 if job.entry.name == "standard" and job.cell.metric == "r2" else 0.5

    results = results_of(PRL, score)
    page = write_page(PRL, "small", results, tmp_path, Path("results.jsonl")).read_text()
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        "prl-small-digits.svg", "prl-small-fashion-mnist.svg", "prl-small-face-features.svg",
        "prl-small-regression.svg",
    }  # fmt: skip
    assert re.findall(r"\]\((.*?svg)\)", page) == [
        "prl-small-digits.svg", "prl-small-fashion-mnist.svg", "prl-small-face-features.svg",
        "prl-small-regression.svg",
    ]  # fmt: skip
    assert all(note in page for note in PRL.scale("small").notes)
    assert "| PRL(L) | SPL | 50.0 against 50.0: **undecided** (+0.0 ± 0.0, 2 seeds) | 2 | 0 | 2 |" in page
    faces = (tmp_path / "prl-small-face-features.svg").read_text()
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", faces)
    assert "0.42" in labels
    assert "−30" not in labels, "one method that fails would flatten all others"


def test_the_paper_scale_shows_printed_numbers_with_their_spread(tmp_path: Path) -> None:
    results = results_of(PRL, lambda job: 0.75 if job.cell.data == "cifar10" else None, "paper")
    page = write_page(PRL, "paper", results, tmp_path, Path("results.jsonl")).read_text()
    assert "| Co-PRL(L) | 75.43 ± 0.09 (Table 2) | 75.0 ± 0.0 | -0.4 |" in page
    assert " | 0.847 ± 0.02 | " in page.split("## Not run here")[1].split("| PRL(L) |")[1].splitlines()[0]


def test_more_methods_than_colours_are_told_apart() -> None:
    rows = compare(PRL, "small", results_of(PRL, lambda job: 0.5 if job.cell.name == "digits-symmetric-50" else None))
    svg = curves_svg(PRL, rows)["digits"]
    lines = set(re.findall(r'stroke="(#[0-9a-f]{6})"[^>]*?stroke-dasharray="([\d,]+)"', svg))
    assert len(lines) == len({row.entry.name for row in rows if row.results and row.entry.drawn}) == 14
    assert {row.entry.name for row in rows if row.results} > {"dmi", "reclaim"}, "in the tables alone"


def test_scores_are_drawn_against_the_rate_that_was_told() -> None:
    rows = compare(RATES, "small", results_of(RATES, lambda job: 0.9 - (job.cell.noise_rate or 0)))
    (svg,) = numbers_svg(rows).values()
    assert "noise rate told" in svg
    assert all(name in svg for name in ("digits, symmetric:0.5", "digits, symmetric:0.7", "digits, pairflip:0.45"))
    assert (
        numbers_svg(compare(PRL, "small", results_of(PRL, lambda job: 0.5 if job.cell.data == "digits" else None)))
        == {}
    )


def sensitivity(*words: str) -> Any:
    tiny = ["--data", "blobs:80,3,4", "--epochs", "2", "--batch", "32", "--model", "mlp:8", "--device", "cpu"]
    return CliRunner().invoke(app, ["sensitivity", *tiny, *words])


def run_here(jobs: Sequence[Job], path: Path, options: RunOptions, watcher: Any) -> list[dict[str, Any]]:
    """The runner without processes beside this one, which take seconds to start; PRL(L) told 0.3 fails."""
    done: list[dict[str, Any]] = []
    for job in jobs:
        watcher.started(job)
        outcome = {"status": "failed", "reason": "no luck"}
        if job.cell.noise_rate != 0.3:
            outcome = {"status": "ok", "reason": None, **summary(run_task(load_task(job, device=options.device)))}
        done.append({**head_of(job), **outcome, **ORIGIN})
        append(path, done[-1])
        watcher.ended(job, done[-1])
    return done


def test_sensitivity_writes_a_page_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "run_jobs", run_here)
    words = ("--corrupt", "symmetric:0.4", "--method", "prl-l", "--rates", "0.4,0.2", "--out", str(tmp_path))
    first = sensitivity(*words, "--seeds", "1")
    assert first.exit_code == 0, first.output
    page = (tmp_path / "sensitivity.html").read_text()
    assert "<svg" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page), "the page asks nothing of the network"
    assert re.findall(r"<tr><td>([^<]+)</td><td>([^<]+)</td>", page) == [
        ("standard", "nothing"), ("prl-l", "0.2"), ("prl-l", "0.4"),
    ]  # fmt: skip
    stored = (tmp_path / "sensitivity-small.jsonl").read_text().splitlines()
    again = sensitivity(*words, "--seeds", "1")
    assert again.exit_code == 0
    assert (tmp_path / "sensitivity-small.jsonl").read_text().splitlines() == stored
    assert len(stored) == 3
    more = sensitivity(*words, "--seeds", "1", "--rates", "0.2,0.3,0.4")
    assert more.exit_code == 1
    assert "1 failed and are not drawn" in more.output
    assert "0.3" not in re.findall(r"<td>([^<]+)</td>", (tmp_path / "sensitivity.html").read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--corrupt", "symmetric:0.4", "--method", "standard"], "standard is told no noise rate"),
        (["--corrupt", "symmetric:0.4", "--method", "prl"], "prl-l"),
        (["--corrupt", "symmetric:0.4", "--rates", "0.4"], "at least two"),
        (["--corrupt", "symmetric:0.4", "--rates", "0.4,1.5"], "must be at least 0 and below 1, not 1.5"),
        (["--corrupt", "symmetric:0.4", "--rates", "a,b"], "not a list of numbers"),
        (["--corrupt", "signflip:0.4"], "signflip corrupts real targets"),
        ([], "give --rates"),
        (["--corrupt", "symmetric:0.4", "--seeds", "0"], "--seeds must be at least 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_sensitivity_refuses(words: Sequence[str], said: str, tmp_path: Path) -> None:
    found = sensitivity(*words, "--out", str(tmp_path))
    assert found.exit_code == 2
    assert said in found.output


def test_rates_around_the_true_one_stay_shares() -> None:
    assert rates_around("symmetric:0.95") == [0.85, 0.9, 0.95]
    with pytest.raises(ThresherError, match="give --rates"):
        rates_around("imbalance:200")


def test_a_rate_twice_is_one_cell() -> None:
    setup = Setup(model="mlp:8", batch=32, learning_rate=1e-3, epochs=2)
    suite = sensitivity_suite("digits", "pairflip:0.3", ["spl"], [0.3, 0.1, 0.3], setup=setup, metric="accuracy")
    assert [cell.noise_rate for cell in suite.scale("small").cells] == [0.1, 0.3]
    assert len(jobs_of(suite, "small", seeds=1)) == 3


def test_the_grid_names_what_it_tells() -> None:
    assert prl.HEADLINE == ("symmetric-50", "pairflip-45", "linadv-40")
    assert RATES.scale("paper").cells[0].noise_rate == 0.35
