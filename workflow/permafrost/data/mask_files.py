"""Encoded masks to the numbers, or colours, that they store: PNG by Pillow, TIFF by rasterio."""

from __future__ import annotations

import io

import numpy as np

from permafrost.core.errors import first_line
from permafrost.data.decode import UnreadableImage, image_format, is_deep_colour_png, open_tiff

# grey levels of 2 and 4 bits are stretched to 0..255 by Pillow; this undoes it exactly
_STRETCH = {2: 85, 4: 17}


def decode_mask(data: bytes, *, colours: bool = False) -> np.ndarray:
    """(H, W) of a mask file as it is stored: numbers, or colours as 0xRRGGBB.

    Raises
    ------
    UnreadableImage : damaged, a JPEG (its losses change values), or not of the wanted kind.
    """
    kind = image_format(data)
    if kind is None:
        raise UnreadableImage("empty" if not data else "neither PNG nor TIFF")
    if kind == "jpeg":
        raise UnreadableImage(
            "a JPEG, whose losses change values", remedy="store masks as PNG or TIFF"
        )
    try:
        array = _tiff(data) if kind == "tiff" else _png(data, colours)
    except UnreadableImage:
        raise
    # decoders fail in many ways on damaged bytes; each means the same here
    except Exception as error:
        raise UnreadableImage(first_line(error, named=True)) from error
    if colours:
        return _packed(array)
    if array.ndim != 2:
        raise UnreadableImage(
            f"has {array.shape[-1]} channels, not one",
            remedy='name its colours with mask_values, e.g. {"#FF0000": building}',
        )
    return array


def _png(data: bytes, colours: bool) -> np.ndarray:
    from PIL import Image

    if is_deep_colour_png(data):
        raise UnreadableImage("has channels of 16 bits, which is neither a number nor a colour")
    with Image.open(io.BytesIO(data)) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise UnreadableImage(f"holds {image.n_frames} images, not one")
        image.load()
        if colours and image.mode == "P":
            image = image.convert("RGBA" if "transparency" in image.info else "RGB")
        array = np.asarray(image)
    if array.dtype == bool:
        return array.astype(np.uint8)
    bits, grey = data[24], data[25] == 0
    return array // _STRETCH[bits] if grey and bits in _STRETCH else array


def _tiff(data: bytes) -> np.ndarray:
    """(H, W), or (H, W, C) of several channels; palettes give their indices."""
    with open_tiff(data) as dataset:
        if len(dataset.subdatasets) > 1:
            raise UnreadableImage(f"holds {len(dataset.subdatasets)} pages, not one")
        array = dataset.read()
    return array[0] if len(array) == 1 else array.transpose(1, 2, 0)


def _packed(array: np.ndarray) -> np.ndarray:
    """(H, W) int64 of 0xRRGGBB, from (H, W, 3) or, where nothing is transparent, (H, W, 4)."""
    if array.ndim != 3 or array.dtype != np.uint8 or array.shape[-1] not in (3, 4):
        what = "one channel" if array.ndim == 2 else f"{array.shape[-1]} channels"
        raise UnreadableImage(
            f"has {what} of {array.dtype}, but mask_values names colours",
            remedy="name the stored numbers in mask_values",
        )
    if array.shape[-1] == 4 and (array[..., 3] != 255).any():
        raise UnreadableImage("has transparent pixels, which are no colour")
    red, green, blue = (array[..., channel].astype(np.int64) for channel in range(3))
    return red << 16 | green << 8 | blue
