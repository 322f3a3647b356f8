"""thresher export"""

from pathlib import Path
from typing import Annotated

import typer

from thresher.app.commands import options

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Out = Annotated[Path | None, typer.Option(help="The new folder for the export.")]


def export(run: Run, out: Out = None, model: options.OwnModel = None) -> None:
    """Write the model of a run as files that need no Thresher.

    Example: thresher export runs/photos --out model

    model.safetensors has the weights; model.pt2 and model.onnx are programs that give what thresher predict gives;
    export.json names the classes and the preprocessing; load.py reads raw data and predicts, in plain PyTorch.
    """
    from thresher.app.export import export_run
    from thresher.core.errors import ThresherError
    from thresher.door import open_run

    if out is None:
        raise ThresherError("There is no place for the export: give --out, a new folder.")
    missing = export_run(open_run(run, model=model, device="cpu"), out)
    for sentence in missing:
        typer.echo(sentence, err=True)
    typer.echo(f"{', '.join(sorted(path.name for path in out.iterdir()))}: {out}")
