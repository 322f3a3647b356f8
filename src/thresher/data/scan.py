"""A look through a folder of images before training: what cannot be read, what is scaled, what is there twice."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from thresher.core.errors import ThresherError, checked
from thresher.core.files import expanded
from thresher.data.decoded import Facts, in_bytes, in_time, read_images
from thresher.data.folder_layout import UNLABELLED, Layout, Part, layout_of
from thresher.data.image_files import (
    IMAGE_SUFFIXES,
    SYSTEM_NAMES,
    ImageFiles,
    is_ignored,
    is_text_name,
    refuse_no_size,
    usual_size,
)
from thresher.data.image_pixels import ALPHA, DEEP, REAL
from thresher.data.overlap import same_files

# Pictures and films in formats that are not read; other endings are taken for notes about the images.
OTHER_PICTURES = {
    ".heic", ".heif", ".avif", ".jp2", ".jxl", ".svg", ".psd", ".dcm", ".dng", ".cr2", ".nef", ".arw", ".raw", ".pdf",
    ".mp4", ".mov", ".avi", ".npy",
}  # fmt: skip
SHOWN = 5  # files that one sentence names


@dataclass(frozen=True)
class Scan:
    """What a look through a folder of images found.

    files       all image files decoded, those of the training set first
    facts       what was found out while decoding, by position in `files`
    duplicates  groups of positions whose files have the same bytes
    ignored     how many hidden files, and files that systems leave behind, by their name
    unread      how many files are of no format that is read, by their ending
    """

    folder: Path
    layout: Layout
    files: ImageFiles = field(repr=False)
    facts: Facts = field(repr=False)
    duplicates: list[list[int]]
    ignored: dict[str, int]
    unread: dict[str, int]

    @property
    def broken(self) -> dict[Path, str]:
        """The files that cannot be read as images, and why."""
        return {self.files.paths[place]: why for place, why in sorted(self.facts.broken.items())}

    def refuse_broken(self) -> None:
        """Refuse a folder with broken files, all of them at once."""
        if self.broken:
            raise ThresherError(
                f"{self._share(len(self.broken))} in {self.folder} cannot be read as an image: {_named(self._why())}. "
                "Replace or remove them, or leave them out with --skip-broken (load(..., skip_broken=True))."
            )

    def across(self, what: str) -> list[list[int]]:
        """The duplicates that are in several classes (`labels`) or in several sets (`sets`)."""
        keys = self._labels() if what == "labels" else self._sets()
        return [group for group in self.duplicates if len({keys[place] for place in group}) > 1]

    def warnings(self) -> list[str]:
        """What to know before training, a sentence each; broken files are left out by then."""
        gone = [f"{self._share(len(self.broken))} cannot be read and are left out: {_named(self._why())}."]
        return [*(gone if self.broken else []), *self._about_data()]

    def lines(self) -> list[str]:
        """Everything, a line each: counts, sizes, what it costs, all broken files, and what else to know."""
        counts = [f"{part.folder}: {len(part.paths):,} images, {len(set(part.labels))} classes" for part in self._parts]
        broken = [f"cannot be read as an image: {each}" for each in self._why()]
        return [
            *counts,
            *self._about_sizes(),
            *self._about_cost(),
            *self._about_ignored(),
            *broken,
            *self._about_data(),
        ]

    @property
    def _parts(self) -> list[Part]:
        return self.layout.parts

    def _about_data(self) -> list[str]:
        about = (self._about_pixels(), self._about_classes(), self._about_duplicates(), self._about_unread())
        return [sentence for sentences in about for sentence in sentences]

    def _why(self) -> list[str]:
        return [f"{self._short(path)} ({why})" for path, why in self.broken.items()]

    def _about_pixels(self) -> Iterator[str]:
        counts = Counter(self.facts.kinds.values())
        for kind in (DEEP, REAL):
            if counts[kind]:
                low, high = self.facts.ranges.of(kind)
                how = f" (scaled by 1/{high / 255:g})" if low == 0 and high >= 255 else ""
                yield f"{self._share(counts[kind])} are {kind}: {low:g} to {high:g} became 0 to 255{how}."
        if counts[ALPHA]:
            how = "composed over white, or over black where the ink is white"
            yield f"{self._share(counts[ALPHA])} are partly transparent: {how}."
        if several := len(self.facts.several_frames):
            yield f"{self._share(several)} have several frames: the first is used."

    def _about_classes(self) -> Iterator[str]:
        for part in self._parts:
            counts = Counter(part.labels)
            for number, words in ((0, "no image"), (1, "one image only")):
                few = [name for label, name in enumerate(self.layout.classes) if counts[label] == number]
                if few:
                    yield f"Classes with {words} in {part.folder}: {_named(few)}."

    def _about_duplicates(self) -> Iterator[str]:
        for what, words in (("labels", "in more than one class"), ("sets", "both to train and to test on")):
            groups = self.across(what)
            if groups:
                paths = [" = ".join(self._short(self.files.paths[place]) for place in group) for group in groups]
                yield f"The same image {words}, {len(groups):,} times: {_named(paths)}."

    def _about_unread(self) -> Iterator[str]:
        pictures = {ending: count for ending, count in self.unread.items() if ending in OTHER_PICTURES}
        if pictures:
            yield f"{sum(pictures.values()):,} files of formats that are not read: {_counted(pictures)}."

    def _about_ignored(self) -> Iterator[str]:
        others = {ending: count for ending, count in self.unread.items() if ending not in OTHER_PICTURES}
        if self.ignored or others:
            ignored = self.ignored | others
            yield f"{sum(ignored.values()):,} other files are ignored: {_counted(ignored)}"

    def _about_sizes(self) -> Iterator[str]:
        if self.facts.sizes:
            widths, heights = zip(*self.facts.sizes, strict=True)
            middle = f"{median(widths):.0f} x {median(heights):.0f} in the middle"
            yield (
                f"{min(widths)} x {min(heights)} to {max(widths)} x {max(heights)} pixels, {middle}; "
                f"scaled to {self.files.size} x {self.files.size}"
            )

    def _about_cost(self) -> Iterator[str]:
        needed = in_bytes(3 * self.files.size**2 * len(self.files))
        kept = "kept decoded" if self.files.held is not None else "not kept, and decoded again in every epoch"
        yield f"{in_time(self.facts.seconds)} to decode, {needed} in memory, {kept}"

    def _share(self, count: int) -> str:
        return f"{count:,} of {len(self.files):,} files"

    def _short(self, path: Path) -> str:
        return str(path.relative_to(self.folder))

    def _labels(self) -> list[int]:
        return [label for part in self.layout.parts for label in part.labels]

    def _sets(self) -> list[int]:
        return [number for number, part in enumerate(self.layout.parts) for _ in part.paths]


@checked
def scan(folder: Path | str, size: int | None = None) -> Scan:
    """Look through a folder of images as `load` reads it; they are decoded, and are not when it is loaded next.

    size   to which they are scaled; if not given, the size that most of them have, and at most 64 pixels
    """
    if size is not None:
        refuse_no_size(size)
    folder = expanded(folder)
    if not folder.is_dir():
        raise ThresherError(f"There is no folder {folder}: check the path.")
    layout = layout_of(folder)
    if not all(map(is_text_name, layout.classes)):
        odd = next(name for name in layout.classes if not is_text_name(name))
        raise ThresherError(f"The folder {odd} in {folder} has a name that is not UTF-8: rename it.")
    paths = [path for part in layout.parts for path in part.paths]
    files, facts = read_images(paths, usual_size(paths) if size is None else size)
    ignored, unread = _left_over(folder)
    return Scan(folder, layout, files, facts, same_files(files.paths), ignored, unread)


def _left_over(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """How many files are ignored, by name, and how many are of other formats, by ending."""
    ignored, unread = Counter[str](), Counter[str]()
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if not path.is_file() or parts[0] in UNLABELLED:
            continue
        if is_ignored(path, folder):
            ignored[next((part for part in parts if part in SYSTEM_NAMES), "hidden")] += 1
        elif path.suffix.lower() not in IMAGE_SUFFIXES:
            unread[path.suffix.lower() or path.name] += 1
    return dict(ignored), dict(unread)


def _named(words: list[str]) -> str:
    more = f" and {len(words) - SHOWN:,} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


def _counted(counts: dict[str, int]) -> str:
    return _named([f"{count:,} {name}" for name, count in sorted(counts.items(), key=lambda each: -each[1])])
