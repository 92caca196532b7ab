"""A probe of maps on folds: its pooled rows are those of the probe on each fold, prepared by hand."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.probe_jobs import job_of
from helpers.stores.maps import (
    DENSE_KNN,
    FINGERPRINT,
    SEGMENTATION,
    run_spec,
    separable,
    spec,
    write_maps,
)
from helpers.stores.objects import DETECTION, scatter, write_objects
from helpers.stores.targets import RIDGE, write_targets
from permafrost.core.rows_store import Parent, Selection, write_rows
from permafrost.core.stores import Store, write_store
from permafrost.core.tables import read_table
from permafrost.probes.dense.folds import run_on_folds
from permafrost.probes.kinds import KINDS

COUNT, FOLDS = 24, 3
KNOWN = {"arrays", "count", "samples_sha256", "complete", "fingerprint"}
SPLITS = ("train", "val", "test")
PROBES = {
    "dense_knn": DENSE_KNN,
    "segmentation": {**SEGMENTATION, "epochs": 2},
    "dense_ridge": RIDGE,
    "detection": {**DETECTION, "score_threshold": 0.1},
}


def parent_of(kind, path):
    """A store of all images; each image of objects has two windows."""
    maps, masks = separable(COUNT)
    if kind == "dense_ridge":
        return write_targets(path, maps, np.where(masks == 1, np.nan, masks * 2.0))
    if kind != "detection":
        # no class 2 in some folds
        masks[masks == 2] = np.where(np.arange(COUNT) < 12, 2, 0)[np.nonzero(masks == 2)[0]]
        return write_maps(path, maps, masks)
    rng = np.random.default_rng(3)
    objects = [scatter(rng, (64, 64)) for _ in range(COUNT)]
    names = [f"image {i // 2}" for i in range(COUNT)]
    return write_objects(
        path,
        maps,
        objects,
        sizes=(64, 64),
        working=(64, 64),
        image_ids=names,
        offsets=[(64 * (i % 2), 0) for i in range(COUNT)],
        image_sizes=(64, 128),
    )


class Folded:
    """The derived stores of folds over one parent, and the rows of each fold; windows of an image stay together."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        self.parent = Store(parent_of(kind, folder / "features/whole/made-up/train.zarr"))
        rng = np.random.default_rng(5)
        home = rng.permutation(np.arange(COUNT // 2) % FOLDS).repeat(2)
        val = ((np.arange(COUNT // 2)[:, None] + np.arange(FOLDS)) % 4 == 0).repeat(2, axis=0)
        out = home[:, None] != np.arange(FOLDS)
        order = np.argsort(home, kind="stable")
        self.rows = {"train": np.arange(COUNT), "val": np.arange(COUNT), "test": order}
        self.inside = {"train": out & ~val, "val": out & val, "test": ~out[order]}
        self.stores = {split: self._derived(split) for split in SPLITS}

    def _about(self, split):
        own = {k: v for k, v in self.parent.attributes.items() if k not in KNOWN}
        own = {key: one for key, one in own.items() if not key.endswith("_sha256")}
        return own | {"split": split}

    def _samples(self, rows):
        table = self.parent.samples().take(pa.array(rows))
        # a table of objects has the column only for folds with such images
        leaks = pa.array(["group" if row < 3 else None for row in rows], pa.string())
        return table.append_column("leak", leaks)

    def _derived(self, split):
        path = self.folder / "features/toy/made-up" / f"{split}.zarr"
        rows = self.rows[split]
        selection = Selection(np.zeros(COUNT, int), rows, self.inside[split])
        with write_store(path, fingerprint=FINGERPRINT) as writer:
            of = [Parent("whole", "train", FINGERPRINT)]
            write_rows(writer, selection, of, [self.parent], None)
            writer.samples(self._samples(rows))
            writer.attributes.update(self._about(split))
        return path

    def by_hand(self, fold):
        """Stores of a fold that hold all of it."""
        found = {}
        for split in SPLITS:
            rows = self.rows[split][self.inside[split][:, fold]]
            found[split] = self.folder / f"hand{fold}" / f"{split}.zarr"
            with write_store(found[split], fingerprint=FINGERPRINT) as writer:
                for name in self.parent.attributes["arrays"]:
                    values = self.parent.read(name)[rows]
                    writer.array(name, values.shape, values.dtype, rows_per_chunk=4)[:] = values
                writer.samples(self._samples(rows))
                writer.attributes.update(self._about(split))
        return found

    def pooled(self, options, **how):
        job = job_of(
            spec(options), self.stores, self.folder / "out/table.parquet", device="cpu", **how
        )
        run_on_folds(KINDS[self.kind].load(), job)
        assert [path.name for path in job.output.parent.iterdir() if path.is_file()] == [
            "table.parquet"
        ]
        return read_table(job.output, expect="0" * 32)


@pytest.mark.parametrize("kind", PROBES)
def test_pooled_rows_are_those_of_each_fold_prepared_by_hand(tmp_path, kind):
    data, options = Folded(tmp_path, kind), PROBES[kind]
    second = tmp_path / "out/second" if kind == "detection" else None
    table, metadata = data.pooled(options, second_output=second)
    pictures = {"shown", "mask", "raster"}
    rows, every = [], []
    for fold in range(FOLDS):
        own, about, _ = run_spec(spec(options), data.by_hand(fold), tmp_path / "hand", device="cpu")
        rows += [{"leak": None, **row} for row in own.to_pylist()]
        every.append(about)
    kept = [
        {key: one for key, one in row.items() if key not in pictures} for row in table.to_pylist()
    ]
    assert kept == [{key: one for key, one in row.items() if key not in pictures} for row in rows]
    # pictures are those of the first fold, and each image is tested once
    first = data.inside["test"][:, 0].sum() // (2 if kind == "detection" else 1)
    shown = [row for row, one in enumerate(table["shown"].to_pylist()) if one]
    assert shown and max(shown) < first
    assert len(table) == len(set(table["sample_id"].to_pylist())) == COUNT // (2 if second else 1)
    assert metadata["gates"] == sorted({gate for one in every for gate in one["gates"]})
    fewest = min(every, key=lambda one: one["n_train"])
    assert [metadata[key] for key in ("n_train", "n_val")] == [
        fewest[key] for key in ("n_train", "n_val")
    ]
    assert metadata["n_test"] == sum(one["n_test"] for one in every) == COUNT
    assert len(metadata["settings"]["folds"]) == FOLDS
    assert metadata["options"] == every[0]["options"]
    if kind == "dense_ridge":
        counts = np.sum([one["histogram"]["counts"] for one in every], axis=0)
        assert metadata["histogram"]["counts"] == counts.tolist()
    if kind == "detection":
        assert metadata["settings"]["score_threshold"] == 0.1
        check_coco(second, table)


def check_coco(folder, table):
    """Images in the order of their names, each with its own objects and detections."""
    truth = json.loads((folder / "truth.json").read_text())
    found = json.loads((folder / "detections.json").read_text())
    names = [one["file_name"] for one in truth["images"]]
    assert names == sorted(table["sample_id"].to_pylist())
    assert [one["id"] for one in truth["annotations"]] == [*range(1, 1 + len(truth["annotations"]))]
    rows = {row["sample_id"]: row for row in table.to_pylist()}
    for image in truth["images"]:
        row = rows[image["file_name"]]
        own = [one["bbox"][:2] for one in truth["annotations"] if one["image_id"] == image["id"]]
        assert own == [[one["x_min"], one["y_min"]] for one in row["objects"]]
        own = [one["score"] for one in found if one["image_id"] == image["id"]]
        assert own == [one["score"] for one in row["detections"]]


def test_without_folds_the_probe_runs_once_and_nothing_is_made_beside_it(tmp_path):
    data = Folded(tmp_path, "dense_knn")
    job = job_of(spec(DENSE_KNN), data.by_hand(0), tmp_path / "table.parquet")
    seen = []
    run_on_folds(seen.append, job)
    assert seen == [job]


def test_a_probe_that_fails_on_a_fold_leaves_nothing(tmp_path):
    data = Folded(tmp_path, "dense_knn")
    job = job_of(spec(DENSE_KNN), data.stores, tmp_path / "out/table.parquet")
    with pytest.raises(ZeroDivisionError):
        run_on_folds(lambda job: 1 / 0, job)
    assert not list((tmp_path / "out").iterdir())
