"""Polygons as oriented boxes: the smallest rectangle, sources with the task, and the generated settlements."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from helpers.datasets.images import open_source
from helpers.datasets.objects import coco, coco_entry
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import area_of, corners_of_polygons, enclosing
from permafrost.data.labels.rectangles import rectangle_around, rectangle_of_polygon
from permafrost.data.sources.annotated import Annotated, Found
from permafrost.data.sources.turned import turned, turned_images
from permafrost.data.world import aerial, built
from permafrost.data.world.aerial import MARGIN


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [1, 2, 3, 4, 25])
def test_the_rectangle_is_the_smallest_and_holds_all_points(seed, count):
    points = np.random.default_rng(seed).normal(0, 20, (count, 2)) @ [[2, 1], [0, 1]] + 1e4
    found = rectangle_around(points)
    assert shapely.Polygon(found).buffer(1e-6).covers(shapely.MultiPoint(points))
    # no turned enclosing box is smaller
    best = min(
        np.ptp(points @ [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]], axis=0).prod()
        for a in np.linspace(0, np.pi / 2, 20001)
    )
    area = area_of(found[None])[0]
    assert area <= best + 1e-6 and (count < 3 or area >= best * (1 - 2e-3))
    assert found[0] + found[2] == pytest.approx(found[1] + found[3])


def test_a_rectangle_keeps_its_corners_and_a_dent_does_not_count():
    ring = [3.0, 1, 8, 6, 6, 8, 1, 3]
    assert rectangle_of_polygon([ring]) == [ring]
    dented = [[0.0, 0, 10, 0, 10, 4, 5, 1, 0, 4]]
    assert area_of(np.reshape(rectangle_of_polygon(dented), (1, 4, 2))) == pytest.approx(40)


def found(polygon, box=(0, 0, 10, 4)) -> Found:
    return Found("house", box, "x: 1", 7.0, False, polygon)


def test_objects_become_rectangles_with_their_own_box_and_area():
    one = turned(found([[5, 0, 10, 5, 5, 10, 0, 5]]))
    assert one.box == [0, 0, 10, 10] and one.area == pytest.approx(50)
    upright = turned(found(None))
    assert upright.polygon == [[0, 0, 10, 0, 10, 4, 0, 4]] and upright.area == 40
    line = turned(found([[0, 0, 5, 5, 9, 9]]))
    assert line.box[:2] == line.box[2:]
    assert np.isnan(turned(found([[0, 0, np.nan, 5, 9, 9]])).box).all()
    with pytest.raises(PermafrostError, match="no object has an outline") as refused:
        turned_images([Annotated("a", [found(None)])], where="x")
    assert "detection" in refused.value.remedy
    mask = found(None)._replace(mask="04", where="x: 2")
    images = [Annotated("a", [found([[5, 0, 10, 5, 5, 10, 0, 5]]), mask])]
    with pytest.raises(PermafrostError, match="1 of 2 objects have a mask without .*x: 2"):
        turned_images(images, where="x")
    crowd = [Annotated("a", [images[0].found[0], mask._replace(crowd=True)])]
    assert turned_images(crowd, where="x")[0].found[1].box == [0, 0, 10, 4]


def source(folder, polygons, **options):
    """A source of one image of 80 x 60 pixels with these polygons."""
    content = coco(1, classes=("house",))
    content["annotations"] = [
        {"id": i, "image_id": 0, "category_id": 10, "segmentation": [ring]}
        for i, ring in enumerate(polygons, 1)
    ]
    entry = coco_entry(folder, content, source=options, task="oriented_detection")
    return open_source(entry)


def test_an_oriented_box_may_reach_beyond_its_image_but_not_lie_beyond_it(tmp_path):
    diamond = [-4, 6, 4, -2, 12, 6, 4, 14]
    (record,) = source(tmp_path / "a", [diamond]).records()
    assert record.objects.boxes.tolist() == [[-4, -2, 12, 14]] and record.clipped == 0
    np.testing.assert_allclose(
        corners_of_polygons(record.objects.polygons), np.reshape(diamond, (1, 4, 2))
    )
    outside = [90, 0, 100, 0, 100, 5, 90, 5]
    with pytest.raises(PermafrostError, match="beyond the image"):
        source(tmp_path / "b", [diamond, outside])
    (record,) = source(tmp_path / "c", [diamond, outside], clip_boxes=True).records()
    assert len(record.objects) == 1 and record.without_area == 1


@pytest.mark.parametrize("number", [1, 6])
def test_outlines_of_generated_objects_are_where_their_pixels_are(number):
    view = aerial.view(aerial.ViewSpec(0, number, 128))
    size = 128
    objects = built.built(view, 0, 0, size)
    assert len(objects) > 5 and objects.crowd.sum() < len(objects)
    outlines = corners_of_polygons(objects.polygons)
    np.testing.assert_allclose(objects.boxes, enclosing(outlines))
    np.testing.assert_allclose(objects.areas, area_of(outlines))
    seen = view.canvas.top[MARGIN:-MARGIN, MARGIN:-MARGIN]
    for outline, thing in zip(outlines, objects.numbers, strict=True):
        y, x = np.nonzero(seen == thing + 1)
        inside = shapely.contains_xy(shapely.Polygon(outline).buffer(0.01), x + 0.5, y + 0.5)
        assert inside.all()
        # all of its pixels, seen or not, are as many as the outline holds
        assert view.pixels[thing] == pytest.approx(area_of(outline[None])[0], rel=0.15)
