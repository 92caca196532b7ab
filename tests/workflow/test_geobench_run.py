"""The example of GEO-Bench V1 and V2 from one folder: files in the published layouts, and a real sample among them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import yaml
from helpers.datasets.geobench import write_dataset, write_partition
from helpers.datasets.images import catalogue_entry
from helpers.datasets.tortilla import write_entries
from helpers.project import REPOSITORY, Project

pytestmark = [pytest.mark.slow, pytest.mark.shared]
EXAMPLE = yaml.safe_load((REPOSITORY / "config/examples/geobench.yaml").read_text())


FIRST = [name for name in EXAMPLE["datasets"] if not name.startswith("geobench2-")]
# of the second, one of each kind; that every entry is prepared, test_geobench2.py of the sources shows
SECOND = [
    name
    for name in EXAMPLE["datasets"]
    if name.removeprefix("geobench2-") in ("benv2", "treesatai-aerial", "so2sat-s1", "forestnet")
]
PROBES = {"knn": EXAMPLE["probes"]["knn"]}


def write_all(data, shared_data) -> None:
    for name in FIRST:
        entry = catalogue_entry(name, data)
        folder = data / "classification_v1.0" / name
        reflectance = entry["units"]["unit"] == "reflectance"
        called = "-1.6_128.1{:04d}_2016_01_01" if name == "m-forestnet" else "sample_{}"

        def pixels(number, band, entry=entry, reflectance=reflectance):
            side = entry["source"]["size"]
            base = np.random.default_rng([number, band]).integers(20, 120, (8, 8))
            image = np.kron(base, np.ones((side // 8 + 1,) * 2))[:side, :side]
            image += number // 3 % len(entry["classes"]) * (100 // len(entry["classes"]))
            return (image / 255).astype(np.float32) if reflectance else image.astype(np.int16)

        count = max(6, 2 * len(entry["classes"])) if entry["task"] == "classification" else 12
        write_dataset(folder, entry, count=count, array=pixels, called=called.format)
    eurosat = data / "classification_v1.0" / "m-eurosat"
    real = shared_data / "geobench1_sample" / "classification_v1.0" / "m-eurosat"
    shutil.copy(real / "id_1905.hdf5", eurosat)
    splits = json.loads((eurosat / "default_partition.json").read_text())
    write_partition(eurosat, {**splits, "test": ["id_1905", *splits["test"]]})


def test_a_backbone_on_both_from_one_folder(tmp_path, shared_data):
    write_all(tmp_path / "data", shared_data)
    # of the second, copies of the entries for so few images that classes are missing among them
    few = write_entries(tmp_path / "data", SECOND)
    project = Project(tmp_path / "project")
    project.config = {
        **EXAMPLE,
        "results": "results",
        "data": str(tmp_path / "data"),
        "datasets": [*FIRST, *few],
        "extra_datasets": few,
        "backbones": EXAMPLE["backbones"][:1],
        "probes": PROBES,
        "bootstrap": {"resamples": 200},
    }
    project.configure()
    project.snakemake()
    rows = project.leaderboard()
    found = {(row["dataset"], row["backbone"], row["probe"]) for row in rows}
    assert found >= {
        (dataset, backbone, probe)
        for dataset in project.config["datasets"]
        for backbone in project.config["backbones"]
        for probe in PROBES
    }
    # what an entry says to people is put on the page, and reruns nothing
    page = project.report_text()
    assert all(words in page for words in ("m-so2sat, 21,964 chips", "MIT", "Lacoste", "GEO-Bench"))
    assert project.pending() == {}
