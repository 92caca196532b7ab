"""Rasters of embeddings: which pixels belong to an image, and what their numbers mean."""

from __future__ import annotations

import numpy as np
import pytest
import rasterio
from helpers.backbones import backbone_entry
from helpers.stores.places import UTM, image_at, point, write_raster
from permafrost.core.errors import PermafrostError
from permafrost.data.embeddings.coding import alphaearth, esd
from permafrost.data.embeddings.rasters import RasterEmbeddings
from rasterio import Affine
from rasterio.mask import mask
from rasterio.warp import Resampling, reproject, transform_geom

ORIGIN = (500_000.0, 5_300_000.0)
GRID = Affine(10, 0, ORIGIN[0], 0, -10, ORIGIN[1])
VALUES = np.random.default_rng(3).normal(size=(5, 40, 50)).astype(np.float32)


def opened(path, **rasters) -> RasterEmbeddings:
    entry = {"kind": "embeddings", "path": str(path), "rasters": rasters}
    return RasterEmbeddings(str(path), backbone_entry(entry).options.rasters, "backbone x")


def outline(place, crs: str, steps: int = 50) -> dict:
    """The image's border as GeoJSON in another coordinate system."""
    way = np.linspace(0, 1, steps)
    corners = [
        *[(0, w) for w in way],
        *[(w, 1) for w in way],
        *[(1, 1 - w) for w in way],
        *[(1 - w, 0) for w in way],
    ]
    points = [place.at(row * place.height, column * place.width) for row, column in corners]
    return transform_geom(place.crs, crs, {"type": "Polygon", "coordinates": [points]})


def by_rasterio(path, place) -> np.ndarray:
    """(C, n): the pixels whose centre lies in the image, by rasterio's own rule."""
    with rasterio.open(path) as file:
        cut, _ = mask(file, [outline(place, file.crs.to_string())], crop=False, filled=False)
    return np.stack([band.compressed() for band in cut])


@pytest.mark.parametrize("pool", ["mean", "mean_std"])
@pytest.mark.parametrize("shift", [(0, 0), (33, -47), (-40, 35), (460, -370)])
def test_pooled_is_what_rasterio_cuts_out(tmp_path, pool, shift):
    """Also at the edges of the raster, where only a part of the image has data."""
    path = write_raster(tmp_path / "a.tif", VALUES, GRID)
    place = image_at(ORIGIN[0] + shift[0] + 3, ORIGIN[1] + shift[1] - 3, side=9)
    cut = by_rasterio(path, place).astype(np.float64)
    expected = cut.mean(axis=1)
    if pool == "mean_std":
        expected = np.concatenate([expected, cut.std(axis=1)])
    np.testing.assert_allclose(opened(path, pool=pool).pooled(place), expected, rtol=1e-5)


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857", "EPSG:32632"])
def test_image_in_another_coordinate_system(tmp_path, crs):
    path = write_raster(tmp_path / "a.tif", VALUES, GRID)
    (x,), (y,) = rasterio.warp.transform(UTM, crs, [ORIGIN[0] + 120], [ORIGIN[1] - 110])
    place = image_at(x, y, side=7, pixel=2e-4 if crs == "EPSG:4326" else 17.0, crs=crs)
    cut = by_rasterio(path, place)
    assert cut.shape[1] > 20
    np.testing.assert_allclose(opened(path).pooled(place), cut.mean(axis=1), rtol=1e-5, atol=1e-6)


def test_image_smaller_than_a_pixel_and_image_without_footprint_have_the_pixel_under_their_centre(
    tmp_path,
):
    path = write_raster(tmp_path / "a.tif", VALUES, GRID)
    small = image_at(ORIGIN[0] + 71, ORIGIN[1] - 132, side=2, pixel=1.0)
    (lon,), (lat,) = rasterio.warp.transform(UTM, "EPSG:4326", [ORIGIN[0] + 75], [ORIGIN[1] - 137])
    for place in (small, point(lon, lat)):
        assert np.array_equal(opened(path).pooled(place), VALUES[:, 13, 7])


def test_nodata_counts_nowhere_and_an_image_of_nothing_else_has_none(tmp_path):
    values = VALUES.copy()
    values[:, :10, :10] = -9
    values[2, 20, 20] = -9  # one band alone is a number like any other
    path = write_raster(tmp_path / "a.tif", values, GRID, nodata=-9)
    source = opened(path)
    assert source.pooled(image_at(*ORIGIN, side=10)) is None
    half = image_at(ORIGIN[0] + 50, ORIGIN[1], side=10)
    np.testing.assert_allclose(
        source.pooled(half), values[:, :10, 10:15].mean(axis=(1, 2)), rtol=1e-5
    )
    whole = image_at(ORIGIN[0] + 200, ORIGIN[1] - 200, side=1)
    assert source.pooled(whole)[2] == -9
    assert source.pooled(image_at(ORIGIN[0] + 9000, ORIGIN[1], side=10)) is None
    assert "no raster has data" in source.reason(half)


def test_tiles_of_far_zones_are_left_alone(tmp_path):
    """The coordinates of one zone are refused, or misleading, on the other side of the Earth."""
    for zone in (1, 18, 33, 47, 60):
        crs = f"EPSG:327{zone:02d}"
        write_raster(tmp_path / f"{zone:02d}.tif", VALUES + zone, GRID, crs=crs)
    source = opened(tmp_path)
    for zone in (1, 18, 33, 47, 60):
        place = image_at(*ORIGIN, side=6, crs=f"EPSG:327{zone:02d}")
        expected = (VALUES + np.float32(zone))[:, :6, :6]
        assert np.array_equal(source.mapped(place, 6, 6), expected)
        np.testing.assert_allclose(source.pooled(place), expected.mean(axis=(1, 2)), rtol=1e-5)


@pytest.mark.parametrize("lon", [-180.0, 179.99, 12.0])
def test_raster_of_the_whole_earth(tmp_path, lon):
    """As the embeddings of Copernicus-FM, a quarter of a degree wide; here of five degrees."""
    world = np.arange(72 * 36, dtype=np.float32).reshape(1, 36, 72)
    path = write_raster(tmp_path / "a.tif", world, Affine(5, 0, -180, 0, -5, 90), crs="EPSG:4326")
    expected = world[0, int((90 - 3.0) // 5), int((lon + 180) // 5)]
    assert opened(path).pooled(point(lon, 3.0)) == [expected]


def test_tiles_that_overlap_count_once_and_tiles_side_by_side_are_joined(tmp_path):
    left, right = VALUES[:, :, :30], VALUES[:, :, 20:].copy()
    write_raster(tmp_path / "1.tif", left, GRID)
    right[:, :, :10] += 100  # the first by name counts
    write_raster(tmp_path / "2.tif", right, Affine(10, 0, ORIGIN[0] + 200, 0, -10, ORIGIN[1]))
    source = opened(tmp_path)
    place = image_at(ORIGIN[0] + 150, ORIGIN[1] - 50, side=25)
    expected = VALUES[:, 5:30, 15:40]
    np.testing.assert_allclose(
        source.pooled(place), expected.mean(axis=(1, 2)), rtol=1e-4, atol=1e-6
    )
    assert np.array_equal(source.mapped(place, 25, 25), expected)


def test_raster_of_the_year_of_the_image(tmp_path):
    for year in (2019, 2020):
        write_raster(tmp_path / str(year) / "t.tif", VALUES + year, GRID)
    source = opened(tmp_path, pattern="{year}/*.tif")
    place = image_at(*ORIGIN, side=1, day="2020-05-03")
    assert np.array_equal(source.pooled(place), VALUES[:, 0, 0] + np.float32(2020))
    other = image_at(*ORIGIN, side=1, day="2021-05-03")
    assert source.pooled(other) is None and "of 2021" in source.reason(other)
    undated = image_at(*ORIGIN, side=1)
    assert source.pooled(undated) is None and source.reason(undated) == "its year is not known"
    fixed = opened(tmp_path, pattern="{year}/*.tif", year=2019)
    assert np.array_equal(fixed.pooled(undated), VALUES[:, 0, 0] + np.float32(2019))


@pytest.mark.parametrize("resampling", ["nearest", "bilinear"])
def test_maps_are_what_gdal_resamples(tmp_path, resampling):
    smooth = np.cumsum(np.cumsum(VALUES, axis=1), axis=2)
    path = write_raster(tmp_path / "a.tif", smooth, GRID)
    place = image_at(ORIGIN[0] + 61, ORIGIN[1] - 83, side=20, pixel=3.0)
    found = opened(path, resampling=resampling).mapped(place, 20, 20)
    expected = np.empty((5, 20, 20), np.float32)
    reproject(
        smooth,
        expected,
        src_transform=GRID,
        src_crs=UTM,
        dst_transform=Affine(*place.transform),
        dst_crs=UTM,
        resampling=Resampling[resampling],
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_coarse_map_and_map_beyond_the_raster(tmp_path):
    source = opened(write_raster(tmp_path / "a.tif", VALUES, GRID))
    place = image_at(ORIGIN[0], ORIGIN[1], side=8)
    assert np.array_equal(source.mapped(place, 4, 4), VALUES[:, 1:8:2, 1:8:2])
    beyond = image_at(ORIGIN[0] - 40, ORIGIN[1], side=8)
    found = source.mapped(beyond, 8, 8)
    assert np.isnan(found[:, :, :4]).all()
    assert np.array_equal(found[:, :, 4:], VALUES[:, :8, :4])


def test_raster_that_begins_at_the_bottom(tmp_path):
    """As AlphaEarth's files of source.coop do."""
    flipped = Affine(10, 0, ORIGIN[0], 0, 10, ORIGIN[1] - 400)
    path = write_raster(tmp_path / "a.tif", np.ascontiguousarray(VALUES[:, ::-1]), flipped)
    place = image_at(ORIGIN[0] + 30, ORIGIN[1] - 20, side=6)
    assert np.array_equal(opened(path).mapped(place, 6, 6), VALUES[:, 2:8, 3:9])


def test_alphaearth_bytes(tmp_path):
    stored = np.random.default_rng(0).integers(-127, 128, (64, 6, 6)).astype(np.int8)
    stored[:, 0, 0] = -128
    path = write_raster(tmp_path / "a.tif", stored, GRID)
    place = image_at(*ORIGIN, side=6)
    values = ((stored / 127.5) ** 2) * np.sign(stored)
    found = opened(path, coding="alphaearth")
    flat = values.reshape(64, -1)[:, 1:]
    np.testing.assert_allclose(found.pooled(place), flat.mean(axis=1), rtol=1e-4, atol=1e-6)
    assert np.isnan(found.mapped(place, 6, 6)[:, 0, 0]).all()
    np.testing.assert_allclose(alphaearth(stored), values, rtol=1e-5, atol=1e-7)


def test_scales_beside_signed_bytes(tmp_path):
    stored = np.random.default_rng(0).integers(-127, 128, (8, 6, 6)).astype(np.int8)
    scales = np.random.default_rng(1).uniform(0.01, 0.1, (1, 6, 6)).astype(np.float32)
    write_raster(tmp_path / "grid_2024.tif", stored, GRID)
    write_raster(tmp_path / "grid_2024_scales.tif", scales, GRID)
    source = opened(tmp_path, scales="_scales")
    assert [tile.name for tile in source.tiles] == ["grid_2024.tif"]
    found = source.mapped(image_at(*ORIGIN, side=6), 6, 6)
    np.testing.assert_allclose(found, stored * scales, rtol=1e-6)


def test_codes_of_embedded_seamless_data_as_torchgeo_decodes_them():
    import torch
    from torchgeo.datasets.esd import ESDQuantizer

    codes = np.random.default_rng(0).integers(0, 64_000, (12, 3, 4))
    expected = ESDQuantizer().quantize(torch.from_numpy(codes.astype(np.int32)))
    assert expected.shape == (12, 6, 3, 4)
    np.testing.assert_allclose(esd(codes), expected.numpy().reshape(72, 3, 4), rtol=1e-6)


def test_stored_numbers_are_scaled(tmp_path):
    path = write_raster(tmp_path / "a.tif", (VALUES * 100).astype(np.int16), GRID)
    found = opened(path, scale=0.01, offset=-1.0).mapped(image_at(*ORIGIN, side=3), 3, 3)
    expected = (VALUES * 100).astype(np.int16)[:, :3, :3] * 0.01 - 1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(PermafrostError, match="does not exist"):
        opened(tmp_path / "nowhere")
    with pytest.raises(PermafrostError, match="no file .* fits the pattern"):
        opened(tmp_path)
    (tmp_path / "a.tif").write_bytes(b"II*\0 no raster")
    with pytest.raises(PermafrostError, match="the raster cannot be read"):
        opened(tmp_path)
    write_raster(tmp_path / "a.tif", VALUES, GRID)
    write_raster(tmp_path / "b.tif", VALUES[:2], GRID)
    with pytest.raises(PermafrostError, match="2 and 5 bands"):
        opened(tmp_path)
    with pytest.raises(PermafrostError, match="a single file"):
        opened(tmp_path / "a.tif", pattern="*_{year}.tif")
    write_raster(tmp_path / "c" / "a.tif", VALUES, Affine.identity())
    with pytest.raises(PermafrostError, match="has no georeference"):
        opened(tmp_path / "c")
