"""Install a wheel into clean environments and use it there: every Python that is found, without extras and with all.

    python release/check.py dist/NAME.whl [--resolution lowest-direct] [--pythons 3.11 /usr/bin/python3]

With --mypy the examples are also checked against the last installed package, which `py.typed` makes possible. With
--out a row for each environment (versions, seconds, what was used) is stored; docs/install.md shows them.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from thresher.bench.run.provenance import commit

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("", "[all]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--uv", type=shlex.split, default=["uv"])
    parser.add_argument("--mypy", type=Path, help="check the types of the examples by it")
    parser.add_argument("--pythons", nargs="*", default=PYTHONS, help="versions, or paths of interpreters")
    parser.add_argument("--extras", nargs="*", default=EXTRAS)
    parser.add_argument("--resolution", default="highest", choices=["highest", "lowest-direct"])
    parser.add_argument("--out", type=Path, help="append a row for each environment to this file")
    options = parser.parse_args()
    found = [version for version in options.pythons if _is_there(options.uv, version)]
    missing = [version for version in options.pythons if version not in found]
    print(f"Python {', '.join(found)}; not on this machine: {', '.join(missing) or 'none'}", flush=True)
    if not found:
        sys.exit("No Python to check with.")
    for version in found:
        for extras in options.extras:
            with tempfile.TemporaryDirectory() as folder:
                typed = (version, extras) == (found[-1], options.extras[-1])  # once: it takes minutes
                row = _check(options, version, extras, Path(folder), typed=typed)
            print(f"Python {row['versions']['python']}, thresher{extras}, {options.resolution}: fine", flush=True)
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


def _is_there(uv: list[str], version: str) -> bool:
    command = [*uv, "python", "find", "--no-python-downloads", version]
    return subprocess.run(command, capture_output=True).returncode == 0


def _check(options: argparse.Namespace, version: str, extras: str, folder: Path, *, typed: bool) -> dict[str, Any]:
    """Install, use, and check the types of the examples; what the first use measured."""
    python = folder / "env" / "bin" / "python"
    _run(*options.uv, "venv", "--quiet", "--no-python-downloads", "--python", version, folder / "env")
    wheel = options.wheel.resolve().as_uri()
    install = [*options.uv, "pip", "install", "--quiet", "--python", python]
    if options.resolution == "lowest-direct":  # of a wheel only itself is direct: what it needs is asked for first
        more = ["--extra", extras.strip("[]")] if extras else []
        _run(*install, "--resolution", options.resolution, "-r", ROOT / "pyproject.toml", *more)
        _run(*install, "--no-deps", f"thresher @ {wheel}")
    else:
        _run(*install, f"thresher{extras} @ {wheel}")
    # Compiled before it is timed: an installer may not have done so.
    _run(python, "-m", "compileall", "-q", *(folder / "env").glob("lib/*/site-packages/thresher"))
    told = _run(python, ROOT / "release" / "smoke.py", *(["--extras"] if extras else []), cwd=folder, capture=True)
    checked = _check_examples(options.mypy, python, folder) if options.mypy is not None and typed else 0
    measured = json.loads(told.splitlines()[-1])
    if options.resolution == "lowest-direct":
        _check_lowest(measured["versions"])
    origin = {"extras": extras, "resolution": options.resolution, **commit(ROOT / "src")}
    return {**origin, **measured, "typed_examples": checked}


def _check_lowest(versions: dict[str, str]) -> None:
    """Refuse an environment in which something is newer than the lower bound that pyproject.toml gives."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = {name for name in extras["all"] for name in re.findall(r"\w+", name.partition("[")[2])}
    for line in [*project["dependencies"], *(line for name in used for line in extras[name])]:
        name, _, bound = line.partition(">=")
        if name in versions and not f"{versions[name]}.".startswith(f"{bound}."):
            sys.exit(f"{name} {versions[name]} was installed and {bound} is the lower bound.")


def _check_examples(mypy: Path, python: Path, folder: Path) -> int:
    """Check each example by itself, because scripts share no names; how many there are."""
    examples = sorted((ROOT / "examples").glob("*.py"))
    # Some of torch's own functions are untyped, and transformers is no extra; thresher without py.typed still fails.
    options = ["--config-file", "", "--strict", "--allow-untyped-calls", "--disable-error-code", "import-not-found"]
    for each in examples:
        _run(mypy.absolute(), "--python-executable", python, *options, each, cwd=folder)
    return len(examples)


def _run(*command: object, cwd: Path | None = None, capture: bool = False) -> str:
    words = [str(word) for word in command]
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # what is installed is used
    done = subprocess.run(words, cwd=cwd, env=alone, check=True, text=True, stdout=subprocess.PIPE if capture else None)
    return done.stdout or ""


if __name__ == "__main__":
    main()
