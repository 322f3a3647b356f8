"""Pools that do not fit into memory, for real: a process that may not grow by as much as the pool takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np, torch
from torch import nn
from thresher import Examples, acquire
from thresher.methods.acquisitions import acquisition

torch.set_num_threads(1)
MIB, folder = 2**20, Path(sys.argv[1])

def limit(mib):
    used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + mib * MIB, resource.RLIM_INFINITY))

def net(inputs, width, seed):
    torch.manual_seed(seed)
    return nn.Sequential(inputs, nn.Flatten(), nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 4))

def picked(name, width, pool, **given):
    first, average = (net(nn.AdaptiveAvgPool2d(2), width, seed) for seed in range(2))
    labelled = pool.subset(range(8))
    return acquire(acquisition(name).rule(5), first, pool, labelled=labelled, average=average, **given).tolist()

def failed(make):
    try:
        make()
    except (MemoryError, RuntimeError):
        return True
"""
INPUTS = """
n, shape = 1_600, (3, 256, 256)
images = np.memmap(folder / "images.bin", np.uint8, "w+", shape=(n, *shape))  # 300 MiB, most of them holes in the file
images[:, :, 0, 0] = np.random.default_rng(0).integers(0, 256, (n, 3))
images.flush()
images = np.memmap(folder / "images.bin", np.uint8, "r", shape=(n, *shape))

class Images:
    def __len__(self): return n
    def __getitem__(self, position): return np.array(images[position])

small = Examples(torch.from_numpy(images[:40].copy()), torch.zeros(40, dtype=torch.long))
wanted = picked("s-badge", 16, small, batch=8)
limit(128)
assert failed(lambda: torch.from_numpy(np.array(images)))
streamed = Examples(Images(), torch.zeros(n, dtype=torch.long))
assert picked("s-badge", 16, streamed.subset(range(40)), batch=8) == wanted
for name in ("badge", "s-badge", "coreset", "margin"):
    assert len(picked(name, 16, streamed, batch=8)) == 5
"""
FACTORS = """
n, width = 60_000, 1024  # 234 MiB of features, and as many of the average's
inputs = torch.randn(n, 3, 2, 2, generator=torch.Generator().manual_seed(0))
pool = Examples(inputs, torch.zeros(n, dtype=torch.long))
limit(128)
assert failed(lambda: picked("s-badge", width, pool))
for name in ("badge", "s-badge", "coreset"):
    assert len(picked(name, width, pool, on_disk=folder / "kept")) == 5
"""


@pytest.mark.parametrize("what", [INPUTS, FACTORS], ids=["inputs", "factors"])
def test_what_does_not_fit_is_streamed_or_mapped(what: str, tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("memory can be limited so on Linux only")
    # Large blocks go back to the system when freed: a heap full of holes would count as memory in use.
    returned = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072"}
    command = [sys.executable, "-c", LIMITED + what, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=returned)
    assert done.returncode == 0, done.stderr
