"""Kind ``deepforest``: boxes, polygons and points of a CSV."""

import numpy as np
import pytest
from helpers.datasets.images import RGB_ENTRY, encode, open_source, photo, write_folder, write_zip
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.metrics.objects.masks import masks_of_objects
from pycocotools import mask as tools

BOXES = """image_path,xmin,ymin,xmax,ymax,label
b.png,1,2,11,12,Tree
a.png,5,5.5,20,30,Shrub
b.png,30,20,60,50,Tree
empty.png,0,0,0,0,
"""
POLYGONS = """image_path,label,geometry
a.png,Tree,"POLYGON ((2 3, 12 3, 12 13, 2 13, 2 3), (4 4, 6 4, 6 6, 4 6, 4 4))"
a.png,Tree,"MULTIPOLYGON (((20 20, 30 20, 20 30, 20 20)), ((40 40, 44 40, 44 44, 40 40)))"
empty.png,,POLYGON EMPTY
"""
POINTS = """image_path,x,y,label
b.png,10,20.5,Tree
a.png,80,60,Tree
empty.png,0,0,Tree
"""


def entry(folder, text: str = BOXES, *, task="detection", write=write_folder, **source) -> dict:
    names = ("a.png", "b.png", "empty.png", "unused.png")
    files = {name: encode(photo(n, (60, 80))) for n, name in enumerate(names)}
    place = write(folder / "images", files)
    table = folder / "annotations.csv"
    table.write_text(text)
    source = {"kind": "deepforest", "path": str(place), "table": str(table), **source}
    return {**RGB_ENTRY, "task": task, "source": source}


def opened(folder, text: str = BOXES, **more):
    return open_source(entry(folder, text, **more), where="dataset set")


@pytest.mark.parametrize("write", [write_folder, write_zip])
def test_boxes_by_image_in_the_order_of_the_table(tmp_path, write):
    source = opened(tmp_path, write=write)
    records = source.records()
    assert [r.sample_id for r in records] == ["b.png", "a.png", "empty.png"]
    assert source.classes == ["Shrub", "Tree"]
    first = records[0].objects
    assert first.boxes.tolist() == [[1, 2, 11, 12], [30, 20, 60, 50]]
    assert first.classes.tolist() == [1, 1] and first.areas.tolist() == [100, 900]
    assert records[1].objects.boxes.tolist() == [[5, 5.5, 20, 30]]
    assert len(records[2].objects) == 0
    assert all(r.image_size == (60, 80) for r in records)
    np.testing.assert_array_equal(source.decode(1).image, photo(0, (60, 80)).transpose(2, 0, 1))


def test_polygons_have_their_outline_their_box_and_their_area(tmp_path):
    records = opened(tmp_path, POLYGONS).records()
    objects = records[0].objects
    assert objects.boxes.tolist() == [[2, 3, 12, 13], [20, 20, 44, 44]]
    assert objects.areas.tolist() == [100 - 4, 50 + 8]
    assert [len(rings) for rings in objects.polygons] == [1, 2]
    assert objects.polygons[1][1] == [40, 40, 44, 40, 44, 44]
    assert len(records[1].objects) == 0


def test_holes_do_not_belong_to_instances(tmp_path):
    holes = """image_path,label,geometry
a.png,Tree,"POLYGON ((2 3, 32 3, 32 33, 2 33, 2 3), (4 4, 4 9, 9 9, 9 4, 4 4), (12.3 15, 25 15, 20 28.6, 12.3 15))"
"""
    found = opened(tmp_path, holes, task="instance_segmentation").records()[0].objects
    drawn = masks_of_objects([found], [(60, 80)]).dense(0)
    outer, *inner = (
        tools.decode(tools.merge(tools.frPyObjects([ring], 60, 80)))
        for ring in (
            [2, 3, 32, 3, 32, 33, 2, 33],
            [4, 4, 4, 9, 9, 9, 9, 4],
            [12.3, 15, 25, 15, 20, 28.6],
        )
    )
    np.testing.assert_array_equal(drawn, outer & ~(inner[0] | inner[1]) & 1)
    assert found.areas.tolist() == [900 - 25 - 12.7 * 13.6 / 2]


def test_points_may_lie_on_the_edge(tmp_path):
    source = opened(tmp_path, POINTS, task="point_detection")
    b, a, empty = (r.objects for r in source.records())
    assert b.boxes.tolist() == [[10, 20.5, 10, 20.5]] and b.areas.tolist() == [0]
    assert a.centres.tolist() == [[80, 60]] and len(empty) == 0


@pytest.mark.parametrize(
    ("text", "task", "remedy"),
    [
        (POINTS, "detection", "correct the task"),
        (BOXES, "point_detection", "geometry: point"),
        (POLYGONS, "point_detection", "geometry: point"),
    ],
)
def test_shapes_that_the_task_has_no_use_for_are_refused(tmp_path, text, task, remedy):
    with pytest.raises(PermafrostError, match="holds shapes of the kind") as error:
        opened(tmp_path, text, task=task)
    assert remedy in error.value.remedy


def test_middles_of_boxes_are_points_where_the_entry_asks_for_them(tmp_path):
    source = opened(tmp_path, task="point_detection", geometry="point")
    assert source.records()[0].objects.centres.tolist() == [[6, 7], [45, 35]]


def test_columns_of_splits_and_groups(tmp_path):
    lines = BOXES.splitlines()
    added = ["split,site", "val,x", "train,y", "val,x", "train,x"]
    text = "\n".join(f"{line},{more}" for line, more in zip(lines, added, strict=True))
    records = opened(tmp_path, text, split="split", group_column="site").records()
    assert [(r.split, r.group_id) for r in records] == [
        ("val", "x"),
        ("train", "y"),
        ("train", "x"),
    ]
    torn = text.replace("30,20,60,50,Tree,val", "30,20,60,50,Tree,train")
    with pytest.raises(
        PermafrostError, match="line 4: the image 'b.png' is in the splits 'val' and"
    ):
        opened(tmp_path, torn, split="split")
    with pytest.raises(PermafrostError, match="no column 'part'"):
        opened(tmp_path, text, split="part")
    with pytest.raises(PermafrostError, match="both group and group_column"):
        opened(tmp_path, text, group="(.)", group_column="site")


def test_a_table_for_each_split(tmp_path):
    one = entry(tmp_path)
    tables = {}
    for split, image in (("train", "a.png"), ("test", "b.png")):
        tables[split] = str(tmp_path / f"{split}.csv")
        (tmp_path / f"{split}.csv").write_text(
            f"image_path,xmin,ymin,xmax,ymax,label\n{image},1,2,3,4,Tree\n"
        )
    one["source"]["table"] = tables
    records = open_source(one, where="x").records()
    assert [(r.split, r.sample_id) for r in records] == [("test", "b.png"), ("train", "a.png")]
    one["source"]["split"] = "label"
    with pytest.raises(PermafrostError, match="both split and table"):
        open_source(one, where="x")


def test_a_table_inside_an_archive(tmp_path):
    files = {"x/a.png": encode(photo(0, (60, 80))), "x/b.png": encode(photo(1, (60, 80)))}
    files |= {"x/empty.png": encode(photo(2, (60, 80))), "t.csv": BOXES.encode()}
    place = write_zip(tmp_path / "set.zip", files)
    source = {"kind": "deepforest", "path": str(place), "root": "x", "table": "<path>/t.csv"}
    one = {**RGB_ENTRY, "task": "detection", "source": source}
    assert [r.sample_id for r in open_source(one, where="x").records()] == [
        "b.png",
        "a.png",
        "empty.png",
    ]
    digest = source_digest(one)
    one["source"]["table"] = "<path>/u.csv"
    assert source_digest(one) != digest
    with pytest.raises(PermafrostError, match=r"set\.zip holds no u\.csv"):
        open_source(one, where="x")


def test_boxes_beyond_the_image_name_their_lines(tmp_path):
    text = BOXES.replace("30,20,60,50", "30,20,90,50").replace("5,5.5,20,30", "-1,5.5,20,30")
    with pytest.raises(PermafrostError) as error:
        opened(tmp_path, text)
    assert "annotations.csv: line 3" in error.value.problem
    assert "annotations.csv: line 4" in error.value.problem
    clipped = opened(tmp_path, text, clip_boxes=True).records()
    assert [r.clipped for r in clipped] == [1, 1, 0]
    assert clipped[0].objects.boxes[1].tolist() == [30, 20, 80, 50]
