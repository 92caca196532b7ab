"""Mosaics of embeddings: a VRT of GeoTIFFs beside it is followed and counts with them; any other is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import rasterio
from helpers.backbones import backbone_entry
from helpers.file_server import file_server
from helpers.stores.places import UTM, image_at, write_raster
from permafrost.core.errors import PermafrostError
from permafrost.core.opened import recording
from permafrost.data.embeddings.files import read_of_options
from permafrost.data.embeddings.mosaics import open_mosaic
from permafrost.data.embeddings.rasters import RasterEmbeddings
from permafrost.data.files.folders import content_digest
from permafrost.data.files.opening import UnreadableImage
from rasterio import Affine

ORIGIN = (500_000.0, 5_300_000.0)
VALUES = np.random.default_rng(3).normal(size=(3, 16, 32)).astype(np.float32)


def vrt(*names: str, relative: int = 1) -> str:
    """Tiles of 16 x 16 pixels side by side, as gdalbuildvrt writes them."""
    rectangle = 'yOff="0" xSize="16" ySize="16"'
    bands = "".join(
        f'<VRTRasterBand dataType="Float32" band="{band}"><ColorInterp>Gray</ColorInterp>'
        + "".join(
            f'<SimpleSource><SourceFilename relativeToVRT="{relative}">{name}</SourceFilename>'
            f"<SourceBand>{band}</SourceBand>"
            '<SourceProperties RasterXSize="16" RasterYSize="16" DataType="Float32" BlockXSize="16" BlockYSize="16"/>'
            f'<SrcRect xOff="0" {rectangle}/><DstRect xOff="{16 * number}" {rectangle}/></SimpleSource>'
            for number, name in enumerate(names)
        )
        + "</VRTRasterBand>"
        for band in (1, 2, 3)
    )
    place = f"<GeoTransform>{ORIGIN[0]},10,0,{ORIGIN[1]},0,-10</GeoTransform>"
    return (
        f'<VRTDataset rasterXSize="32" rasterYSize="16"><SRS>{UTM}</SRS>{place}{bands}</VRTDataset>'
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with a mosaic of two tiles in a folder below."""
    home = tmp_path / "emb"
    for number in (0, 1):
        place = Affine(10, 0, ORIGIN[0] + 160 * number, 0, -10, ORIGIN[1])
        part = VALUES[:, :, 16 * number :][:, :, :16]
        write_raster(home / f"tiles/{number}.tif", part, place)
    (home / "m.vrt").write_text(vrt("tiles/0.tif", "tiles/1.tif"))
    return home


def options(folder: Path, pattern: str = "*.vrt") -> dict:
    return {"kind": "embeddings", "path": str(folder), "rasters": {"pattern": pattern}}


def digest(folder: Path, pattern: str = "*.vrt") -> str:
    return content_digest(folder, read_of_options(options(folder, pattern)))


def source(folder: Path) -> RasterEmbeddings:
    return RasterEmbeddings(
        str(folder), backbone_entry(options(folder)).options.rasters, "backbone x"
    )


def test_a_mosaic_has_the_pixels_that_gdal_gives(folder):
    with rasterio.open(folder / "m.vrt") as usual, open_mosaic(folder / "m.vrt", folder) as ours:
        assert np.array_equal(usual.read(), ours.read()) and np.array_equal(ours.read(), VALUES)
        assert (usual.transform, usual.crs, usual.shape) == (ours.transform, ours.crs, ours.shape)
    place = image_at(ORIGIN[0] + 80, ORIGIN[1], side=16)
    assert np.array_equal(source(folder).mapped(place, 16, 16), VALUES[:, :, 8:24])


@pytest.mark.parametrize("pattern", ["*.vrt", "*", "m.*"])
def test_all_tiles_count_and_are_recorded(folder, pattern):
    before = digest(folder, pattern)
    (folder / "unread.bin").write_bytes(b"x")
    assert pattern == "*" or digest(folder, pattern) == before
    with recording() as found:
        source(folder)
    assert {Path(path).name for path in found.files} == {"m.vrt", "0.tif", "1.tif"}
    before = digest(folder, pattern)
    write_raster(folder / "tiles/1.tif", VALUES[:, :, :16], Affine(10, 0, 0, 0, -10, 0))
    assert digest(folder, pattern) != before


def test_what_lies_beside_a_tile_is_not_read(folder):
    place = image_at(ORIGIN[0], ORIGIN[1], side=8)
    before = source(folder).pooled(place)
    nodata = f'<PAMRasterBand band="1"><NoDataValue>{VALUES[0, 0, 0]}</NoDataValue></PAMRasterBand>'
    (folder / "tiles/0.tif.aux.xml").write_text(f"<PAMDataset>{nodata}</PAMDataset>")
    with rasterio.open(
        folder / "tiles/0.tif.msk", "w", driver="GTiff", width=16, height=16, count=1, dtype="uint8"
    ) as file:
        file.write(np.zeros((1, 16, 16), np.uint8))
    assert np.array_equal(source(folder).pooled(place), before)


GOOD = vrt("tiles/0.tif", "tiles/1.tif")
REFUSED = {
    "a tile outside": (vrt("../0.tif"), "names '../0.tif'"),
    "an absolute path": (vrt("/etc/passwd", relative=0), "names '/etc/passwd'"),
    "an address": (vrt("/vsicurl/URL/a.tif", relative=0), "names '/vsicurl"),
    "an address beside": (vrt("/vsicurl/URL/a.tif"), "names '/vsicurl"),
    "no name": (vrt(""), "names ''"),
    "a warped one": (GOOD.replace("<VRTDataset", '<VRTDataset subClass="VRTWarpedDataset"'), "subClass"),
    "code": (GOOD.replace('band="2"', 'band="2" subClass="VRTDerivedRasterBand"'), "subClass"),
    "raw bytes": (GOOD.replace('band="2"', 'band="2" subClass="VRTRawRasterBand"'), "subClass"),
    "a function": (GOOD.replace("<ColorInterp>", "<PixelFunctionCode/><ColorInterp>"), "PixelFunctionCode"),
    "options": (GOOD.replace("<SourceBand>", "<OpenOptions/><SourceBand>"), "OpenOptions"),
    "another case": (GOOD.replace("SourceFilename", "sourcefilename"), "sourcefilename"),
    "a filter": (GOOD.replace("SimpleSource", "KernelFilteredSource"), "KernelFilteredSource"),
    "entities": (f'<!DOCTYPE a [<!ENTITY b "c">]>{GOOD}', "document type or entities"),
    "another document": ("<WMS/>", "holds a <WMS>"),
    "no document": ("GeoTIFF", "is no XML"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_mosaic_of_anything_else_is_refused(folder, name):
    text, why = REFUSED[name]
    with file_server() as server:
        (folder / "m.vrt").write_text(text.replace("URL", server.url))
        for read in (lambda: source(folder), lambda: digest(folder)):
            with pytest.raises(PermafrostError, match=re.escape(why)) as error:
                read()
            assert error.value.where.endswith("m.vrt") and "gdal_translate" in error.value.remedy
        assert server.asked == []


@pytest.mark.parametrize(
    ("tile", "problem"),
    [("tiles/none.tif", UnreadableImage), ("n.vrt", rasterio.errors.RasterioIOError)],
)
def test_a_tile_must_be_a_geotiff(folder, tile, problem):
    (folder / "n.vrt").write_text(GOOD)
    (folder / "m.vrt").write_text(vrt(tile))
    with pytest.raises(problem):
        open_mosaic(folder / "m.vrt", folder)
    with pytest.raises(PermafrostError, match="m.vrt"):
        source(folder)


def test_a_mosaic_that_is_named_alone_is_refused(folder):
    with pytest.raises(PermafrostError, match="is named alone.*let `path` be the folder"):
        digest(folder / "m.vrt")
    with pytest.raises(PermafrostError, match="is named alone"):
        source(folder / "m.vrt")
