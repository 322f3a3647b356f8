"""How many files a reader passes: a house that grows keeps the way of one example short."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "walk.py"
AT_MOST = {"one prl-l step": 12, "thresher train": 53}
ENGINE = Path(__file__).parents[1] / "src" / "thresher" / "engine"


def test_a_step_and_a_command_pass_through_few_files():
    printed = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    found = {title: int(count) for title, count in re.findall(r"^(.+): (\d+) files$", printed, re.MULTILINE)}
    assert found.keys() == AT_MOST.keys()
    assert {title: count for title, count in found.items() if count > AT_MOST[title]} == {}


def test_no_room_of_the_engine_has_more_than_nine_files():
    rooms = [ENGINE, *(path for path in ENGINE.iterdir() if path.is_dir() and path.name != "__pycache__")]
    sizes = {room.name: len([file for file in room.glob("*.py") if file.name != "__init__.py"]) for room in rooms}
    assert sizes["gradients"] > 1
    assert {name: size for name, size in sizes.items() if size > 9} == {}
