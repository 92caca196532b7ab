"""Read the pickled attribute of a GEO-Bench V1 sample without executing it.

A sample is one HDF5 file whose attribute ``pickle`` holds the text of a bytes literal, and these
bytes are a pickle of ``{"label": …, "bands_order": [array names], array name: {"transform", "crs",
"date", "band_info", …}}``. Unpickling can run any code that a file names. So every class of the
format is replaced by a stand-in that only keeps its arguments, and every other name is refused.
"""

from __future__ import annotations

import ast
import io
import math
import pickle
import pickletools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from permafrost.core.errors import first_line
from permafrost.data.files.decode import UnreadableImage, readable

#: the text of one literal of bytes, and nothing else
_LITERAL = re.compile(r"""b(['"])(?:\\.|(?!\1)[^\\])*+\1""", re.DOTALL)
#: operations that keep an object under a number
_NUMBERED = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_NUMBERS = re.compile(r"[biuf][1248]")
_BYTE_ORDERS = {"<": "<", ">": ">", "=": "=", "|": "="}


class StandIn:
    """Replaces a class that a pickle names: keeps its arguments and state, and does nothing."""

    __slots__ = ("arguments", "state")
    arguments: tuple
    state: Any

    def __new__(cls, *arguments, **_named):
        made = object.__new__(cls)
        made.arguments, made.state = arguments, None
        return made

    def __setstate__(self, state) -> None:
        self.state = state


class _NumberType(StandIn):
    """Stand-in for ``numpy.dtype``."""


class _Scalar(StandIn):
    """Stand-in for ``numpy.core.multiarray.scalar``: a type and bytes."""


class _Array(StandIn):
    """Stand-in for ``numpy.core.multiarray._reconstruct``: the array is in its state."""


class _Buffer(StandIn):
    """Stand-in for ``numpy.core.numeric._frombuffer``: bytes, type, shape and order, as protocol 5 writes arrays."""


# modules that samples were written with over time, and their classes
_MODULES = ("geobench", "geobench.io", "ccb", "ccb.io")
_CLASSES = {
    "dataset": (
        *("BandInfo", "SpectralBand", "Sentinel1", "Sentinel2", "Landsat8", "Mask", "MultiBand"),
        *("ElevationBand", "HyperSpectralBands", "CloudProbability", "SegmentationClasses"),
        *("Band", "Sample", "Stats", "Partition"),
    ),
    "label": (
        *("LabelType", "Classification", "SemanticSegmentation", "MultiLabelClassification"),
        *("Regression", "Detection", "PointAnnotation"),
    ),
    "task": ("TaskSpecifications", "SegmentationAccuracy", "Accuracy", "MultilabelAccuracy"),
}
_ALLOWED: dict[tuple[str, str], type] = {
    **{
        (place, name): StandIn
        for module in _MODULES
        for part, names in _CLASSES.items()
        for name in names
        for place in (module, f"{module}.{part}")
    },
    ("affine", "Affine"): StandIn,
    ("rasterio.crs", "CRS"): StandIn,
    **{
        ("datetime", name): StandIn
        for name in ("date", "datetime", "time", "timedelta", "timezone")
    },
    ("collections", "OrderedDict"): dict,
    ("numpy", "dtype"): _NumberType,
    ("numpy", "ndarray"): StandIn,
    **{(f"{core}.multiarray", "scalar"): _Scalar for core in ("numpy.core", "numpy._core")},
    **{(f"{core}.multiarray", "_reconstruct"): _Array for core in ("numpy.core", "numpy._core")},
    **{(f"{core}.numeric", "_frombuffer"): _Buffer for core in ("numpy.core", "numpy._core")},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, which is no part of the format; nothing of it was run"
            )
        return _ALLOWED[module, name]


def read_attribute(stored: object) -> Mapping:
    """The mapping in an attribute; raises `UnreadableImage` for any other pickle.

    Parameters
    ----------
    stored : as h5py returns it: text, bytes or an opaque value.
    """
    remedy = "get the files again, from where they were published"
    with readable("its attribute 'pickle' cannot be read", remedy=remedy):
        data = _pickled(stored)
        _check_sizes(data)
        attribute = _Unpickler(io.BytesIO(data)).load()
    if not isinstance(attribute, dict):
        raise UnreadableImage(
            f"its attribute 'pickle' is not a mapping, but {type(attribute).__name__}",
            remedy=remedy,
        )
    return attribute


def _pickled(stored: object) -> bytes:
    if isinstance(stored, np.void | np.ndarray):
        stored = stored.tobytes()
    if isinstance(stored, bytes) and stored[:2] in (b"b'", b'b"'):
        stored = stored.decode("ascii")
    if isinstance(stored, str):
        if not _LITERAL.fullmatch(stored):
            raise ValueError("it is not the text of bytes")
        # a literal is parsed, never evaluated
        stored = ast.literal_eval(stored)
    if not isinstance(stored, bytes):
        raise ValueError(f"it holds {type(stored).__name__}, not bytes")
    return stored


def _check_sizes(data: bytes) -> None:
    """Refuse a pickle that ends too early, or numbers its objects higher than it has bytes.

    Unpickling allocates what a pickle announces before it reads it.
    """
    for code, argument, _ in pickletools.genops(data):
        if code.name in _NUMBERED and argument > len(data):
            raise ValueError(f"it has no object {argument}")


def label_of(attribute: Mapping) -> int | tuple[int, ...]:
    """The label: a class id, or 0 and 1 for each class; raises `UnreadableImage` without a label."""
    if attribute.get("label") is None:
        raise UnreadableImage("has no label in its attribute 'pickle'")
    try:
        value = _numbers(attribute["label"])
        if isinstance(value, list | tuple):
            return tuple(_whole(_numbers(one)) for one in value)
        return _whole(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnreadableImage(f"its label is no class id ({first_line(error)})") from error


def corner_of(attribute: Mapping, array: str) -> tuple[str, float, float] | None:
    """(coordinate system, x, y) of the upper left corner of an array; None if the file has no readable one."""
    described = attribute.get(array)
    described = described if isinstance(described, dict) else {}
    transform, crs = described.get("transform"), described.get("crs")
    if transform is None or crs is None:
        return None
    crs = crs.state if isinstance(crs, StandIn) else crs
    try:
        values = transform if isinstance(transform, tuple | list) else _affine(transform)
        x, y = float(values[2]), float(values[5])
    except (TypeError, ValueError, IndexError, KeyError):
        return None
    return (crs, x, y) if isinstance(crs, str) and math.isfinite(x + y) else None


def _affine(stored: StandIn) -> list:
    """The coefficients a to f; versions of affine pickle them as arguments or as state."""
    if stored.arguments:
        return list(stored.arguments)
    state = stored.state
    return [state[key] for key in "abcdef"] if isinstance(state, dict) else list(state)


def _numbers(value):
    """Replace stand-ins of NumPy's numbers by plain numbers; other values are unchanged."""
    if isinstance(value, _Scalar):
        number_type, data = value.arguments
        return _array(data, number_type, ())
    if isinstance(value, _Array):
        _, shape, number_type, fortran, data = value.state
        return _array(data, number_type, shape, "F" if fortran else "C")
    if isinstance(value, _Buffer):
        return _array(*value.arguments)
    return value


def _array(data, number_type, shape, order="C"):
    if not isinstance(number_type, _NumberType):
        raise ValueError("an array without a type")
    name = str(number_type.arguments[0])
    if not _NUMBERS.fullmatch(name):
        raise ValueError(f"NumPy's type {name!r}")
    written = number_type.state[1] if number_type.state else "="
    values = np.frombuffer(bytes(data), np.dtype(_BYTE_ORDERS[written] + name))
    return values.reshape(tuple(shape), order=order).tolist()


def _whole(value) -> int:
    if not isinstance(value, int | float) or value != int(value):
        raise ValueError(f"{value!r}")
    return int(value)
