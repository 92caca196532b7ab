"""Tables of crowns: formats, kinds of shapes, marks of empty images."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely
from helpers.predictions.crowns import box, point
from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.reading import read_annotations, read_groups
from permafrost.evaluators.crowns import evaluate

ROWS = [box("a.png", (1, 2, 3, 4.5)), box("b.png", (0, 0, 0, 0)), box("a.png", (5, 6, 9, 9), "Fir")]


def written(path, rows):
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def as_geodataframe(rows):
    import geopandas

    frame = pd.DataFrame(rows).drop(columns=["xmin", "ymin", "xmax", "ymax"])
    shapes = [shapely.box(row["xmin"], row["ymin"], row["xmax"], row["ymax"]) for row in rows]
    return geopandas.GeoDataFrame(frame, geometry=shapes)


@pytest.mark.parametrize(
    "source",
    [
        lambda folder: written(folder / "t.csv", ROWS),
        lambda folder: str(written(folder / "t.csv", ROWS)),
        lambda folder: pd.DataFrame(ROWS),
        lambda folder: pa.Table.from_pylist(ROWS),
        lambda folder: ROWS,
        lambda folder: {name: [row[name] for row in ROWS] for name in ROWS[0]},
    ],
)
def test_every_source_gives_the_same_crowns(source, tmp_path):
    found = read_annotations(source(tmp_path), "truth")
    assert found.kind == "box" and found.images == ("a.png", "b.png")
    assert found.shape.tolist() == [[1, 2, 3, 4.5], [5, 6, 9, 9]]
    assert found.label.tolist() == ["Tree", "Fir"] and found.image.tolist() == [0, 0]
    assert np.isnan(found.score).all() and not found.has_scores


def test_rows_are_lines_of_a_file_and_rows_of_a_frame(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "\ufeffimage_path,xmin,ymin,xmax,ymax,label,note\n\n"
        'a,1,1,2,2,Tree,"two\nlines"\na,3,3,4,4,Tree,\n'
    )
    assert read_annotations(path, "truth").row.tolist() == [4, 5]
    assert read_annotations(ROWS, "truth").row.tolist() == [1, 3]


def test_a_frame_of_geometries_is_polygons_and_a_mark_may_be_an_empty_one():
    found = read_annotations(as_geodataframe([ROWS[0], ROWS[2]]), "truth")
    assert found.kind == "polygon" and [shape.area for shape in found.shape] == [5, 12]
    rows = [
        {"image_path": "a", "label": "Tree", "geometry": "POLYGON ((0 0, 4 0, 4 4, 0 0))"},
        {"image_path": "b", "label": "", "geometry": "POLYGON EMPTY"},
    ]
    found = read_annotations(rows, "truth")
    assert found.images == ("a", "b") and len(found) == 1


def test_boxes_written_with_their_geometry_are_boxes():
    rows = [
        {**row, "geometry": shapely.box(*list(row.values())[2:6]).wkt} for row in (ROWS[0], ROWS[2])
    ]
    assert read_annotations(rows, "predictions").kind == "box"
    rows[0]["geometry"] = "POLYGON ((1 2, 3 2, 3 4.5, 1 2))"
    with pytest.raises(PermafrostError, match="several kinds"):
        read_annotations(rows, "predictions")
    assert read_annotations(rows, "predictions", geometry="polygon").shape[0].area == 2.5
    assert read_annotations(rows, "predictions", geometry="box").shape[0].tolist() == [1, 2, 3, 4.5]


def test_points_come_as_columns_as_wkt_or_as_both():
    rows = [point("a", 3, 4), point("b", 0, 0)]
    wkt = [
        {
            "image_path": row["image_path"],
            "label": "T",
            "geometry": f"POINT ({row['x']} {row['y']})",
        }
        for row in rows
    ]
    both = [{**row, "geometry": other["geometry"]} for row, other in zip(rows, wkt, strict=True)]
    for source in (rows, wkt, both):
        found = read_annotations(source, "truth")
        assert found.kind == "point" and found.shape.tolist() == [[3, 4]]
        assert found.images == ("a", "b")
    both[0]["x"] = 9
    with pytest.raises(PermafrostError, match="name different points"):
        read_annotations(both, "truth")


def test_a_table_without_crowns_takes_the_others_kind():
    predictions = [{"image_path": "a", "label": "T", "geometry": "POINT (3 4)", "score": 1.0}]
    found = evaluate([box("a", (0, 0, 0, 0))], predictions)
    assert found.kind == "point" and len(found.predictions) == 1


def test_kinds_that_differ_are_refused_and_turned_on_request():
    polygon = {"image_path": "a.png", "label": "Tree", "score": 1.0}
    polygon["geometry"] = "POLYGON ((1 2, 3 2, 3 4.5, 1 4.5, 1 2))"
    truth = [ROWS[0]]
    with pytest.raises(PermafrostError, match="truth holds shapes of the kind box"):
        evaluate(truth, [polygon])
    for kind in ("box", "polygon", "point"):
        assert evaluate(truth, [polygon], geometry=kind).match.tolist() == [True]


def test_groups_of_images():
    rows = [{**row, "flight": flight} for row, flight in zip(ROWS, "xyx", strict=True)]
    assert read_groups(rows, "flight", ("b.png", "a.png", "new")) == ["y", "x", None]
    rows[2]["flight"] = "y"
    with pytest.raises(PermafrostError, match="'a.png' is in the groups 'x' and 'y'"):
        read_groups(rows, "flight", ("a.png",))


SQUARE = shapely.box(1, 2, 3, 4.5)
TRIANGLE = shapely.Polygon([(0, 0), (8, 0), (0, 8)])
NAMES = ("xmin", "ymin", "xmax", "ymax")


def joined(*rows, blank=None) -> list[dict]:
    """Records with the columns of both tools; what one has not is blank."""
    return [{**dict.fromkeys((*NAMES, "geometry"), blank), **row} for row in rows]


@pytest.mark.parametrize("blank", [None, float("nan"), ""])
@pytest.mark.parametrize("what", ["truth", "predictions"])
def test_rows_without_geometry_have_the_box_of_their_corners(blank, what):
    rows = joined(ROWS[0], {**ROWS[2], "geometry": shapely.box(5, 6, 9, 9)}, blank=blank)
    found = read_annotations(rows, what)
    assert found.kind == "box" and found.shape.tolist() == [[1, 2, 3, 4.5], [5, 6, 9, 9]]
    found = read_annotations(rows, what, geometry="polygon")
    assert [shape.bounds for shape in found.shape] == [(1, 2, 3, 4.5), (5, 6, 9, 9)]


def test_rows_without_geometry_in_a_file(tmp_path):
    rows = joined({**ROWS[0], "geometry": SQUARE.wkt}, ROWS[2])
    found = read_annotations(written(tmp_path / "t.csv", rows), "truth")
    assert found.kind == "box" and found.shape.tolist() == [[1, 2, 3, 4.5], [5, 6, 9, 9]]


def test_a_column_of_blanks_says_nothing_beside_corners():
    assert read_annotations(joined(*ROWS), "truth").shape.tolist() == [[1, 2, 3, 4.5], [5, 6, 9, 9]]
    with pytest.raises(PermafrostError, match="row 1: geometry"):
        read_annotations([{"image_path": "a", "label": "T", "geometry": None}], "truth")


def test_rows_without_corners_have_the_bounds_of_their_geometry():
    tree = {"image_path": "a.png", "label": "Tree", "geometry": TRIANGLE}
    rows = joined(ROWS[0], ROWS[1], tree)
    found = read_annotations(rows, "truth", geometry="box")
    assert found.images == ("a.png", "b.png")
    assert found.shape.tolist() == [[1, 2, 3, 4.5], [0, 0, 8, 8]]
    found = read_annotations(rows, "truth", geometry="polygon")
    assert [shape.area for shape in found.shape] == [5, 32]
    with pytest.raises(PermafrostError, match="several kinds"):
        read_annotations(rows, "truth")


@pytest.mark.parametrize("geometry", ["auto", "box", "polygon"])
@pytest.mark.parametrize("matching", ["area", "iou", "score"])
@pytest.mark.parametrize("flat", [(3, 3, 3, 9), (3, 3, 9, 3), (4, 4, 4, 4), (0, 0, 0, 0)])
def test_a_predicted_box_without_area_is_a_false_alarm_with_a_warning(geometry, matching, flat):
    truth = [box("a.png", (0, 0, 10, 10))]
    right = box("a.png", (0, 0, 10, 10), score=0.5)
    found = evaluate(
        truth, [right, box("a.png", flat, score=0.9)], geometry=geometry, matching=matching
    )
    assert (found.values["recall", None], found.values["precision", None]) == (1, 0.5)
    (said,) = found.notes()
    assert said.startswith("Warning: 1 predicted") and "row 2 of predictions" in said
    assert evaluate(truth, [right], geometry=geometry).notes() == []


@pytest.mark.parametrize("average", ["image", "dataset"])
def test_precision_is_zero_where_there_are_predictions_and_no_truth(average):
    truth = [box("a", (0, 0, 0, 0)), box("b", (0, 0, 0, 0))]
    found = evaluate(truth, [box("a", (0, 0, 5, 5), score=1.0)], average=average).values
    assert found["precision", None] == found["precision", "Tree"] == 0
    assert np.isnan(found["recall", None])
    both = evaluate([*truth[1:], box("a", (0, 0, 5, 5))], [box("a", (0, 0, 5, 5), "Fir")]).values
    assert both["precision", "Fir"] == 0 and both["precision", None] == 1


def test_boxes_are_wanted_so_a_geometry_of_no_meaning_does_not_matter(tmp_path):
    rows = [{**ROWS[0], "geometry": "no WKT"}, {**ROWS[2], "geometry": ""}]
    path = written(tmp_path / "t.csv", rows)
    found = read_annotations(path, "truth", geometry="box")
    assert found.kind == "box" and found.shape.tolist() == [[1, 2, 3, 4.5], [5, 6, 9, 9]]
    unplaced = [{**row, "x": "?", "y": "?"} for row in rows]
    assert len(read_annotations(unplaced, "truth", geometry="box")) == 2
    with pytest.raises(PermafrostError, match="geometry is not WKT"):
        read_annotations(path, "truth", geometry="polygon")
    # only a row without corners needs its geometry
    tree = {"image_path": "a.png", "label": "Tree", "geometry": TRIANGLE.wkt}
    mixed = joined({**ROWS[0], "geometry": "no WKT"}, tree, blank="")
    found = read_annotations(mixed, "truth", geometry="box")
    assert found.shape.tolist() == [[1, 2, 3, 4.5], [0, 0, 8, 8]]


@pytest.mark.parametrize("name", [".", "..", "images/", "images/..", "images\\."])
def test_an_image_path_that_names_a_folder_is_refused(name):
    with pytest.raises(PermafrostError, match="row 2: the image_path .* names a folder"):
        read_annotations([ROWS[0], box(name, (1, 1, 2, 2))], "truth")


WRONG = [
    box("a.png", (5, 5, 5, 9), score=0.5),
    box("a.png", (0, 0, 0, 0), score=0.5),
    box("a.png", (9, 5, 5, 9), score=0.5),
    box("a.png", ("?", 5, 9, 9), score=0.5),
    box("a.png", (1, 5, 9, 9), score=float("nan")),
    box("a.png", (1, 5, 9, 9), "", score=0.5),
    box("", (1, 5, 9, 9), score=0.5),
    box(".", (1, 5, 9, 9), score=0.5),
]


def test_wrong_predictions_are_left_out_and_counted():
    truth, right = [ROWS[0]], box("a.png", (1, 2, 3, 4.5), score=0.5)
    rows = [*WRONG[:4], right, *WRONG[4:]]
    found = evaluate(truth, rows, invalid="drop")
    assert found.values["precision", None] == found.values["recall", None] == 1
    assert found.predictions.row.tolist() == [5]
    assert sum(found.predictions.dropped.values()) == len(WRONG)
    notes = [note for note in found.notes() if "left out" in note]
    assert len(notes) == len(found.predictions.dropped)
    assert any("has no area" in note and "row 1" in note for note in notes)
    with pytest.raises(PermafrostError):
        evaluate(truth, rows)
    with pytest.raises(PermafrostError, match="did you mean 'drop'"):
        evaluate(truth, rows, invalid="dropp")


def test_an_image_whose_truth_is_left_out_stays():
    truth = [ROWS[0], box("c.png", (4, 4, 1, 1)), box("", (4, 4, 5, 5))]
    predictions = [box("c.png", (1, 1, 2, 2), score=1.0)]
    found = evaluate(truth, predictions, invalid="drop")
    assert found.images == ("a.png", "c.png") and found.values["precision", None] == 0
    assert sum(found.truth.dropped.values()) == 2


def test_a_truth_that_is_all_left_out_has_images_without_crowns():
    row = {"image_path": "a.png", "label": "Tree", "geometry": "nothing"}
    found = evaluate([row], [{**row, "score": 1.0}], invalid="drop")
    assert found.images == ("a.png",) and found.image_states.tolist() == ["empty"]


def test_invalid_polygons_are_left_out():
    bow = {
        "image_path": "a.png",
        "label": "Tree",
        "score": 1.0,
        "geometry": "POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))",
    }
    line = {**bow, "geometry": "POLYGON ((0 0, 4 0, 8 0, 0 0))"}
    right = {**bow, "geometry": TRIANGLE.wkt}
    found = read_annotations([bow, line, right], "predictions", invalid="drop")
    assert found.row.tolist() == [3] and list(found.dropped.values()) == [2]


def test_a_row_of_zeros_beside_crowns_is_left_out_and_the_crowns_stay():
    rows = [ROWS[0], box("a.png", (0, 0, 0, 0)), ROWS[1], ROWS[2]]
    found = read_annotations(rows, "truth", invalid="drop")
    assert found.row.tolist() == [1, 4] and found.images == ("a.png", "b.png")
    assert list(found.dropped.values()) == [1]
