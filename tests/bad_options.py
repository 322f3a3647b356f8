"""What commands are told wrongly beside what they train on, as tables: a name, the words, and what must be said."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sound_folders import AUDIT, DISTIL, LONGER, QUICK

Case = tuple[list[str], str, Callable[[Path], object] | None]  # the words, what is said, and what is done before

TRAIN = ["train", "--data", "rows.csv:label", "--method", "standard", *QUICK]
TEACH = [*DISTIL, *QUICK, "--out", "new"]
PREDICT = ["predict", "run", "rows.csv"]
RATES = ["sensitivity", "--data", "blobs:200,3", "--method", "prl-l", "--rates", "0.1,0.3", "--out", "new"]
BENCH = ["bench", "run", "demo", "--results", "new"]
X, Y = np.random.default_rng(0).normal(size=(48, 3)).astype(np.float32), np.arange(48) % 2


def train(*more: str, data: str = "rows.csv:label", out: str = "new") -> list[str]:
    return ["train", "--data", data, "--method", "standard", *QUICK, "--out", out, *more]


def audit(*more: str) -> list[str]:
    return ["audit", "rows.csv:label", "--method", "standard", *QUICK, "--out", "new", *more]


def text(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def array(values: object) -> Callable[[Path], object]:
    return lambda folder: np.save(folder / "values.npy", np.asarray(values))


def arrays(inputs: object, targets: object, **more: object) -> Callable[[Path], object]:
    told = {"train_images": inputs, "train_targets": targets, **more}
    return lambda folder: np.savez(folder / "set.npz", **{name: np.asarray(each) for name, each in told.items()})


def bytes_in_header(*names: str) -> Callable[[Path], object]:
    """Arrays whose header names a part by bytes, which NumPy cannot sort among texts; in an .npz file, or one alone."""
    header = b"{b'descr': '<f4', 'fortran_order': False, 'shape': (60, 2)}\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(480)

    def act(folder: Path) -> None:
        if not names:
            (folder / "values.npy").write_bytes(array)
            return
        with zipfile.ZipFile(folder / "set.npz", "w") as file:
            for name in names:
                file.writestr(f"{name}.npy", array)

    return act


def changed(*names: str, value: object) -> Callable[[Path], object]:
    """Another value in the run's model.json."""

    def act(folder: Path) -> None:
        record = json.loads((folder / "run/model.json").read_text())
        inner = record
        for name in names[:-1]:
            inner = inner[name]
        inner[names[-1]] = value
        (folder / "run/model.json").write_text(json.dumps(record))

    return act


def one_column_less(folder: Path) -> None:
    record = json.loads((folder / "run/model.json").read_text())
    record["preparation"]["columns"].pop()
    (folder / "run/model.json").write_text(json.dumps(record))


def saved_otherwise(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Something else in the run's checkpoint."""

    def act(folder: Path) -> None:
        saved = torch.load(folder / "run/checkpoint.pt", weights_only=True)
        change(saved)
        torch.save(saved, folder / "run/checkpoint.pt")

    return act


def filled(file: str, name: str, value: bool | float | None) -> Callable[[Path], object]:
    """One value throughout a column of a table."""

    def act(folder: Path) -> None:
        table = pq.read_table(folder / file)
        place = table.column_names.index(name)
        kind = table.schema.field(name).type if value is None else pa.scalar(value).type
        pq.write_table(table.set_column(place, name, pa.array([value] * len(table), kind)), folder / file)

    return act


def of_bytes(file: str, name: str) -> Callable[[Path], object]:
    """A column of texts that are no UTF-8."""

    def act(folder: Path) -> None:
        table = pq.read_table(folder / file)
        column = pa.array([b"\xc7"] * len(table), pa.binary()).view(pa.string())
        pq.write_table(table.set_column(table.column_names.index(name), name, column), folder / file)

    return act


def other_optimizer(saved: dict[str, Any]) -> None:
    saved["learners"][0]["optimizer"]["param_groups"][0]["amsgrad"] = True


def no_batch(saved: dict[str, Any]) -> None:
    del saved["history"][0]["batch"]


def replaced(name: str, old: str, new: str) -> Callable[[Path], object]:
    """Another text in a file, in which it has to be."""

    def act(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text, text
        (folder / name).write_text(text.replace(old, new))

    return act


def without(name: str) -> Callable[[Path], object]:
    def act(folder: Path) -> None:
        (folder / name).unlink()

    return act


def upside_down(folder: Path) -> None:
    head, *rows = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join([head, *reversed(rows)]) + "\n")


def link(name: str, to: str) -> Callable[[Path], object]:
    return lambda folder: os.symlink(to, folder / name)


def one_class(folder: Path) -> None:
    shutil.copytree(folder / "images" / "a", folder / "one" / "a")


OF_TABLES: dict[str, Case] = {
    "an unknown group": (train("--groups", "who"), "no column in rows.csv 'who'", None),
    "the target as group": (train("--groups", "label"), "is what to predict", None),
    "one group": (
        train("--groups", "g", data="g.csv:y"),
        "groups of 40 examples are too few",
        text("g.csv", "x,g,y\n" + "".join(f"{place},1,{'ab'[place % 2]}\n" for place in range(40))),
    ),
    "no column left": (train("--drop", "x0,x1,x2"), "no column beside label", None),
    "a separator of another alphabet": (train("--sep", "€"), "not one character of ASCII", None),
    "an empty separator": (train("--sep", ""), "not one character", None),
    "a separator of two lines": (train("--sep", "\n"), "cannot be read as a table", None),
    "a class as missing value": (train("--na", "c0"), "without a target", None),
    "a target twice": (train(data="rows.csv:label,label"), "name each once", None),
    "a real target twice": (train(data="rows.csv:x0,x0"), "name each once", None),
    "an unknown task": (train("--task", "foo"), "give classes or regression", None),
    "texts as real targets": (train("--task", "regression"), "must be numbers", None),
    "a head and no rows": (train(data="t.csv:y"), "no rows in t.csv", text("t.csv", "x,y\n")),
    "empty lines": (train(data="t.csv:y"), "cannot be read as a table", text("t.csv", "\n\n\n")),
    "rows of other lengths": (train(data="t.csv:y"), "Expected 2 columns", text("t.csv", "x,y\n1,a\n2,b,3\n" * 20)),
    "a line of ten megabytes": (train(data="t.csv:y"), "block", text("t.csv", "x,y\n1,a\n" + "z" * 10**7 + ",b\n")),
    "no target at all": (train(data="t.csv:y"), "is empty: label a few", text("t.csv", "x,y\n" + "1,\n2,\n" * 20)),
    "nothing but the target": (train(data="t.csv:y"), "no column beside y", text("t.csv", "y\n" + "a\nb\n" * 20)),
    "an infinite cell": (train(data="t.csv:y"), "infinite values", text("t.csv", "x,y\n" + "inf,a\n1,b\n" * 20)),
}
OF_ARRAYS: dict[str, Case] = {
    "inputs without a number": (train(data="set.npz"), "without a number", arrays(X[:, :0], Y)),
    "labels from below 0": (train(data="set.npz"), "number the classes from 0", arrays(X, Y - 1)),
    "labels above 2^63": (
        train(data="set.npz"),
        "number the classes from 0",
        arrays(X, Y.astype("u8") + np.uint64(2**63)),
    ),
    "other classes to test on": (
        train(data="set.npz"),
        "no class to test on",
        arrays(X, Y, test_images=X, test_targets=Y + 5),
    ),
    "labels of bytes": (train(data="set.npz"), "save class numbers or floats", arrays(X, np.array([b"a", b"b"])[Y])),
    "dates as labels": (train(data="set.npz"), "save class numbers or floats", arrays(X, np.datetime64("2020") + Y)),
    "more inputs than labels": (train(data="set.npz"), "48 inputs, 30 targets", arrays(X, Y[:30])),
    "inputs of no dimension": (train(data="set.npz"), "a single number", arrays(np.float32(3), Y)),
    "inputs to test on of another width": (
        train(data="set.npz"),
        "cannot take inputs of the test set",
        arrays(X, Y, test_images=X[:, :2], test_targets=Y),
    ),
    "complex features": (
        train("--features", "values.npy", data="rows.npz"),
        "they are complex",
        array(X.astype(complex)),
    ),
    "features of NaN": (train("--features", "values.npy", data="rows.npz"), "give finite numbers", array(X * np.nan)),
    "features of one dimension": (train("--features", "values.npy", data="rows.npz"), "[n, width]", array(X[:, 0])),
    "features of a few": (train("--features", "values.npy", data="rows.npz"), "a row for each", array(X[:5])),
    "complex probabilities": (
        audit("--probabilities", "values.npy"),
        "they are complex",
        array(np.full((60, 2), 0.5j)),
    ),
    "negative probabilities": (
        audit("--probabilities", "values.npy"),
        "negative, missing",
        array(np.full((60, 2), [-1.0, 2])),
    ),
    "features whose header holds bytes": (
        train("--features", "values.npy", data="rows.npz"),
        "cannot be read",
        bytes_in_header(),
    ),
    "probabilities whose header holds bytes": (
        audit("--probabilities", "values.npy"),
        "cannot be read",
        bytes_in_header(),
    ),
    "arrays whose headers hold bytes": (
        train(data="set.npz"),
        "cannot be read",
        bytes_in_header("train_images", "train_targets"),
    ),
    "embeddings whose headers hold bytes": (
        train(data="set.npz"),
        "cannot be read",
        bytes_in_header("embeddings", "labels"),
    ),
    "no file of probabilities": (audit("--probabilities", "none.npy"), "cannot be read", None),
}
OF_IMAGES: dict[str, Case] = {
    "images of no pixel": (train(data="images:0"), "at least 1 pixel", None),
    "a size that is none": (train(data="images:3.5"), "not a size of images", None),
    "a size that is none, of a pool": (train("--pool", data="images:abc"), "not a size of images", None),
    "a size of a power": (train("--pool", data="images:²"), "not a size of images", None),
    "images of 3 TB to scan": (["scan", "images:1000000"], "3000.0 GB", None),
    "a table to scan": (["scan", "rows.csv"], "no folder rows.csv", None),
    "one class of images": (train(data="one"), "one class only", one_class),
    "a class that holds all classes": (
        train(data="images"),
        "a link to a folder that holds it",
        link("images/c", "."),
    ),
    "a run among the classes": (train(data="images", out="images/run"), "would be a class of it", None),
    "an audit among the classes": (
        ["audit", "images", *QUICK, "--out", "images/b/audit"],
        "would be a class of it",
        None,
    ),
    "an augmentation of a table": (train("--augment", "weak"), "leave the views out", None),
    "an augmentation without a name": (train("--augment", ",", data="images"), "no augmentation ''", None),
}
OF_TRAINING: dict[str, Case] = {
    "the data to test on": (train("--test", "rows.csv:label"), "is what is trained on", None),
    "another class to test on": (
        train("--test", "t.csv:label"),
        "no class among the training examples 'dog'",
        text("t.csv", "x0,x1,x2,label\n1,2,3,dog\n"),
    ),
    "a power as number of clean ones": (train("--clean", "²"), "There is no data set '²'", None),
    "a rate of nan": (train("--corrupt", "symmetric:nan"), "between 0 and 1", None),
    "a corruption without a rate": (train("--corrupt", "symmetric"), "write it like symmetric:0.4", None),
    "epochs without an end": (train("--epochs", "9" * 30), "so that it ends", None),
    "steps without an end": (
        ["train", "--data", "rows.csv:label", "--method", "standard", "--steps", "9" * 30, "--out", "new"],
        "so that it ends",
        None,
    ),
    "a start without an end": (train("--start", "represent:" + "9" * 30), "is not understood", None),
    "a start of a power": (train("--start", "represent:²"), "is not understood", None),
    "a start that is a folder": (train("--start", "images"), "is not understood", None),
    "a device without a name": (train("--device", ""), "device must be cpu, cuda", None),
    "a network without units": (train("--model", "mlp:0"), "at least one unit", None),
    "a network of images": (train("--model", "cnn9"), "reads images", None),
    "a module of colons": (train("--model", "::"), "give package.module:factory", None),
    "a module of 5,000 letters": (train("--model", "a" * 5000 + ":b"), "give package.module:factory", None),
    "a method of 5,000 letters": (train("--method", "a" * 5000), "aaa...'", None),
    "half of signals": (train("--signals-at-once", "nan"), "a number of GiB above 0", None),
    "a link that leads nowhere as folder": (train(), "cannot be made", link("new", "nowhere")),
    "a link to itself as folder": (train(), "cannot be made", link("new", "new")),
    "a folder of 3,000 levels": (train(out="a/" * 3000), "File name too long", None),
    "settings that are a folder": (["train", "--from", "images", "--out", "new"], "Is a directory", None),
    "a folder of corrected data": (train(out="copy"), "is not empty", None),
    "a pool's folder": (train(out="pool"), "holds another run", None),
}
OF_AUDITS: dict[str, Case] = {
    "fewer than none to show": (audit("--count", "-1"), "at least 0", None),
    "a run's folder to audit in": (["audit", "rows.csv:label", *QUICK, "--out", "run"], "is not empty", None),
    "a copy's folder to audit in": (["audit", "rows.csv:label", *QUICK, "--out", "copy"], "is not empty", None),
    "two targets to audit": (["audit", "rows.csv:label", "--target", "x0", "--out", "new"], "no column", None),
    "a run to correct": (["correct", "run", "--out", "new"], "holds no audit", None),
    "a trust of nan": (["correct", "audit", "--out", "new", "--below", "nan"], "between 0 and 1", None),
    "more changes than rows": (["correct", "audit", "--out", "new", "--count", "9" * 9], "from 1 to all", None),
    "a place for what is undone": (["correct", "copy", "--undo", "--out", "new"], "leave out --out", None),
    "a number of what is undone": (["correct", "copy", "--undo", "--count", "3"], "leave out --count", None),
    "an audit to undo": (["correct", "audit", "--undo"], "no corrected copy", None),
    "rows in another order": (
        ["correct", "audit", "--out", "new", "--count", "3"],
        "not what was audited",
        upside_down,
    ),
    "data that are gone": (["review", "audit", "--count", "3"], "where it lies now", without("rows.csv")),
    "other data to review": (["review", "audit", "--count", "3", "--data", "images"], "audit it again", None),
    "nothing to review": (["review", "audit", "--count", "0"], "from 1 to all", None),
    "an answer of a megabyte": (["label", "pool", "a.csv"], "ccc...'", text("a.csv", "id,label\n45," + "c" * 10**6)),
    "an answer of zeros": (["label", "pool", "a.csv"], "There is no class", text("a.csv", "id,label\n45,c\0\n")),
    "half an id": (["label", "pool", "a.csv"], "not a whole number", text("a.csv", "id,label\n4.5,c0\n")),
    "an id that was labelled": (["label", "pool", "a.csv"], "not in the pool", text("a.csv", "id,label\n3,c0\n")),
    "answers of null": (["label", "pool", "a.json"], "is damaged", text("a.json", "null")),
    "answers of another form": (["label", "pool", "a.txt"], "is damaged", text("a.txt", "id,label\n45,c0\n")),
    "answers to a run": (["label", "run", "answers.json"], "without --pool", None),
    "more questions than examples": (["query", "pool", "--count", "9" * 9], "ask for fewer", None),
    "another pool": (
        ["query", "pool", "--count", "3"],
        "is not what pool has asked about",
        text("pool.csv", "x0,x1,x2,label\n" + "1,2,3,c0\n2,3,4,c1\n3,4,5,\n" * 20),
    ),
    "an unknown thing to avoid": (["query", "pool", "--avoid", "foo"], "--avoid trust", None),
}
OF_WHAT_IS_WRITTEN: dict[str, Case] = {
    "predictions in a ledger": (
        ["predict", "run", "rows.csv", "--out", "run/ledger/part-00000.parquet"],
        "holds something else than predictions",
        None,
    ),
    "predictions in place of issues": (
        ["predict", "run", "rows.csv", "--out", "audit/issues.csv"],
        "holds something else than predictions",
        None,
    ),
    "a report in place of a page": (
        ["report", "run", "--out", "index.html"],
        "is no report",
        text("index.html", "<title>Mine</title>"),
    ),
    "predictions to a device": (["predict", "run", "rows.csv", "--out", "/dev/full"], "a pipe or a device", None),
    "predictions below a file": (["predict", "run", "rows.csv", "--out", "rows.csv/a.csv"], "rows.csv", None),
    "arrays for a table": (["predict", "run", "rows.npz", "--out", "a.csv"], "is no table", None),
    "a column that is gone": (["predict", "run", "t.csv"], "no column 'x2'", text("t.csv", "x0,x1\n1,2\n")),
    "a text among numbers": (["predict", "run", "t.csv"], "correct it", text("t.csv", "x0,x1,x2\n1,2,foo\n")),
    "a run without a checkpoint": (["predict", "run", "rows.csv"], "no epoch yet", without("run/checkpoint.pt")),
    "an export into a run": (["export", "run", "--out", "run"], "is not empty", None),
    "an export of a copy": (["export", "copy", "--out", "new"], "holds no run", None),
    "a report of images": (["report", "images", "--out", "new.html"], "not a run folder", None),
}
OF_RECORDS: dict[str, Case] = {
    "another kind of Adam": (LONGER, "amsgrad of the optimizer is True", saved_otherwise(other_optimizer)),
    "an epoch without its batch": (LONGER, "an epoch lacks 'batch'", saved_otherwise(no_batch)),
    "issues of no rows": (
        ["correct", "audit", "--out", "new"],
        "The column row of the issues has gaps",
        filled("audit/issues.parquet", "row", None),
    ),
    "issues that may be some or not": (
        ["report", "audit", "--out", "new.html"],
        "The column is_issue of the issues has gaps",
        filled("audit/issues.parquet", "is_issue", None),
    ),
    "a ledger of networks that are no numbers": (
        ["report", "run", "--out", "new.html"],
        "its column peer holds double",
        filled("run/ledger/part-00000.parquet", "peer", float("nan")),
    ),
    "a ledger whose rows have no example": (
        ["report", "run", "--out", "new.html"],
        "its column id has rows without a value",
        filled("run/ledger/part-00000.parquet", "id", None),
    ),
    "a ledger of a class beyond all": (
        ["report", "run", "--out", "new.html"],
        "its column prediction holds int64",
        filled("run/ledger/part-00000.parquet", "prediction", 2**62),
    ),
    "examples of a class beyond all": (
        ["report", "run", "--out", "new.html"],
        "target has the class 4611686018427387904",
        filled("run/examples.parquet", "target", 2**62),
    ),
    "an audit's ledger of other epochs": (
        ["report", "audit", "--out", "new.html"],
        "its column epoch holds int64",
        filled("audit/audit/fold-0/ledger/part-00000.parquet", "epoch", 1),
    ),
    "issues whose texts are no UTF-8": (
        ["report", "audit", "--out", "new.html"],
        "issues.parquet is damaged",
        of_bytes("audit/issues.parquet", "reason"),
    ),
    "issues of no probability": (
        ["review", "audit", "--count", "3"],
        "The column probability of the issues has gaps",
        filled("audit/issues.parquet", "probability", None),
    ),
    "a run's settings of 5,000 digits": (
        ["train", "--from", "run/run.toml", "--out", "new"],
        "is no TOML",
        lambda folder: (folder / "run/run.toml").write_text(f"epochs = {'9' * 5000}"),
    ),
    "a batch of one image for resnet18": (
        ["train", "--data", "images", "--method", "standard", "--batch", "1", "--model", "resnet18", "--out", "new"],
        "batch=2 or more",
        None,
    ),
    "an audit whose networks say too little": (
        AUDIT,
        "it has no finite votes of shape [60, 2]",
        lambda folder: np.savez(folder / "audit/audit/network.npz", outputs=np.ones((60, 2)), dynamics=np.ones(60)),
    ),
    "an audit whose forest says nothing": (
        AUDIT,
        "it has no finite probabilities",
        lambda folder: np.savez(folder / "audit/audit/forest.npz", probabilities=np.full((60, 2), np.nan)),
    ),
    "an audit with a ledger of bytes": (
        ["report", "audit", "--out", "new.html"],
        "part-00000.parquet is damaged",
        lambda folder: (folder / "audit/audit/fold-0/ledger/part-00000.parquet").write_bytes(b"PAR1 nothing"),
    ),
    "a ledger of true signals": (
        ["report", "run", "--out", "new.html"],
        "its column signal holds bool",
        filled("run/ledger/part-00000.parquet", "signal", True),
    ),
    "a copy's rows parted by a text": (
        ["correct", "copy", "--undo"],
        "not one character",
        replaced("copy/correction.json", '"sep": null', '"sep": "text"'),
    ),
    "a noise rate of 1e308": (
        ["report", "audit", "--out", "new.html"],
        "which is no share",
        replaced("audit/issues.json", '"rate": null', '"rate": 1e308'),
    ),
    "the recall of no class": (
        ["report", "run", "--out", "new.html"],
        "that of no class",
        replaced("run/history.jsonl", "recall_0", "recall_0x"),
    ),
    "rows parted by a number": (PREDICT, "sep'] is a number", changed("preparation", "sep", value=7)),
    "rows parted by another alphabet": (PREDICT, "character of ASCII", changed("preparation", "sep", value="€")),
    "missing values of numbers": (PREDICT, "na'][0] is a number", changed("preparation", "na", value=[3])),
    "no column to prepare": (PREDICT, "no columns", changed("preparation", "columns", value=[])),
    "inputs of no shape": (PREDICT, "of which shape", changed("input_shape", value=None)),
    "inputs of a billion numbers": (PREDICT, "GB", changed("input_shape", value=[10**9])),
    "an export of inputs of no shape": (
        ["export", "run", "--out", "new"],
        "of which shape",
        changed("input_shape", value=None),
    ),
    "an export of a table that lost a column": (
        ["export", "run", "--out", "new"],
        "The inputs become [2], and the run was trained on [3]",
        one_column_less,
    ),
}
OF_BENCHES: dict[str, Case] = {
    "no method's name": ([*BENCH, "--methods", ","], "--methods names none", None),
    "no cell's name": ([*BENCH, "--cells", ""], "--cells names none", None),
    "a file for the runs": ([*BENCH, "--runs", "rows.csv"], "is a file: choose a folder", None),
    "a file for the results": (["bench", "run", "demo", "--results", "rows.csv"], "is a file: choose a folder", None),
    "a file for the pages": (
        ["bench", "show", "demo", "--results", "results", "--docs", "rows.csv"],
        "is a file: choose a folder",
        None,
    ),
    "a file for the data": ([*BENCH, "--data-dir", "rows.csv"], "no data folder", None),
    "a suite above": (["bench", "show", "../../x", "--results", "results"], "no suite", None),
    "no epochs for any rate": ([*RATES, "--epochs", "0"], "at least 1", None),
    "a batch beyond the data": ([*RATES, "--batch", "100000"], "does not fit 200", None),
    "an unknown model for all rates": ([*RATES, "--model", "nope"], "no model 'nope'", None),
    "a file for all rates": ([*RATES[:-1], "rows.csv"], "is a file: choose a folder", None),
    "one rate": ([*RATES, "--rates", "0.3"], "two different rates", None),
    "a rate of 1": ([*RATES, "--rates", "0.3,1.0"], "below 1", None),
    "a method that is told no rate": ([*RATES, "--method", "standard"], "is told no noise rate", None),
    "one label to learn from": (
        ["distil", "--data", "pool.npz", "--labelled", "1", "--out", "new"],
        "give --labelled of more",
        None,
    ),
    "no labels to learn from": (
        ["distil", "--data", "pool.npz", "--labelled", "0", "--out", "new"],
        "at least 1",
        None,
    ),
    "a teacher of NaN": (
        [word.replace("predictions.parquet", "t.csv") for word in TEACH],
        "probabilities only",
        text("t.csv", "id,0,1\n" + "".join(f"{place},nan,nan\n" for place in range(60))),
    ),
    "a teacher who repeats": (
        [word.replace("predictions.parquet", "t.csv") for word in TEACH],
        "ids that repeat",
        text("t.csv", "id,0,1\n" + "3,0.5,0.5\n" * 60),
    ),
    "a temperature of 0": ([*TEACH, "--temperature", "0"], "above 0", None),
    "a validation of 2.5": ([*TEACH, "--validation", "2.5"], "no share and no count", None),
    "layers of a table": ([*TEACH, "--match", "body"], "a table has none", None),
}
