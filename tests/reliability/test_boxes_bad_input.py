"""Tables of crowns that cannot be scored: one error that names the table, the row and the way out."""

from __future__ import annotations

import pytest
from helpers.predictions.crowns import box, point
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.reading import read_annotations
from permafrost.evaluators.crowns import evaluate
from permafrost.evaluators.crowns.overlay import image_sizes

HEADER = "image_path,xmin,ymin,xmax,ymax,label,score\n"
GOOD = "a.png,0,0,10,10,Tree,0.5\n"


def refused(tmp_path, text, *, what="predictions", encoding="utf-8") -> str:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(PermafrostError) as error:
        read_annotations(path, what)
    message = str(error.value)
    assert "table.csv" in message
    return message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("xmin,ymin,xmax,ymax,label\n", "no column 'image_path'"),
        ("image_path,xmin,ymin,xmax,ymax\n", "no column 'label'"),
        ("image_path,Label,xmin,ymin,xmax,ymax\n", "did you mean 'Label'"),
        ("image_path,label,xmin,ymin,xmax\n", "no columns with shapes"),
        (HEADER.replace("score", "label"), "'label' occurs more than once"),
        (HEADER + GOOD + "a.png,0,0,10,10,Tree\n", "line 3: 6 cells under 7 names"),
        (HEADER + GOOD + "a.png,0,0,nan,10,Tree,0.5\n", "line 3: xmax is 'nan'"),
        (HEADER + GOOD + "a.png,0,0,inf,10,Tree,0.5\n", "line 3: xmax is 'inf'"),
        (HEADER + GOOD + "a.png,0,,10,10,Tree,0.5\n", "line 3: ymin is ''"),
        (HEADER + GOOD + "a.png,0,zero,10,10,Tree,0.5\n", "line 3: ymin is 'zero'"),
        (HEADER + GOOD + "a.png,0,0,10,10,Tree,\n", "line 3: score is ''"),
        (HEADER + GOOD + "a.png,0,0,10,10,Tree,NaN\n", "line 3: score is 'NaN'"),
        (HEADER + GOOD + "a.png,10,0,0,10,Tree,0.5\n", "line 3: the box .* wrong order"),
        (HEADER + GOOD + "a.png,0,10,10,0,Tree,0.5\n", "line 3: the box .* wrong order"),
        (HEADER + GOOD + "a.png,50,50,10,10,Tree,0.5\n", "not a width and a height"),
        (HEADER + GOOD + "a.png,0,0,1e308,10,Tree,0.5\n", "line 3: a coordinate exceeds 1e.07"),
        ("image_path,label,geometry\na,T,POLYGON EMPTY\n", "line 2: the shape has no area"),
        (HEADER.replace("score", "geometry") + "a.png,,,,,T,\n", "line 2: xmin is ''"),
        (HEADER.replace("score", "geometry") + "a.png,1,,3,4,T,POINT (1 1)\n", "line 2: ymin is ''"),
        (HEADER.replace("score", "geometry") + "a.png,1,2,3,4,T,\na.png,,,,,T,POINT (1 1)\n",
         "polygons and points"),
        (HEADER.replace("score", "geometry") + "a.png,3,2,1,4,T,\n"
         'a.png,,,,,T,"POLYGON ((0 0, 4 4, 4 0, 0 0))"\n', "line 2: the box .* wrong order"),
        (HEADER + GOOD + ",0,0,10,10,Tree,0.5\n", "line 3: image_path is blank"),
        (HEADER + GOOD + "a.png,0,0,10,10, ,0.5\n", "line 3: label is blank"),
        (HEADER + '"a.png,0,0,10,10,Tree,0.5\n', "not a CSV file"),
        ("image_path,label,geometry\na,T,POLYGON ((0 0\n", "geometry is not WKT"),
        ("image_path,label,geometry\na,T,LINESTRING (0 0; 1 1)\n", "geometry is not WKT"),
        ('image_path,label,geometry\na,T,"LINESTRING (0 0, 1 1)"\n', "LineString is not a crown"),
        ('image_path,label,geometry\na,T,"POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))"\n', "invalid"),
        ('image_path,label,geometry\na,T,"POLYGON ((0 0, 4 4, 0 0))"\n', "WKT|invalid"),
        ('image_path,label,geometry\na,T,"POLYGON ((0 0, 4 4, 4 0, 0 0))"\na,T,POINT (1 1)\n',
         "polygons and points"),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused_by_row(tmp_path, text, words):
    import re

    message = refused(tmp_path, text)
    assert re.search(words, message), message


@pytest.mark.parametrize("row", ["a.png,5,5,5,10,Tree,0.5\n", "a.png,5,5,9,5,Tree,0.5\n"])
def test_a_true_box_without_area_is_refused(tmp_path, row):
    assert "line 3: the box" in refused(tmp_path, HEADER + GOOD + row, what="truth")


def test_a_file_that_is_missing_or_not_text(tmp_path):
    with pytest.raises(PermafrostError, match="does not exist"):
        read_annotations(tmp_path / "none.csv", "truth")
    assert "not a CSV file in UTF-8" in refused(tmp_path, HEADER + GOOD * 3, encoding="utf-16")


def test_an_image_that_is_called_empty_and_has_crowns(tmp_path):
    text = HEADER + GOOD + "a.png,0,0,0,0,Tree,0\n"
    assert "line 2: the image has crowns" in refused(tmp_path, text, what="truth")


def test_a_truth_without_images():
    with pytest.raises(PermafrostError, match="no images are named"):
        evaluate({name: [] for name in box("a", (0, 0, 1, 1))}, [box("a", (0, 0, 1, 1), score=1.0)])


def test_an_unknown_image_is_named_with_the_nearest_cause():
    with pytest.raises(PermafrostError, match=r"'images/a.png'.*the truth names 'a.png'"):
        evaluate([box("a.png", (0, 0, 9, 9))], [box("images/a.png", (0, 0, 9, 9), score=1.0)])


@pytest.mark.parametrize("options", [{"matching": "score"}, {"min_score": 0.5}])
def test_missing_scores_matter_only_where_they_are_used(options):
    truth, rows = [box("a", (0, 0, 9, 9))], [box("a", (0, 0, 9, 9))]
    assert evaluate(truth, rows).values["recall", None] == 1
    with pytest.raises(PermafrostError, match="needs a column 'score'"):
        evaluate(truth, rows, **options)


def test_records_with_other_fields_and_columns_of_other_lengths():
    with pytest.raises(PermafrostError, match="row 2: its fields differ"):
        read_annotations([box("a", (0, 0, 9, 9)), point("a", 1, 1)], "truth")
    with pytest.raises(PermafrostError, match="different lengths"):
        read_annotations({"image_path": ["a"], "label": [], "x": [1], "y": [1]}, "truth")
    with pytest.raises(PermafrostError, match="is not a table"):
        read_annotations(5, "truth")


def test_images_that_are_missing_or_broken(tmp_path):
    with pytest.raises(PermafrostError, match=r"none.png: the image does not exist"):
        image_sizes(tmp_path, ["none.png"])
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n")
    with pytest.raises(PermafrostError, match=r"bad.png: the raster cannot be opened"):
        image_sizes(tmp_path, ["bad.png"])


cells = st.one_of(
    st.sampled_from(["", "0", "1", "5", "-3", "1e308", "nan", "inf", "x", '"', "a.png", "1,2"]),
    st.text(max_size=5),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(cells, min_size=5, max_size=8), max_size=5))
def test_any_table_is_read_or_refused(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    text = HEADER + "\n".join(",".join(row) for row in rows)
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        found = read_annotations(path, "truth")
    except PermafrostError:
        return
    assert (found.shape[:, 2:] > found.shape[:, :2]).all()
