"""thresher predict"""

from pathlib import Path
from typing import Annotated

import typer

from thresher.app.commands import options

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="What to predict: a table, an image or a folder of images, or an .npy or .npz file.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="The file to write, .csv or .parquet; if not given, CSV on the terminal.")
]


def predict(
    run: Run,
    data: Data,
    out: Out = None,
    all_classes: Annotated[bool, typer.Option("--all-classes", help="Add the probability of every class.")] = False,
    model: options.OwnModel = None,
    device: options.Device = None,
) -> None:
    """Predict by the model of a run: a line each, with the class and its probability, or the predicted targets.

    Example: thresher predict runs/photos new_photos/ --out predictions.csv

    Inputs are read and scaled as those that the run was trained on.
    """
    from thresher.app.predictions import predictions, refuse_to_write, write_predictions
    from thresher.door import open_run

    refuse_to_write(out, data)
    found = predictions(open_run(run, model=model, device=device), data, all_classes)
    write_predictions(found, out)
    if out is not None:
        typer.echo(f"{len(found):,} predictions: {out}")
