"""True areas of pixels, and area-weighted estimates with them."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest
import rasterio
from affine import Affine
from helpers.predictions.rasters import write
from permafrost.evaluators.raster import area_estimates, evaluate
from permafrost.evaluators.raster.pixel_areas import pixel_areas
from permafrost.stages import evaluate_raster
from rasterio.transform import from_bounds, from_origin

pyproj = pytest.importorskip("pyproj")


def areas_of(folder, transform, shape, crs="EPSG:4326"):
    path = write(folder / "a.tif", np.zeros(shape, np.uint8), crs=crs, transform=transform)
    with rasterio.open(path) as dataset:
        return pixel_areas(dataset)


def geodesic_area(transform, column: int, row: int, crs="EPSG:4326", ellipsoid="WGS84") -> float:
    """A pixel's area by geodesics through many points of its edges."""
    along = np.linspace(0, 1, 200, endpoint=False)
    x = np.concatenate([along, np.ones(200), 1 - along, np.zeros(200)]) + column
    y = np.concatenate([np.zeros(200), along, np.ones(200), 1 - along]) + row
    east, north = (
        transform.c + transform.a * x + transform.b * y,
        transform.f + transform.d * x + transform.e * y,
    )
    to_degrees = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    lon, lat = to_degrees.transform(east, north)
    return abs(pyproj.Geod(ellps=ellipsoid).polygon_area_perimeter(lon, lat)[0])


@pytest.mark.parametrize(
    ("transform", "crs", "ellipsoid"),
    [
        (from_origin(10, 61, 0.25, 0.25), "EPSG:4326", "WGS84"),
        (from_origin(-70, -33, 0.001, 0.002), "EPSG:4326", "WGS84"),
        (from_origin(179.9, 12, 0.1, 0.1), "EPSG:4326", "WGS84"),
        (from_origin(-90, 40, 0.1, 0.1), "EPSG:4267", "clrk66"),
        (Affine(0.1, 0.05, 10, 0.05, -0.1, 50), "EPSG:4326", "WGS84"),
        (from_origin(1_000_000, 9_000_000, 500, 500), "EPSG:3857", "WGS84"),
        (Affine(400, 90, 1e6, 90, -400, 9e6), "EPSG:3857", "WGS84"),
    ],
)
def test_areas_are_those_of_geodesic_polygons(tmp_path, transform, crs, ellipsoid):
    found = areas_of(tmp_path, transform, (30, 40), crs)
    if found.grid is None:  # too small a raster of metres
        found = areas_of(tmp_path, transform, (3000, 40), crs)
    window = np.broadcast_to(found.window(2, 5, 6, 7), (7, 6))
    system = "EPSG:4326" if crs == "EPSG:4267" else crs
    for row, column in ((0, 0), (3, 5), (6, 2)):
        expected = geodesic_area(transform, 2 + column, 5 + row, system, ellipsoid)
        assert window[row, column] == pytest.approx(expected, rel=1e-5)
    smallest, largest = found.bounds
    assert smallest <= window.min() * (1 + 1e-9) and window.max() <= largest * (1 + 1e-9)


def test_areas_of_a_large_window_are_those_of_its_pixels(tmp_path):
    grid = areas_of(tmp_path, from_origin(2e6, 7e6, 800, 800), (600, 300), "EPSG:3857").grid
    window = grid.areas(30, 40, 270, 300)
    assert window.shape == (300, 270)
    for row, column in np.random.default_rng(0).integers(0, (300, 270), (50, 2)).tolist():
        single = grid.areas(30 + column, 40 + row, 1, 1)[0, 0]
        assert window[row, column] == pytest.approx(single, rel=1e-6)


def test_all_pixels_together_cover_the_earth(tmp_path):
    # half a pixel over the poles and round the globe, as global rasters are
    found = areas_of(tmp_path, from_bounds(-180, -90.5, 180, 90.5, 360, 181), (181, 360))
    whole = np.broadcast_to(found.window(0, 0, 360, 181), (181, 360)).sum()
    assert whole == pytest.approx(510_065_621_724_000, rel=1e-9)


def test_a_zone_of_utm_has_equal_pixels_and_web_mercator_has_not(tmp_path):
    assert (
        areas_of(tmp_path, from_origin(400_000, 5e6, 1000, 1000), (300, 300), "EPSG:32633").grid
        is None
    )
    found = areas_of(tmp_path, from_origin(1e6, 8e6, 1000, 1000), (300, 300), "EPSG:3857")
    assert found.bounds[1] > 1.05 * found.bounds[0] and "EPSG:3857" in found.sentence()


@pytest.mark.parametrize(
    ("crs", "equal"), [("ESRI:54009", True), ("ESRI:54008", True), ("ESRI:54030", False)]
)
def test_maps_of_the_world_have_corners_without_area(tmp_path, crs, equal):
    """Mollweide and sinusoidal keep areas, Robinson does not; all leave the corners empty."""
    found = areas_of(tmp_path, from_origin(-18e6, 9e6, 90_000, 90_000), (200, 400), crs)
    assert (found.grid is None) is equal and not found.problem
    if not equal:
        window = found.window(0, 0, 400, 200)
        assert np.isfinite(window).all() and (window > 0).all()
        transform = from_origin(-18e6, 9e6, 90_000, 90_000)
        for row, column in ((100, 200), (60, 130), (150, 250)):
            expected = geodesic_area(transform, column, row, crs)
            assert window[row, column] == pytest.approx(expected, rel=0.01)
        assert found.window(0, 0, 20, 10).max() == 0


def test_a_local_system_has_equal_pixels_and_coordinates_off_the_earth_none(tmp_path):
    local = 'LOCAL_CS["site",UNIT["metre",1]]'
    found = areas_of(tmp_path, from_origin(0, 0, 1, 1), (9, 9), local)
    assert found.grid is None and not found.problem
    found = areas_of(tmp_path, from_origin(500_000, 4e6, 10, 10), (9, 9), "EPSG:4326")
    assert "is outside the valid area of its coordinate system" in found.problem


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize(
    ("transform", "suspect"),
    [
        (from_origin(10, 61, 0.25, 0.25), True),
        (Affine.identity(), False),
        (from_origin(500_000, 4e6, 10, 10), False),
        (from_origin(500_000, 4e6, 0.1, 0.1), False),
    ],
)
def test_degrees_without_a_system_are_suspected(tmp_path, transform, suspect):
    assert bool(areas_of(tmp_path, transform, (30, 30), None).problem) is suspect


def test_sums_of_equal_areas_change_nothing():
    counts = np.random.default_rng(0).integers(1, 50, (3, 3))
    mapped = np.array([1000, 5000, 300])
    plain = area_estimates(counts, mapped)
    weighed = area_estimates(counts, mapped * 7.0, np.stack([counts * 7.0, counts * 49.0]))
    for name in vars(plain):
        np.testing.assert_allclose(getattr(weighed, name), getattr(plain, name), rtol=1e-12)


def test_estimates_and_their_errors_hold_on_samples_of_a_map():
    """Pixels drawn from a map whose pixels differ: the mean is right, the spread as estimated."""
    rng = np.random.default_rng(1)
    areas = np.repeat(np.linspace(1, 5, 60), 50)
    # errors are more frequent where pixels are small, so that counts would be biased
    truth = (rng.random(areas.size) < 0.5).astype(int)
    mapped = np.where(rng.random(areas.size) < 0.5 / areas, 1 - truth, truth)
    total = np.bincount(mapped, areas)
    share = areas[truth == 1].sum() / areas.sum()
    found, errors, plain = [], [], []
    for _ in range(1500):
        rows = np.concatenate([rng.choice(np.flatnonzero(mapped == k), 120) for k in (0, 1)])
        pair = truth[rows], mapped[rows]
        sums = [np.zeros((2, 2)) for _ in range(3)]
        for table, weights in zip(sums, (np.ones(240), areas[rows], areas[rows] ** 2), strict=True):
            np.add.at(table, pair, weights)
        estimate = area_estimates(sums[0], total, sums[1:])
        found.append([estimate.area[1], estimate.overall_accuracy, estimate.producers_accuracy[1]])
        errors.append(
            [estimate.area_se[1], estimate.overall_accuracy_se, estimate.producers_accuracy_se[1]]
        )
        plain.append(area_estimates(sums[0], total).overall_accuracy)
    accuracy = areas[mapped == truth].sum() / areas.sum()
    assert np.mean(found, axis=0)[:2] == pytest.approx([share, accuracy], abs=0.004)
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(found, axis=0), rtol=0.06)
    assert np.mean(plain) < accuracy - 0.03


def command(*options) -> None:
    parser = argparse.ArgumentParser()
    evaluate_raster.add_arguments(parser)
    evaluate_raster.run(parser.parse_args([str(option) for option in options]))


def globe(folder, crs="EPSG:4326", *, census=False):
    """A map of two classes from the equator to 80° north: one in its northernmost quarter."""
    prediction = np.zeros((160, 90), np.uint8)
    prediction[:40] = 1
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(prediction.shape) < 0.05, 1 - prediction, prediction)
    sampled = truth if census else np.where(rng.random(truth.shape) < 0.1, truth, 255)
    where = {"crs": crs, "transform": from_origin(0, 80, 0.5, 0.5)}
    reference = write(folder / "r.tif", sampled.astype(np.uint8), nodata=255, **where)
    return reference, write(folder / "p.tif", prediction, **where), truth


@pytest.mark.parametrize("block", [512, 37])
def test_a_share_of_the_area_is_that_of_the_ground(tmp_path, capsys, block):
    reference, prediction, truth = globe(tmp_path)
    command(
        "--reference",
        reference,
        "--prediction",
        prediction,
        "--block",
        block,
        "--resamples",
        20,
        "--output",
        tmp_path / "s.json",
    )
    written = json.loads((tmp_path / "s.json").read_text())
    row = next(r for r in written["scores"] if r["metric"] == "area_share" and r["class"] == "1")
    with rasterio.open(reference) as dataset:
        areas = np.broadcast_to(pixel_areas(dataset).window(0, 0, 90, 160), (160, 90))
    expected = areas[truth == 1].sum() / areas.sum()
    assert row["lower"] < expected < row["upper"] and row["upper"] < (truth == 1).mean() - 0.05
    assert "EPSG:4326" in capsys.readouterr().out
    assert written["mapped_area_m2"][1] == pytest.approx(areas[:40].sum())
    assert any(note.startswith("A pixel covers") for note in written["notes"])


def test_a_census_in_degrees_says_that_pixels_are_counted(tmp_path, capsys):
    reference, prediction, _ = globe(tmp_path, census=True)
    command("--reference", reference, "--prediction", prediction, "--resamples", 0)
    printed = capsys.readouterr().out
    assert "A pixel covers" in printed and "a census" in printed and "area_share" not in printed


def test_suspected_degrees_have_no_area_estimates(tmp_path, capsys):
    reference, prediction, _ = globe(tmp_path, crs=None)
    command("--reference", reference, "--prediction", prediction, "--resamples", 20)
    printed = capsys.readouterr().out
    assert "No area-weighted estimates" in printed and "look like degrees" in printed
    assert "area_share" not in printed
    # the system of the other raster tells, where pixels are compared without
    (tmp_path / "named").mkdir()
    _, named, _ = globe(tmp_path / "named")
    found = evaluate(reference, named, by_pixel=True)
    assert found.pixel_areas.name == "EPSG:4326"
