"""The options of `thresher train`, by the name of the setting that each of them sets."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

from typer import Option

_data = partial(Option, rich_help_panel="What to train on")
_training = partial(Option, rich_help_panel="How to train")
_run = partial(Option, rich_help_panel="The run")

Corruption = Annotated[
    str | None, _data("--corrupt", help="Make training targets wrong on purpose: symmetric:0.4, pairflip:0.45, ...")
]
Model = Annotated[
    str | None,
    _training(
        help="mlp:256x256, cnn9, resnet32-gn, timm:NAME, package.module:factory, ... If not given: mlp for tables "
        "and images up to 16 pixels, lenet up to 28, resnet32 up to 32, resnet18 above."
    ),
]
Out = Annotated[Path | None, _run(help="The folder of the run; if not given, a new one in runs/.")]
From = Annotated[Path | None, _run("--from", help="Repeat the run of this run.toml; options beside it change it.")]
Device = Annotated[str | None, _run(help="cpu, cuda or cuda:1; if not given, a GPU where there is one.")]
Json = Annotated[bool, _run("--json", help="Print one JSON object as the last line.")]
CommitEvery = Annotated[float, Option(hidden=True)]

SETTINGS: Mapping[str, Any] = {
    "data": Annotated[
        str | None, _data(help="digits, cifar10, blobs:2000,5, table.csv:COLUMN, images.npz or a folder of images.")
    ],
    "corruption": Corruption,
    "data_dir": Annotated[
        str | None, _data(help="Where data lies or is downloaded to; else the variable THRESHER_DATA.")
    ],
    "augment": Annotated[
        str | None, _data(help="weak (crop, flip), strong (also colour, rotation, cutout), or both, as weak,strong.")
    ],
    "clean": Annotated[
        str | None,
        _data(
            help="Trusted examples: the folder or file they lie in; or, where the truth is known, how many to set "
            "aside from the training set."
        ),
    ],
    "clean_batch": Annotated[int | None, _data(help="Clean examples a step looks at (as many as --batch, or all).")],
    "validation": Annotated[
        float | None,
        _data(help="The share of the training set, as corrupt as the rest, that --early-stop watches (0.1)."),
    ],
    "pool": Annotated[
        bool | None,
        _data(
            "--pool",
            help="Some have no label yet (empty cells of a table, images in a folder named unlabelled): train on the "
            "others, and ask about these with thresher query.",
        ),
    ],
    "method": Annotated[str | None, _training(help="One of those that thresher methods lists.")],
    "noise_rate": Annotated[
        str | None,
        _training(
            help="The share of wrong targets that the method assumes: a number such as 0.4; auto, found by the run "
            "itself from its first epochs; or folds, from trainings that hold examples out. [default: auto]"
        ),
    ],
    "model": Model,
    "epochs": Annotated[int | None, _training(help="How often to go through the data (60).")],
    "steps": Annotated[int | None, _training(help="How many steps to train, instead of --epochs.")],
    "batch": Annotated[int | None, _training(help="Examples a step (128).")],
    "optimizer": Annotated[str | None, _training(help="adam, adamw, rmsprop or sgd (adam).")],
    "learning_rate": Annotated[float | None, _training(help="The optimizer's learning rate (0.001, and 0.1 for sgd).")],
    "momentum": Annotated[float | None, _training(help="The momentum of sgd (0.9).")],
    "weight_decay": Annotated[float | None, _training(help="The optimizer's weight decay (0).")],
    "schedule": Annotated[
        str | None,
        _training(
            help="How the learning rate falls: cosine; step:80,100 (to a tenth at these epochs; step:60,120:0.2 to a "
            "fifth); linear:80 (to zero from this epoch on). If not given it stays."
        ),
    ],
    "early_stop": Annotated[
        bool | None,
        _training("--early-stop", help="Keep the epoch that did best on a noisy validation set, not the last."),
    ],
    "fine_tune": Annotated[
        bool | None, _training("--fine-tune", help="Afterwards, train on the --clean examples alone.")
    ],
    "fine_tune_steps": Annotated[int | None, _training(help="For how many steps (5000).")],
    "seed": Annotated[int | None, _run(help="Same seed, same result (0).")],
    "device": Device,
    "precision": Annotated[str | None, _run(help="float32, or bfloat16 for mixed precision (auto: that on CUDA).")],
    "compiled": Annotated[
        bool | None, _run("--compiled", help="Let torch.compile make the training pass faster, after half a minute.")
    ],
    "deterministic": Annotated[
        bool | None, _run("--deterministic", help="The same result bit for bit on a GPU too, though slower.")
    ],
    "workers": Annotated[int | None, _run(help="Processes that read data which is not held in memory (0).")],
}


def taking(settings: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take these options beside its own; its first argument is then what was given, by name.

    >>> @taking({"epochs": SETTINGS["epochs"]})
    ... def show(given: dict[str, Any], as_json: Json = False) -> None:
    ...     print(given, as_json)
    >>> show(epochs=3, as_json=True)
    {'epochs': 3} True
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def told(**words: Any) -> None:
            given = {name: words.pop(name) for name in settings}
            command({name: value for name, value in given.items() if value is not None}, **words)

        _, *own = signature(command).parameters.values()
        options = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=settings[name]) for name in settings
        ]
        options += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]
        told.__signature__ = Signature(options)  # type: ignore[attr-defined]  # which is what Typer reads
        return told

    return decorate
