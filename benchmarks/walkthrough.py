"""The walk-through of the docs, recorded: a folder of pictures with wrong labels, and every command of the way.

    python benchmarks/walkthrough.py DATA_DIR [--page docs/walkthrough.md]

DATA_DIR holds Fashion-MNIST as Thresher reads it. 3,000 training pictures become files in class folders, with a fifth
of the labels wrong at random; 2,000 test pictures keep their labels and are only used to measure. The answers of the
review are the true labels: they stand for a person who makes no mistake.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from thresher import Examples, load, open_run
from thresher.corruption import corrupt
from thresher.record.issues import Issues

COUNT, TEST, WRONG, REVIEWED = 3_000, 2_000, "symmetric:0.2", 150
WIDTH, HEIGHT = 1200, 1550


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
        wide = {**os.environ, "COLUMNS": "120"}
        ended = subprocess.run(words, cwd=self.folder, env=wide, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f"{command}\n{ended.stderr}")
        took = time.monotonic() - began
        self.seconds += took
        printed = "\n".join(line.rstrip() for line in ended.stdout.rstrip().splitlines())
        self.say(f"```\n$ {command}\n{printed}\n```\n*{took:.0f} s*")
        return ended.stdout

    def say(self, text: str) -> None:
        self.pages.append(text)


def write_folder(folder: Path, examples: Examples, names: list[str]) -> None:
    """Write each picture to folder/CLASS/NUMBER.png, by its given label."""
    pictures = examples.inputs[:, 0].numpy()  # whole numbers from 0 to 255
    for number, (pixels, label) in enumerate(zip(pictures, examples.labels.tolist(), strict=True)):
        place = folder / names[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number:05d}.png")


def answer(sheet: Path, issues: Issues, truth: dict[str, str]) -> int:
    """Fill in the answers of a review by the true labels."""
    with open(sheet, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = {str(id_): Path(file).name for id_, file in zip(issues.column("id"), issues.column("file"), strict=True)}
    for row in rows:
        row["label"] = truth[names[row["id"]]]
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


def make_data(folder: Path, data_dir: Path) -> dict[str, str]:
    """Write photos/, whose labels are partly wrong, and checked/, whose labels are right; the truth by file name."""
    train, test = load("fashion-mnist", data_dir=data_dir)
    train, test = train.subset(torch.arange(COUNT)), test.subset(torch.arange(TEST))
    names = [name.replace(" ", "-").lower() for name in train.class_names or ()]
    write_folder(folder / "photos", corrupt(train, WRONG), names)
    write_folder(folder / "checked", test, names)
    return {f"{number:05d}.png": names[label] for number, label in enumerate(train.labels.tolist())}


def right(folder: Path, truth: dict[str, str]) -> float:
    """The share of the files of a folder that lie in the folder of their true class."""
    files = folder.glob("*/*.png")
    return float(np.mean([truth[f"{file.stem[:5]}.png"] == file.parent.name for file in files]))


def walk(folder: Path, data_dir: Path, picture: Path) -> str:
    """Go the whole way in this folder, and give the page that tells of it."""
    truth = make_data(folder, data_dir)
    way = Recorder(folder)
    way.say("# A folder with wrong labels, from beginning to end")
    way.say(
        f"Recorded by `benchmarks/walkthrough.py` on a CPU. The folder photos has {COUNT:,} pictures of clothes "
        f"(Fashion-MNIST) in ten folders, one for each class; {1 - right(folder / 'photos', truth):.0%} of them lie in "
        f"a wrong one. The folder checked has {TEST:,} others with right labels: few people have such a set, "
        "and it is used here only to measure."
    )
    way.say("## Which labels look wrong?")
    way.run("thresher audit photos --test checked --out runs/audit")
    issues = Issues.read(folder / "runs/audit")
    found = [
        truth[Path(file).name] != label
        for file, label in zip(issues.column("file"), issues.column("label"), strict=True)
    ]
    flagged = issues.column("is_issue").astype(bool)
    way.say(
        f"Of the {flagged.sum():,} issues {np.mean(np.array(found)[flagged]):.0%} are really wrong, and they are "
        f"{np.array(found)[flagged].sum() / np.sum(found):.0%} of all wrong labels. "
        "The first screen of its report.html:"
    )
    picture_of(folder / "runs/audit/report.html", picture)
    way.say(f"![The report of the audit]({picture.name})")
    way.say("## Review the most doubtful")
    way.run(f"thresher review runs/audit --count {REVIEWED}")
    sheet = next((folder / "runs/audit/queries").glob("*/answers.csv"))
    answered = answer(sheet, issues, truth)
    way.say(f"Here the {answered} answers are the true labels: they stand for a person who makes no mistake.")
    way.run(f"thresher label runs/audit {sheet.relative_to(folder)}")
    way.say("## A corrected copy")
    way.run("thresher correct runs/audit --out corrected")
    before, after = right(folder / "photos", truth), right(folder / "corrected", truth)
    way.say(f"Right labels: {before:.1%} in photos, {after:.1%} in corrected. The original folder was not touched.")
    way.say("## A better model")
    way.say("The same plain training, on the labels as they were and as they are now, measured on checked:")
    way.run("thresher train --data photos --test checked --method standard --epochs 20 --out runs/before")
    way.run("thresher train --data corrected --test checked --method standard --epochs 20 --out runs/after")
    left = open_run(folder / "runs/audit")
    way.say(
        f"The model that the audit left behind has {left.last():.1%} (mean of the last ten epochs): it was trained on "
        f"the labels as they were, by {left.about['method']}, which tolerates wrong ones."
    )
    way.run("thresher export runs/after --out model")
    way.say(f"All commands together took {way.seconds / 60:.1f} minutes.")
    return "\n\n".join(way.pages) + "\n"


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
