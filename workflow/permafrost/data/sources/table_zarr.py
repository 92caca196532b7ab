"""Arrays of a zarr store as a table: their first axis counts the samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import first_line
from permafrost.data.files.cache import LeastRecentlyUsed
from permafrost.data.files.opening import check_bytes
from permafrost.data.sources.table_files import SEPARATOR, Cell, TableFile, cell_text, npy_of

if TYPE_CHECKING:
    import zarr

ENDINGS = (".zarr", ".zarr.zip")
#: files in the folder of a store, for versions 3 and 2 of the format
_MARKS = ("zarr.json", ".zgroup", ".zmetadata", ".zarray")
#: most samples of a store; a header may claim any number
_MOST_ROWS = 50_000_000
#: cached blocks of samples, and bytes per block: threads read a few at a time
_BLOCKS, _BLOCK_BYTES = 4, 2**28
#: most columns of an array (samples, values)
_MOST_COLUMNS = 4096
_UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}


def is_store(path: Path) -> bool:
    """Whether a path is a zarr store: a folder with its metadata, or a zip named as one."""
    if path.is_dir():
        return any((path / mark).is_file() for mark in _MARKS)
    return path.is_file() and path.name.lower().endswith(ENDINGS)


def with_stores(names: list[str]) -> list[str]:
    """File names of a folder, with each store instead of its files."""
    marked = {name.rpartition("/")[0] for name in names if name.rpartition("/")[2] in _MARKS}
    # groups and arrays inside a store have metadata, too
    stores = {one for one in marked if not any(up in marked for up in _above(one))}
    files = [name for name in names if not any(up in stores for up in _above(name))]
    return sorted([*files, *stores])


def _above(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def group_names(path: Path) -> list[str]:
    """Paths of the groups in a store, sorted."""
    return sorted(name for name, one in _open(path).members(max_depth=None) if _is_group(one))


def read_group(path: Path, name: str = "") -> TableFile:
    """The arrays of a group: images if they have three or more axes, columns if they have one or two.

    A numeric array (samples, values) becomes one column per value, ``labels.0``, ``labels.1``; an
    array of text or dates one column of lists. Dates are NumPy dates, or numbers with `units` such
    as "days since 2000-01-01". Arrays whose first axis does not count the samples, such as
    coordinates, are ignored.

    Raises
    ------
    ValueError : no array of images, different numbers of samples, or values that are neither pixels
        nor text.
    """
    group = _open(path)
    group = group[name] if name else group
    arrays = {
        key: array
        for key, array in sorted(group.members(), key=lambda one: one[0])
        if not _is_group(array)
    }
    for key, array in arrays.items():
        _check_type(key, array)
    images = {key: array for key, array in arrays.items() if array.ndim > 2}
    counts = {array.shape[0]: key for key, array in images.items()}
    if len(counts) > 1:
        (one, first), (other, second), *_ = counts.items()
        raise ValueError(f"{first} holds {one} samples and {second} {other}")
    if not counts:
        raise ValueError(
            "it holds no array of images (samples, bands, height, width); those of a group are found by"
            ' files: "<split>"'
        )
    (rows,) = counts
    if rows > _MOST_ROWS:
        raise ValueError(f"it claims {rows} samples")
    columns: dict[str, list[Cell]] = {}
    for key, array in arrays.items():
        if key not in images and array.ndim and array.shape[0] == rows:
            columns |= _columns(key, array)
    prefix = f"{name}/" if name else ""
    return TableFile(
        columns,
        images={key: [f"{prefix}{row:07d}" for row in range(rows)] for key in images},
        read=_Reader(images),
    )


def _open(path: Path) -> zarr.Group:
    # slow to import, and entries of tables are checked without it
    import zarr
    from zarr.storage import LocalStore, ZipStore

    folder = path.is_dir()
    store = LocalStore(path, read_only=True) if folder else ZipStore(path, mode="r", read_only=True)
    return zarr.open_group(store, mode="r", use_consolidated=False)


def _is_group(one: zarr.Array | zarr.Group) -> bool:
    return not hasattr(one, "shape")


def _check_type(key: str, array: zarr.Array) -> None:
    # zarr and numcodecs themselves refuse pickles
    if array.dtype.kind not in "biufUSTM":
        raise ValueError(f"{key} holds {array.dtype} values, which are neither pixels nor text")


def _columns(key: str, array: zarr.Array) -> dict[str, list[Cell]]:
    if array.ndim == 2 and array.shape[1] > _MOST_COLUMNS:
        return {}
    check_bytes(array.size * array.dtype.itemsize, f"its column {key}")
    values = _dates(np.asarray(array[:]), array.attrs.get("units"))
    if values.dtype.kind == "M":
        gone = np.isnat(values)
        values = np.where(gone, "", np.datetime_as_string(values, unit="s"))
    if values.ndim == 1:
        return {key: [_text(value) for value in values.tolist()]}
    if values.dtype.kind in "biuf":
        return {
            f"{key}.{number}": [_text(value) for value in values[:, number].tolist()]
            for number in range(values.shape[1])
        }
    return {key: [SEPARATOR.join(_text(value) or "" for value in row) for row in values.tolist()]}


def _dates(values: np.ndarray, units: object) -> np.ndarray:
    """Dates if `units` follow the CF conventions; otherwise the values."""
    unit, since, start = str(units).partition(" since ")
    if not since or unit not in _UNITS or values.dtype.kind not in "iuf":
        return values
    gone = ~np.isfinite(values)
    seconds = np.where(gone, 0, values * float(_UNITS[unit])).round().astype(np.int64)
    first = np.datetime64(start.strip().replace(" ", "T").rstrip("Z"), "s")
    return np.where(gone, np.datetime64("NaT", "s"), first + seconds.astype("timedelta64[s]"))


def _text(value: object) -> Cell:
    if isinstance(value, bytes):
        value = value.decode()
    return cell_text(value) or None


class _Reader:
    """Reads the images of arrays, by name and row, as npy bytes."""

    def __init__(self, arrays: dict[str, zarr.Array]) -> None:
        self._arrays = arrays
        self._blocks = LeastRecentlyUsed(self._block, _BLOCKS)
        # chunks that were never written read as the fill value
        self._lacking = LeastRecentlyUsed(
            lambda key: arrays[key].nchunks_initialized < arrays[key].nchunks, len(arrays)
        )

    def __call__(self, key: str, row: int) -> bytes:
        array = self._arrays[key]
        size = math.prod(array.shape[1:]) * array.dtype.itemsize
        check_bytes(size)
        check_bytes(math.prod(array.chunks) * array.dtype.itemsize, "a chunk of it")
        step = array.chunks[0]
        try:
            whole = step * size <= _BLOCK_BYTES
            found = self._blocks((key, row // step))[row % step] if whole else array[row]
            lacking = _is_filled(found, array) and self._lacking(key)
        # codecs fail on damaged bytes in many ways
        except Exception as error:
            raise OSError(first_line(error, named=True)) from error
        if lacking:
            raise OSError("its chunk is missing in the store")
        return npy_of(found)

    def _block(self, place: tuple[str, int]) -> np.ndarray:
        array, number = self._arrays[place[0]], place[1]
        step = array.chunks[0]
        return np.asarray(array[number * step : (number + 1) * step])


def _is_filled(found: np.ndarray, array: zarr.Array) -> bool:
    """Whether an image has only the fill value; masks (height, width) may."""
    if found.ndim < 3 or array.fill_value is None:
        return False
    fill = np.asarray(array.fill_value, array.dtype)
    return bool((np.isnan(found) if fill != fill else found == fill).all())
