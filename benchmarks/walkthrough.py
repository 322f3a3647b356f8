"""The walk-through of the docs, recorded: a folder of pictures with wrong labels, and every command of the way.

    python benchmarks/walkthrough.py DATA_DIR [--page docs/walkthrough.md]

DATA_DIR holds Fashion-MNIST as Thresher reads it. 3,000 training pictures become files in class folders, with a fifth
of the labels wrong where pictures of two classes look alike; 2,000 test pictures keep their labels and are only used to
measure. The answers of the review are the true labels: they stand for a person who makes no mistake.
"""

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from thresher import Examples

COUNT, TEST, WRONG, REVIEWED = 3_000, 2_000, "instance:0.2", 150
WIDTH, HEIGHT = 1200, 1000


@dataclass
class Recorder:
    """Runs commands in a folder, and keeps what they printed and how long they took."""

    folder: Path
    pages: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def run(self, command: str) -> str:
        """Run one command line, and write it down with its output."""
        began = time.monotonic()
        words = [sys.executable, "-m", *command.split()]
        ended = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f"{command}\n{ended.stderr}")
        took = time.monotonic() - began
        self.seconds += took
        self.say(f"```\n$ {command}\n{ended.stdout.rstrip()}\n```\n*{took:.0f} s*")
        return ended.stdout

    def say(self, text: str) -> None:
        self.pages.append(text)


def write_folder(folder: Path, examples: Examples, names: list[str]) -> None:
    """Write each picture to folder/CLASS/NUMBER.png, by its given label."""
    pictures = examples.inputs[:, 0].numpy()  # whole numbers from 0 to 255
    for number, (pixels, label) in enumerate(zip(pictures, examples.labels.tolist(), strict=True)):
        place = folder / names[label].replace("/", "-").replace(" ", "-").lower()
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number:05d}.png")


def answer(sheet: Path, truth: dict[str, str]) -> int:
    """Fill in the answers of a review by the true labels."""
    with open(sheet, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = truth[Path(row["file"]).name]
    with open(sheet, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def picture_of(page: Path, image: Path) -> None:
    """The first screen of a page, as a browser shows it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("There is no chromium to take pictures of the report with: install it.")
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
    subprocess.run(
        [chromium, *options, "--virtual-time-budget=8000", f"--screenshot={image}", page.as_uri()],
        check=True,
        capture_output=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--page", type=Path, default=Path("docs/walkthrough.md"))
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = walk(Path(folder), told.data_dir, told.page.with_suffix(".png"))
    told.page.write_text(text, encoding="utf-8")
    print(told.page)


if __name__ == "__main__":
    main()
