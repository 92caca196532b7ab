"""Decode images: JPEG, PNG and BMP with Pillow, TIFF, GeoTIFF and 16-bit PNG with rasterio, npy with NumPy.

The first bytes determine the format, never the name. Ambiguous images (palettes, transparency,
CMYK, grey in a colour dataset) are an error unless the entry permits the conversion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from permafrost.data.files.georeference import Georeference, georeference
from permafrost.data.files.opening import (
    UnreadableImage,
    check_bytes,
    load_npy,
    open_picture,
    open_raster,
    raster_of,
    readable,
)
from permafrost.data.files.windows import Window
from permafrost.data.records import Decoded

if TYPE_CHECKING:
    import PIL.Image

_LARGEST = float(np.finfo(np.float32).max)
#: common fill values of programs that are never measured; the last is the largest
FILLS = (-9999.0, -99999.0, -32768.0, -_LARGEST, _LARGEST)

#: Pillow's names of the formats that it decodes here
PICTURES = ("JPEG", "PNG", "BMP")
#: conversion -> its description for messages
CONVERSIONS = {
    "palette": "replace palette indices by their colours",
    "alpha": "drop the transparency channel",
    "cmyk": "convert CMYK to RGB",
    "gray": "repeat a single channel for every declared band",
    "exif": "turn it upright",
}


def check_page(dataset, palette: str) -> None:
    """Raise `UnreadableImage` if an open TIFF has several pages or a palette; `palette` is the
    reason in the latter case."""
    from rasterio.enums import ColorInterp

    if len(dataset.subdatasets) > 1:
        raise UnreadableImage(f"holds {len(dataset.subdatasets)} pages, not one")
    if dataset.colorinterp[0] == ColorInterp.palette:
        raise UnreadableImage(f"has a palette{palette}")


def check_size(found: Sequence[int], stated: Sequence[int]) -> None:
    """Raise `UnreadableImage` if (height, width) differ from those in the annotations."""
    if tuple(found) != tuple(stated):
        raise UnreadableImage(
            f"is {found[1]} x {found[0]} pixels (width x height), its annotations are for"
            f" {stated[1]} x {stated[0]}"
        )


@dataclass(frozen=True)
class Decoding:
    """How to read the images of a dataset.

    Parameters
    ----------
    bands : number of bands the entry declares.
    convert : permitted conversions, see `CONVERSIONS`.
    nodata_declared : True if the entry defines nodata (or states that there is none).
    dense : whether labels refer to positions in the image.
    """

    bands: int
    convert: frozenset[str] = frozenset()
    nodata_declared: bool = False
    dense: bool = False


@contextlib.contextmanager
def no_truncated_images() -> Iterator[None]:
    """Turn off Pillow's global option to fill truncated images with grey; restore it afterwards."""
    from PIL import ImageFile

    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def image_format(data: bytes) -> str | None:
    """``jpeg``, ``png``, ``bmp`` or ``tiff`` by the first bytes, else None."""
    if data[:3] == b"\xff\xd8\xff":
        return "jpeg"
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "png"
    if data[:2] == b"BM":
        return "bmp"
    if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "tiff"
    return None


def read_npy(data: bytes) -> np.ndarray:
    """The array of a npy file; raises `UnreadableImage` for Python objects, which could run code."""
    with readable("not a readable npy"):
        array = load_npy(data)
    if array.dtype.kind not in "fiub" or 0 in array.shape:
        raise UnreadableImage(
            f"holds {array.dtype} values of shape {array.shape}, which are not pixels"
        )
    # later readers accept 32-bit floats, which hold 16-bit ones exactly, in native byte order
    dtype = np.float32 if array.dtype == np.float16 else array.dtype.newbyteorder("=")
    return array.astype(dtype, copy=False)


def is_npy(data: bytes) -> bool:
    return data[:6] == b"\x93NUMPY"


def one_channel(array: np.ndarray) -> np.ndarray:
    """(H, W) of an array (1, H, W) or (H, W, 1); other arrays unchanged."""
    if array.ndim == 3 and len(array) == 1:
        return array[0]
    return array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array


def bands_first(array: np.ndarray, bands: int) -> np.ndarray:
    """(C, H, W) of an image or (T, C, H, W) of a series, whose bands may be the last axis; a single band needs no axis.

    Raises
    ------
    UnreadableImage : no axis has as many bands, or both have.
    """
    if array.ndim == 2:
        array = array[None]
    if array.ndim in (3, 4):
        first, last = array.shape[-3] == bands, array.shape[-1] == bands
        if first and last:
            raise UnreadableImage(
                f"has shape {array.shape}: bands could be its first or its last axis",
                remedy="store it as TIFF",
            )
        if first or last:
            return np.ascontiguousarray(array if first else np.moveaxis(array, -1, -3))
    raise UnreadableImage(f"has shape {array.shape}, the entry declares {bands} bands")


def decode_image(data: bytes, decoding: Decoding) -> Decoded:
    """Decode pixels (C, H, W), or (T, C, H, W) from npy, in their native type, with the georeference of the file.

    Raises
    ------
    UnreadableImage : the bytes are not an image, are truncated, or need a conversion that the entry
        does not permit.
    """
    if is_npy(data):
        return Decoded(bands_first(read_npy(data), decoding.bands))
    kind = image_format(data)
    if kind is None:
        raise UnreadableImage("empty" if not data else "neither JPEG, PNG, BMP nor TIFF")
    with readable():
        if kind == "tiff":
            return read_tiff(data, decoding)
        if kind == "png" and is_deep_colour_png(data):
            return Decoded(_fit_bands(_deep_png(data), decoding, alpha=None))
        return Decoded(_pillow(data, decoding))


def _pillow(data: bytes, decoding: Decoding) -> np.ndarray:
    from PIL import ImageOps

    with open_picture(data, *PICTURES) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise UnreadableImage(f"holds {image.n_frames} images, not one")
        turned = exif_orientation(image)
        if turned != 1 and decoding.dense and "exif" not in decoding.convert:
            raise UnreadableImage(
                f"has the EXIF orientation {turned}, so it is unclear whether its labels fit the pixels as they are"
                " stored or as they are shown",
                remedy=f"if as shown, convert: [exif] in the entry would {CONVERSIONS['exif']}; if as stored, remove"
                " the orientation from the files",
            )
        image.load()
        if "exif" in decoding.convert:
            image = ImageOps.exif_transpose(image)
        if image.mode in ("P", "PA"):
            _permit("palette", decoding, "has a palette")
            image = image.convert("RGBA" if "transparency" in image.info else "RGB")
        elif image.mode == "CMYK":
            _permit("cmyk", decoding, "is CMYK")
            image = image.convert("RGB")
        elif image.mode == "1":
            raise UnreadableImage("is bilevel (1 bit per pixel), which is no image of a sensor")
        alpha = -1 if image.mode in ("RGBA", "LA") else None
        array = np.asarray(image)
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return _fit_bands(array, decoding, alpha=alpha)


def exif_orientation(image: PIL.Image.Image) -> int:
    """EXIF orientation, 1 to 8: how a viewer rotates and mirrors the image; 1 is as stored."""
    found = image.getexif().get(0x0112, 1)
    return found if found in range(1, 9) else 1


def is_deep_colour_png(data: bytes) -> bool:
    """Whether it is a PNG with 16 bits and several channels, which Pillow would reduce to 8 bits."""
    return data[24] == 16 and data[25] in (2, 4, 6)


def _deep_png(data: bytes) -> np.ndarray:
    with raster_of(data, "PNG") as dataset:
        if dataset.nodata is not None:
            raise UnreadableImage("has a transparent colour")
        return dataset.read()


def read_tiff(
    data: bytes | str,
    decoding: Decoding,
    window: Window | None = None,
    *,
    size: tuple[int, int] | None = None,
) -> Decoded:
    """All bands of a single-page TIFF, with its georeference if it has one.

    Parameters
    ----------
    data : as for `open_tiff`.
    window : the part to read; the georeference is that of the part.
    size : height and width that the whole image must have.

    Raises
    ------
    UnreadableImage : damaged, several pages, another size, complex values, or undeclared nodata.
    """
    from rasterio.enums import ColorInterp
    from rasterio.windows import Window as Part

    with open_tiff(data) as dataset:
        check_page(dataset, "; store colours or labels instead")
        if size is not None:
            check_size(dataset.shape, size)
        place = georeference(dataset)
        if window is None:
            array = dataset.read()
        else:
            array = dataset.read(window=Part(window.x, window.y, window.width, window.height))
            place = place.of(window)
        nodata, interpretation = dataset.nodata, dataset.colorinterp
    if np.iscomplexobj(array):
        raise UnreadableImage(f"holds complex values ({array.dtype})")
    if nodata is not None and not decoding.nodata_declared and (array == nodata).any():
        raise UnreadableImage(
            f"marks {nodata:g} as nodata and holds it; say in the entry what nodata is:"
            f" nodata: {{value: {nodata:.17g}, fill: 0}}, or nodata: keep"
        )
    alpha = -1 if interpretation[-1] == ColorInterp.alpha else None
    return Decoded(_fit_bands(array, decoding, alpha=alpha), place=place)


def tiff_place(data: bytes) -> Georeference:
    """The georeference in the header of a TIFF, without decoding its pixels."""
    with readable(), open_tiff(data) as dataset:
        return georeference(dataset)


def open_tiff(data: bytes | str):
    """An open rasterio dataset of a TIFF's content, or of a path for GDAL; a context manager."""
    return raster_of(data, "GTiff") if isinstance(data, bytes) else open_raster(data, "GTiff")


def _fit_bands(array: np.ndarray, decoding: Decoding, *, alpha: int | None) -> np.ndarray:
    """(C, H, W) with the declared number of bands; applies permitted conversions only."""
    count = array.shape[0]
    if count == decoding.bands:
        return array
    if alpha is not None and count - 1 in (1, decoding.bands):
        _permit("alpha", decoding, "has transparency")
        array, count = array[:alpha], count - 1
    if count == 1 and decoding.bands > 1:
        _permit("gray", decoding, f"has one channel, not {decoding.bands},")
        check_bytes(array.nbytes * decoding.bands)
        return np.repeat(array, decoding.bands, axis=0)
    if count != decoding.bands:
        raise UnreadableImage(f"has {count} bands, the entry declares {decoding.bands}")
    return array


def _permit(conversion: str, decoding: Decoding, problem: str) -> None:
    if conversion not in decoding.convert:
        raise UnreadableImage(
            f"{problem} (convert: [{conversion}] in the entry would {CONVERSIONS[conversion]})"
        )
