"""Images without an embedding leave the dataset, for all backbones alike, and are counted."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.datasets.images import (
    Prepared,
    class_files,
    folder_entry,
    geotiff,
    photo,
    write_folder,
)
from helpers.plans import CONFIG, changed, fill_root, make_plan
from helpers.stores.places import write_raster
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.files.folders import content_digest
from rasterio import Affine

BY_NAME = {"pattern": "*", "embedding": "e", "by": "id", "id": "id"}
RASTERS = {"pattern": "*.tif", "scale": 1.0, "offset": 0.0, "pool": "mean", "resampling": "nearest"}


def table(path, names) -> dict:
    """Embeddings of images of these names."""
    names = sorted(names)
    pq.write_table(pa.table({"id": names, "e": [[1.0, 2.0]] * len(names)}), path)
    return {"path": str(path), "table": BY_NAME}


def named(out, split) -> list[str]:
    return out.store(split).samples()["sample_id"].to_pylist()


@pytest.fixture
def images(tmp_path):
    """GeoTIFFs of two classes, each further east than the one before."""
    files = {
        f"{label}/{number:02d}.tif": geotiff(
            photo(100 * place + number).transpose(2, 0, 1), lon=10 + number / 10, lat=50 + place
        )
        for place, label in enumerate(("field", "town"))
        for number in range(20)
    }
    return write_folder(tmp_path / "images", files)


@pytest.fixture
def whole(tmp_path, images):
    out = Prepared(tmp_path / "whole")
    out.run(folder_entry(images))
    return out


def test_only_images_with_an_embedding_of_every_backbone_remain(tmp_path, images, whole):
    everything = {split: named(whole, split) for split in SPLITS}
    gone = {everything["train"][0], everything["train"][3], everything["test"][-1]}
    others = {everything["train"][3], everything["val"][2]}
    names = {name for one in everything.values() for name in one}
    required = {
        "one": table(tmp_path / "one.parquet", names - gone),
        "two": table(tmp_path / "two.parquet", names - others),
    }
    out = Prepared(tmp_path / "out")
    card = out.run(folder_entry(images), matched=required)
    assert card["unmatched"] == {
        "one": {"train": 2, "val": 0, "test": 1},
        "two": {"train": 1, "val": 1, "test": 0},
    }
    for split in SPLITS:
        left = [name for name in everything[split] if name not in gone | others]
        assert named(out, split) == left and card["splits"][split]["count"] == len(left)
        rows = [everything[split].index(name) for name in left]
        for array in ("images", "labels"):
            assert np.array_equal(
                out.store(split).read(array), whole.store(split).read(array)[rows]
            )
    train = out.store("train").read("images").astype(float)
    assert card["bands"][0]["mean"] == pytest.approx(train[:, 0].mean())
    assert sum(card["splits"]["train"]["class_counts"]) == len(named(out, "train"))


def test_rasters_cover_images_or_do_not(tmp_path, images, whole):
    # up to 10.95 degrees east: the first ten images of either class
    write_raster(
        tmp_path / "rasters" / "a.tif",
        np.ones((2, 300, 100), np.float32),
        Affine(0.01, 0, 9.95, 0, -0.01, 51.9),
        crs="EPSG:4326",
    )
    required = {"aef": {"path": str(tmp_path / "rasters"), "rasters": RASTERS}}
    out = Prepared(tmp_path / "out")
    card = out.run(folder_entry(images), matched=required)
    left = {name for split in SPLITS for name in named(out, split)}
    assert left == {
        f"{label}/{number:02d}.tif" for label in ("field", "town") for number in range(10)
    }
    assert sum(card["unmatched"]["aef"].values()) == 20


def test_with_embeddings_of_all_images_nothing_else_changes(tmp_path, images, whole):
    names = {name for split in SPLITS for name in named(whole, split)}
    out = Prepared(tmp_path / "out")
    card = out.run(folder_entry(images), matched={"one": table(tmp_path / "t.parquet", names)})
    assert card.pop("unmatched") == {"one": dict.fromkeys(SPLITS, 0)}
    assert card == whole.card


def test_a_split_or_a_class_without_images_is_an_error_and_nothing_is_written(
    tmp_path, images, whole
):
    out = Prepared(tmp_path / "out")
    names = {name for split in SPLITS for name in named(whole, split)}
    few = table(tmp_path / "few.parquet", set(named(whole, "train")))
    with pytest.raises(PermafrostError, match="no sample of val has an embedding in 'one'"):
        out.run(folder_entry(images), matched={"one": few})
    fields = table(
        tmp_path / "fields.parquet", {name for name in names if name.startswith("field")}
    )
    with pytest.raises(PermafrostError, match="town"):
        out.run(folder_entry(images), matched={"one": fields})
    assert out.leftovers() == []


def test_embeddings_that_changed_since_the_plan_are_refused(tmp_path, images):
    required = table(tmp_path / "t.parquet", {"field/00.tif"})
    digest = content_digest(tmp_path / "t.parquet")
    table(tmp_path / "t.parquet", {"field/01.tif"})
    with pytest.raises(PermafrostError, match=r"t\.parquet with its embeddings changed since"):
        Prepared(tmp_path / "out").run(
            folder_entry(images), matched={"one": {**required, "digest": digest}}
        )


def test_images_without_a_place_leave_where_places_are_matched(tmp_path):
    nearest = {
        "pattern": "*",
        "embedding": "e",
        "by": "nearest",
        "within_m": 10.0,
        "lon": "x",
        "lat": "y",
    }
    pq.write_table(pa.table({"x": [0.0], "y": [0.0], "e": [[1.0]]}), tmp_path / "t.parquet")
    images = write_folder(tmp_path / "images", class_files(count=8))
    required = {"one": {"path": str(tmp_path / "t.parquet"), "table": nearest}}
    with pytest.raises(PermafrostError, match="no sample of train has an embedding"):
        Prepared(tmp_path / "out").run(folder_entry(images), matched=required)


class TestPlan:
    @pytest.fixture
    def root(self, tmp_path):
        root = fill_root(tmp_path / "root")
        pq.write_table(pa.table({"id": ["a"], "e": [[1.0]]}), root / "data" / "t.parquet")
        return root

    @staticmethod
    def config(**more) -> dict:
        entry = {
            "kind": "embeddings",
            "path": "{data}/t.parquet",
            "table": {k: BY_NAME[k] for k in ("by", "id", "embedding")},
        }
        config = json.loads(json.dumps(CONFIG))
        config["backbones"] = ["stats", "rows"]
        config["extra_backbones"] = {**config["extra_backbones"], "rows": {**entry, **more}}
        return config

    def test_every_dataset_is_prepared_with_what_must_be_matched(self, root):
        plan = make_plan(root, self.config(unmatched="drop"))
        job = plan.prepare("pictures")
        spec = json.loads(job.spec)
        assert spec["matched"]["rows"]["table"]["by"] == "id"
        assert spec["matched"]["rows"]["digest"] == content_digest(root / "data" / "t.parquet")
        assert job.places["matched"] == {"rows": {"path": "{data}/t.parquet"}}
        moved = self.config(unmatched="drop")
        shutil.move(root / "data" / "t.parquet", root / "data" / "u.parquet")
        moved["extra_backbones"]["rows"]["path"] = "{data}/u.parquet"
        assert changed(plan, make_plan(root, moved)) == set()

    def test_without_it_the_dataset_does_not_depend_on_embeddings(self, root):
        plan = make_plan(root, self.config())
        assert "matched" not in json.loads(plan.prepare("pictures").spec)
        alone = self.config()
        alone["backbones"] = ["stats"]
        assert (
            plan.prepare("pictures").fingerprint
            == make_plan(root, alone).prepare("pictures").fingerprint
        )

    def test_one_job_prepares_what_images_leave(self, root):
        from permafrost.plan.parts import number_of_parts

        found = {}
        for how in ("drop", "error"):
            config = {**self.config(unmatched=how), "runtime": {"parts": {"pictures": 3}}}
            plan = make_plan(root, config)
            names = ("prepare", "pictures"), ("extract", "pictures", "stats")
            others = ("extract", "pictures", "rows"), ("prepare", "world")
            found[how] = [number_of_parts(plan, *each) for each in (*names, *others)]
        skipping = {**self.config(unmatched="error"), "runtime": {"parts": {"pictures": 3}}}
        skipping["extra_datasets"]["pictures"]["on_error"] = {"skip_up_to": 0.1}
        assert number_of_parts(make_plan(root, skipping), "prepare", "pictures") == 3
        # nor is extraction divided of a backbone that looks at no pixels
        assert found == {"drop": [1, 3, 1, 1], "error": [3, 3, 1, 1]}

    def test_other_embeddings_prepare_again(self, root):
        before = make_plan(root, self.config(unmatched="drop"))
        pq.write_table(pa.table({"id": ["b"], "e": [[1.0]]}), root / "data" / "t.parquet")
        after = make_plan(root, self.config(unmatched="drop"))
        assert before.prepare("pictures").fingerprint != after.prepare("pictures").fingerprint
        assert (
            before.extract("pictures", "stats").fingerprint
            != after.extract("pictures", "stats").fingerprint
        )
