"""Detection heads on maps of several sensors and dates, from image stores to what is found."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.images import Prepared
from helpers.datasets.sensors_with_objects import SIDE, Scenes
from helpers.stages.probe_jobs import configured, run_probe
from helpers.stages.specifications import extraction_of, specification
from helpers.stores.images import SPLITS
from permafrost.core.stores import Store
from permafrost.core.tables import read_table
from permafrost.features.extract import extract
from permafrost.features.specification import Running
from permafrost.statistics.predictions.objects import DetectedObjects

HEAD = {"kind": "detection", "hidden": 8, "depth": 1, "epochs": 10, "learning_rate": 0.02}
OPTICAL = ["red", "green", "blue"]


def extracted(folder, out: Prepared, bands) -> dict[str, Store]:
    """Stores of image statistics with maps."""
    stores = {split: folder / f"{split}.zarr" for split in SPLITS}
    spec = {
        "stage": "extract",
        "backbone": "tried",
        "dataset": "set",
        "entry": {"kind": "imagestats", "input": {"bands": bands, "normalization": "dataset"}},
        "extraction": extraction_of(maps=True, size=SIDE),
        "files": {},
        "inputs": {"images": "f" * 32},
    }
    extract(
        specification(spec),
        images=out.outputs,
        card=out.card_path,
        outputs=stores,
        fingerprint="fingerprint-of-features",
        running=Running(),
    )
    return {split: Store(path) for split, path in stores.items()}


def maps_of(store: Store) -> list[np.ndarray]:
    return [store.read(layer["array"]) for layer in store.attributes["layers"]]


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return Scenes((30, 8, 12), dates=2)


@pytest.fixture(scope="module")
def prepared(scenes, tmp_path_factory) -> Prepared:
    folder = tmp_path_factory.mktemp("several")
    out = Prepared(folder / "images")
    out.run(scenes.entry(scenes.write(folder / "data")))
    return out


@pytest.fixture(scope="module")
def both(prepared) -> dict[str, Store]:
    return extracted(prepared.folder / "both", prepared, "all")


def test_maps_of_a_sensor_are_those_of_a_dataset_of_this_sensor_alone(scenes, prepared, tmp_path):
    entry = scenes.entry(scenes.write(tmp_path / "data"))
    (_, alone), *_ = entry.pop("modalities").items()
    entry |= alone | {"source": {**entry["source"], "image": "s2"}}
    single = Prepared(tmp_path / "images")
    single.run(entry)
    one = extracted(tmp_path / "one", single, "all")["test"]
    of_two = extracted(tmp_path / "two", prepared, OPTICAL)["test"]
    for first, second in zip(maps_of(one), maps_of(of_two), strict=True):
        assert first.shape[:2] == (12, 2) and np.array_equal(first, second)
    assert one.samples()["objects"] == of_two.samples()["objects"]


def found(stores: dict[str, Store], folder, **options) -> tuple[dict, dict]:
    """AP50 of every class on test, and the settings of the head."""
    spec = {
        "dataset": "set",
        "backbone": "tried",
        "probe": "head",
        "seed": 0,
        "options": configured(**{**HEAD, **options}, dates="series"),
        "inputs": {"features": "fingerprint-of-features"},
    }
    paths = {split: store.path for split, store in stores.items()}
    run_probe(spec, paths, folder / "found.parquet", device="cpu")
    table, about = read_table(folder / "found.parquet")
    values = DetectedObjects.from_table(table, about).evaluate()["class_AP50"]
    return dict(zip(about["classes"], values, strict=True)), about["settings"]


def test_what_only_the_first_date_shows_is_lost_with_the_last(both, tmp_path):
    widest, _ = found(both, tmp_path, temporal="max")
    last, _ = found(both, tmp_path, temporal="last")
    assert widest["field"] > 0.5 > 0.2 > last["field"]
    assert min(widest["ship"], last["ship"]) > 0.3


def test_a_head_on_attention_over_dates_learns_which_to_look_at(both, tmp_path):
    ltae = {"heads": 2, "hidden": 16, "width": 16}
    values, settings = found(both, tmp_path, temporal="ltae", ltae=ltae, epochs=12)
    assert values["field"] > 0.4
    assert settings["positions"] == "days of the year"
