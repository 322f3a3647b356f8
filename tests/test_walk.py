"""How many files a reader passes: a house that grows keeps the way of one example short."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "walk.py"
AT_MOST = {"one prl-l step": 10, "thresher train": 45}


def test_a_step_and_a_command_pass_through_few_files():
    printed = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    found = {title: int(count) for title, count in re.findall(r"^(.+): (\d+) files$", printed, re.MULTILINE)}
    assert found.keys() == AT_MOST.keys()
    assert {title: count for title, count in found.items() if count > AT_MOST[title]} == {}
