"""How many cases of each kind the tests hold, and how many of them are good, as a line of results/reliability.jsonl.

python tests/count_cases.py
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from fuzz import append_result

KINDS = {
    "stale results": "test_stale.py",
    "calls and values": "test_bad_python.py",
    "commands and files": "test_bad_commands.py",
    "options, places and answers": "test_bad_options.py",
    "stopped commands": "test_stopped.py",
    "faults of long weeks": "test_long_weeks.py",
    "left behind": "test_left_behind_files.py",
    "security": "test_security.py",
}


def counted(file: str) -> dict[str, int]:
    """How many tests of this file are good, and how many are not."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.xml"
        told = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            f"--junitxml={found}",
            str(Path(__file__).parent / file),
        ]
        subprocess.run(told, check=False, capture_output=True)
        counts = Counter(bool(list(case)) for case in ElementTree.parse(found).iter("testcase"))
    return {"good": counts[False], "bad": counts[True]}


if __name__ == "__main__":
    began = time.perf_counter()
    kinds = {kind: counted(file) for kind, file in KINDS.items()}
    append_result("cases", {}, began, {"kinds": kinds})
    print(kinds)
