"""A few damaged versions of every file that is read; `make fuzz` tries more."""

import os

from fuzz import fuzz


def test_damaged_files_are_read_or_refused_in_one_sentence() -> None:
    found = fuzz(rounds=1, seed=7, places=(os.mkfifo,))
    assert {name for name, counts in found.items() if counts["bad"]} == set()
    refused = sum(counts["refused"] for counts in found.values())
    assert refused > len(found) / 2, "nothing shows that damage is found"
