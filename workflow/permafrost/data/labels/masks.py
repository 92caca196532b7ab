"""Masks: convert stored values to class ids as the entry declares.

A mask holds class ids as they are, or values that ``mask_values`` of the entry maps to classes:
numbers of one channel (also palette indices), or colours. Any other value is an error. Files are
PNG (read with Pillow), TIFF (with rasterio) or npy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import (
    UnreadableImage,
    image_format,
    is_deep_colour_png,
    is_npy,
    one_channel,
    open_tiff,
    read_npy,
    readable,
)
from permafrost.data.files.opening import open_picture

#: options of an entry that apply only to masks
OPTIONS = ("ignore_index", "mask_values", "dead_classes", "allow_empty_masks")
LARGEST = 2**16 - 1
_COLOUR = re.compile(r"#([0-9a-fA-F]{6})")
_NUMBER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class MaskCoding:
    """Conversion of stored values to class ids.

    Parameters
    ----------
    values : (V,) int64, ascending: stored numbers, or colours as 0xRRGGBB; None if they are ids
        already.
    ids : (V,) unsigned, the class id (or the ignore index) of each value.
    colours : whether values are colours.
    """

    values: np.ndarray | None = None
    ids: np.ndarray | None = None
    colours: bool = False

    noun: ClassVar[str] = "mask"
    field: ClassVar[str] = "mask"

    def read(self, data: bytes) -> np.ndarray:
        """(H, W) class ids of an encoded mask; raises `UnreadableImage` if it cannot be used."""
        return self(decode_mask(data, colours=self.colours))

    def __call__(self, stored: np.ndarray) -> np.ndarray:
        """(H, W) class ids for stored numbers (or colours as 0xRRGGBB) of the same shape."""
        stored = _whole_numbers(stored)
        if self.values is None:
            return stored
        place = np.minimum(np.searchsorted(self.values, stored), len(self.values) - 1)
        foreign = self.values[place] != stored
        if foreign.any():
            raise UnreadableImage(
                f"holds {self._shown(stored[foreign])}, which mask_values does not name",
                remedy="name them in mask_values (null for pixels without a label)",
            )
        return self.ids[place]

    def _shown(self, values: np.ndarray) -> str:
        found, counts = np.unique(values, return_counts=True)
        common = found[np.argsort(-counts, kind="stable")[:5]]
        names = [f"#{value:06X}" if self.colours else str(value) for value in common.tolist()]
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        return f"the {'colours' if self.colours else 'values'} {', '.join(names)}{more}"


def mask_coding(entry: DatasetEntry, classes: Sequence[str], *, where: object) -> MaskCoding:
    """The coding that an entry declares, checked against its classes.

    Raises
    ------
    PermafrostError : the ignore index is a class, or mask_values do not match the classes.
    """
    ignore = entry.ignore_index
    if ignore is not None and ignore < len(classes):
        raise PermafrostError(
            f"ignore_index {ignore} is also the id of the class {classes[ignore]}",
            where=where,
            remedy="give a number above the ids, e.g. ignore_index: 255, and say with mask_values"
            f" which stored value is meant, e.g. mask_values: {{{ignore}: null, …}}",
        )
    declared = entry.mask_values
    if declared is None:
        return MaskCoding()
    colours = _are_colours(declared, where)
    _check_classes(declared, classes, entry.dead_classes, ignore, where)
    numbers = {name: number for number, name in enumerate(classes)}
    meaning = {
        int(str(key).lstrip("#"), 16 if colours else 10): ignore if name is None else numbers[name]
        for key, name in declared.items()
    }
    if len(meaning) < len(declared):
        raise PermafrostError(
            "mask_values names a value twice", where=where, remedy="name each value once"
        )
    if ignore is not None and not colours:
        meaning.setdefault(ignore, ignore)
    values = np.array(sorted(meaning), np.int64)
    ids = np.array([meaning[value] for value in values.tolist()])
    return MaskCoding(values, ids.astype(np.min_scalar_type(ids.max())), colours)


def declared_dead(entry: DatasetEntry, classes: Sequence[str], *, where: object) -> list[int]:
    """Ids of the classes that the entry declares dead, which are never scored; raises `PermafrostError` for all."""
    names = entry.dead_classes
    for name in names:
        look_up(classes, name, "dead_classes: unknown class", where=where)
    if names and len(set(names)) == len(classes):
        raise PermafrostError(
            "dead_classes excludes all classes", where=where, remedy="keep at least one class"
        )
    return [number for number, name in enumerate(classes) if name in names]


def check_options(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for options about masks in an entry without masks."""
    idle = [key for key in OPTIONS if getattr(entry, key) not in (None, False, [])]
    masks = targets_of(entry.task).masks
    if entry.kind != "demo" and masks:
        return
    if masks:
        idle = [key for key in idle if key in ("ignore_index", "mask_values")]
    if idle:
        raise PermafrostError(
            f"{' and '.join(idle)} {'have' if len(idle) > 1 else 'has'} no meaning here"
            " (only for masks that are read from data)",
            where=where,
            remedy="remove these keys, or correct the task",
        )


def _whole_numbers(mask: np.ndarray) -> np.ndarray:
    """The mask as integers; accepts floats with integer values."""
    if mask.dtype.kind in "iu":
        return mask
    if mask.dtype.kind == "b":
        return mask.astype(np.uint8)
    if mask.dtype.kind != "f" or not np.isfinite(mask).all() or (mask != np.floor(mask)).any():
        raise UnreadableImage(f"holds {mask.dtype} values that are not whole numbers")
    return mask.astype(np.int64)


def _are_colours(declared: dict, where) -> bool:
    kinds = set()
    for key in map(str, declared):
        colour = _COLOUR.fullmatch(key)
        if not colour and not (_NUMBER.fullmatch(key) and abs(int(key)) <= LARGEST):
            raise PermafrostError(
                f"mask_values names {key!r}, neither a number up to {LARGEST} nor a colour",
                where=where,
                remedy='write colours as "#RRGGBB", in quotes',
            )
        kinds.add(bool(colour))
    if len(kinds) != 1:
        raise PermafrostError(
            "mask_values mixes numbers and colours" if kinds else "mask_values is empty",
            where=where,
            remedy="name numbers or colours, whichever the masks hold",
        )
    return kinds.pop()


def _check_classes(declared: dict, classes, dead, ignore, where) -> None:
    remedy = "add it to classes, or correct the name"
    for name in filter(None, declared.values()):
        look_up(classes, name, "mask_values: unknown class", where=where, remedy=remedy)
    absent = [name for name in classes if name not in declared.values() and name not in dead]
    if absent:
        raise PermafrostError(
            f"mask_values names no value for {', '.join(absent)}",
            where=where,
            remedy="name one, or remove the class from classes",
        )
    if None in declared.values() and ignore is None:
        raise PermafrostError(
            "mask_values leaves pixels without a label (null), but there is no ignore_index",
            where=where,
            remedy="define their stored value, e.g. ignore_index: 255",
        )


# Pillow stretches grey levels of 2 and 4 bits to 0..255; this undoes it exactly
_STRETCH = {2: 85, 4: 17}


def decode_mask(data: bytes, *, colours: bool = False) -> np.ndarray:
    """(H, W) stored values of a mask file: numbers, or colours as 0xRRGGBB.

    Raises
    ------
    UnreadableImage : damaged, a JPEG (its losses change values), or not of the wanted kind.
    """
    if is_npy(data):
        array = one_channel(read_npy(data))
        return _packed(array) if colours else _single(array)
    kind = image_format(data)
    if kind in (None, "bmp"):
        raise UnreadableImage("empty" if not data else "neither PNG nor TIFF")
    if kind == "jpeg":
        raise UnreadableImage(
            "a JPEG, whose losses change values", remedy="store masks as PNG or TIFF"
        )
    with readable():
        array = _tiff(data) if kind == "tiff" else _png(data, colours)
    return _packed(array) if colours else _single(array)


def _single(array: np.ndarray) -> np.ndarray:
    if array.ndim != 2:
        raise UnreadableImage(
            f"has {array.shape[-1]} channels, not one",
            remedy='name its colours with mask_values, e.g. {"#FF0000": building}',
        )
    return array


def _png(data: bytes, colours: bool) -> np.ndarray:
    if is_deep_colour_png(data):
        raise UnreadableImage("has channels of 16 bits, which is neither a number nor a colour")
    with open_picture(data, "PNG") as image:
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
    """(H, W), or (H, W, C) with several channels; palettes give their indices."""
    with open_tiff(data) as dataset:
        if len(dataset.subdatasets) > 1:
            raise UnreadableImage(f"holds {len(dataset.subdatasets)} pages, not one")
        array = dataset.read()
    return array[0] if len(array) == 1 else array.transpose(1, 2, 0)


def _packed(array: np.ndarray) -> np.ndarray:
    """(H, W) int64 of 0xRRGGBB, from (H, W, 3), or from (H, W, 4) without transparent pixels."""
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
