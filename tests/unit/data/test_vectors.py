"""Objects in map coordinates: on the pixels where they were drawn, in any coordinate system and file format."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pyproj
import pytest
import shapely
from helpers.datasets.images import (
    RANDOM,
    RGB_ENTRY,
    encode,
    geotiff,
    open_source,
    photo,
    write_folder,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.proposal.entry import draft_of
from rasterio.transform import Affine

SIZE = (48, 64)
ORIGIN, PIXEL, CRS = (500_000.0, 5_600_000.0), 0.5, "EPSG:32632"
#: three images next to each other, the last with rows and columns that run askew
PLACES = [
    Affine(PIXEL, 0, ORIGIN[0], 0, -PIXEL, ORIGIN[1]),
    Affine(PIXEL, 0, ORIGIN[0] + SIZE[1] * PIXEL, 0, -PIXEL, ORIGIN[1]),
    Affine.translation(ORIGIN[0], ORIGIN[1] - 200)
    @ Affine.rotation(20)
    @ Affine.scale(PIXEL, -PIXEL / 2),
]
NAMES = ["a", "b", "c"]
OUTLINE = shapely.Polygon([(10, 5), (30, 9), (28, 20), (8, 16)])
DRAWN = {
    "a": [
        OUTLINE,
        shapely.Polygon(
            shapely.box(40, 30, 52, 44).exterior, [shapely.box(44, 34, 46, 36).exterior]
        ),
    ],
    "b": [shapely.MultiPolygon([shapely.box(2, 2, 5, 6), shapely.box(8, 2, 9, 3)])],
    "c": [shapely.affinity.rotate(OUTLINE, 30)],
}
SPECIES = {"a": ["oak", "ash"], "b": ["oak"], "c": ["ash"]}


def images() -> dict[str, bytes]:
    return {
        f"images/{name}.tif": geotiff(photo(n, SIZE).transpose(2, 0, 1), crs=CRS, transform=place)
        for n, (name, place) in enumerate(zip(NAMES, PLACES, strict=True))
    }


def on_map(name: str, shape, crs: str):
    """A shape in pixels of an image as one on the map; by pyproj, which the reader does not use."""
    place = PLACES[NAMES.index(name)]
    turn = pyproj.Transformer.from_crs(CRS, crs, always_xy=True)

    def moved(points):
        x, y = place @ points.T
        return np.stack(turn.transform(x, y), axis=1)

    return shapely.transform(shape, moved)


def write_shapes(path, shapes, crs: str | None, **fields) -> None:
    import pyogrio

    path.parent.mkdir(parents=True, exist_ok=True)
    pyogrio.raw.write(
        str(path),
        shapely.to_wkb(np.array(shapes, object)),
        [np.array(values, object) for values in fields.values()],
        list(fields),
        geometry_type="Unknown" if path.suffix != ".shp" else "Polygon",
        crs=crs,
        # the order of features, which is checked
        **({"SPATIAL_INDEX": "NO"} if path.suffix == ".fgb" else {}),
    )


def write_all(folder, ending: str, crs: str | None, *, one_file: bool):
    """The shapes in one file, or in a file per image."""
    write_folder(folder, images())
    kept = {
        name: ([on_map(name, one, crs or CRS) for one in shapes], SPECIES[name])
        for name, shapes in DRAWN.items()
    }
    if one_file:
        shapes = [one for part, _ in kept.values() for one in part]
        write_shapes(folder / f"all.{ending}", shapes, crs, species=sum(SPECIES.values(), []))
    else:
        for name, (shapes, species) in kept.items():
            write_shapes(folder / f"shapes/{name}.{ending}", shapes, crs, species=species)
    return folder


def entry(path, source=None, **more) -> dict:
    place = {"kind": "vectors", "path": str(path), "attribute": "species", **(source or {})}
    return {**RGB_ENTRY, "task": "detection", "source": place, "splits": RANDOM, **more}


def records(path, source=None, **more) -> dict:
    found = open_source(entry(path, source, **more), where="dataset set").records()
    return {record.sample_id[len("images/") : -len(".tif")]: record for record in found}


def check_drawn(found: dict, *, atol: float = 1e-4) -> None:
    assert sorted(found) == NAMES
    for name, drawn in DRAWN.items():
        objects = found[name].objects
        assert len(objects) == len(drawn)
        for number, shape in enumerate(drawn):
            np.testing.assert_allclose(objects.boxes[number], shape.bounds, atol=atol)
            np.testing.assert_allclose(objects.areas[number], shape.area, rtol=1e-4)
            assert ["ash", "oak"][objects.classes[number]] == SPECIES[name][number]
            rings = [
                # a line to a hole and back bounds nothing
                shapely.make_valid(shapely.Polygon(np.reshape(ring, (-1, 2))))
                for ring in objects.polygons[number]
            ]
            assert shapely.union_all(rings).symmetric_difference(shape).area < 0.01
    # an oriented box is eight numbers
    assert [len(ring) for ring in found["a"].objects.polygons[0]] == [8]


@pytest.mark.parametrize("one_file", [True, False])
@pytest.mark.parametrize(
    ("ending", "crs"),
    [
        ("gpkg", CRS),
        ("gpkg", "EPSG:3857"),
        ("geojson", "EPSG:4326"),
        ("shp", "EPSG:25832"),
        ("fgb", "EPSG:4326"),
    ],
)
def test_shapes_lie_on_the_pixels_where_they_were_drawn(tmp_path, ending, crs, one_file):
    place = write_all(tmp_path, ending, crs, one_file=one_file)
    source = {"shapes": f"all.{ending}"} if one_file else {}
    check_drawn(records(place, source), atol=1e-3 if crs == "EPSG:4326" else 1e-4)


def test_an_archive_is_read_in_place(tmp_path):
    write_all(tmp_path / "set", "geojson", "EPSG:4326", one_file=True)
    files = {
        str(p.relative_to(tmp_path / "set")): p.read_bytes()
        for p in (tmp_path / "set").rglob("*.*")
    }
    check_drawn(
        records(write_zip(tmp_path / "set.zip", files), {"shapes": "all.geojson"}), atol=1e-3
    )


def test_a_shape_over_the_edge_belongs_to_both_images_cut_and_counted(tmp_path):
    write_folder(tmp_path, images())
    shape = on_map("a", shapely.box(60, 10, 70, 20), CRS)
    outside = on_map("a", shapely.box(-9, -9, -1, -1), CRS)
    write_shapes(tmp_path / "all.gpkg", [shape, outside], CRS, species=["oak", "ash"])
    one = {"shapes": "all.gpkg"}
    with pytest.raises(
        PermafrostError, match="all.gpkg: feature 1: a box that reaches beyond the image"
    ):
        records(tmp_path, one)
    found = records(tmp_path, {**one, "clip_boxes": True})
    np.testing.assert_allclose(found["a"].objects.boxes, [[60, 10, 64, 20]], atol=1e-6)
    np.testing.assert_allclose(found["b"].objects.boxes, [[0, 10, 6, 20]], atol=1e-6)
    assert [found[name].clipped for name in NAMES] == [1, 1, 0]


def test_points_lie_in_one_image(tmp_path):
    write_folder(tmp_path, images())
    points = [shapely.Point(3.25, 7.5), shapely.Point(64, 20), shapely.Point(0, 0)]
    write_shapes(tmp_path / "all.gpkg", [on_map("a", p, CRS) for p in points], CRS, kind=["x"] * 3)
    source = {"shapes": "all.gpkg", "attribute": None}
    content = entry(tmp_path, source, task="point_detection", classes=["tree"])
    del content["source"]["attribute"]
    found = open_source(content, where="dataset set").records()
    np.testing.assert_allclose(found[0].objects.boxes[:, :2], [[3.25, 7.5], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(found[1].objects.boxes[:, :2], [[0, 20]], atol=1e-6)
    with pytest.raises(PermafrostError, match="feature 1 is a Point, and the task needs polygons"):
        open_source({**content, "task": "detection"}, where="dataset set")


def test_pixels_need_no_georeference(tmp_path):
    files = {f"images/{name}.png": encode(photo(0, SIZE)) for name in NAMES}
    write_folder(tmp_path, files)
    for name, shapes in DRAWN.items():
        write_shapes(tmp_path / f"shapes/{name}.gpkg", shapes, None, species=SPECIES[name])
    found = open_source(entry(tmp_path, {"coordinates": "pixels"}), where="dataset set").records()
    check_drawn(dict(zip(NAMES, found, strict=True)))
    with pytest.raises(PermafrostError) as caught:
        open_source(entry(tmp_path), where="dataset set")
    assert "images/a.png: has no georeference" in str(caught.value)
    assert "coordinates: pixels" in caught.value.remedy


def test_an_invalid_polygon_is_repaired(tmp_path):
    write_folder(tmp_path, images())
    bow = shapely.Polygon([(10, 10), (20, 20), (20, 10), (10, 20)])
    write_shapes(tmp_path / "all.gpkg", [on_map("a", bow, CRS)], CRS, species=["oak"])
    found = records(tmp_path, {"shapes": "all.gpkg"})["a"].objects
    np.testing.assert_allclose(found.areas, [50], rtol=1e-6)
    np.testing.assert_allclose(found.boxes, [[10, 10, 20, 20]], atol=1e-6)


@pytest.mark.parametrize("task", ["detection", "oriented_detection"])
def test_a_polygon_without_area_is_named_or_left_out(tmp_path, task):
    write_folder(tmp_path, {"images/a.tif": images()["images/a.tif"]})
    flat = shapely.Polygon([(10, 10), (20, 20), (30, 30), (12, 12), (11, 11)])
    shapes = [on_map("a", shape, CRS) for shape in (flat, shapely.box(1, 1, 9, 9))]
    write_shapes(tmp_path / "shapes/a.gpkg", shapes, CRS, species=["oak", "oak"])
    with pytest.raises(PermafrostError, match="feature 1: a box without width or height .10, 10"):
        records(tmp_path, task=task)
    (found,) = records(tmp_path, {"clip_boxes": True}, task=task)["a"].objects.boxes
    np.testing.assert_allclose(found, [1, 1, 9, 9], atol=1e-6)


def test_geojson_without_features_has_no_objects_and_needs_no_attribute(tmp_path):
    nothing = b'{"type": "FeatureCollection", "features": []}'
    files = {"images/a.tif": images()["images/a.tif"], "shapes/a.geojson": nothing}
    write_folder(tmp_path, files)
    assert not len(records(tmp_path, classes=["oak"])["a"].objects)


def _one(shape, crs: str | None = CRS, field="species", value="oak"):
    """What writes one feature."""
    return lambda place: write_shapes(place, [shape], crs, **{field: [value]})


ON_A = on_map("a", OUTLINE, CRS)
WRONG = [
    (_one(OUTLINE, None), "all.gpkg has no coordinate system", "coordinates: pixels"),
    (_one(OUTLINE, "EPSG:32633"), "no shape of all.gpkg lies on an image", "coordinate system"),
    (_one(OUTLINE, field="kind"), "has no attribute 'species', only kind", "attribute"),
    (_one(ON_A, value=None), "feature 1 has no species", "complete"),
    (_one(ON_A.exterior), "feature 1 is a LineString", "buffer"),
    (
        lambda at: at.write_bytes(b"SQLite format 3\0"),
        "is not a readable file of shapes",
        "GeoPackage",
    ),
    (lambda at: at.write_bytes(b"{}"), "does not begin as .gpkg does", "GeoPackage"),
]


@pytest.mark.parametrize(("make", "message", "remedy"), WRONG)
def test_what_is_wrong_with_shapes_is_named(tmp_path, make, message, remedy):
    write_folder(tmp_path, images())
    make(tmp_path / "all.gpkg")
    with pytest.raises(PermafrostError) as caught:
        records(tmp_path, {"shapes": "all.gpkg"})
    assert message in str(caught.value) and remedy in caught.value.remedy


def test_a_layer_is_named_where_there_are_several(tmp_path):
    import pyogrio

    write_folder(tmp_path, images())
    write_shapes(tmp_path / "all.gpkg", [ON_A], CRS, species=["oak"])
    one = {"shapes": "all.gpkg"}
    with pytest.raises(PermafrostError, match="it has no layer 'crowns', only all"):
        records(tmp_path, {**one, "layer": "crowns"})
    layer = {"layer": "more", "geometry_type": "Polygon", "crs": CRS, "append": True}
    pyogrio.raw.write(str(tmp_path / "all.gpkg"), shapely.to_wkb([ON_A]), [], [], **layer)
    with pytest.raises(PermafrostError, match="it has 2 layers, not one: all, more"):
        records(tmp_path, one)
    assert len(records(tmp_path, {**one, "layer": "all"})["a"].objects) == 1


def test_a_geopackage_may_say_that_it_has_no_coordinate_system(tmp_path):
    write_folder(tmp_path, images())
    write_shapes(tmp_path / "all.gpkg", [OUTLINE], CRS, species=["oak"])
    with sqlite3.connect(tmp_path / "all.gpkg") as base:
        base.execute("UPDATE gpkg_geometry_columns SET srs_id = -1")
        base.execute("UPDATE gpkg_contents SET srs_id = -1")
    with pytest.raises(PermafrostError, match="all.gpkg has no coordinate system"):
        records(tmp_path, {"shapes": "all.gpkg"})


@pytest.mark.parametrize("one_file", [True, False])
@pytest.mark.parametrize("ending", ["gpkg", "geojson", "shp"])
def test_a_draft_reads_the_folder_that_it_is_for(tmp_path, ending, one_file):
    place = write_all(tmp_path, ending, "EPSG:4326", one_file=one_file)
    draft = draft_of(place, where=place)
    assert draft.source["kind"] == "vectors" and draft.source["attribute"] == "species"
    content = {**draft.fields, "task": draft.task, "source": draft.source, "splits": draft.splits}
    found = open_source(json.loads(json.dumps(content)), where="dataset set").records()
    check_drawn(dict(zip(NAMES, found, strict=True)), atol=1e-3)
