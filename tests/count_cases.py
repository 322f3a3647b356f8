"""How many cases of each kind the tests hold, and how many of them are good, as a line of results/reliability.jsonl.

python tests/count_cases.py

Cases that this machine cannot have, such as a full disk where none can be mounted, are neither; bad ones are named.
"""

import subprocess
import sys
import tempfile
import time
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
    "errors before a save": "test_nothing_saved.py",
    "security": "test_security.py",
}


def counted(file: str) -> dict[str, int]:
    """How many tests of this file are good, and how many are not; those that were skipped are left out."""
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
        cases = list(ElementTree.parse(found).iter("testcase"))
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    for case in bad:
        print(f"bad: {file}::{case.get('name')}")
    return {"good": sum(case.find("skipped") is None for case in cases) - len(bad), "bad": len(bad)}


if __name__ == "__main__":
    began = time.perf_counter()
    kinds = {kind: counted(file) for kind, file in KINDS.items()}
    append_result("cases", {}, began, {"kinds": kinds})
    print(kinds)
