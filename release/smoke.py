"""A first use of an installed Thresher: import in time, train, open the run; with --extras commands and a report."""

import subprocess
import sys
import time
from pathlib import Path

import torch  # noqa: F401  # its own import is not counted

start = time.process_time()  # of this process alone, whatever else the machine does
import thresher as th  # noqa: E402

th.fit  # noqa: B018  # names are imported when first asked for
took = time.process_time() - start
assert took < 1.5, f"import thresher took {took:.2f} s beyond torch"
assert (Path(th.__file__).parent / "py.typed").exists()

digits = th.load("digits")
train = th.corruption.corrupt(digits.train, "symmetric:0.4", seed=0)
run = th.fit("prl-l", "mlp", train, test=digits.test, noise_rate=0.4, epochs=15, batch=64, out="runs/digits")
score = run.last(1)
assert score is not None
assert score > 0.8, score
assert len(th.open_run("runs/digits").predict(digits.test.inputs)) == len(digits.test)

command = [str(Path(sys.executable).parent / "thresher")]
if "--extras" in sys.argv:
    for words in (["--version"], ["methods"], ["report", "runs/digits"]):
        subprocess.run([*command, *words], check=True, stdout=subprocess.DEVNULL)
    assert Path("runs/digits/report.html").stat().st_size > 100_000
else:
    told = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert told.returncode == 2, told
    assert "thresher[cli]" in told.stderr, told.stderr
