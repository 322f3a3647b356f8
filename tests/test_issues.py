"""The table of issues: what it holds, what it says first, and how it is written and read again."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from thresher.core.errors import ThresherError
from thresher.record import ledger
from thresher.record.issues import Issues
from thresher.record.ledger import Ledger

TABLE = pa.table(
    {
        "id": [2, 0, 1],
        "file": ["=HYPERLINK(1).png", "a.png", None],
        "label": ["cat", "dog", "cat"],
        "suggested": ["dog", "dog", "cat"],
        "probability": [0.9, 0.8, 0.7],
        "trust": [0.1, 0.6, 0.9],
        "is_issue": [True, False, False],
        "reason": ["disagreement", "", ""],
        "weight": [0.0, 0.5, 1.0],
    }
)
FOUND = {"noise_rate": {"rate": 0.33, "low": 0.2, "high": 0.4, "why": "folds"}}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    Issues(TABLE, FOUND).write(tmp_path)
    again = Issues.read(tmp_path)
    assert again.table.equals(TABLE)
    assert again.summary == FOUND


def test_weights_come_in_the_order_of_the_data() -> None:
    np.testing.assert_array_equal(Issues(TABLE).weights(), [0.5, 1.0, 0.0])


@pytest.mark.parametrize("kind", [Issues, Ledger])
def test_rows_become_a_dataframe_where_pandas_is(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Issues | Ledger = Issues(TABLE)
    if kind is Ledger:
        rows = Ledger()
        rows.add(TABLE.select(["id", "trust"]))
    assert rows.to_pandas()["trust"].tolist() == [0.1, 0.6, 0.9]
    monkeypatch.setattr(ledger, "find_spec", lambda _: None)
    with pytest.raises(ThresherError, match="needs pandas"):
        rows.to_pandas()


def test_no_cell_of_the_csv_is_a_formula(tmp_path: Path) -> None:
    Issues(TABLE).write(tmp_path)
    with open(tmp_path / "issues.csv", newline="") as file:
        assert [row["file"] for row in csv.DictReader(file)] == ["'=HYPERLINK(1).png", "a.png", ""]


def test_the_headline_counts_or_says_that_it_cannot() -> None:
    assert Issues(TABLE, FOUND).headline() == "About 1 of 3 labels look wrong (20% to 40%)."
    unknown = Issues(TABLE, {"noise_rate": {"rate": None, "low": 0.0, "high": 1.0, "why": "the network is too weak"}})
    assert unknown.headline() == "How many of the 3 labels are wrong cannot be told: the network is too weak."


def test_a_folder_without_an_audit_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ThresherError, match="holds no audit: run"):
        Issues.read(tmp_path)
    (tmp_path / "issues.parquet").write_bytes(b"junk")
    (tmp_path / "issues.json").write_text("{}")
    with pytest.raises(ThresherError, match="is damaged"):
        Issues.read(tmp_path)
    with pytest.raises(ThresherError, match="no column weight"):
        Issues(TABLE.drop_columns(["weight"]))
