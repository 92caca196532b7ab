"""Views that cannot be measured, and configurations that ask for what cannot be had."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.stages.views import EXTRACTED, STILL, make_views, measure_views, write_both
from helpers.stores.images import Dataset
from permafrost.core.errors import PermafrostError
from permafrost.metrics import representation as ours

GENERATOR = np.random.default_rng(0)
VARIED = GENERATOR.normal(size=(20, 1, 5)) + 0.1 * GENERATOR.normal(size=(20, 3, 5))


def rows_of(folder, views, *, options=None, **store) -> dict[str, dict]:
    paths = write_both(folder, views, **store)
    rows = measure_views(*paths, folder / "m.parquet", **(options or {}))
    return {name: {**row, "notes": json.loads(row["settings"])} for name, row in rows.items()}


def undefined(rows) -> dict[str, str]:
    found = {}
    for name in ours.VIEW_MEASURES:
        assert ("undefined" in rows[name]["notes"]) == bool(np.isnan(rows[name]["value"]))
        if "undefined" in rows[name]["notes"]:
            assert np.isnan([rows[name]["lower"], rows[name]["upper"]]).all()
            found[name] = rows[name]["notes"]["undefined"]
    return found


# --- values that cannot be had ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 4, 3), (4, 1, 3), (1, 1, 3)])
def test_one_image_or_one_view_has_no_value(tmp_path, shape):
    views = np.random.default_rng(1).normal(size=shape)
    for reason in undefined(rows_of(tmp_path, views)).values():
        assert reason == "it takes two images and two views of each"
    assert len(undefined(rows_of(tmp_path, views))) == 2


@pytest.mark.parametrize("constant", [0.0, 0.1, 3e38])
def test_collapsed_features_have_no_value(tmp_path, constant):
    found = undefined(rows_of(tmp_path, np.full((20, 3, 5), constant)))
    assert found["alignment_augmentations"] == "all views of all images are equal"
    assert found["lidar"] == "the means of all images are equal"


def test_images_of_one_direction_each_are_told_apart_from_images_without(tmp_path):
    views = VARIED.copy()
    views[:, 1:] = 0.0
    found = undefined(rows_of(tmp_path, views))
    assert found == {"alignment_augmentations": "no image has two views with a direction"}


def test_views_that_do_not_differ_are_flagged(tmp_path):
    rows = rows_of(tmp_path, np.repeat(VARIED[:, :1], 3, axis=1))
    assert (
        rows["alignment_augmentations"]["value"] == 0.0 == rows["alignment_augmentations"]["upper"]
    )
    for name in ours.VIEW_MEASURES:
        assert rows[name]["notes"]["flag"] == "the views of every image are equal"
    assert np.isfinite(rows["lidar"]["value"])


@pytest.mark.parametrize(("scale", "flagged"), [(1.0, False), (1e-3, True), (1e3, False)])
def test_a_delta_that_hides_the_augmentations_is_flagged(tmp_path, scale, flagged):
    notes = rows_of(tmp_path, VARIED * scale)["lidar"]["notes"]
    assert (notes.get("flag") == "delta exceeds the mean variance of an image's views") == flagged


def test_views_of_zeros_and_images_without_a_pair_are_counted(tmp_path):
    views = VARIED.copy()
    views[3, 0] = views[9, 1:] = 0.0
    notes = rows_of(tmp_path, views)["alignment_augmentations"]["notes"]
    assert (notes["zero_views"], notes["lone_images"], notes["rows"], notes["views"]) == (
        3,
        1,
        20,
        3,
    )


def test_duplicate_images_change_no_sum_and_one_group_has_no_interval(tmp_path):
    twice = np.concatenate([VARIED, VARIED])
    found, once = (
        rows_of(tmp_path, views, groups=["one"] * len(views)) for views in (twice, VARIED)
    )
    for name in ours.VIEW_MEASURES:
        assert found[name]["value"] == pytest.approx(once[name]["value"], rel=1e-9)
        assert np.isnan([found[name]["lower"], found[name]["upper"]]).all()
        assert (
            found[name]["notes"]["interval"]
            == "no interval: a single group does not show how far others would move it"
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_number_names_the_sample_and_the_store(tmp_path, bad):
    views = VARIED.copy()
    views[4, 2, 1] = bad
    paths = write_both(tmp_path, views)
    with pytest.raises(PermafrostError, match="views of 1 images .*'sample 04'") as caught:
        measure_views(*paths, tmp_path / "m.parquet")
    assert "views.zarr" in str(caught.value.where)
    assert not (tmp_path / "m.parquet").exists()


# --- what does not belong together --------------------------------------------------------------


def test_views_of_another_plan_are_refused(tmp_path):
    paths = write_both(tmp_path, VARIED, fingerprint="0" * 32)
    with pytest.raises(PermafrostError, match="another plan"):
        measure_views(*paths, tmp_path / "m.parquet")


def test_a_job_that_asks_for_views_is_given_them(tmp_path):
    features, _ = write_both(tmp_path, VARIED)
    with pytest.raises(
        PermafrostError, match="the job uses augmented views, but --views is missing"
    ) as caught:
        measure_views(features, None, tmp_path / "m.parquet")
    assert "--views" in caught.value.remedy


# --- the two pipelines together -----------------------------------------------------------------


def test_augmentations_that_change_nothing_are_seen_in_the_rows(tmp_path):
    dataset = Dataset(tmp_path)
    entry = {"kind": "imagestats", "input": {"size": None}}
    dataset.extract(entry)
    make_views(dataset, entry, images=10, **STILL)
    paths = tmp_path / "features/train.zarr", tmp_path / "views.zarr", tmp_path / "m.parquet"
    rows = measure_views(*paths, made=EXTRACTED)
    row = rows["alignment_augmentations"]
    assert (row["value"], row["lower"], row["upper"]) == (0.0, 0.0, 0.0)
    for name in ours.VIEW_MEASURES:
        notes = json.loads(rows[name]["settings"])
        assert notes["flag"] == "the views of every image are equal"
        assert (notes["rows"], notes["drawn_from"], rows[name]["n_train"]) == (10, 20, 20)
        assert notes["augmentations"]["crop_scale"] == [1, 1]
    assert json.loads(rows["rankme"]["settings"])["rows"] == 20
    only = measure_views(*paths, made=EXTRACTED, names=["lidar"])
    assert list(only) == ["lidar"] and only["lidar"] == rows["lidar"]
