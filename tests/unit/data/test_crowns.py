"""The world from an aircraft: crowns lie where they are drawn, and finding them is neither easy nor hopeless."""

import dataclasses

import numpy as np
import pytest
from helpers.datasets.images import Prepared, catalogue_entry, dataset_entry
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import objects_of
from permafrost.data.sources.demo import open_demo
from permafrost.data.store.image_store import ImageStore
from permafrost.data.world import aerial, crowns, photograph, scene
from permafrost.data.world.canvas import GROUND, PIXEL_M, Canvas
from permafrost.data.world.fields import smooth_noise
from permafrost.data.world.things import KINDS, Thing
from permafrost.metrics.objects.masks import corners_of, masks_of_objects
from scipy import ndimage

ALL = ["red", "green", "blue", "nir"]
SMALL = {
    "scenes": {"train": 9, "val": 4, "test": 5},
    "chips": {"train": 30, "val": 12, "test": 18},
}


def typed(*task, **source):
    return dataset_entry(entry(*task, **source), where="demo")


def entry(task="detection", **source):
    return {"task": task, "source": {"kind": "demo", **SMALL, **source}}


@pytest.fixture(scope="module")
def source():
    return open_demo(typed(), where="demo")


@pytest.fixture(scope="module")
def records(source):
    return source.records()


@pytest.fixture(scope="module")
def seen():
    spec = aerial.ViewSpec(seed=0, number=1, size=128)
    view = aerial.view(spec)
    return spec, view, photograph.photograph(spec, view, ALL)


def test_a_view_is_the_same_every_time_whatever_ran_before_and_whatever_bands_are_asked_for(seen):
    spec, _, image = seen
    aerial.view(aerial.ViewSpec(0, 2, 128))
    scene.layout.cache_clear()
    again = photograph.photograph(spec, aerial.view(spec), ["nir", "green"])
    np.testing.assert_array_equal(again, image[[3, 1]])
    other = aerial.ViewSpec(1, 1, 128)
    assert (photograph.photograph(other, aerial.view(other), ALL) != image).mean() > 0.9
    assert image.dtype == np.uint8 and image.min() > 0


def test_pixels_do_not_depend_on_what_was_asked_first(source, records):
    last = open_demo(typed(), where="demo")
    np.testing.assert_array_equal(last.decode(33).image, source.decode(33).image)
    np.testing.assert_array_equal(last.records()[33].objects.boxes, records[33].objects.boxes)
    rgb = open_demo(typed(bands="rgb"), where="demo")
    np.testing.assert_array_equal(rgb.decode(33).image, source.decode(33).image[:3])


def test_boxes_enclose_what_was_drawn(seen):
    """A crown painted white changes the photograph in its box and nowhere else."""
    spec, view, image = seen
    truth = crowns.crowns(view, 0, 0, spec.size, points=False)
    assert len(truth) >= 8
    for number, box in zip(truth.numbers, truth.boxes.astype(int), strict=True):
        if box.min() == 0 or box.max() == spec.size:
            continue  # what lies beyond the edge shines in
        reflectances = view.reflectances.copy()
        reflectances[number] = 0.9
        white = photograph.photograph(
            spec, dataclasses.replace(view, reflectances=reflectances), ALL
        )
        y, x = np.nonzero((white != image).any(axis=0))
        changed = np.array([x.min(), y.min(), x.max() + 1, y.max() + 1])
        # the optics spread it by one pixel on each side
        np.testing.assert_array_equal(changed, box + [-1, -1, 1, 1])


def test_a_crown_ends_where_a_taller_thing_or_the_window_begins():
    view = _discs({"broadleaf": (20, 20, 4.0, 10.0), "conifer": (20, 30, 4.0, 15.0)})
    truth = crowns.crowns(view, 0, 0, 60, points=False)
    np.testing.assert_array_equal(truth.classes, [0, 1])
    np.testing.assert_array_equal(truth.boxes[1], [20, 10, 40, 30])
    # the chord where the taller one begins bounds the lower one
    assert truth.boxes[0].tolist() == [10, 10, 25, 30] and not truth.crowd.any()
    # whichever was put there first
    first = _discs({"conifer": (20, 30, 4.0, 15.0), "broadleaf": (20, 20, 4.0, 10.0)})
    boxes = crowns.crowns(first, 0, 0, 60, points=False).boxes
    np.testing.assert_array_equal(boxes[::-1], truth.boxes)
    cut = crowns.crowns(view, 0, 33, 20, points=False)
    np.testing.assert_array_equal(cut.boxes, [[0, 11, 7, 20]])
    assert cut.crowd.tolist() == [True]
    np.testing.assert_array_equal(cut.numbers, [1])


def test_a_crown_of_which_only_a_trace_is_seen_is_no_object():
    above = _discs({"broadleaf": (20, 20, 4.0, 10.0), "conifer": (20, 21, 4.4, 15.0)})
    assert crowns.crowns(above, 0, 0, 60, points=False).numbers.tolist() == [1]
    half = _discs({"broadleaf": (20, 20, 4.0, 10.0), "conifer": (20, 24, 4.4, 15.0)})
    assert crowns.crowns(half, 0, 0, 60, points=False).crowd.tolist() == [True, False]


def test_what_is_no_crown_is_no_object_but_hides_crowns():
    view = _discs({"bush": (20, 40, 2.0, 1.0), "tank": (20, 20, 4.0, 9.0)})
    assert len(crowns.crowns(view, 0, 0, 60, points=False)) == 0
    view = _discs({"broadleaf": (20, 20, 4.0, 5.0), "tank": (20, 20, 4.4, 9.0)})
    assert len(crowns.crowns(view, 0, 0, 60, points=False)) == 0


def test_a_shadow_falls_away_from_the_sun_and_is_as_long_as_its_height_asks():
    height = np.zeros((40, 40), np.float32)
    height[20, 20] = 4.0
    # the sun stands to the right, where a ray rises by 1 m on 1.2 m: 12 pixels for 4 m, less 0.25 m
    y, x = np.nonzero(photograph.shadows(height, np.array([0.0, 1.2])))
    assert set(y) == {20} and x.max() == 19 and x.min() == 20 - 11


def test_species_differ_and_stand_on_dry_land(records, source):
    nir = {0: [], 1: []}
    for index, record in enumerate(records):
        image = source.decode(index).image
        for kind, (x, y) in zip(record.objects.classes, record.objects.centres, strict=True):
            nir[kind].append(image[3, int(y), int(x)])
    assert np.median(nir[1]) + 10 < np.median(nir[0])
    water = scene.CLASSES.index("water")
    wet = 0
    for number in range(12):
        spec = aerial.ViewSpec(0, number, 128)
        cover = aerial.cover_map(spec)
        wet += (cover == water).sum()
        things = aerial.view(spec).things
        assert not any(cover[int(t.y), int(t.x)] == water for t in things)
    assert wet


def test_every_cover_has_its_own_way_of_growing():
    per_hectare = {name: [0.0, 0.0] for name in scene.CLASSES}
    for number in range(18):
        spec = aerial.ViewSpec(0, number, 128)
        cover = aerial.cover_map(spec)
        for name, counts in per_hectare.items():
            counts[1] += (cover == scene.CLASSES.index(name)).sum() * PIXEL_M**2 / 1e4
        for thing in aerial.view(spec).things:
            if thing.crown is not None:
                per_hectare[scene.CLASSES[cover[int(thing.y), int(thing.x)]]][0] += 1
    dense = {name: count / max(area, 0.1) for name, (count, area) in per_hectare.items()}
    assert dense["water"] == 0
    assert min(dense["forest"], dense["orchard"]) > 1.5 * dense["residential"]
    assert dense["residential"] > dense["pasture"] > 0


def test_splits_come_from_different_scenes(records):
    homes = {s: {r.group_id for r in records if r.split == s} for s in ("train", "val", "test")}
    assert [len(homes[s]) for s in ("train", "val", "test")] == [9, 4, 5]
    assert len(set.union(*homes.values())) == 18
    assert len({r.sample_id for r in records}) == 60


def test_objects_lie_in_their_image_and_both_classes_are_common(records):
    boxes = np.concatenate([r.objects.boxes for r in records])
    assert boxes.min() >= 0 and boxes.max() <= 128
    assert (boxes[:, 2:] - boxes[:, :2]).min() >= 1
    sure = np.concatenate([~r.objects.crowd for r in records])
    assert 0.8 < sure.mean() < 0.98
    share = np.concatenate([r.objects.classes for r in records])[sure].mean()
    assert 0.3 < share < 0.7
    counts = np.array([(~r.objects.crowd).sum() for r in records])
    assert 8 < counts.mean() < 18 and counts.min() < 4 and counts.max() > 25
    sides = np.sqrt((boxes[:, 2:] - boxes[:, :2])[sure].prod(axis=1))
    assert 12 < np.median(sides) < 18
    assert all(r.image_size == (128, 128) and r.label is None for r in records)


def test_points_are_the_middles_of_the_same_crowns(records):
    points = open_demo(typed("point_detection"), where="demo").records()
    centres = 0
    for boxed, pointed in zip(records, points, strict=True):
        assert boxed.sample_id == pointed.sample_id
        by_number = dict(zip(boxed.objects.numbers, boxed.objects.boxes, strict=True))
        assert set(pointed.objects.numbers) <= set(by_number)
        for number, point in zip(pointed.objects.numbers, pointed.objects.boxes, strict=True):
            np.testing.assert_array_equal(point[:2], point[2:])
            low, high = by_number[number][:2] - 8, by_number[number][2:] + 8
            assert (point[:2] > low).all() and (point[:2] < high).all()
            centres += 1
    assert centres > 0.8 * sum(len(r.objects) for r in records)


def test_greenness_alone_finds_some_crowns_and_not_most(records, source):
    green = {}
    for index in range(len(records)):
        red, _, _, nir = source.decode(index).image.astype(float)
        green[index] = (nir - red) / (nir + red)

    def f1(threshold):
        scores = np.array(
            [_matched(green[i] > threshold, r.objects) for i, r in enumerate(records)]
        )
        hits, found, present = scores.sum(axis=0)
        return 2 * hits / (found + present)

    assert 0.2 < max(f1(threshold) for threshold in np.arange(0.1, 0.4, 0.04)) < 0.5


@pytest.mark.parametrize("task", ["detection", "point_detection"])
def test_prepare_writes_the_crowns(tmp_path, task):
    small = {
        "scenes": {"train": 4, "val": 2, "test": 2},
        "chips": {"train": 8, "val": 4, "test": 4},
    }
    out = Prepared(tmp_path / "out")
    card = out.run(entry(task, **small))
    assert card["task"] == task and card["classes"] == ["broadleaf", "conifer"]
    assert [band["unit"] for band in card["bands"]] == ["uint8"] * 4
    store = ImageStore(out.outputs["train"])
    assert store.read().images.shape == (8, 4, 128, 128)
    written = objects_of(out.store("train").samples(["objects"]).column("objects"))
    expected = open_demo(typed(task, **small), where="demo").records()[:8]
    for stored, record in zip(written, expected, strict=True):
        np.testing.assert_array_equal(stored.boxes, record.objects.boxes)
        np.testing.assert_array_equal(stored.crowd, record.objects.crowd)
    assert sum(card["splits"]["train"]["class_counts"]) == sum((~o.crowd).sum() for o in written)
    assert card["spatially_random"] is False and card["audit"]["near_duplicates"] == 0


@pytest.mark.parametrize("name", ["demo-detection", "demo-points", "demo-oriented"])
def test_the_catalogue_offers_them(name, tmp_path):
    made = open_demo(dataset_entry(catalogue_entry(name, tmp_path)), where=name)
    assert [band.name for band in made.bands] == ALL
    assert made.bands[0].sensor == "aerial"


def test_a_view_larger_than_its_scene_is_refused():
    with pytest.raises(PermafrostError, match="more than the world holds"):
        open_demo(typed(scene_size=aerial.LARGEST + 8), where="demo")
    with pytest.raises(PermafrostError, match="do not fit into a scene"):
        open_demo(typed(chips={"train": 200}), where="demo")


def test_the_largest_view_has_ground_everywhere(monkeypatch):
    monkeypatch.setattr(aerial.fields, "smooth_noise", _flat)
    spec = aerial.ViewSpec(0, 0, aerial.LARGEST // 8 * 8)
    assert aerial.cover_map(spec).shape == (spec.size + 2 * aerial.MARGIN,) * 2


def _flat(rng, size, length, *, rough=0.0):
    if size < 1000:
        return smooth_noise(rng, size, length, rough=rough)
    return np.zeros((size, size), np.float32)


def _discs(placed: dict[str, tuple[float, float, float, float]]) -> aerial.View:
    """Flat discs of these kinds at y, x (pixels of the window), with radius and height in metres."""
    canvas = Canvas(60 + 2 * aerial.MARGIN)
    things, pixels = [], []
    for number, (kind, (y, x, radius, height)) in enumerate(placed.items()):
        thing = Thing(kind, y + aerial.MARGIN, x + aerial.MARGIN, radius)

        def shape(dy, dx, radius=radius, height=height):
            distance = np.hypot(dy, dx)
            return np.full(distance.shape, height, np.float32), distance < radius

        things.append(thing)
        pixels.append(canvas.put(number, thing.y, thing.x, radius, shape))
    nothing = np.zeros((0, 13), np.float32)
    assert set(placed) <= set(KINDS) and (canvas.top == GROUND).any()
    return aerial.View(canvas, things, np.array(pixels), nothing, nothing, nothing)


def _matched(mask: np.ndarray, objects) -> tuple[int, int, int]:
    """Hits, detections and crowns, where connected pixels are a detection and IoU > 0.4 a hit."""
    labels, _ = ndimage.label(ndimage.binary_opening(mask))
    slices = [part for part in ndimage.find_objects(labels) if labels[part].size >= 30]
    truth = objects.boxes[~objects.crowd]
    if not slices or not len(truth):
        return 0, len(slices), len(truth)
    found = np.array([[x.start, y.start, x.stop, y.stop] for y, x in slices], float)
    low = np.maximum(found[:, None, :2], truth[None, :, :2])
    high = np.minimum(found[:, None, 2:], truth[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (found, truth)]
    overlap = shared / (areas[0][:, None] + areas[1][None] - shared)
    return int((overlap > 0.4).any(axis=0).sum()), len(found), len(truth)


def test_masks_are_the_visible_pixels_of_each_crown(records):
    instances = open_demo(typed("instance_segmentation"), where="demo").records()
    for record, boxed in zip(instances[:8], records[:8], strict=True):
        found = record.objects
        drawn = masks_of_objects([found], [record.image_size])
        np.testing.assert_array_equal(corners_of(drawn), boxed.objects.boxes)
        np.testing.assert_array_equal(drawn.areas(), found.areas)
        np.testing.assert_array_equal(found.crowd, boxed.objects.crowd)
        # an object is hidden by the one above it
        assert sum(drawn.dense(i) for i in range(len(drawn))).max() == 1
