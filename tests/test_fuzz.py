"""A few mutated files for every reader; `make fuzz` tries more."""

from fuzz import fuzz


def test_mutated_files_are_read_or_refused_in_one_sentence() -> None:
    for reader, counts in fuzz(rounds=12, seed=7).items():
        assert counts["bad"] == 0, reader
        assert counts["refused"] > 0, f"{reader}: nothing shows that damage is found"
