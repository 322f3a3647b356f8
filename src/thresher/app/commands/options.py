"""The options that several commands take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from thresher.app.cli import options_for
from thresher.app.settings import Settings
from thresher.engine.settings import RUN

Out = Annotated[
    Path | None, Option(rich_help_panel=RUN, help="The folder of the run; if not given, a new one in runs/.")
]
From = Annotated[
    Path | None,
    Option("--from", rich_help_panel=RUN, help="Repeat the run of this run.toml; options beside it change it."),
]
Json = Annotated[bool, Option("--json", rich_help_panel=RUN, help="Print one JSON object as the last line.")]
OwnModel = Annotated[
    str | None, Option("--model", help="package.module:factory, where the run was trained with code of your own.")
]
Audited = Annotated[Path, Argument(metavar="RUN", help="The folder of an audit.")]
Where = Annotated[str | None, Option("--data", help="Where the data lie now, if not where they were audited.")]
CommitEvery = Annotated[float, Option(hidden=True)]
SETTINGS: Mapping[str, Any] = options_for(Settings)
Corruption, Model, Device = SETTINGS["corruption"], SETTINGS["model"], SETTINGS["device"]
