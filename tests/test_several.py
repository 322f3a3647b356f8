"""Law 10: one run in 1, 2 and 4 processes has the same order, ids and decisions; also when the number changes."""

import ast
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from several_worker import DIES, go_on, looped, network, outcomes, trained_by_last_losses

from thresher import ThresherError, open_run

CODE = "import pathlib, several_worker as w; w.start({counts}, pathlib.Path({folder!r}))"
PATIENCE = 1200  # seconds, for a machine that has much else to do
COUNTS = (2, 4)
ROUNDED = ("stream", "sharded norms")  # in single precision; by another backward pass


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, list[dict[str, Any]]]]:
    """The folder of several processes, and what each has found, by how many they were."""
    folder = tmp_path_factory.mktemp("several")
    code, surroundings = CODE.format(counts=COUNTS, folder=str(folder)), {**os.environ, "OMP_NUM_THREADS": "1"}
    with open(folder / "said", "w+") as said:
        all_of_them = subprocess.Popen(
            [sys.executable, "-c", code],
            env=surroundings, cwd=Path(__file__).parent, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
        try:
            all_of_them.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(all_of_them.pid, signal.SIGKILL)
            all_of_them.wait()
        said.seek(0)
        told = said.read()
    assert all_of_them.returncode == 0, told
    for count in COUNTS:
        codes = ast.literal_eval((folder / f"codes{count}").read_text())
        assert codes == [-9 if rank == DIES[count] else 0 for rank in range(count)], told
    return folder, {
        count: [torch.load(folder / f"found{count}-{rank}.pt", weights_only=False) for rank in range(count)]
        for count in COUNTS
    }


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcomes(tmp_path_factory.mktemp("alone") / "of0")


def same_run(one: dict[str, Any], other: dict[str, Any], exact: bool = True) -> None:
    """Bit for bit where networks compute in double precision, whose last digits the ledger does not show."""
    assert one["ledger"].keys() == other["ledger"].keys()
    for name, values in one["ledger"].items():
        if exact or values.dtype.kind != "f":
            np.testing.assert_array_equal(other["ledger"][name], values, err_msg=name)
        else:
            np.testing.assert_allclose(other["ledger"][name], values, rtol=1e-4, atol=1e-5, err_msg=name)
    for mine, theirs in zip(one["parameters"], other["parameters"], strict=True):
        torch.testing.assert_close(theirs, mine, rtol=0, atol=1e-14 if exact else 1e-5)
    if exact:
        assert other["history"] == one["history"]


def test_ledger_parameters_and_history_do_not_depend_on_the_number_of_processes(several, alone):
    for found in several[1].values():
        for rank in found:
            for name, one in alone.items():
                if isinstance(one, dict):
                    same_run(one, rank[name], exact=name not in ROUNDED)


def test_every_shard_of_a_stream_is_read_by_one_process(several, alone):
    folder, _ = several
    for count in COUNTS:
        lines = (folder / f"readers of {count}").read_text().splitlines()
        assert sorted(lines) == [f"{place} {place % count}" for place in range(3)]
    assert len(alone["shards"]["ledger"]["id"]) == 2 * 203


def test_acquisitions_choose_the_same_in_several_processes(several, alone):
    for found in several[1].values():
        for rank in found:
            for name, one in alone.items():
                if isinstance(one, list):
                    assert rank[name] == one, name
                    assert len(one) == len(set(one)) > 10


def test_a_run_goes_on_with_another_number_of_processes(several, tmp_path):
    folder, _ = several
    whole = go_on(tmp_path / "whole", 6)
    same_run(whole, go_on(folder / "resumed", 6))  # two epochs by 2, up to the fourth by 4, and the rest alone
    sharded = shutil.copytree(folder / "sharded on", tmp_path / "sharded")  # by two, and then by four
    same_run(whole, go_on(sharded, 6))
    opened = open_run(folder / "resumed", model=network)
    np.testing.assert_array_equal(opened.ledger.table()["weight"].to_numpy(), whole["ledger"]["weight"])


@pytest.mark.parametrize("count", COUNTS)
def test_a_killed_process_ends_the_others_and_the_run_goes_on(several, tmp_path, count):
    folder, _ = several
    left = [rank for rank in range(count) if rank != DIES[count]]
    assert all(0 <= float((folder / f"noticed{count}-{rank}").read_text()) < 60 for rank in left)
    before = open_run(folder / f"killed{count}", model=network)
    assert not before.finished
    assert len(before.history) == 2
    same_run(trained_by_last_losses(tmp_path / "whole"), trained_by_last_losses(folder / f"killed{count}"))


def test_every_example_is_in_one_part_and_one_cluster(alone):
    table = alone["in parts"]["ledger"]
    assert table["weight"].sum() == len(table["weight"])  # every example in the cluster of one medoid
    for epoch in (1, 2, 3):
        sizes = np.bincount(table["part"][table["epoch"] == epoch].astype(int))[1:]
        assert sorted(sizes) == [67, 68, 68]
    assert alone["badge in parts"] != alone["badge"]


def test_a_loop_is_written_by_the_first_process_and_the_same_in_all(several, tmp_path):
    folder, found = several
    whole = looped(tmp_path / "loop")
    for count, ranks in found.items():
        for rank in ranks:
            assert rank["loop"] == [whole, whole]
        files = {file.name for file in (folder / f"loop{count}").iterdir()}
        assert files == {file.name for file in (tmp_path / "loop").iterdir()}


def test_shards_lie_beside_the_checkpoint_and_a_lost_one_is_noticed(several, tmp_path):
    sharded = several[0] / "sharded on"
    copied = shutil.copytree(sharded, tmp_path / "copied")
    shards = sorted((copied / "shards").rglob("*.safetensors"))
    assert [shard.name[:11] for shard in shards] == [f"shard-0000{rank}" for rank in (1, 2, 3, 4)]
    opened = open_run(copied, model=network)  # without a process group
    theirs = several[1][4][0]["sharded on"]["parameters"]
    for own, other in zip(opened.model.parameters(), theirs, strict=True):
        assert torch.equal(own, other)
    shards[0].unlink()
    with pytest.raises(ThresherError, match="a shard is lost or cannot be read"):
        open_run(copied, model=network)


def test_what_several_processes_cannot_do_is_said_at_the_start(several):
    for found in several[1].values():
        for rank in found:
            few, views, sharded, differ = rank["refused"]
            assert few.startswith("batch=1 cannot be shared by")
            assert "compares all views of a batch" in views
            assert "clean_agreement is not exact where parameters are sharded" in sharded
            assert "The processes differ in what they train" in differ


def test_the_first_process_says_that_graphs_are_off(several):
    for first, *others in several[1].values():
        why = "in several processes the host adds up gradients during the backward pass"
        assert first["graphs"] == [f"The steps run without a CUDA graph: {why}."]
        assert all(other["graphs"] == [] for other in others)


def test_networks_with_batch_norm_stay_the_same_in_all_processes(several):
    for first, *others in several[1].values():
        assert "SyncBatchNorm needs CUDA" in first["batch norm"]["said"]
        for other in others:
            same_run(first["batch norm"], other["batch norm"])
