"""Where a result comes from: commit, versions and the kind of machine."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import thresher


def provenance(device: str | None) -> dict[str, Any]:
    """The commit, the versions and the kind of machine, without anything that identifies the computer."""
    return {**commit(Path(thresher.__file__).parent), "versions": versions(), "machine": machine(device)}


def commit(folder: Path) -> dict[str, Any]:
    """The commit of the source in this folder and whether it has uncommitted changes; None outside a repository."""
    if "site-packages" in folder.parts:  # a repository around an installed package is not its source
        return {"commit": None, "dirty": None}
    head = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    return {"commit": head, "dirty": None if head is None or changes is None else bool(changes)}


def versions() -> dict[str, str]:
    return {"thresher": thresher.__version__, "torch": torch.__version__, "python": platform.python_version()}


def machine(device: str | None) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name(device) if uses_cuda(device) else None
    return {"cpu": _cpu_model(), "cores": cores(), "gpu": gpu}


def uses_cuda(device: str | None) -> bool:
    return torch.cuda.is_available() if device is None else device.startswith("cuda")


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if platform.system() == "Linux" else os.cpu_count() or 1


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
