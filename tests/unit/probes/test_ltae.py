"""The L-TAE against a plain computation, what it must not depend on, and the probe that is made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from helpers.stages.probe_jobs import configured, run_probe
from helpers.stores.images import SPLITS
from helpers.stores.seasons import Seasons
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store, write_store
from permafrost.core.tables import read_table
from permafrost.features.dates import LtaeOptions, OverDates
from permafrost.features.writing import write_labels
from permafrost.probes.dense.ltae import Ltae, ltae_over_maps
from permafrost.probes.dense.map_splits import MaskSplit
from permafrost.probes.dense.map_stream import MapStream

OPTIONS = LtaeOptions(heads=3, key=4, hidden=12, width=7, dropout=0.2)
POSITIONS = torch.tensor([[12, 100, 360, 0], [5, 0, 0, 0], [1, 90, 180, 270], [200, 201, 0, 0]])
VALUES = torch.randn(4, 2, 4, 5, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def encoder() -> Ltae:
    torch.manual_seed(0)
    made = Ltae(5, OPTIONS)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    made.batch_norm.running_mean.normal_()
    made.batch_norm.running_var.uniform_(0.5, 2)
    return made.eval()


def _normalised(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weight + bias


def _by_loops(w: dict[str, np.ndarray], dates: np.ndarray, days: np.ndarray) -> np.ndarray:
    """One sample (T, C) as the paper has it, head by head and date by date, of the dates that there are."""
    there = [t for t in range(len(days)) if days[t] > 0]
    share = 12 // 3
    x = []
    for t in there:
        date = _normalised(dates[t], w["norm.weight"], w["norm.bias"])
        date = w["project.weight"] @ date + w["project.bias"]
        for j in range(12):
            i = j % share
            angle = days[t] / 1000 ** (2 * (i // 2) / share)
            date[j] += np.sin(angle) if i % 2 == 0 else np.cos(angle)
        x.append(date)
    joined = []
    for head in range(3):
        rows = slice(head * 4, head * 4 + 4)
        keys = [w["keys.weight"][rows] @ date + w["keys.bias"][rows] for date in x]
        scores = np.array([w["queries"][head] @ key / np.sqrt(4) for key in keys])
        shares = np.exp(scores) / np.exp(scores).sum()
        part = slice(head * share, (head + 1) * share)
        joined.append(sum(s * date[part] for s, date in zip(shares, x, strict=True)))
    out = w["perceptron.weight"] @ np.concatenate(joined) + w["perceptron.bias"]
    out = (out - w["batch_norm.running_mean"]) / np.sqrt(w["batch_norm.running_var"] + 1e-5)
    out = np.maximum(out * w["batch_norm.weight"] + w["batch_norm.bias"], 0)
    return _normalised(out, w["out_norm.weight"], w["out_norm.bias"])


def test_it_is_what_loops_over_heads_and_dates_give(encoder):
    weights = {name: x.double().numpy() for name, x in encoder.state_dict().items()}
    found = encoder(VALUES, POSITIONS).detach().numpy()
    for sample in range(4):
        for place in range(2):
            expected = _by_loops(
                weights, VALUES[sample, place].double().numpy(), POSITIONS[sample].numpy()
            )
            np.testing.assert_allclose(found[sample, place], expected, rtol=1e-4, atol=1e-5)


def test_the_order_in_which_dates_are_given_changes_nothing(encoder):
    order = torch.tensor([2, 0, 3, 1])
    found = encoder(VALUES[:, :, order], POSITIONS[:, order])
    torch.testing.assert_close(found, encoder(VALUES, POSITIONS))
    moved = encoder(VALUES[:, :, order], POSITIONS)
    assert not torch.allclose(moved[2], found[2], atol=1e-2)


@pytest.mark.parametrize("training", [False, True])
def test_dates_that_are_missing_change_nothing(encoder, training):
    encoder.train(training)
    encoder.dropout.p = encoder.attention_dropout.p = 0.0
    before = encoder(VALUES, POSITIONS)
    padded = torch.cat([VALUES, torch.full((4, 2, 3, 5), 1e4)], dim=2)
    padded[:, :, :4][(POSITIONS == 0)[:, None].expand(4, 2, 4)] = -50.0
    positions = torch.cat([POSITIONS, torch.zeros(4, 3, dtype=torch.long)], dim=1)
    torch.testing.assert_close(encoder(padded, positions), before)


def test_maps_are_encoded_pixel_by_pixel(encoder):
    maps = torch.randn(4, 4, 5, 3, 2, generator=torch.Generator().manual_seed(2))
    found = ltae_over_maps(encoder, maps, POSITIONS)
    assert found.shape == (4, 7, 3, 2)
    for row in range(3):
        for column in range(2):
            alone = encoder(maps[:, :, :, row, column][:, None], POSITIONS)[:, 0]
            torch.testing.assert_close(found[:, :, row, column], alone)


def test_hidden_channels_that_heads_cannot_share_are_refused():
    with pytest.raises(PermafrostError, match="12 hidden channels.*among 5 heads"):
        Ltae(5, LtaeOptions(heads=5, key=4, hidden=12, width=7, dropout=0.0))


def test_a_batch_of_one_sample_is_refused_in_training(encoder):
    with pytest.raises(PermafrostError, match="a single sample"):
        encoder.train()(VALUES[:1, :1], POSITIONS[:1])


# --- the probe, on series of two classes that differ only in when they are green

COLOURS = {"kind": "imagestats", "input": {"bands": "rgb", "size": None}}
QUICK = {"epochs": 15, "learning_rate": 0.003, "batch_size": 32}


@pytest.fixture(scope="module")
def seasons(tmp_path_factory) -> Seasons:
    made = Seasons(tmp_path_factory.mktemp("seasons"))
    made.extract(COLOURS)
    return made


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of small steps wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def predicted(dataset: Seasons, options: dict, *, out="features", seed=0, **how):
    """Accuracy on test, of pixels where these have classes, and the metadata of the table."""
    options = configured(**options, dates="series")
    spec = {
        "dataset": "tiny",
        "backbone": "tried",
        "probe": "p",
        "seed": seed,
        "options": options,
        "inputs": {"features": "fingerprint-of-features"},
    }
    path = dataset.folder / "predictions.parquet"
    stores = {split: dataset.folder / out / f"{split}.zarr" for split in SPLITS}
    run_probe(spec, stores, path, device="cpu", **how)
    table, metadata = read_table(path)
    if dataset.masks:
        confusion = np.sum(table["confusion"].to_pylist(), axis=0).reshape(2, 2)
        return np.trace(confusion) / confusion.sum(), metadata
    return np.mean(table["target"].to_numpy() == table["prediction"].to_numpy()), metadata


def test_it_sees_when_and_probes_of_the_mean_or_of_shuffled_dates_do_not(seasons):
    found, about = predicted(seasons, {"kind": "ltae", **QUICK})
    mixed, _ = predicted(seasons, {"kind": "ltae", "shuffle_dates": True, **QUICK})
    mean, _ = predicted(seasons, {"kind": "linear", "c_count": 5})
    assert found > 0.9
    assert 0.3 < mixed < 0.7 and 0.3 < mean < 0.7
    assert about["settings"]["positions"] == "days of the year" and about["gates"] == []
    assert about["feature_dim"] == 12


def test_the_same_seed_gives_the_same_answers(seasons):
    quick = {"kind": "ltae", **QUICK, "epochs": 1}
    tables = []
    for seed in (0, 0, 1):
        predicted(seasons, quick, seed=seed)
        tables.append(read_table(seasons.folder / "predictions.parquet")[0])
    first, again, other = tables
    assert first == again and first != other


def test_where_dates_are_not_known_it_knows_their_place(tmp_path):
    undated = Seasons(tmp_path, samples=(40, 10, 10), dated=False)
    undated.extract(COLOURS)
    _, about = predicted(undated, {"kind": "ltae", **QUICK, "epochs": 1})
    assert about["settings"]["positions"].startswith("places in the series")


def test_the_best_learning_rate_and_epoch_are_taken(seasons):
    rates = [1e-6, 3e-3]
    _, about = predicted(seasons, {"kind": "ltae", **QUICK, "epochs": 8, "learning_rate": rates})
    grid = {one["learning_rate"]: one["val_accuracy"] for one in about["settings"]["grid"]}
    assert about["settings"]["learning_rate"] == 3e-3 and grid[3e-3] > grid[1e-6]
    log = about["settings"]["epochs_log"]
    assert log[about["settings"]["epoch"] - 1]["val_accuracy"] == max(
        one["val_accuracy"] for one in log
    )


# --- on the same features, labels of other tasks


def relabelled(seasons: Seasons, tmp_path, labels_of, **attributes) -> dict[str, Path]:
    """Feature stores with `labels_of` the classes instead of them, and `attributes` beside their own."""
    made = {}
    for split in SPLITS:
        store = Store(seasons.folder / "features" / f"{split}.zarr")
        made[split] = tmp_path / f"{split}.zarr"
        with write_store(made[split], fingerprint=store.attributes["fingerprint"]) as writer:
            values = store.read("embeddings")
            writer.array("embeddings", values.shape, values.dtype, rows_per_chunk=64)[:] = values
            write_labels(writer, labels_of(store.read("labels")))
            writer.samples(store.samples())
            writer.attributes.update({**store.attributes, **attributes})
    return made


def answers(stores: dict[str, Path], tmp_path) -> pa.Table:
    spec = {
        "dataset": "tiny",
        "backbone": "tried",
        "probe": "p",
        "seed": 0,
        "options": configured(kind="ltae", dates="series", **QUICK),
        "inputs": {"features": "fingerprint-of-features"},
    }
    run_probe(spec, stores, tmp_path / "predictions.parquet", device="cpu")
    return read_table(tmp_path / "predictions.parquet")[0]


def test_it_learns_several_labels(seasons, tmp_path):
    def both(classes):
        return np.stack([classes == 0, classes == 1], axis=1).astype(np.int64)

    table = answers(relabelled(seasons, tmp_path, both, task="multilabel"), tmp_path)
    found, true = (np.array(table[name].to_pylist()) for name in ("prediction", "target"))
    assert found.shape == (100, 2) and (found == true).mean() > 0.9


def test_it_learns_numbers(seasons, tmp_path):
    def number(classes):
        return 3.0 * classes - 1.0

    task = {"task": "regression", "target": "days", "classes": []}
    table = answers(relabelled(seasons, tmp_path, number, **task), tmp_path)
    found, true = table["prediction"].to_numpy(), table["target"].to_numpy()
    assert set(true) == {-1.0, 2.0}
    # the mean over dates explains nothing of it
    assert 1 - np.mean((found - true) ** 2) / np.var(true) > 0.7


# --- the same at every pixel

PATCHES = {
    "kind": "entrypoint",
    "entrypoint": "config/backbones/template.py:build",
    "options": {"patch": 4, "width": 16},
    "input": {"bands": "rgb", "size": None},
}
HEAD = {"kind": "segmentation", "head": "linear", "batch_size": 16, "learning_rate": 0.01}
SMALL = {"temporal": "ltae", "ltae": {"heads": 4, "hidden": 32, "width": 16}}


@pytest.fixture(scope="module")
def fields(tmp_path_factory) -> Seasons:
    folder = tmp_path_factory.mktemp("fields")
    made = Seasons(folder, samples=(60, 16, 20), side=16, masks=True)
    made.extract(PATCHES)
    return made


@pytest.mark.parametrize("head", ["linear", "fpn"])
def test_a_segmentation_head_on_it_sees_when_every_pixel_is_green(fields, head):
    found, about = predicted(fields, {**HEAD, "head": head, "hidden": 8, **SMALL, "epochs": 6})
    assert found > 0.9
    assert about["settings"]["positions"] == "days of the year"


def test_heads_on_the_mean_or_on_shuffled_dates_do_not_see_it(fields):
    mean, _ = predicted(fields, {**HEAD, "epochs": 6})
    mixed, _ = predicted(fields, {**HEAD, **SMALL, "epochs": 6, "shuffle_dates": True})
    assert 0.3 < mean < 0.7 and 0.3 < mixed < 0.7


def test_maps_of_all_dates_are_the_same_streamed_or_kept(fields):
    options = {**HEAD, **SMALL, "epochs": 1}
    tables = []
    for memory in (0, 2**30):
        predicted(fields, options, memory=memory)
        tables.append(read_table(fields.folder / "predictions.parquet")[0])
    assert tables[0]["confusion"] == tables[1]["confusion"]


@pytest.mark.parametrize("keep", [True, False])
def test_positions_go_with_the_maps_of_their_sample(fields, keep):
    path = fields.folder / "features" / "train.zarr"
    split = MaskSplit(path, over=OverDates("series", "ltae"))
    positions = np.arange(60 * 6).reshape(60, 6)
    how = {"batch_size": 16, "device": torch.device("cpu"), "keep": keep, "positions": positions}
    stream = MapStream(split, split.layers, **how)
    stored = split.maps(split.layers[0], 0, 60)
    rows = []
    for batch in stream.shuffled(3, 0):
        assert np.array_equal(batch.positions, positions[batch.rows])
        assert np.array_equal(batch.maps[0], stored[batch.rows])
        rows += batch.rows.tolist()
    assert sorted(rows) == list(range(60)) != rows
