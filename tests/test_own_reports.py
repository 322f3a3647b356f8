"""A test that fails with any text is reported, also by the processes that tests are shared out to."""

import shutil
import subprocess
import sys
from pathlib import Path

FAILS = """
def test_fails():
    print("caf\\udce9")
    assert "caf\\udce9" == "cafe"
"""


def test_a_message_that_no_encoding_holds_is_reported(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_it.py").write_text(FAILS)
    told = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--numprocesses", "1", "test_it.py"]
    found = subprocess.run(told, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed" in found.stdout, found.stdout + found.stderr
    assert r"caf\udce9" in found.stdout
