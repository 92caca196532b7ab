"""Crowns in files of shapes: the scores of the same crowns in pixels, whatever the coordinate system."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
import pyproj
import pytest
import shapely
from helpers.datasets.images import geotiff, photo
from helpers.predictions.crowns import random_crowns
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.crowns import evaluate
from permafrost.stages import evaluate_boxes
from rasterio.transform import Affine

CRS, PIXEL = "EPSG:32632", 0.5
SIZE = (200, 200)


@pytest.fixture(params=["polygon", "box", "point"])
def crowns(request, tmp_path):
    """Truth and predictions in pixels, as CSV; and the folder of their georeferenced images."""
    rows = random_crowns(np.random.default_rng(3), request.param, 5)
    known = {row["image_path"] for row in rows[0]}
    rows = [[row for row in part if row["image_path"] in known] for part in rows]
    paths = [tmp_path / f"{name}.csv" for name in ("truth", "predictions")]
    for path, part in zip(paths, rows, strict=True):
        pd.DataFrame([{**row, "image_path": f"{row['image_path']}.tif"} for row in part]).to_csv(
            path, index=False
        )
    (tmp_path / "images").mkdir()
    for number, name in enumerate(sorted(known)):
        data = geotiff(photo(number, SIZE).transpose(2, 0, 1), crs=CRS, transform=place_of(name))
        (tmp_path / f"images/{name}.tif").write_bytes(data)
    return paths, tmp_path


def place_of(name: str) -> Affine:
    number = int("".join(filter(str.isdigit, name)))
    return Affine(PIXEL, 0, 500_000.0 + 150 * number, 0, -PIXEL, 5_600_000.0)


def shapes_of(table: pd.DataFrame) -> np.ndarray:
    if "geometry" in table:
        return shapely.from_wkt(table["geometry"])
    if "xmin" in table:
        return shapely.box(*table[["xmin", "ymin", "xmax", "ymax"]].to_numpy().T)
    return shapely.points(table[["x", "y"]].to_numpy(float))


def write(path, shapes, crs: str | None, table: pd.DataFrame) -> None:
    import pyogrio

    fields = {
        name: table[name].to_numpy() for name in ("image_path", "label", "score") if name in table
    }
    pyogrio.raw.write(
        str(path),
        shapely.to_wkb(shapes),
        list(fields.values()),
        list(fields),
        geometry_type="Unknown",
        crs=crs,
    )


def to_map(csv, path, crs: str | None = CRS, *, names: bool = True):
    """The crowns of a CSV as a file of shapes; by pyproj, which the reader does not use."""
    table = pd.read_csv(csv)
    shapes = shapes_of(table).copy()
    turn = pyproj.Transformer.from_crs(CRS, crs or CRS, always_xy=True)
    for row, name in enumerate(table["image_path"]):
        place = place_of(name)
        shapes[row] = shapely.transform(
            shapes[row],
            lambda points, place=place: np.stack(turn.transform(*(place @ points.T)), axis=1),
        )
    write(path, shapes, crs, table if names else table.drop(columns="image_path"))
    return path


def command(tables, *options) -> None:
    parser = argparse.ArgumentParser()
    evaluate_boxes.add_arguments(parser)
    given = ["--truth", tables[0], "--predictions", tables[1], "--resamples", "50", *options]
    evaluate_boxes.run(parser.parse_args([str(option) for option in given]))


def same(found, expected, unit: float = 1.0) -> None:
    """That all scores agree; distances are in units of so many pixels."""
    assert found.values.keys() == expected.values.keys()
    for name, value in expected.values.items():
        scale = unit if name[0] == "matched_distance" else 1.0
        np.testing.assert_allclose(found.values[name], value * scale, rtol=1e-9, err_msg=str(name))


@pytest.mark.parametrize(
    ("ending", "crs"), [("gpkg", CRS), ("geojson", "EPSG:4326"), ("gpkg", "EPSG:25832")]
)
def test_scores_are_those_of_the_same_crowns_in_pixels(crowns, ending, crs):
    (truth, predictions), folder = crowns
    expected = evaluate(truth, predictions)
    assert 0 < expected.values["recall", None] < 1
    maps = to_map(truth, folder / "t.gpkg"), to_map(predictions, folder / f"p.{ending}", crs)
    same(evaluate(*maps, images=folder / "images"), expected)
    geometry = "box" if expected.truth.kind == "box" else "auto"
    same(evaluate(truth, maps[1], images=folder / "images", geometry=geometry), expected)
    # on the map, distances are metres
    same(evaluate(*maps, distance_threshold=10 * PIXEL), expected, PIXEL)


def test_the_command_says_on_which_map_it_compares(crowns, capsys, tmp_path):
    (truth, predictions), folder = crowns
    maps = to_map(truth, folder / "t.gpkg"), to_map(predictions, folder / "p.fgb", "EPSG:25832")
    command(maps, "--output", tmp_path / "s.json", "--group-column", "image_path")
    assert "coordinates and distances are those of EPSG:32632" in capsys.readouterr().out
    command(maps, "--images", folder / "images", "--output", tmp_path / "p.json")
    command((truth, predictions), "--output", tmp_path / "c.json")
    found, expected = (
        json.loads((tmp_path / f"{name}.json").read_text())["scores"] for name in "pc"
    )
    values = [
        {(row["metric"], row["class"]): row["value"] for row in rows} for rows in (found, expected)
    ]
    assert values[0] == pytest.approx(values[1])


def test_a_map_without_names_of_images_is_one_image(crowns, capsys):
    (truth, predictions), folder = crowns
    tables = [pd.read_csv(path) for path in (truth, predictions)]
    name = tables[0]["image_path"][0]
    for path, table in zip((truth, predictions), tables, strict=True):
        table[table["image_path"] == name].to_csv(path, index=False)
    expected = evaluate(truth, predictions)
    maps = (
        to_map(truth, folder / "t.gpkg", names=False),
        to_map(predictions, folder / "p.gpkg", names=False),
    )
    same(evaluate(*maps, distance_threshold=10 * PIXEL), expected, PIXEL)
    command(maps)
    assert "the whole map is one image" in capsys.readouterr().out
    with pytest.raises(
        PermafrostError, match="no attribute image_path, and .* holds 5 TIFF images"
    ):
        evaluate(*maps, images=folder / "images")
    for other in (folder / "images").iterdir():
        if other.name != name:
            other.unlink()
    same(evaluate(*maps, images=folder / "images"), expected)


@pytest.mark.parametrize("crowns", ["polygon"], indirect=True)
def test_pixels_in_a_file_of_shapes_need_no_map(crowns, tmp_path):
    paths, folder = crowns
    files = []
    for path in paths:
        table = pd.read_csv(path)
        files.append(folder / f"{path.stem}.gpkg")
        write(files[-1], shapes_of(table), None, table)
    with pytest.raises(
        PermafrostError, match="truth.gpkg: the file has no coordinate system"
    ) as caught:
        command(files)
    assert "--coordinates pixels" in caught.value.remedy
    command(files, "--coordinates", "pixels", "--output", tmp_path / "s.json")
    rows = json.loads((tmp_path / "s.json").read_text())["scores"]
    found = {(row["metric"], row["class"]): row["value"] for row in rows}
    for name, value in evaluate(*paths).values.items():
        assert found[name] == (None if np.isnan(value) else pytest.approx(value))


def test_a_file_without_features_has_no_predictions(crowns):
    (truth, _), folder = crowns
    metres, nothing = to_map(truth, folder / "t.gpkg"), folder / "none.geojson"
    nothing.write_text('{"type": "FeatureCollection", "features": []}')
    for options in ({}, {"images": folder / "images"}):
        found = evaluate(metres, nothing, **options)
        assert found.values["recall", None] == 0 and not len(found.predictions)
        # images keep their names
        assert found.images == evaluate(metres, metres, **options).images
    with pytest.raises(PermafrostError, match="none.geojson: |no image"):
        evaluate(nothing, metres)


def test_a_point_at_the_corner_of_the_map_is_a_point(tmp_path):
    table = pd.DataFrame({"label": ["Tree"]})
    for place in ([(500_000.0, 5_600_000.0)], [(0.0, 0.0)]):
        write(tmp_path / "t.gpkg", shapely.points(place), CRS, table)
        found = evaluate(tmp_path / "t.gpkg", tmp_path / "t.gpkg")
        assert len(found.truth) == 1 and found.values["recall", None] == 1


@pytest.mark.parametrize("crowns", ["point"], indirect=True)
def test_what_cannot_be_compared_is_named(crowns):
    (truth, predictions), folder = crowns
    degrees = to_map(truth, folder / "d.geojson", "EPSG:4326")
    with pytest.raises(PermafrostError, match="points in degrees have no distances"):
        evaluate(degrees, degrees)
    metres = to_map(truth, folder / "t.gpkg")
    with pytest.raises(
        PermafrostError, match="the predictions are in pixels, and .*t.gpkg is in map coordinates"
    ):
        evaluate(metres, predictions)
    with pytest.raises(PermafrostError, match="--images changes nothing here"):
        command((truth, predictions), "--images", folder / "images")
    (folder / "images/i0.tif").unlink()
    with pytest.raises(PermafrostError, match="i0.tif: its georeference cannot be read"):
        evaluate(metres, metres, images=folder / "images")
    damaged = folder / "x.gpkg"
    damaged.write_bytes(b"SQLite format 3\0")
    with pytest.raises(PermafrostError, match="x.gpkg: not a readable file of shapes"):
        evaluate(metres, damaged)
