"""Readers of one image: JPEG, PNG, npy, TIFF; masks, rasters, label maps; GEO-Bench's HDF5 and its pickle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from permafrost.data.files.decode import Decoding, decode_image, tiff_place
from permafrost.data.files.members import open_members
from permafrost.data.files.windows import Window
from permafrost.data.labels.masks import decode_mask
from permafrost.data.labels.rasters import decode_raster
from permafrost.data.sources.geobench_attribute import corner_of, label_of, read_attribute
from permafrost.data.sources.geobench_sample import (
    array_names,
    open_sample,
    read_array,
    stored_attribute,
)
from permafrost.data.sources.reading import read_member_window
from permafrost.evaluators.panoptic.entries import Entry, Segments
from permafrost.evaluators.panoptic.maps import read_map
from permafrost.evaluators.raster import evaluate

from helpers.datasets.geobench import as_written, pickled, write_sample
from helpers.datasets.images import encode, geotiff, photo
from helpers.datasets.rasters import npy
from helpers.fuzzing import Reader
from helpers.fuzzing.bounds import sandbox, written
from helpers.predictions.panoptic import colours

_SIZE = (12, 16)
_PHOTO = photo(1, _SIZE)
_CHW = _PHOTO.transpose(2, 0, 1)
_CLASSES = (np.arange(192).reshape(1, *_SIZE) % 3).astype(np.uint8)
_ALL = frozenset(("palette", "alpha", "cmyk", "gray", "exif"))


def _image(data: bytes) -> None:
    found = decode_image(
        data[1:], Decoding(3, convert=_ALL if data[:1] == b"c" else frozenset(), dense=True)
    )
    assert found.image.shape[-3] == 3


def _tiff(data: bytes) -> None:
    tiff_place(data)
    decode_image(data, Decoding(3, convert=_ALL, nodata_declared=True))


def _window(data: bytes) -> None:
    written(data, "scene.tif")
    members, decoding = open_members(sandbox(), where="fuzz"), Decoding(3, nodata_declared=True)
    found = read_member_window(members, "scene.tif", decoding, Window(2, 3, 5, 4))
    assert found is None or found.image.shape == (3, 4, 5)


def _map(data: bytes) -> None:
    written(data, "map.png")
    one = np.ones(1, int)
    segments = Segments(one, one, np.zeros(1, bool), np.array([8.0]))
    read_map(sandbox(), Entry(1, "map.png", None, segments, "image 1"))


def _array(data: bytes) -> None:
    written(data, "sample.hdf5")
    with open_sample(open_members(sandbox(), where="fuzz"), "sample.hdf5") as file:
        stored_attribute(file)
        for name in array_names(file):
            read_array(file, name)


def _pickle(data: bytes) -> None:
    attribute = read_attribute(data[1:] if data[:1] == b"b" else data[1:].decode("latin-1"))
    label_of(attribute)
    corner_of(attribute, "02 - Blue")


def _evaluated(data: bytes) -> None:
    """Any bytes as the reference, or as the prediction of `permafrost evaluate-raster`."""
    good, given = written(geotiff(_CLASSES), "good.tif"), written(data[1:], "given.tif")
    pair = (given, good) if data[:1] == b"r" else (good, given)
    evaluate(*pair, by_pixel=True)


def _photos() -> list[bytes]:
    made = [encode(_PHOTO, kind) for kind in ("jpeg", "png")]
    made += [encode(_PHOTO, "png", mode=mode) for mode in ("P", "LA", "RGBA", "1", "L")]
    made += [encode(_PHOTO, "jpeg", mode=mode) for mode in ("CMYK", "L")]
    made += [npy(_CHW), npy(_PHOTO.astype(np.float32)), npy(_CHW[None].astype(">u2"))]
    return [b"c" + each for each in made] + [b"n" + made[0]]


def _tiffs() -> list[bytes]:
    return [
        geotiff(_CHW),
        geotiff(_CHW.astype(np.uint16), compress="deflate", predictor=2, nodata=0),
        geotiff(_CHW, tiled=True, blockxsize=16, blockysize=16, compress="lzw"),
        geotiff(_CHW.astype(np.float32), crs="EPSG:32633", compress="packbits"),
        geotiff(_CHW, compress="jpeg", photometric="ycbcr", interleave="pixel"),
        geotiff(_CHW, BIGTIFF="YES"),
    ]


def _masks() -> list[bytes]:
    mask = np.arange(192, dtype=np.uint8).reshape(_SIZE) % 3
    made = [encode(mask), encode(mask, mode="P"), encode(mask * 80, mode="1"), geotiff(mask[None])]
    return [*made, npy(mask), encode(_PHOTO), geotiff(mask[None], colormap={0: (1, 2, 3)})]


def _rasters() -> list[bytes]:
    values = np.arange(192, dtype=np.float32).reshape(_SIZE)
    deep = encode(values.astype(np.uint16))
    return [geotiff(values[None], nodata=3), npy(values), deep, encode(values.astype(np.uint8))]


def _samples() -> list[bytes]:
    arrays = {"02 - Blue": np.arange(64, dtype=np.int16).reshape(8, 8), "label": np.eye(8)}
    with tempfile.TemporaryDirectory() as folder:
        return [
            write_sample(Path(folder), "s", {}, 1).read_bytes(),
            write_sample(Path(folder), "s", arrays, 1).read_bytes(),
        ]


def _pickles() -> list[bytes]:
    given = as_written(1, ["02 - Blue"])
    texts = [pickled(given, protocol=protocol) for protocol in (2, 4)]
    hostile = "cos\nsystem\n(S'touch hostile'\ntR."
    return [
        *(b"t" + text.encode() for text in texts),
        *(b"b" + text.encode() for text in texts),
        b"t" + repr(hostile.encode()).encode(),
    ]


READERS = {
    "image": Reader(
        _image, _photos, ("IHDR", "IDAT", "PLTE", "tRNS", "\x93NUMPY", "'descr': '|O'")
    ),
    "tiff": Reader(_tiff, _tiffs),
    "window": Reader(_window, _tiffs),
    "mask": Reader(decode_mask, _masks, ("IHDR", "IDAT", "PLTE")),
    "colours": Reader(lambda data: decode_mask(data, colours=True), _masks, ("IHDR", "PLTE")),
    "raster": Reader(decode_raster, _rasters),
    "map": Reader(_map, lambda: [encode(colours(np.eye(8, dtype=int)))], ("IHDR", "IDAT", "PLTE")),
    "evaluated-raster": Reader(
        _evaluated, lambda: [k + each for k in (b"r", b"p") for each in _masks()], ("<VRTDataset>",)
    ),
    "geobench-array": Reader(_array, _samples),
    "geobench-pickle": Reader(
        _pickle, _pickles, ("cos\\nsystem\\n", "numpy", "_reconstruct", "cbuiltins\\neval\\n")
    ),
}
