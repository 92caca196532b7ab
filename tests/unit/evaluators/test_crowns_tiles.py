"""Windows, the crowns in them, and putting predictions of windows together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import shapely
from helpers.predictions.crowns import box, point, polygon
from hypothesis import example, given, settings
from hypothesis import strategies as st
from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.annotations import concatenate
from permafrost.data.deepforest.reading import as_kind, read_annotations
from permafrost.data.files.windows import Window, cut_windows
from permafrost.evaluators.crowns import evaluate
from permafrost.evaluators.crowns.overlay import image_sizes
from permafrost.evaluators.crowns.tiles import (
    clip_to_window,
    compare_tiles,
    cut_annotations,
    read_tile_predictions,
)
from permafrost.metrics.objects.overlaps import suppress
from permafrost.metrics.objects.stitching import stitch
from PIL import Image

WINDOW = Window(100, 50, 200, 100)


def crowns(*rows):
    return read_annotations(list(rows), "predictions")


def test_a_box_is_kept_if_more_than_half_of_it_is_seen():
    rows = [box("a", (80, 60, 120, 80)), box("a", (79, 60, 120, 80)), box("a", (81, 60, 120, 80))]
    clipped, kept = clip_to_window(crowns(*rows), WINDOW)
    assert kept.tolist() == [2]  # exactly half is not more than half
    assert clipped.shape.tolist() == [[0, 10, 20, 30]]


def test_points_on_the_edge_are_kept_and_shifted():
    rows = [point("a", 100, 50), point("a", 300, 150), point("a", 99.9, 60), point("a", 301, 60)]
    clipped, kept = clip_to_window(crowns(*rows), WINDOW)
    assert kept.tolist() == [0, 1] and clipped.shape.tolist() == [[0, 0], [200, 100]]


def test_polygons_are_cut_like_boxes():
    whole = shapely.Polygon([(90, 60), (130, 60), (130, 80), (90, 80)])
    half = shapely.Polygon([(60, 60), (130, 60), (130, 80), (60, 80)])
    clipped, kept = clip_to_window(crowns(polygon("a", whole), polygon("a", half)), WINDOW)
    assert kept.tolist() == [0]
    assert shapely.bounds(clipped.shape[0]).tolist() == [0, 10, 30, 30]


def test_every_pixel_is_in_a_window_and_no_window_leaves_the_image():
    for width, height, size, overlap in ((733, 411, 128, 0.1), (10, 900, 64, 0.9), (5, 5, 64, 0)):
        seen = np.zeros((height, width), int)
        for window in cut_windows(width, height, size=size, overlap=overlap):
            xmin, ymin, xmax, ymax = window.bounds
            assert 0 <= xmin < xmax <= width and 0 <= ymin < ymax <= height
            seen[ymin:ymax, xmin:xmax] += 1
        assert (seen > 0).all()


@pytest.mark.parametrize("options", [{"size": 0}, {"overlap": 1.0}, {"overlap": -0.1}])
def test_windows_that_do_not_exist_are_refused(options):
    with pytest.raises(PermafrostError):
        cut_windows(100, 100, **options)


def test_a_crown_in_several_windows_is_counted_as_repeated():
    truth = read_annotations([box("a", (90, 10, 110, 30)), box("a", (10, 10, 20, 20))], "truth")
    rows = crowns(box("a", (90, 10, 110, 30), score=1.0))
    both = compare_tiles(truth, rows, {"a": (200, 100)}, size=120, overlap=0.3)
    assert (both.repeated, both.repeats, both.lost) == (1, 1, 0)
    assert both.whole.values["recall", None] == 0.5
    assert both.tiles.values["recall", None] == pytest.approx((1 / 2 + 1) / 2)
    assert "1 of 2 crowns lie in several tiles and count 1 times too often" in both.sentence()


def test_a_crown_that_no_window_shows_half_of_is_lost():
    truth = read_annotations([box("a", (40, 10, 160, 30))], "truth")
    both = compare_tiles(
        truth, crowns(box("a", (0, 0, 9, 9), score=1.0)), {"a": (200, 100)}, size=50, overlap=0
    )
    assert both.lost == 1


def seen_by_windows(truth, size: int, overlap: float, extent, least: float = 0.0):
    """A perfect detector: in every window, each crown cut at its edges, if enough is seen."""
    parts, windows = [], []
    for window in cut_windows(*extent, size=size, overlap=overlap):
        xmin, ymin, xmax, ymax = window.bounds
        frame = np.array([xmin, ymin, xmax, ymax], float)
        low = np.maximum(truth.shape[:, :2], frame[:2])
        high = np.minimum(truth.shape[:, 2:], frame[2:])
        rows = np.flatnonzero(((high - low) > least).all(axis=1))
        shape = np.hstack([low, high])[rows] - np.tile(frame[:2], 2)
        parts.append(replace(truth.take(rows), shape=shape))
        windows += [(window.x, window.y, window.width, window.height)] * len(rows)
    return concatenate(parts, truth), np.array(windows, float).reshape(-1, 4)


def grid_of_crowns(rng, extent: int, cell: int, scores: bool = True):
    """Crowns of many sizes that do not overlap, one in each cell of a grid."""
    rows = []
    for x in range(0, extent - cell + 1, cell):
        for y in range(0, extent - cell + 1, cell):
            low = rng.uniform(0, cell / 2, 2)
            high = rng.uniform(cell / 2 + 2, cell, 2)
            more = {"score": float(rng.random())} if scores else {}
            rows.append(box("a", [x + low[0], y + low[1], x + high[0], y + high[1]], **more))
    return crowns(*rows)


def same_boxes(one: np.ndarray, other: np.ndarray) -> None:
    order = [shapes[np.lexsort(shapes.T)] for shapes in (one, other)]
    assert len(one) == len(other)
    np.testing.assert_allclose(*order, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    size=st.integers(60, 200),
    overlap=st.floats(0.05, 0.6),
    cell=st.sampled_from([25, 60, 140]),
)
# of all windows, only one without a crown looks across a seam
@example(seed=86, size=60, overlap=0.5, cell=140)
def test_a_perfect_detector_gives_every_crown_once_and_whole(seed, size, overlap, cell):
    rng = np.random.default_rng(seed)
    truth = grid_of_crowns(rng, 300, cell)
    found, windows = seen_by_windows(truth, size, overlap, (300, 300))
    cut = cut_windows(300, 300, size=size, overlap=overlap)
    every = np.array([(each.x, each.y, each.width, each.height) for each in cut])
    stitched = stitch(found, windows, {"a": (300, 300)}, every={"a": every})
    same_boxes(stitched.crowns.shape, truth.shape)
    assert len(found) == len(stitched.crowns) + (
        stitched.parts_dropped + stitched.parts_joined + stitched.suppressed
    )


def test_suppression_alone_counts_cut_crowns_twice():
    truth = grid_of_crowns(np.random.default_rng(0), 300, 30)
    found, windows = seen_by_windows(truth, 120, 0.15, (300, 300))
    alone = stitch(found, windows, {"a": (300, 300)}, border="none")
    assert len(alone.crowns) > len(truth)
    assert len(stitch(found, windows, {"a": (300, 300)}).crowns) == len(truth)


def test_a_wavering_detector_still_gives_nearly_every_crown_once():
    rng = np.random.default_rng(1)
    truth = grid_of_crowns(rng, 600, 40)
    found, windows = seen_by_windows(truth, 200, 0.25, (600, 600), least=1)
    moved = found.shape + rng.normal(0, 0.8, (len(found), 4))
    size = windows[:, 2:]
    moved = np.clip(moved, 0, np.tile(size, 2))
    # a cut crown is predicted up to the edge
    moved = np.where(found.shape <= 0, 0, np.where(found.shape >= 200, 200, moved))
    real = (moved[:, 2:] > moved[:, :2]).all(axis=1)
    found, windows = replace(found, shape=moved).take(real), windows[real]
    precision = {}
    for border in ("agree", "none"):
        stitched = stitch(found, windows, {"a": (600, 600)}, border=border)
        values = evaluate(truth, stitched.crowns, matching="iou").values
        precision[border] = values["precision", None]
        if border == "agree":
            assert values["recall", None] > 0.99
    assert precision["agree"] > 0.98 > 0.95 > precision["none"]


def test_a_crown_larger_than_a_window_is_joined_from_its_parts():
    truth = crowns(box("a", (20, 30, 480, 110), score=0.7))
    found, windows = seen_by_windows(truth, 100, 0.2, (500, 500))
    assert len(found) > 8
    stitched = stitch(found, windows, {"a": (500, 500)})
    same_boxes(stitched.crowns.shape, truth.shape)
    assert stitched.crowns.score.tolist() == [0.7]


def test_two_neighbours_at_a_seam_stay_two():
    rows = crowns(box("a", (60, 10, 100, 50), score=0.9), box("a", (25, 10, 70, 50), score=0.8))
    windows = np.array([(0, 0, 100, 100), (80, 0, 100, 100)], float)
    # the left one is cut at 100; the other begins right of it, at 105
    assert len(stitch(rows, windows, {"a": (180, 100)}).crowns) == 2


def test_polygons_are_joined_too():
    disc = shapely.Point(100, 60).buffer(30)
    parts, windows = [], []
    for x in (0, 80):
        frame = shapely.box(x, 0, x + 110, 120)
        part = shapely.transform(shapely.intersection(disc, frame), lambda at, x=x: at - [x, 0])
        parts.append(polygon("a", part, score=0.5))
        windows.append((x, 0, 110, 120))
    stitched = stitch(crowns(*parts), np.array(windows), {"a": (190, 120)})
    assert len(stitched.crowns) == 1
    assert shapely.area(stitched.crowns.shape[0]) == pytest.approx(disc.area)


def test_points_seen_twice_are_one():
    rows = crowns(
        point("a", 95, 20, score=0.9), point("a", 17, 20, score=0.8), point("a", 60, 20, score=0.7)
    )
    windows = np.array([(0, 0, 100, 100), (80, 0, 100, 100), (80, 0, 100, 100)], float)
    kept = stitch(rows, windows, {"a": (180, 100)}).crowns
    assert kept.shape.tolist() == [[95, 20], [140, 20]]


def test_whole_pixels_are_cut_off_as_deepforest_does():
    rows = crowns(box("a", (1.9, 2.9, 20.9, 30.2), score=0.9))
    found = stitch(rows, [(100, 0, 50, 50)], {"a": (150, 50)}, border="none", whole_pixels=True)
    assert found.crowns.shape.tolist() == [[101, 2, 120, 30]]


def test_windows_that_only_touch_are_refused_with_the_way_out():
    rows = crowns(box("a", (1, 2, 20, 30), score=0.9), box("a", (1, 2, 20, 30), score=0.8))
    windows = [(0, 0, 50, 50), (50, 0, 50, 50)]
    with pytest.raises(PermafrostError, match="without overlapping"):
        stitch(rows, windows, {"a": (100, 50)})
    assert len(stitch(rows, windows, {"a": (100, 50)}, border="none").crowns) == 2


def test_an_empty_window_that_looks_across_a_seam_counts(tmp_path):
    # windows begin at 0, 190 and 200: the first ends where the last begins, the second sees both sides
    table = tmp_path / "tiles.csv"
    table.write_text(
        "image_path,xmin,ymin,xmax,ymax,label,score,window_xmin,window_ymin\n"
        "a,10,10,40,40,Tree,0.9,0,0\n"
        "a,100,10,140,40,Tree,0.8,200,0\n"
    )
    sizes = {"a": (400, 200)}
    found = read_tile_predictions(table, sizes, size=200, overlap=0.05)
    assert [window[0] for window in found.every["a"].tolist()] == [0, 190, 200]
    stitched = stitch(found.by_image, found.windows, sizes, every=found.every)
    assert len(stitched.crowns) == 2


def test_stitching_needs_scores_and_a_known_rule():
    with pytest.raises(PermafrostError, match="needs scores"):
        stitch(crowns(box("a", (1, 2, 20, 30))), [(0, 0, 50, 50)], {"a": (50, 50)})
    with pytest.raises(PermafrostError, match="no border rule"):
        stitch(crowns(box("a", (1, 2, 3, 4), score=1.0)), [(0, 0, 9, 9)], {}, border="agreed")


def test_suppression_of_points_and_of_equal_scores():
    xy = np.array([[0.0, 0], [3, 0], [6, 0], [5, 0]])
    assert suppress("point", xy, [0.5, 0.9, 0.5, 0.1], threshold=5.0).tolist() == [1]
    assert suppress("point", xy, [0.5, 0.5, 0.5, 0.5], threshold=3.0).tolist() == [0, 1, 2]


def test_tile_predictions_are_read_and_checked():
    rows = [box("a", (1, 1, 9, 9), score=0.5, window_xmin=80, window_ymin=0)]
    found = read_tile_predictions(rows, {"a": (180, 100)}, size=100, overlap=0.2)
    assert found.windows.tolist() == [[80, 0, 100, 100]]
    assert found.by_tile.images == ("a#80,0",) and found.by_image.images == ("a",)
    cut, _ = cut_annotations(found.by_image, {"a": (180, 100)}, size=100, overlap=0.2)
    assert set(found.by_tile.images) <= set(cut.images)
    with pytest.raises(PermafrostError, match=r"no window of 90 .* begins at \[80.0, 0.0\]"):
        read_tile_predictions(rows, {"a": (180, 100)}, size=90, overlap=0.1)
    with pytest.raises(PermafrostError, match="window_ymin"):
        rows = [box("a", (1, 1, 9, 9), score=0.5, window_xmin=80)]
        read_tile_predictions(rows, {"a": (180, 100)})


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_rasters_give_their_size_and_a_small_picture(tmp_path):
    import rasterio
    from permafrost.evaluators.crowns.overlay import image_size, read_small

    pixels = np.arange(3 * 70 * 90, dtype=np.uint16).reshape(3, 70, 90)
    path = tmp_path / "image.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=90, height=70, count=3, dtype="uint16"
    ) as f:
        f.write(pixels)
    assert image_size(path) == (90, 70)
    small, step = read_small(path, 30)
    assert small.shape == (3, 23, 30) and step == 3


def test_kinds_turn_into_each_other():
    boxes = crowns(box("a", (0, 0, 10, 20)))
    polygons = as_kind(boxes, "polygon")
    assert polygons.shape[0].area == 200
    assert as_kind(polygons, "box").shape.tolist() == [[0, 0, 10, 20]]
    assert as_kind(boxes, "point").shape.tolist() == as_kind(polygons, "point").shape.tolist()
    with pytest.raises(PermafrostError, match="points have no box"):
        as_kind(as_kind(boxes, "point"), "box")


@pytest.mark.parametrize("kind", ["box", "polygon"])
@pytest.mark.filterwarnings("error")
def test_a_prediction_without_area_is_in_every_window_that_holds_it(kind):
    rows = [
        box("a", corners, score=0.5)
        for corners in ((5, 5, 5, 9), (90, 10, 90, 10), (90, 0, 150, 0))
    ]
    flat = as_kind(read_annotations(rows, "predictions"), kind)
    cut, source = cut_annotations(flat, {"a": (200, 100)}, size=120, overlap=0.3)
    # windows begin at 0 and 80: the last box reaches over the edge of the first
    assert sorted(source.tolist()) == [0, 1, 1, 2]
    truth = as_kind(read_annotations([box("a", (0, 0, 20, 20))], "truth"), kind)
    both = compare_tiles(truth, flat, {"a": (200, 100)}, size=120, overlap=0.3)
    assert both.whole.values["precision", None] == 0 and len(both.whole.flat) == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.png", "does not exist"),
        ("inner", "does not exist"),
        ("x" * 100_000, "does not exist"),
        ("../there.png", "leads out of the folder"),
        ("/dev/zero", "leads out of the folder"),
    ],
)
def test_an_image_is_a_file_in_the_folder(tmp_path, name, words):
    folder = tmp_path / "images"
    (folder / "inner").mkdir(parents=True)
    Image.new("L", (4, 3)).save(tmp_path / "there.png")
    Image.new("L", (5, 3)).save(folder / "here.png")
    assert image_sizes(folder, ["here.png", "inner/../here.png"])["here.png"] == (5, 3)
    with pytest.raises(PermafrostError, match=words):
        image_sizes(folder, [name])
