"""A run that died at any moment goes on from its folder and ends as if nothing had happened."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from every_recipe import registered
from tiny import Streamed, assert_same_run, examples, net, real_examples, streamed, tensors, without_clock
from torch import Tensor, nn

import thresher.core.files
from thresher import Examples, Ledger, Moment, Recipe, Run, ThresherError, fit, method, open_run, signals
from thresher.core.evidence import Evidence
from thresher.core.files import LOCK, alone_in
from thresher.core.rule import Decision
from thresher.core.schedules import cosine, ramp
from thresher.engine import train as engine_fit
from thresher.engine.store import about, checkpoint
from thresher.methods import MethodFacts
from thresher.methods.reclaim import reclaim
from thresher.rules import FacilityLocation, KeepSmallest, Uniform, every, product, warmup
from thresher.slots.average import Growing
from thresher.slots.clip import Clamped
from thresher.slots.mix import ClusterMixup, Mixup
from thresher.slots.relabel import AverageLabels
from thresher.slots.views import Flip, Shift

KEEP = KeepSmallest(by=signals.loss, fraction=0.6)
Watch = Callable[[Moment], None]


def running_mean(evidence: Evidence) -> Decision:
    """A rule with memory: counts those whose loss is below the mean of all batches so far."""
    known = evidence.memory.get("mean", torch.zeros(()))
    mean = 0.9 * known + 0.1 * evidence.losses.detach().mean()
    return Decision((evidence.losses.detach() < 10 * mean).float(), {}, {"mean": mean})


class Learned(nn.Module):
    """A function of outputs and targets with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses: Tensor = nn.functional.cross_entropy(self.scale * outputs, targets, reduction="none")
        return losses


CASES: dict[str, dict[str, Any]] = {
    "standard": {},
    "prl-l": {"recipe": registered()["prl-l"]},
    "prl-g": {"recipe": registered()["prl-g"]},
    "co-teaching": {"recipe": registered()["co-teaching"]},
    "a mentor": {"recipe": registered()["mentornet-learned"]},
    "every second epoch": {"recipe": Recipe(each_epoch=every(2, KEEP), each_batch=KEEP)},
    "scopes of memory": {"recipe": Recipe(each_epoch=product(every(2, KEEP), every(3, KEEP)))},
    "a rule that remembers": {"recipe": Recipe(each_batch=running_mean)},
    "an objective that learns": {"recipe": Recipe(objective=Learned())},
    "average": {"recipe": Recipe(average=0.9)},
    "growing average": {"recipe": Recipe(average=Growing(0.99), clip=Clamped(0.1))},
    "mix": {"recipe": Recipe(mix=Mixup())},
    "mixed within clusters": {
        "recipe": Recipe(each_epoch=warmup(1, FacilityLocation(fraction=0.7)), mix=ClusterMixup())
    },
    "views": {"recipe": Recipe(views=(Flip(), Shift(0.3)))},
    "relabel": {"recipe": Recipe(relabel=AverageLabels(), average=0.8, each_batch=KEEP, mix=Mixup())},
    "reclaim": {"recipe": reclaim(MethodFacts(0.25, 3, 5), rest=Uniform(), views=(Flip(), Shift(0.3)))},
    "a ramp": {"recipe": Recipe(each_batch=KeepSmallest(by=signals.loss, fraction=ramp(1.0, 0.5, epochs=3)))},
    "momentum and schedule": {
        "optimizer": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "schedule": cosine(1.0),
    },
    "unfused": {"optimizer": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9)},
    "steps": {"epochs": None, "steps": 27},
    "best on validation": {"keep": "best_on_validation", "validation": examples(20, seed=5)},
    "streamed": {"train": streamed(examples())},
    "until": {"until": lambda record: record["epoch"] >= 4},
    "regression": {"train": real_examples(), "model": lambda: net(2, dropout=0.5), "test": real_examples(20, seed=9)},
    "a module": {"model": None},
}


def run(out: Path | None, watch: Watch | None = None, **changes: Any) -> Run:
    """Five epochs of six steps (the last with a remainder) on 44 tiny examples, saved after every epoch."""
    settings: dict[str, Any] = {
        "recipe": Recipe(),
        "model": lambda: net(dropout=0.5, batch_norm=changes.get("recipe") is None),
        "train": examples(),
        "test": examples(20, seed=9),
        "epochs": 5,
        "batch": 8,
        "commit_every": 0.0,
        "device": "cpu",
        **changes,
    }
    model = settings.pop("model") or net(seed=4, dropout=0.5)
    return fit(settings.pop("recipe"), model, settings.pop("train"), out=out, watch=watch, **settings)


class Stopped(Exception):  # noqa: N818
    pass


def stop_at(epoch: int, step: int, error: type[BaseException] = Stopped) -> Watch:
    """Raise after this step of this epoch (from 0); step 0 is the end of the epoch, when its record is made."""

    def watch(moment: Moment) -> None:
        if moment.epoch == epoch and (moment.record is not None if step == 0 else moment.step == step):
            raise error("stopped")

    return watch


def interrupted(out: Path, watch: Watch | None, **case: Any) -> None:
    with pytest.raises(Stopped):
        run(out, watch, **case)


def test_a_folder_is_not_continued_on_other_inputs(tmp_path: Path) -> None:
    train = examples()
    assert isinstance(train.inputs, Tensor)
    interrupted(tmp_path / "run", stop_at(2, 3))
    for other in (train.inputs * 2, -train.inputs, train.inputs.flip(1, 2, 3)):
        with pytest.raises(ThresherError, match="its train set differs"):
            run(tmp_path / "run", train=replace(train, inputs=other))
    assert_same_run(run(tmp_path / "run"), run(None))


def test_a_folder_is_not_continued_in_another_unit(tmp_path: Path) -> None:
    train = real_examples()
    case: dict[str, Any] = {"model": partial(net, 2), "test": None}
    interrupted(tmp_path / "run", stop_at(2, 3), train=train, **case)
    scale = (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    with pytest.raises(ThresherError, match="its train set differs"):
        run(tmp_path / "run", train=replace(train, target_scale=scale), **case)


def test_the_first_epoch_is_saved_at_once_and_dear_saves_are_rare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, 1.0)  # a second passes whenever somebody looks: a save takes one, an epoch one
    monkeypatch.setattr(engine_fit.time, "monotonic", lambda: next(clock))
    saves: list[int] = []
    commit = checkpoint.RunFolder.commit

    def noted(folder: checkpoint.RunFolder, state: Any, ledger: Ledger, history: Any) -> None:
        saves.append(len(history))
        commit(folder, state, ledger, history)

    monkeypatch.setattr(checkpoint.RunFolder, "commit", noted)
    run(tmp_path / "dear", epochs=60, commit_every=3600.0)
    assert saves == [1, 51, 60], "after one epoch, fifty times a save's second later, and at the end"


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
@pytest.mark.parametrize("epoch", [0, 2], ids=["before the first save", "after it"])
def test_two_processes_never_train_in_one_folder(epoch: int, tmp_path: Path) -> None:
    def second(moment: Moment) -> None:
        if moment.epoch == epoch and moment.step == 3:
            with pytest.raises(ThresherError, match="Another process is at work in"):
                run(tmp_path / "run")

    assert_same_run(run(tmp_path / "run", second), run(None))
    assert_same_run(run(tmp_path / "run"), run(None))  # the lock has ended with the run


LEAVING = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_resume import run
children = []

def fork(moment):
    if children:
        return
    children.append(os.fork())
    if not children[0]:
        raise SystemExit  # which unwinds through the lock of the parent
    os.waitpid(children[0], 0)
    children.append(os.fork())
    if not children[1]:
        time.sleep(600)
        os._exit(0)
    try:
        run(Path(sys.argv[1]))
    except Exception as error:
        assert "Another process" in str(error)
    else:
        raise AssertionError("the folder is not locked")

run(Path(sys.argv[1]), fork, epochs=1)
try:
    run(Path(sys.argv[1]), epochs=1)
finally:
    os.kill(children[1], 9)
"""
WORKING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_resume import SlowStream, run
run(Path(sys.argv[1]), lambda moment: print("step", flush=True), train=SlowStream.examples(), workers=2, epochs=1000)
"""


class SlowStream(Streamed):
    """A dataset whose workers live on for a while after their run was killed."""

    def __getitem__(self, position: int) -> tuple[Tensor, str]:
        time.sleep(0.1)
        return super().__getitem__(position)

    @classmethod
    def examples(cls) -> Examples:
        train = examples()
        return replace(train, inputs=cls(train.inputs))  # type: ignore[arg-type]


def script(text: str, out: Path) -> list[str]:
    return [sys.executable, "-c", text, str(out), str(Path(__file__).parent)]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_a_child_neither_keeps_nor_ends_the_lock_of_its_run(tmp_path: Path) -> None:
    done = subprocess.run(script(LEAVING, tmp_path / "run"), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_a_killed_run_can_be_started_again_while_its_workers_still_end(tmp_path: Path) -> None:
    with subprocess.Popen(script(WORKING, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"step\n"
        with pytest.raises(ThresherError, match="Another process is at work in"), alone_in(tmp_path):
            pass
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
        with alone_in(tmp_path):
            pass


@pytest.mark.parametrize("commit_every", [0.0, 3600.0], ids=["saved each epoch", "saved now and then"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_resumed_equals_uninterrupted(case: dict[str, Any], commit_every: float, tmp_path: Path) -> None:
    whole = run(None, **case)
    for place in ((0, 2), (0, 0), (2, 3), (3, 0)):
        interrupted(tmp_path / "run", stop_at(*place), **case, commit_every=commit_every)
    resumed = run(tmp_path / "run", **case, commit_every=commit_every)
    assert_same_run(resumed, whole)
    written = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert without_clock(written) == without_clock(whole.history)
    assert Ledger.read(tmp_path / "run").table().num_rows == whole.ledger.table().num_rows


@pytest.mark.parametrize("case", ["standard", "co-teaching", "every second epoch", "streamed"])
def test_resume_goes_on_where_it_was_saved(case: str, tmp_path: Path) -> None:
    """A resumed run does not repeat epochs that were saved."""
    interrupted(tmp_path / "run", stop_at(3, 1), **CASES[case])
    epochs: list[int] = []
    run(tmp_path / "run", lambda moment: epochs.append(moment.epoch), **CASES[case])
    assert sorted(set(epochs)) == [3, 4]


@pytest.mark.parametrize("victim", ["checkpoint.pt", "history.jsonl", "part-00002.parquet"])
@pytest.mark.parametrize("case", ["standard", "co-teaching", "average", "growing average", "best on validation"])
def test_a_crash_between_the_writes_of_a_commit(
    case: str, victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third commit dies when it comes to this file; what is already written of it must not count."""
    whole, seen = run(None, **CASES[case]), [0]
    original = thresher.core.files.write_whole

    def dying(path: Path, write: Any) -> None:
        seen[0] += path.name == "checkpoint.pt"
        turn = {"checkpoint.pt": 3, "history.jsonl": 2, "part-00002.parquet": 2}[victim]
        if path.name == victim and seen[0] == turn:
            raise Stopped
        original(path, write)

    for module in (checkpoint, thresher.record.ledger):
        monkeypatch.setattr(module, "write_whole", dying)
    interrupted(tmp_path / "run", None, **CASES[case])
    monkeypatch.undo()
    parts = sorted(path.name for path in (tmp_path / "run" / "ledger").iterdir())
    assert parts == [f"part-0000{place}.parquet" for place in range(2 if victim.startswith("part") else 3)]
    assert_same_run(run(tmp_path / "run", **CASES[case]), whole)


def test_a_crash_in_the_middle_of_a_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(None)
    interrupted(tmp_path / "run", stop_at(2, 1))

    def half(_: Any, path: Path, **__: Any) -> None:
        Path(path).write_bytes(b"PAR1 half a")
        raise Stopped

    monkeypatch.setattr(pq, "write_table", half)
    interrupted(tmp_path / "run", None)
    monkeypatch.undo()
    names = {path.name for path in (tmp_path / "run").rglob("*")} - {LOCK}
    assert names == {
        "ledger",
        "part-00000.parquet",
        "part-00001.parquet",
        "history.jsonl",
        "checkpoint.pt",
        "model.json",
    }
    # And one killed so hard that it could not clean up:
    (tmp_path / "run" / ".checkpoint.pt.abc").write_bytes(b"half")
    (tmp_path / "run" / "ledger" / ".part-00002.parquet.abc").write_bytes(b"half")
    (tmp_path / "run" / "ledger" / "part-00002.parquet").write_bytes(b"not named by the checkpoint")
    (tmp_path / "run" / "ledger" / "part-00009.parquet").write_bytes(b"nor this")
    assert_same_run(run(tmp_path / "run"), whole)
    assert Ledger.read(tmp_path / "run").table().num_rows == whole.ledger.table().num_rows


def killed_in_the_third_commit(folder: Path) -> int:
    """Train in a process that is forked from this one, which has imported everything, and return how that one ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12 on, where there are threads
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    replace, seen = os.replace, itertools.count(1)

    def dying(source: Any, target: Any) -> None:
        if Path(target).name == "checkpoint.pt" and next(seen) == 3:
            signal.raise_signal(signal.SIGKILL)
        replace(source, target)

    try:
        os.replace = dying
        run(folder, **CASES["co-teaching"])
    finally:
        os._exit(1)


@pytest.mark.skipif(sys.platform == "win32", reason="no processes are forked there")
def test_a_killed_run_resumes(tmp_path: Path) -> None:
    """By SIGKILL, when everything of the third commit is written and only the last move is missing."""
    whole = run(None, **CASES["co-teaching"])
    assert killed_in_the_third_commit(tmp_path / "run") == -signal.SIGKILL
    assert_same_run(run(tmp_path / "run", **CASES["co-teaching"]), whole)


@pytest.mark.parametrize("name", ["examples.parquet", "previews.npz"])
def test_a_crash_after_the_last_commit_still_leaves_the_outcome(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = thresher.core.files.write_whole

    def dying(path: Path, write: Any) -> None:
        if path.name == name:
            raise Stopped
        original(path, write)

    for module in ("outcome", "previews"):
        monkeypatch.setattr(f"thresher.record.{module}.write_whole", dying)
    interrupted(tmp_path / "run", None)
    monkeypatch.undo()
    run(tmp_path / "run")
    assert (tmp_path / "run" / name).is_file()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_finished_run_is_returned_without_training(case: dict[str, Any], tmp_path: Path) -> None:
    first = run(tmp_path / "run", **case)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.p*t")}
    kept = tensors(first)

    def never(moment: Moment) -> None:
        raise AssertionError(f"trained again: {moment}")

    again = run(tmp_path / "run", never, **case)
    assert_same_run(again, first)
    assert all((a == b).all() for a, b in zip(tensors(again), kept, strict=True))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.p*t")} == before


def worse(epoch: float, epochs: float) -> float:  # noqa: ARG001
    """A learning rate that spoils the model from the third epoch on, by climbing the loss."""
    return 1.0 if epoch < 2 else 3000.0


def test_a_resumed_run_that_was_best_on_validation_early_returns_that_epoch(tmp_path: Path) -> None:
    """The best epoch comes before the interruption, so its parameters must have been saved too."""
    case = {**CASES["best on validation"], "optimizer": lambda p: torch.optim.SGD(p, lr=0.1), "schedule": worse}
    whole = run(None, **case)
    best = max(range(5), key=lambda place: (whole.history[place]["validation"], -place))
    interrupted(tmp_path / "run", stop_at(4, 1), **case)
    assert best < 4, "the case shows nothing if the last epoch is the best"
    assert_same_run(run(tmp_path / "run", **case), whole)


OTHERS: dict[str, dict[str, Any]] = {
    "recipe": {"recipe": registered()["prl-l"]},
    "fraction": {"recipe": Recipe(each_batch=KeepSmallest(by=signals.loss, fraction=0.61))},
    "model": {"model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 3))},
    "lambda": {"recipe": Recipe(each_batch=KEEP, objective=lambda o, t: (o - t[:, None]).square().sum(1))},
    "targets": {"train": examples(seed=3)},
    "ids": {"train": examples().subset(torch.arange(43, -1, -1))},
    "epochs": {"epochs": 3},
    "steps": {"epochs": None, "steps": 30},
    "batch": {"batch": 9},
    "seed": {"seed": 1},
    "rate": {"optimizer": lambda p: torch.optim.Adam(p, lr=1e-2)},
    "weight decay": {"optimizer": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.1)},
    "optimizer": {"optimizer": lambda p: torch.optim.AdamW(p, lr=1e-3)},
    "schedule": {"schedule": cosine(1.0)},
    "keep": {"keep": "best_on_validation", "validation": examples(20, seed=5)},
    "precision": {"precision": torch.bfloat16},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_another_runs_folder_is_refused_and_stays(other: dict[str, Any], tmp_path: Path) -> None:
    case = {"recipe": Recipe(each_batch=KEEP)} if "recipe" in other else {}
    interrupted(tmp_path / "run", stop_at(2, 1), **case)
    before = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    with pytest.raises(ThresherError, match=r"another run .*: choose another folder"):
        run(tmp_path / "run", **other)
    assert (tmp_path / "run" / "checkpoint.pt").read_bytes() == before
    assert_same_run(run(tmp_path / "run", **case), run(None, **case))


def scaled(by: Any) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda outputs, targets: by * nn.functional.cross_entropy(outputs, targets, reduction="none")


def times(outputs: Tensor, targets: Tensor, *, by: float) -> Tensor:
    return scaled(by)(outputs, targets)


def again(count: int) -> Callable[[int], int]:
    def down(place: int) -> int:
        return 0 if place == count else up(place)

    def up(place: int) -> int:
        return down(place + 1)

    return down


NAMELESS: dict[str, tuple[Any, Any]] = {
    "a partial's keywords": (partial(times, by=1.0), partial(times, by=50.0)),
    "a partial's arguments": (partial(scaled, 1), partial(scaled, 2)),
    "a partial's function": (partial(torch.sin, out=None), partial(torch.cos, out=None)),
    "what a closure holds": (scaled(1.0), scaled(50.0)),
    "a tensor in a closure": (scaled(torch.ones(2)), scaled(torch.zeros(2))),
    "a function in a closure": (scaled(lambda: 1), scaled(lambda: 2)),
    "constants": (lambda x: x + 1, lambda x: x + 2),
    "names": (lambda x: torch.sin(x), lambda x: torch.cos(x)),
    "operations": (lambda x: x * x, lambda x: x - x),
    "defaults": (lambda x, y=1: x + y, lambda x, y=2: x + y),
    "constants deep inside": (lambda x: [y + 1 for y in x], lambda x: [y + 2 for y in x]),
    "functions that call each other": (again(1), again(2)),
    "sets": (lambda x: x in {"a", "b", "c", "d"}, lambda x: x in {"a", "b", "c", "e"}),
}


@pytest.mark.parametrize(("one", "other"), NAMELESS.values(), ids=NAMELESS.keys())
def test_partials_and_functions_without_a_name_of_their_own_are_told_apart(one: Any, other: Any) -> None:
    told = [json.dumps(about.describe(Recipe(objective=each))) for each in (one, one, other)]
    assert told[0] == told[1] != told[2]


def test_functions_are_described_alike_in_every_process() -> None:
    text = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_resume import NAMELESS, about
print(json.dumps([about.describe(list(pair)) for pair in NAMELESS.values()]))
"""
    ours = json.dumps([about.describe(list(pair)) for pair in NAMELESS.values()])
    environment = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    told = subprocess.run([sys.executable, "-c", text], env=environment, check=True, capture_output=True, text=True)
    assert told.stdout.strip() == ours


def test_a_named_function_is_its_name() -> None:
    assert about.describe(scaled) == "test_resume.scaled"


def test_a_folder_goes_on_where_a_function_of_the_library_has_moved(tmp_path: Path) -> None:
    interrupted(tmp_path / "run", stop_at(2, 3))
    stored = tmp_path / "run" / "checkpoint.pt"
    state = torch.load(stored, weights_only=True)
    assert "thresher.core.recipe.shuffled" in state["identity"]
    moved = state["identity"].replace("thresher.core.recipe.", "thresher.core.slots.")
    torch.save(state | {"identity": moved.replace("shuffled", "balanced")}, stored)
    with pytest.raises(ThresherError, match="its recipe differs"):
        run(tmp_path / "run")
    torch.save(state | {"identity": moved}, stored)
    assert_same_run(run(tmp_path / "run"), run(None))


@pytest.mark.parametrize("damage", ["half", "empty", "text"])
def test_a_damaged_checkpoint_is_refused(damage: str, tmp_path: Path) -> None:
    interrupted(tmp_path / "run", stop_at(2, 1))
    file = tmp_path / "run" / "checkpoint.pt"
    whole = file.read_bytes()
    file.write_bytes({"half": whole[: len(whole) // 2], "empty": b"", "text": b"hello"}[damage])
    with pytest.raises(ThresherError, match=r"damaged .*: delete .*run to start the run again"):
        run(tmp_path / "run")


@pytest.mark.parametrize("loss", ["deleted", "half"])
def test_a_lost_part_of_the_ledger_is_refused_before_training(loss: str, tmp_path: Path) -> None:
    interrupted(tmp_path / "run", stop_at(2, 1))
    part = tmp_path / "run" / "ledger" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:100]) if loss == "half" else part.unlink()
    steps: list[int] = []
    with pytest.raises(ThresherError, match=r"ledger"):
        run(tmp_path / "run", lambda moment: steps.append(moment.step))
    assert steps == []


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ThresherError, match=r"not empty \(it has thesis.tex\): choose a new folder"):
        run(tmp_path)
    with pytest.raises(ThresherError, match=r"is a file: choose a folder"):
        run(tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_stopping_by_hand_says_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        run(tmp_path / "run", stop_at(2, 3, KeyboardInterrupt))
    assert caught.value.__notes__ == [f"Stopped in epoch 3; run the same again to go on from {tmp_path / 'run'}."]
    with pytest.raises(KeyboardInterrupt) as caught:
        run(None, stop_at(2, 3, KeyboardInterrupt))
    assert caught.value.__notes__ == ["Stopped in epoch 3; nothing is saved: pass out= to keep runs."]
    assert_same_run(run(tmp_path / "run"), run(None))


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(tmp_path / "run", stop_at(2, 1))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ThresherError, match=r"disk is full .*: free some space and run the same command again"):
        run(tmp_path / "run")
    monkeypatch.undo()
    assert_same_run(run(tmp_path / "run"), run(None))


def test_columns_a_rule_adds_later_reach_the_ledger(tmp_path: Path) -> None:
    """The first part has no such column, because the rule was warming up when it was saved."""

    def clusters(evidence: Evidence) -> Decision:
        return Decision(torch.ones(len(evidence)), {"cluster": evidence.ids % 2})

    recipe = Recipe(each_epoch=warmup(2, clusters))
    saved = run(tmp_path / "run", recipe=recipe).ledger.to_pandas()
    assert saved["cluster"][saved["epoch"] <= 2].isna().all()
    late = saved[saved["epoch"] > 2]
    assert (late["cluster"] == late["id"] % 2).all()
    assert Ledger.read(tmp_path / "run").table(["cluster"]).num_rows == len(saved)


def test_a_finished_run_goes_on_to_more_epochs_as_if_it_had_been_meant_to(tmp_path: Path) -> None:
    short = fit("prl-l", "mlp:8", examples(96), noise_rate=0.25, epochs=2, batch=32, out=tmp_path / "a")
    longer = fit("prl-l", "mlp:8", examples(96), noise_rate=0.25, epochs=5, batch=32, out=tmp_path / "a")
    whole = fit("prl-l", "mlp:8", examples(96), noise_rate=0.25, epochs=5, batch=32, out=tmp_path / "b")
    assert [len(run.history) for run in (short, longer, whole)] == [2, 5, 5]
    for ours, theirs in zip(longer.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert all(map(torch.equal, longer.trust(), whole.trust()))
    stored = [pq.read_table(tmp_path / name / "examples.parquet") for name in ("a", "b")]
    assert stored[0].equals(stored[1])


def test_a_finished_run_is_not_cut_short_and_a_chosen_epoch_not_trained_on(tmp_path: Path) -> None:
    fit("standard", "mlp:8", examples(96), epochs=3, batch=32, out=tmp_path / "a")
    with pytest.raises(ThresherError, match=r"holds another run \(its epochs is 3.0, not 2.0\)"):
        fit("standard", "mlp:8", examples(96), epochs=2, batch=32, out=tmp_path / "a")
    kept = {"validation": examples(96), "keep": "best_on_validation", "batch": 32, "out": tmp_path / "b"}
    fit("standard", "mlp:8", examples(96), epochs=2, **kept)
    with pytest.raises(ThresherError, match="cannot be trained for more epochs"):
        fit("standard", "mlp:8", examples(96), epochs=3, **kept)
    planned = {"batch": 32, "out": tmp_path / "c"}
    fit(reclaim_for(3), "mlp:8", examples(96), epochs=3, **planned)
    with pytest.raises(ThresherError, match="goes on to more epochs only by the recipe that it began with"):
        fit(reclaim_for(6), "mlp:8", examples(96), epochs=6, **planned)


def reclaim_for(epochs: int) -> Recipe:
    return method("reclaim").recipe(noise_rate=0.25, classes=3, epochs=epochs)


def test_a_method_that_plans_over_its_epochs_keeps_its_plan_when_it_goes_on_to_more(tmp_path: Path) -> None:
    assert reclaim_for(3).each_epoch != reclaim_for(12).each_epoch
    given = {"noise_rate": 0.25, "batch": 32, "out": tmp_path / "a"}
    for epochs in (3, 7, 12):
        longer = fit("reclaim", "mlp:8", examples(96), epochs=epochs, **given)
    opened = open_run(tmp_path / "a").recipe
    assert opened is not None
    assert opened.each_epoch == longer.recipe.each_epoch == reclaim_for(3).each_epoch
    assert_same_run(longer, fit(reclaim_for(3), "mlp:8", examples(96), epochs=12, batch=32))
