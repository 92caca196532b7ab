"""Mosaics of rasters: GDAL's VRT files that name tiles beside them.

A VRT can name addresses, other formats and code. Here it may only lay GeoTIFFs of its own folder side by
side; GDAL gets it written anew, with what was checked and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring

from permafrost.core.errors import PermafrostError
from permafrost.data.files.markup import parse_xml
from permafrost.data.files.opening import UnreadableImage, open_raster, open_vrt

if TYPE_CHECKING:
    from rasterio import DatasetReader

_SOURCES = ("SimpleSource", "ComplexSource")
_RECTANGLE = frozenset({"xOff", "yOff", "xSize", "ySize"})
#: element -> its attributes, and the elements in it; those of one text hold none
_KNOWN: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "VRTDataset": (
        frozenset({"rasterXSize", "rasterYSize"}),
        frozenset({"SRS", "GeoTransform", "VRTRasterBand", "MaskBand"}),
    ),
    "SRS": (frozenset({"dataAxisToSRSAxisMapping", "coordinateEpoch"}), frozenset()),
    "MaskBand": (frozenset(), frozenset({"VRTRasterBand"})),
    "VRTRasterBand": (
        frozenset({"dataType", "band", "blockXSize", "blockYSize"}),
        frozenset({
            "Description", "ColorInterp", "NoDataValue", "HideNoDataValue", "Scale", "Offset", "UnitType", *_SOURCES
        }),
    ),
    **dict.fromkeys(_SOURCES, (
        frozenset({"resampling"}),
        frozenset({
            "SourceFilename", "SourceBand", "SourceProperties", "SrcRect", "DstRect", "NODATA", "ScaleOffset",
            "ScaleRatio", "UseMaskBand",
        }),
    )),
    "SourceFilename": (frozenset({"relativeToVRT", "shared"}), frozenset()),
    "SourceProperties": (
        frozenset({"RasterXSize", "RasterYSize", "DataType", "BlockXSize", "BlockYSize"}),
        frozenset(),
    ),
    "SrcRect": (_RECTANGLE, frozenset()),
    "DstRect": (_RECTANGLE, frozenset()),
}  # fmt: skip
#: elements that change no pixel, left out
_IDLE = ("Metadata", "Histograms", "CategoryNames", "ColorTable", "OverviewList")


def tiles_of(path: str | os.PathLike, root: str | os.PathLike) -> list[str]:
    """Paths of the files that a mosaic names, sorted; raises `PermafrostError` as `open_mosaic`."""
    return sorted({element.text for element in _checked(path, root).iter("SourceFilename")})


def open_mosaic(path: str | os.PathLike, root: str | os.PathLike) -> DatasetReader:
    """An open rasterio dataset of a mosaic, to close.

    Parameters
    ----------
    root : folder that all its tiles must be in.

    Raises
    ------
    PermafrostError : it holds more than GeoTIFFs of the folder side by side.
    UnreadableImage : a tile is not there, no GeoTIFF, or has blocks larger than the bound.
    """
    document = _checked(path, root)
    for tile in tiles_of(path, root):
        open_raster(tile, "GTiff").close()
    return open_vrt(tostring(document, encoding="unicode"))


def _checked(path: str | os.PathLike, root: str | os.PathLike) -> Element:
    """The document with the known elements only, and absolute paths of the tiles."""
    if not os.path.isdir(root):
        raise _refused(
            path, "is named alone, so that its tiles would not count as files that are read"
        )
    try:
        document = parse_xml(Path(path).read_bytes())
        if document.tag != "VRTDataset":
            raise UnreadableImage(f"holds a <{document.tag}>")
        kept = _known(document)
    except UnreadableImage as error:
        raise _refused(path, str(error)) from error
    for source in kept.iter("SourceFilename"):
        source.text = _tile(path, root, source)
        source.attrib.clear()
    return kept


def _known(element: Element) -> Element:
    attributes, inner = _KNOWN.get(element.tag, (frozenset(), frozenset()))
    if unknown := sorted(set(element.attrib) - attributes):
        raise UnreadableImage(f"has a <{element.tag}> with the attribute {unknown[0]}")
    kept = Element(element.tag, element.attrib)
    if not inner:
        kept.text = element.text
    for child in element:
        if child.tag in inner:
            kept.append(_known(child))
        elif child.tag not in _IDLE:
            raise UnreadableImage(f"holds a <{child.tag}>")
    return kept


def _tile(path: str | os.PathLike, root: str | os.PathLike, source: Element) -> str:
    name = source.text or ""
    beside = source.get("relativeToVRT") == "1"
    tile = os.path.abspath(os.path.join(os.path.dirname(path), name) if beside else name)
    folder = os.path.abspath(root)
    if not name or "\0" in name or os.path.commonpath([tile, folder]) != folder:
        raise _refused(path, f"names {name[:200]!r}, which is no file in {root}")
    return tile


def _refused(path: str | os.PathLike, problem: str) -> PermafrostError:
    return PermafrostError(
        f"the mosaic {problem}",
        where=path,
        remedy="let `path` be the folder that holds the VRT and its GeoTIFFs, as gdalbuildvrt writes it"
        " without further options, or write its pixels with gdal_translate mosaic.vrt mosaic.tif",
    )
