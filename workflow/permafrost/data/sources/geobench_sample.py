"""One HDF5 file of GEO-Bench V1: its arrays, and its undecoded attribute."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from permafrost.core.errors import first_line
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.members import DirectoryMembers, Members
from permafrost.data.files.opening import open_array, open_hdf5
from permafrost.data.sources.reading import read_member

#: axes of an array with rows and columns; with bands as well
_PLANE, _CUBE = 2, 3


@contextlib.contextmanager
def open_sample(members: Members, name: str) -> Iterator:
    """The open root group of a sample's HDF5 file. Raises `UnreadableImage` for damaged files. Uses
    h5py's low-level API, which takes a quarter of the time."""
    from h5py import h5g

    try:
        inside = not isinstance(members, DirectoryMembers)
        file = open_hdf5(read_member(members, name) if inside else members.location(name))
        try:
            yield h5g.open(file, b"/")
        finally:
            file.close()
    except (UnreadableImage, MemoryError):
        raise
    # HDF5 fails on damaged files in many ways
    except Exception as error:
        raise UnreadableImage(
            f"is not a whole HDF5 file ({first_line(error, named=True)})",
            remedy="get the files again, from where they were published",
        ) from error


def array_names(file) -> list[str]:
    """Names of the arrays of an open sample."""
    return [name.decode("utf-8", "surrogateescape") for name in file]


def stored_attribute(file) -> object:
    import h5py

    attributes = h5py.Group(file).attrs
    if "pickle" not in attributes:
        raise UnreadableImage(
            "has no attribute 'pickle', which holds the label",
            remedy="get the files again, from where they were published",
        )
    return attributes["pickle"]


def read_array(file, name: str) -> np.ndarray:
    """An array of numbers in this file; raises `UnreadableImage` for links, which could lead to other files."""
    from h5py import h5s

    stored = open_array(file, name)
    dtype = stored.dtype
    if dtype.kind not in "biuf":
        raise UnreadableImage(f"its array {name!r} holds {dtype}, no numbers")
    array = np.empty(stored.shape, dtype)
    stored.read(h5s.ALL, h5s.ALL, array)
    return array


def bands_of(array: np.ndarray, name: str, meant: list[int] | None) -> np.ndarray:
    """(c, H, W) of an array (H, W) or (H, W, channels), with the channels to use; raises `UnreadableImage`."""
    if array.ndim == _PLANE and meant is None and array.size:
        return array[None]
    if array.ndim == _PLANE:
        array = array[..., None]
    if array.ndim != _CUBE or 0 in array.shape:
        raise UnreadableImage(f"its array {name!r} has shape {array.shape}, not (height, width)")
    count = array.shape[-1]
    if meant is None and count > 1:
        raise UnreadableImage(
            f"its array {name!r} holds {count} bands, not one",
            remedy=f"say which are meant in arrays: {{name: {name}, channels: {count}}}, or a list of them",
        )
    if meant is not None and max(meant) >= count:
        raise UnreadableImage(
            f"its array {name!r} holds {count} bands, no channel {max(meant)}",
            remedy="correct channels in arrays; they are counted from 0",
        )
    return np.moveaxis(array if meant is None else array[..., meant], -1, 0)
