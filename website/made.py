"""Parts of pages that are made from stored results and from the source: `<!-- made: NAME -->` stands for one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Made:
    """Markdown, and the pictures that it shows, by the names of their files beside the page."""

    text: str
    files: dict[str, str] = field(default_factory=dict)


def _ranking(root: Path) -> Made:
    from website.ranking import ranking_part

    return ranking_part(root)


def _speed(root: Path, contest: str) -> Made:
    from website.speed import CONTESTS

    return CONTESTS[contest](root / "results")


def _goals(root: Path) -> Made:
    from website.speed_goals import goals_part

    return goals_part(root)


def _gaps(root: Path) -> Made:
    from website.speed_gaps import gaps_part

    return gaps_part(root)


def _api(root: Path, module: str) -> Made:
    from website.api import api_part

    return api_part(root, module)


def _installs(root: Path) -> Made:
    from website.installs import installs_part

    return installs_part(root)


def _reliability(root: Path) -> Made:
    from website.reliability import reliability_part

    return reliability_part(root)


MADE: dict[str, Callable[..., Made]] = {
    "ranking": _ranking,
    "speed": _speed,
    "goals": _goals,
    "gaps": _gaps,
    "api": _api,
    "installs": _installs,
    "reliability": _reliability,
}
