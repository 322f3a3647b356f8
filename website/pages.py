"""The pages of the site, as MkDocs reads them: the Markdown of docs/ with what is made and what is run."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from website.executed import code_blocks, outcomes_of, with_outcomes
from website.made import MADE, Made
from website.methods import method_parts
from website.notebooks import PAGES as NOTEBOOKS
from website.notebooks import notebook

MARKER = re.compile(r"^<!-- made: ([a-z-]+)(?: (\S+))? -->$", re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.svg)\)")
WIDTH_OF_PICTURE = re.compile(rb'<svg[^>]* width="([\d.]+)"')
FITS_A_PHONE = 460  # a wider picture is scrolled there, because its letters would be too small
OTHER_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}


@dataclass(frozen=True)
class Finished:
    """A page's text, and other files of the site by their paths."""

    text: str
    files: dict[str, str | bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class SitePage:
    """A page by its path in the site, and its Markdown as it is written."""

    root: Path
    name: str
    text: str

    def finished(self, kept: Path) -> Finished:
        """The page with its made parts, and with the outcomes of its code, which are kept in this folder."""
        path, files = PurePosixPath(self.name), dict[str, str | bytes]()

        def make(found: re.Match[str]) -> str:
            made: Made = MADE[found[1]](self.root, *filter(None, [found[2]]))
            files.update({str(path.with_name(name)): data for name, data in made.files.items()})
            return made.text

        text = MARKER.sub(make, self.text + method_parts(self.root, self.name))
        if code_blocks(text):
            outcomes = outcomes_of(text, self.name, kept)
            if self.name in NOTEBOOKS:
                files[str(path.with_suffix(".ipynb"))] = notebook(text, outcomes)
                text = text.replace("\n", f"\n\n[Download this page as a notebook]({path.stem}.ipynb)\n", 1)
            text = with_outcomes(text, outcomes, path.stem)
            for outcome in outcomes:
                files |= {str(path.with_name(f"{path.stem}-{name}")): data for name, data in outcome.files.items()}
        return Finished(_scaled_to_a_phone(text, path, files), files)


def _scaled_to_a_phone(text: str, path: PurePosixPath, files: dict[str, str | bytes]) -> str:
    """The text in which pictures of the page that are narrow enough have a mark for the style sheet."""

    def marked(found: re.Match[str]) -> str:
        data = files.get(str(path.parent / found[1]), "")
        width = WIDTH_OF_PICTURE.search(data.encode() if isinstance(data, str) else data)
        return found[0] + "{ .fits }" * (width is not None and float(width[1]) <= FITS_A_PHONE)

    return PICTURE.sub(marked, text)


def site_pages(root: Path) -> Iterator[SitePage]:
    """Every page of docs/, and those at the top of the repository that belong to the site."""
    for file in sorted((root / "docs").rglob("*.md")):
        yield SitePage(root, file.relative_to(root / "docs").as_posix(), file.read_text(encoding="utf-8"))
    for source, name in OTHER_PAGES.items():
        if (root / source).exists():
            yield SitePage(root, name, _from_the_top((root / source).read_text(encoding="utf-8")))


def _from_the_top(text: str) -> str:
    """A page at the top of the repository, with its links as they are in the site.

    >>> _from_the_top("[a](docs/design.md#add) and [b](CONTRIBUTING.md)")
    '[a](design.md#add) and [b](contributing.md)'
    """
    for source, name in OTHER_PAGES.items():
        text = text.replace(f"]({source}", f"]({name}")
    return re.sub(r"\]\(docs/([^)]*)\)", lambda found: f"]({posixpath.normpath(found[1])})", text)
