"""Pairs and series of the procedural world: registered, deterministic, and more than any one of their images."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.images import Prepared, dataset_entry
from permafrost.core.errors import PermafrostError
from permafrost.data.sources.demo import DemoSource
from permafrost.data.store.image_store import ImageStore
from permafrost.data.world import farmland, pairs, scene

BANDS = ["B03", "B04", "B08"]
SPEC = scene.SceneSpec(seed=0, number=3, size=128)
CLOUDY = scene.SceneSpec(seed=0, number=3, size=128, clouds=True)
SMALL = {
    "scenes": {"train": 4, "val": 2, "test": 2},
    "chips": {"train": 16, "val": 6, "test": 6},
    "scene_size": 128,
    "chip_size": 32,
}


def entry(task, dates, **source):
    return {"task": task, "dates": dates, "source": {"kind": "demo", **SMALL, **source}}


def source_of(task, dates, **source):
    return DemoSource(dataset_entry(entry(task, dates, **source), where="demo"), where="demo")


def ndvi(image: np.ndarray) -> np.ndarray:
    red, nir = image[-2].astype(float), image[-1].astype(float)
    return (nir - red) / (nir + red)


# --- pairs ---------------------------------------------------------------------------------------


def test_before_is_the_scene_as_it_was_and_after_shows_the_same_ground():
    before, after = pairs.render(SPEC, BANDS)
    np.testing.assert_array_equal(before, scene.render(SPEC, BANDS))
    same = pairs.change(SPEC)[0] == 0
    # houses stand where they stood
    towns = same & np.isin(scene.layout(SPEC), [scene.CLASSES.index(n) for n in ("residential",)])
    here = np.corrcoef(before[0][towns], after[0][towns])[0, 1]
    moved = np.corrcoef(before[0][towns], np.roll(after[0], 5, axis=0)[towns])[0, 1]
    assert here > 0.7 > 0.3 > moved
    # seen in another light
    assert (before != after).mean() > 0.95


def test_what_changed_looks_like_what_follows():
    kinds, covers = pairs.change(SPEC)
    before, after = map(ndvi, pairs.render(SPEC, BANDS))
    assert 0.05 < (kinds > 0).mean() < 0.35 and set(np.unique(kinds)) == {0, 1, 2}
    built = {scene.CLASSES[c] for c in np.unique(covers[kinds == 1])}
    assert built == {"residential", "industrial"}
    np.testing.assert_array_equal(covers[kinds == 0], scene.layout(SPEC)[kinds == 0])
    for kind in (1, 2):
        lost = np.abs(after - before)[kinds == kind].mean()
        assert lost > 1.5 * np.abs(after - before)[kinds == 0].mean()


def test_pixels_under_clouds_of_either_date_are_ignored():
    each, one = (pairs.mask(CLOUDY, each=which) for which in (True, False))
    first, second = (scene.hidden(CLOUDY, date) for date in (0, 1))
    assert first.any() and second.any() and (first != second).any()
    np.testing.assert_array_equal(each == scene.CLOUD, first | second)
    np.testing.assert_array_equal(np.minimum(each, 1) * (each != scene.CLOUD), one % scene.CLOUD)
    clear = pairs.mask(SPEC, each=True)
    np.testing.assert_array_equal(clear, pairs.change(SPEC)[0])
    bright = pairs.render(CLOUDY, BANDS)[:, 1]
    assert bright[0][first].mean() > 2 * bright[0][~first].mean()
    assert bright[1][second].mean() > 2 * bright[1][~second].mean()


def test_a_pair_is_the_same_every_time():
    found = pairs.render(CLOUDY, BANDS)
    pairs.change.cache_clear()
    scene.layout.cache_clear()
    np.testing.assert_array_equal(found, pairs.render(CLOUDY, BANDS))


@pytest.mark.parametrize(
    ("kinds", "classes"),
    [("one", ["no change", "change"]), ("each", ["no change", "built", "cleared"])],
)
def test_pairs_are_prepared_with_their_masks_and_dates(tmp_path, kinds, classes):
    out = Prepared(tmp_path / "out")
    card = out.run(entry("change", "pair", kinds=kinds, bands=BANDS))
    assert card["classes"] == classes and card["ignore_index"] == 255 and card["dates"] == "pair"
    assert card["modalities"][0]["dates"]["fewest"] == 2
    store, source = ImageStore(out.outputs["val"]), source_of("change", "pair", bands=BANDS)
    chunk = store.read()
    assert chunk.images.shape == (6, 2, 3, 32, 32) and chunk.masks.shape == (6, 32, 32)
    first = [record.split for record in source.records()].index("val")
    for row in range(6):
        decoded = source.decode(first + row)
        np.testing.assert_array_equal(chunk.images[row], decoded.image)
        if kinds == "one":
            np.testing.assert_array_equal(chunk.masks[row], decoded.mask)
        before, after = store.samples["dates"][row].as_py()
        assert before < after and before[:4] == "2019" and after[:4] == "2021"


# --- series --------------------------------------------------------------------------------------


def crops_at(image: np.ndarray) -> list[float]:
    return [float(np.median(ndvi(image)[farmland.layout(SPEC) == crop])) for crop in range(4)]


def test_crops_that_look_alike_at_the_end_differ_before():
    images = farmland.render(SPEC, BANDS, [0, 1, 2, 3, 4, 5])
    meadow, fallow, early, late = np.array([crops_at(image) for image in images]).T
    assert meadow.min() > 0.3 > fallow.max()
    assert max(fallow[-1], early[-1], late[-1]) < 0.3
    # green in turn, and for as long
    assert (early > 0.5).tolist() == [True, True, False, False, False, False]
    assert (late > 0.5).tolist() == [False, False, True, True, False, False]
    # fields stay where they are
    fields = np.isin(farmland.layout(SPEC), [0])
    same = np.corrcoef(images[0][2][~fields], images[1][2][~fields])[0, 1]
    assert same > 0.8


def test_clouds_hide_dates_and_leave_at_least_two():
    scenes = [scene.SceneSpec(0, number, 64) for number in range(30)]
    seen = [farmland.visible(spec, 0.5) for spec in scenes]
    assert {len(dates) for dates in seen} >= {2, 3, 4} and all(
        dates == sorted(set(dates)) for dates in seen
    )
    assert all(farmland.visible(spec, 0) == [0, 1, 2, 3, 4, 5] for spec in scenes)
    assert all(len(farmland.visible(spec, 1)) == 2 for spec in scenes)
    for spec in scenes:
        days = [farmland.day(spec, date) for date in range(farmland.DATES)]
        assert days == sorted(days) and days[0].astype(object).year == 2021


@pytest.mark.parametrize("task", ["classification", "segmentation", "regression", "multilabel"])
def test_a_missing_date_changes_no_other(task):
    more = {"cover": "fallow", "chips": {"train": 4, "val": 4, "test": 4}, "bands": BANDS}
    all_there, some = (source_of(task, "series", cloudy=cloudy, **more) for cloudy in (0, 0.4))
    assert [r.label for r in all_there.records()] == [r.label for r in some.records()]
    counts = set()
    for index in range(12):
        whole, part = all_there.decode(index), some.decode(index)
        kept = [whole.dates[0].index(day) for day in part.dates[0]]
        np.testing.assert_array_equal(whole.image[kept], part.image)
        counts.add(len(kept))
        assert (whole.mask is None) == (task != "segmentation")
        if whole.mask is not None:
            np.testing.assert_array_equal(whole.mask, part.mask)
    assert len(whole.image) == 6 and len(counts) > 1
    # nothing is hidden by halves
    assert all_there.ignore_index is None


def test_series_are_prepared_with_as_many_dates_as_there_are(tmp_path):
    out = Prepared(tmp_path / "out")
    card = out.run(entry("classification", "series", bands=BANDS, cloudy=0.4))
    assert card["classes"] == farmland.CROPS
    store = ImageStore(out.outputs["train"])
    counts = store.date_counts(store.modalities[0])
    images = store.read().images
    assert images.shape == (16, counts.max(), 3, 32, 32) and len(set(counts.tolist())) > 1
    for image, count in zip(images, counts, strict=True):
        assert image[:count].any(axis=(1, 2, 3)).all() and not image[count:].any()


# --- what cannot be had ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"task": "change"}, "compares two images of a location.*dates: pair"),
        ({"task": "change", "dates": "series"}, "the entry has dates: series"),
        ({"task": "segmentation", "dates": "pair"}, "demo's pairs are of the task change"),
        ({"task": "pixel_regression", "dates": "series"}, "no series for pixel_regression"),
        ({"task": "detection", "dates": "series"}, "the demo has no series for detection"),
        ({"task": "regression", "dates": "series"}, "no cover 'forest'.*meadow, fallow"),
    ],
)
def test_what_the_world_cannot_show_is_refused(tmp_path, asked, problem):
    with pytest.raises(PermafrostError, match=problem):
        Prepared(tmp_path / "out").run({**asked, "source": {"kind": "demo", **SMALL}})


def test_sources_of_single_images_offer_no_change(tmp_path):
    folder = {
        "task": "change",
        "dates": "pair",
        "bands": ["red"],
        "sensor": "rgb",
        "units": {"unit": "uint8"},
        "classes": ["no", "yes"],
        "source": {"kind": "voc", "path": str(tmp_path)},
    }
    with pytest.raises(PermafrostError, match="one image of one sensor|offers .* not change"):
        Prepared(tmp_path / "out").run(folder)


def test_pictures_of_a_pair_show_both_dates_stretched_alike(tmp_path):
    from permafrost.report.material.pictures import read_pairs, read_pictures, stretch_limits

    out = Prepared(tmp_path / "out")
    out.run(entry("change", "pair", bands=BANDS))
    store = out.store("test")
    pixels = store.read("images")
    shown = read_pairs(store, [4, 1], [2, 1, 0])
    assert list(shown) == [4, 1]
    limits = stretch_limits([pixels[row, date, [2, 1, 0]] for row in (4, 1) for date in (0, 1)])
    low, high = limits[0]
    for row, (before, after) in shown.items():
        for date, picture in enumerate((before, after)):
            red = (pixels[row, date, 2] - low) / (high - low)
            np.testing.assert_allclose(picture[..., 0], np.clip(red, 0, 1) ** (1 / 1.6))
    last = read_pictures(store, [1], [2, 1, 0])[1]
    assert last.shape == (32, 32, 3)
