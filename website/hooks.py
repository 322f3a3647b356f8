"""What MkDocs calls while it builds the site: every page gets its made parts and the outcome of its code."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402

from thresher.methods import KINDS, methods  # noqa: E402
from website.pages import SitePage, site_pages  # noqa: E402

TITLES = {"recipe": "Recipes", "procedure": "Procedures", "acquisition": "Acquisitions", "weighting": "Weightings"}
KEPT = ROOT / "build" / "executed"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give the navigation the page of every method, by kind, and every page of results."""
    assert config.nav is not None
    for section in config.nav:
        if pages := section.get("Methods"):
            pages += [
                {TITLES[kind]: [{each.name: f"methods/{each.name}.md"} for each in methods(kind)]} for kind in KINDS
            ]
        if pages := section.get("Results"):
            names = sorted(file.name for file in (ROOT / "docs" / "results").glob("*.md"))
            pages += [f"results/{name}" for name in names if name != "README.md"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace every page by its finished text, and add the files that were made for it."""
    kept = Path(os.environ.get("THRESHER_SITE_KEPT", KEPT))
    for page in site_pages(ROOT):
        _add(files, config, page, kept)
    return files


def _add(files: Files, config: MkDocsConfig, page: SitePage, kept: Path) -> None:
    finished = page.finished(kept)
    for name, content in ((page.name, finished.text), *finished.files.items()):
        if (old := files.get_file_from_path(name)) is not None:
            files.remove(old)
        files.append(File.generated(config, name, content=content))
