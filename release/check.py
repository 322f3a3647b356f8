"""Install a wheel into clean environments and use it there: every Python that is found, without extras and with all.

    python release/check.py dist/thresher-0.1.0-py3-none-any.whl [--resolution lowest-direct] [--pythons 3.11 3.12]

With --mypy the examples are also checked against the installed package, which `py.typed` makes possible.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("", "[all]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--uv", type=shlex.split, default=["uv"])
    parser.add_argument("--mypy", type=Path, help="check the types of the examples by it")
    parser.add_argument("--pythons", nargs="*", default=PYTHONS)
    parser.add_argument("--resolution", default="highest", choices=["highest", "lowest-direct"])
    options = parser.parse_args()
    found = [version for version in options.pythons if _is_there(options.uv, version)]
    print(f"Python {', '.join(found)}; not on this machine: {', '.join(set(options.pythons) - set(found)) or 'none'}")
    if not found:
        sys.exit("No Python to check with.")
    for version in found:
        for extras in EXTRAS:
            with tempfile.TemporaryDirectory() as folder:
                _check(options, version, extras, Path(folder))
                print(f"Python {version}, thresher{extras}, {options.resolution}: fine", flush=True)


def _is_there(uv: list[str], version: str) -> bool:
    command = [*uv, "python", "find", "--no-python-downloads", version]
    return subprocess.run(command, capture_output=True).returncode == 0


def _check(options: argparse.Namespace, version: str, extras: str, folder: Path) -> None:
    python = folder / "env" / "bin" / "python"
    _run(*options.uv, "venv", "--quiet", "--no-python-downloads", "--python", version, folder / "env")
    wheel = f"thresher{extras} @ {options.wheel.resolve().as_uri()}"
    _run(*options.uv, "pip", "install", "--quiet", "--python", python, "--resolution", options.resolution, wheel)
    _run(python, "-c", "import thresher; thresher.fit")  # compiles it, which an installer may not have done
    _run(python, ROOT / "release" / "smoke.py", *(["--extras"] if extras else []), cwd=folder)
    if options.mypy is not None and extras:
        examples = sorted(map(str, (ROOT / "examples").glob("*.py")))
        for each in examples:  # one by one, because scripts share no names
            _run(
                options.mypy.absolute(),
                "--python-executable",
                python,
                "--config-file",
                "",
                "--strict",
                each,
                cwd=folder,
            )


def _run(*command: object, cwd: Path | None = None) -> None:
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


if __name__ == "__main__":
    main()
