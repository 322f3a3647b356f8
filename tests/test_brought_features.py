"""Embeddings that people bring, and predictions as means over networks, averages and views."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from thresher import Examples, Recipe, ThresherError, fit
from thresher.app.settings import make_settings
from thresher.app.train_job import prepare_job
from thresher.data.features import with_features
from thresher.slots import Flip

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
EXAMPLES = Examples(torch.zeros(6, 1, 4, 4), torch.tensor([0, 1] * 3))


def test_rows_of_arrays_and_files_are_the_same(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    parquet.write_table(pa.table({"x": ROWS[:, 0], "y": ROWS[:, 1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"vector": ROWS.tolist()}), tmp_path / "b.parquet")
    for source in (ROWS, torch.from_numpy(ROWS), ROWS.tolist(), *(tmp_path / n for n in ("a.npy", "a.parquet"))):
        assert torch.equal(with_features(EXAMPLES, source).columns["features"], torch.from_numpy(ROWS))
    assert torch.equal(with_features(EXAMPLES, str(tmp_path / "b.parquet")).columns["features"], torch.from_numpy(ROWS))


def test_rows_go_by_id_where_there_are_more_of_them():
    some = EXAMPLES.subset([4, 1])
    assert with_features(some, ROWS).columns["features"].tolist() == [[8.0, 9.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (ROWS[:4], "There are 4 rows of features for 6"),
        (ROWS[:, 0], "cannot be compared"),
        (np.full((6, 2), np.nan), "finite numbers"),
        (np.array([["a"]] * 6), "have to be numbers"),
        ("nowhere.npy", "There is no file"),
        ("nowhere.txt", "holds no features"),
    ],
)
def test_wrong_features_are_refused(source, sentence):
    with pytest.raises(ThresherError, match=sentence):
        with_features(EXAMPLES, source)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"nothing")
    with pytest.raises(ThresherError, match="cannot be read"):
        with_features(EXAMPLES, tmp_path / "a.npy")


def test_the_command_line_gives_them_to_the_training_set(tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(1797, 3)))
    settings = make_settings({"data": "digits", "method": "standard", "features": str(tmp_path / "vectors.npy")})
    train = prepare_job(settings).train
    assert train.columns["features"].shape == (len(train), 3)


@pytest.fixture(scope="module")
def run():
    draws = torch.Generator().manual_seed(0)
    images = torch.randn(60, 1, 4, 4, generator=draws)
    return fit(Recipe(average=0.9, peers=2), "mlp:8", (images, torch.arange(60) % 3), epochs=2, batch=20), images


def chances(network, images):
    with torch.no_grad():
        return network.eval()(images).softmax(1)


def test_predictions_are_means_over_networks_and_views(run):
    trained, images = run
    flipped = images.flip(3)
    models = [chances(each, images) for each in trained.models]
    averages = [chances(each, images) for each in trained.averages]
    seen = [chances(each, flipped) for each in (*trained.models, *trained.averages)]

    def same(found, parts):
        return np.allclose(found, torch.stack(parts).mean(0).numpy(), atol=1e-6)

    assert same(trained.predict_proba(images), models)
    assert same(trained.predict_proba(images, networks="averages"), averages)
    assert same(trained.predict_proba(images, networks="all"), [*models, *averages])
    found = trained.predict_proba(images, networks="all", views=(Flip(1.0),))
    assert same(found, [*models, *averages, *seen])
    assert (trained.predict(images, networks="all", views=(Flip(1.0),)) == found.argmax(1)).all()


def test_networks_that_are_not_there_are_refused(run):
    with pytest.raises(ThresherError, match="choice of networks"):
        run[0].predict(run[1], networks="averaged")
    plain = fit("standard", "mlp:8", (run[1], torch.arange(60) % 3), epochs=1, batch=20)
    with pytest.raises(ThresherError, match="no moving average"):
        plain.predict(run[1], networks="averages")
