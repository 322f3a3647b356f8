"""Checksums of what every method gives, for a change that must not change a bit.

    python benchmarks/fingerprints.py before.json     on the commit before
    python benchmarks/fingerprints.py after.json --compare before.json

Every recipe, procedure, acquisition and weighting is run on a few hundred digits, or generated real targets, on one
thread: checksums of all parameters, of the ledger and of the history. They hold for one machine and one torch.
"""

import argparse
import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from thresher import Examples, Recipe, Run, fit
from thresher.corruption import corrupt
from thresher.data import load, take_clean
from thresher.methods import ACQUISITIONS, METHODS, WEIGHTINGS, active_loop, student_recipe, teach, weighting
from thresher.models import NamedModel
from thresher.slots import Growing, weak

AUGMENTED = ("crust-central", "reclaim", "mixup")
NOT_COMPARED = ("seconds", "batch")  # of the history: the clock, and what older records do not have


def checksum(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def of_run(run: Run) -> list[str]:
    """Checksums of the parameters, of the ledger and of the history."""
    states = [item for model in [*run.models, *run.averages] for item in model.state_dict().items()]
    parameters = [
        part for name, value in states for part in (name.encode(), value.cpu().contiguous().numpy().tobytes())
    ]
    table = run.ledger.table().to_pandas()
    columns = [part for name in sorted(table) for part in (name.encode(), np.ascontiguousarray(table[name]).tobytes())]
    history = [{name: value for name, value in each.items() if name not in NOT_COMPARED} for each in run.history]
    return [checksum(*parameters), checksum(*columns), checksum(json.dumps(history, sort_keys=True).encode())]


def first(examples: Examples, count: int) -> Examples:
    return examples.subset(torch.arange(count))


def trained(task: str, train: Examples, test: Examples, clean: Examples) -> Iterator[tuple[str, list[str]]]:
    """Every method that trains, told the noise rate and, where it asks for one, left to find it."""
    ending = "" if task == "classification" else f" {task}"
    for name, known in METHODS.items():
        for rate in (0.4, "auto") if "noise_rate" in known.needs else (0.4,):
            if task in known.tasks:
                views = (weak(),) if len(train.input_shape) == 3 and name in AUGMENTED else None
                run = fit(
                    name, "mlp:32x32", train, noise_rate=rate, test=test, clean=clean, epochs=4, batch=32, seed=3,
                    device="cpu", augment=views,
                )  # fmt: skip
                yield f"{name} {rate}{ending}", of_run(run)


def acquired(pool: Examples, test: Examples) -> Iterator[tuple[str, list[str]]]:
    """What every acquisition buys in two rounds, and the network that comes of it."""
    for by in ACQUISITIONS:
        model = NamedModel("mlp-dropout:32" if by == "bald" else "mlp:32x32", pool.input_shape, pool.outputs)
        loop = active_loop(
            Recipe(average=Growing(0.99)), model, pool, by=by, start=60, count=20, rounds=2, test=test, epochs=3,
            batch=16, seed=1, device="cpu",
        )  # fmt: skip
        yield f"acquire {by}", [checksum(json.dumps(loop.bought).encode()), *of_run(loop.run)]


def distilled(digits: Examples, test: Examples) -> Iterator[tuple[str, list[str]]]:
    """The student of every weighting, from one teacher."""
    unlabelled = digits.subset(torch.arange(600, 1100))
    validation = digits.subset(torch.arange(1100, 1250))
    student, teacher = (NamedModel(f"mlp:{width}", digits.input_shape, digits.outputs) for width in (32, 64))
    recipes = {name: student_recipe(weighting(name), Recipe()) for name in WEIGHTINGS}
    recipes["debias every epoch hard"] = student_recipe(weighting("debias", every_epoch=True, hard=True), Recipe())
    robust = METHODS["prl-l"].recipe(noise_rate=0.3, classes=10, epochs=4)
    recipes["prl-l debias"] = student_recipe(weighting("debias"), robust)
    lessons = teach(
        student, first(digits, 200), unlabelled.with_columns(true_target=unlabelled.targets), validation,
        teacher=teacher, epochs=4, recipes=list(recipes.values()), batch=32, test=test, seed=2, device="cpu",
    )  # fmt: skip
    for name, recipe in recipes.items():
        yield f"distil {name}", of_run(lessons.learn(recipe, hard="hard" in name))


def fingerprints() -> dict[str, list[str]]:
    splits = load("digits")
    base, test = first(splits.train, 600), first(splits.test, 200)
    rest, clean = take_clean(base.with_columns(true_target=base.targets), 50, 0)
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(400, 6, generator=draws)
    targets = torch.stack([inputs[:, 0] * 2 + inputs[:, 1], inputs[:, 2] - inputs[:, 3]], 1)
    parts = [slice(0, 300), slice(300, 350), slice(350, 400)]
    real, real_test, real_clean = (Examples(inputs[part], targets[part], ids=torch.arange(400)[part]) for part in parts)
    found = dict(trained("classification", corrupt(rest, "symmetric:0.4", seed=0), test, clean))
    found |= dict(trained("regression", corrupt(real, "uninoise:0.2", seed=0), real_test, real_clean))
    return found | dict(acquired(base, test)) | dict(distilled(splits.train, test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", type=Path)
    told = parser.parse_args()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fingerprints()
    told.out.write_text(json.dumps(found, indent=0) + "\n")
    if told.compare is not None:
        before = json.loads(told.compare.read_text())
        other = [name for name in before if found.get(name) != before[name]]
        print(f"{len(before) - len(other)} of {len(before)} are the same to the last bit.")
        raise SystemExit("\n".join(["Others:", *other]) if other else 0)
    print(f"{len(found)} checksums: {told.out}")


if __name__ == "__main__":
    main()
