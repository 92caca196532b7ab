"""Open rasters, HDF5 files, pictures and NumPy arrays for reading; nothing else in the package does.

A file is opened by the formats that its reader names, from a regular file of this machine or from
bytes. What lies beside it (``.aux.xml``, ``.msk``, ``.ovr``, world files) is not read, no format
that leads to other files or addresses is tried, and the memory of one read is bounded: the header
gives it, before anything is allocated.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from permafrost.core.errors import first_line
from permafrost.core.opened import note

if TYPE_CHECKING:
    import PIL.Image

#: largest array that is read at once, in MB, unless an entry or a command allows more
LARGEST_MB = 1000
_CUT = "cut it into smaller ones"
_largest: ContextVar[tuple[int, str]] = ContextVar("largest", default=(LARGEST_MB * 10**6, _CUT))

# bands of one file; GDAL takes time that grows with their square
_MOST_BANDS = 4096

# what GDAL must not do with a file: look for others beside it
_ALONE = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO"}
# members of archives as `data.files.members` writes them for GDAL; all other virtual files are refused
_MEMBER = re.compile(r"/vsizip/\{([^{}]+)\}/.+|/vsisubfile/\d+_\d+,(.+)", re.DOTALL)

# bytes that one byte of deflated data can give at most, and that are inflated at a time
_MOST_INFLATED, _PIECE = 1032, 1 << 20


class UnreadableImage(Exception):
    """An image cannot be used; `prepare` collects the reasons into one error.

    Parameters
    ----------
    remedy : what would make it usable, if that differs between images.
    skippable : whether `on_error` may skip the image; not if another run might read it.
    """

    def __init__(self, problem: str, *, remedy: str | None = None, skippable: bool = True) -> None:
        super().__init__(problem)
        self.remedy, self.skippable = remedy, skippable


@contextlib.contextmanager
def readable(what: str = "", *, remedy: str | None = None) -> Iterator[None]:
    """Convert any exception of a reader to `UnreadableImage`, with `what` before its message.

    Readers fail on damaged bytes in many ways. A lack of memory may come from a damaged header or
    from this machine, so such an image is reported and never skipped.
    """
    before = f"{what}: " if what else ""
    try:
        yield
    except UnreadableImage as failure:
        problem = f"{before}{failure}"
        raise UnreadableImage(
            problem, remedy=failure.remedy, skippable=failure.skippable
        ) from failure
    except Exception as error:
        problem = f"{before}{first_line(error, named=True)}"
        if no_memory := isinstance(error, MemoryError):
            remedy = "repair the file if its header is wrong, or give the job more memory"
        raise UnreadableImage(problem, remedy=remedy, skippable=not no_memory) from error


# --- the bound -----------------------------------------------------------------------------------


@contextlib.contextmanager
def bounded(megabytes: float, option: str) -> Iterator[None]:
    """Within this context of the thread, arrays of up to so many MB (10^6 bytes) are read.

    Parameters
    ----------
    option : what raises the bound, for the remedy.
    """
    from PIL import Image

    most = int(megabytes * 10**6)
    # Pillow refuses twice this number of pixels, each of which takes four bytes; for libraries that use it, too
    Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS or 0, most // 8)
    token = _largest.set((most, f"{_CUT}, or allow more with {option}"))
    try:
        yield
    finally:
        _largest.reset(token)


def check_bytes(count: float, what: str = "it") -> None:
    """Raise `UnreadableImage` if an array of `count` bytes is larger than the bound."""
    most, remedy = _largest.get()
    if count > most:
        raise UnreadableImage(
            f"{what} would take {count / 1e6:,.0f} MB of memory, and at most {most / 1e6:,.0f} MB are read at once",
            remedy=remedy,
        )


def _bytes(shape, dtype: object) -> int:
    return math.prod(map(int, shape)) * np.dtype(dtype).itemsize


# --- rasters -------------------------------------------------------------------------------------


def open_raster(location: str | os.PathLike, *drivers: str):
    """An open rasterio dataset of a file, to close; its reads are bounded.

    Parameters
    ----------
    location : a regular file, or `Members.location`.
    drivers : GDAL's names of the formats that the file may have.

    Raises
    ------
    UnreadableImage : no regular file of this machine, or one stored block is larger than the bound.
    rasterio.errors.RasterioIOError : damaged, or of another format.
    """
    return _dataset(_local(location), drivers)


def open_vrt(document: str):
    """An open rasterio dataset of a VRT whose content the caller has checked, see `embeddings.mosaics`."""
    return _dataset(document, ("VRT",))


@contextlib.contextmanager
def raster_of(data: bytes, *drivers: str) -> Iterator:
    """An open rasterio dataset of a file's content; otherwise as `open_raster`."""
    import rasterio

    with rasterio.MemoryFile(data) as memory, _dataset(memory.name, drivers) as dataset:
        yield dataset


def _local(location: str | os.PathLike) -> str:
    """The name by which GDAL opens a file; raises `UnreadableImage` for what is no file of this machine."""
    name = os.fspath(location)
    member = _MEMBER.fullmatch(name)
    file = (member[1] or member[2]) if member else name
    if (member is None and name.startswith("/vsi")) or not os.path.isfile(file):
        found = "a folder" if os.path.isdir(file) else "no regular file of this machine"
        raise UnreadableImage(
            f"{name} cannot be opened: it is {found}", remedy="give the path of a file"
        )
    note(file)
    # a relative name with a colon could be an address, or a part of another file
    return os.path.abspath(name) if member is None and ":" in name else name


def _dataset(name: str, drivers: tuple[str, ...]):
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with rasterio.Env(**_ALONE), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        dataset = _reader()(name, driver=list(drivers))
    try:
        if dataset.count > _MOST_BANDS:
            raise UnreadableImage(
                f"has {dataset.count:,} bands, and at most {_MOST_BANDS:,} are read",
                remedy="repair the file if its header is wrong, or write the bands to use into another one",
            )
        together = (
            dataset.count if dataset.interleaving and dataset.interleaving.value == "PIXEL" else 1
        )
        for shape, dtype in set(zip(dataset.block_shapes, dataset.dtypes, strict=True)):
            check_bytes(together * _bytes(shape, dtype), "a block of it")
    except BaseException:
        dataset.close()
        raise
    return dataset


@functools.cache
def _reader():
    """The class of open datasets; made here, since it needs rasterio."""
    import rasterio
    from rasterio.io import DatasetReader

    class BoundedReader(DatasetReader):
        """A dataset whose reads are bounded, and that looks for no other file."""

        def read(self, indexes=None, out=None, window=None, masked=False, out_shape=None, **how):
            if out is None:
                check_bytes(self._read_bytes(indexes, window, out_shape, how.get("out_dtype")))
            if self.driver != "VRT":
                return super().read(indexes, out, window, masked, out_shape, **how)
            # a mosaic opens its files when their pixels are read
            with rasterio.Env(**_ALONE):
                return super().read(indexes, out, window, masked, out_shape, **how)

        def _read_bytes(self, indexes, window, out_shape, dtype) -> int:
            bands = self.indexes if indexes is None else np.atleast_1d(indexes)
            if out_shape is not None:
                sides = out_shape[-2:]
            elif window is not None:
                sides = window.height, window.width
            else:
                sides = self.shape
            return _bytes((len(bands), *sides), dtype or self.dtypes[0])

    return BoundedReader


# --- HDF5 ----------------------------------------------------------------------------------------


def open_hdf5(source: bytes | str | os.PathLike):
    """The low-level `h5py.h5f.FileID` of a file or of its content, to close; `h5py.Group` makes it a group.

    Raises
    ------
    OSError : damaged.
    """
    from h5py import h5f

    if not isinstance(source, bytes):
        return h5f.open(os.fsencode(_local(source)), h5f.ACC_RDONLY)
    return h5f.open_file_image(source)


def open_array(group, name: str):
    """The low-level `h5py.h5d.DatasetID` of an array in an open group or file.

    Raises
    ------
    UnreadableImage : a link, no array, kept in another file, or larger than the bound.
    """
    from h5py import h5d, h5l

    encoded = name.encode("utf-8", "surrogateescape")
    if group.links.get_info(encoded).type != h5l.TYPE_HARD:
        raise UnreadableImage(f"its array {name!r} is a link")
    try:
        stored = h5d.open(group, encoded)
    except KeyError as error:
        raise UnreadableImage(f"its {name!r} is no array") from error
    size = _bytes(stored.shape, stored.dtype)
    check_bytes(size, f"its array {name!r}")
    # as it is in this very file, in one piece; the list of properties takes as long as reading
    if stored.get_offset() is not None and stored.get_storage_size() == size:
        return stored
    plist = stored.get_create_plist()
    layout = plist.get_layout()
    if layout == h5d.VIRTUAL or plist.get_external_count():
        raise UnreadableImage(f"its array {name!r} keeps its numbers in another file")
    if layout == h5d.CHUNKED:
        chunk = _bytes(plist.get_chunk(), stored.dtype)
        check_bytes(chunk, f"a chunk of its array {name!r}")
        if stored.get_storage_size() * _MOST_INFLATED > _largest.get()[0]:
            _check_inflated(stored, plist, chunk, name)
    return stored


def _check_inflated(stored, plist, chunk: int, name: str) -> None:
    """Raise `UnreadableImage` if a stored chunk inflates to more than `chunk` bytes: HDF5 sets no limit."""
    from h5py import h5z

    filters = [plist.get_filter(number)[0] for number in range(plist.get_nfilters())]
    if h5z.FILTER_DEFLATE not in filters:
        return
    if filters.count(h5z.FILTER_DEFLATE) > 1:
        raise UnreadableImage(f"its array {name!r} is deflated twice")
    for number in range(stored.get_num_chunks()):
        about = stored.get_chunk_info(number)
        if about.size * _MOST_INFLATED <= _largest.get()[0]:
            continue
        _, data = stored.read_direct_chunk(about.chunk_offset)
        stream, size = zlib.decompressobj(), 0
        while data and not stream.eof:
            size += len(stream.decompress(data, _PIECE))
            data = stream.unconsumed_tail
            if size > chunk:
                raise UnreadableImage(
                    f"a chunk of its array {name!r} unpacks to more than it holds"
                )


# --- pictures and NumPy arrays -------------------------------------------------------------------


@contextlib.contextmanager
def open_picture(
    source: bytes | str | os.PathLike | IO[bytes], *formats: str
) -> Iterator[PIL.Image.Image]:
    """An open Pillow image of a file, its content or a stream; its pixels are not decoded yet.

    Parameters
    ----------
    formats : Pillow's names of the formats that it may have.

    Raises
    ------
    UnreadableImage : larger than the bound.
    """
    from PIL import Image

    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with Image.open(stream, formats=formats) as image:
            # Pillow keeps a pixel of colours in four bytes
            check_bytes(4 * image.width * image.height)
            yield image
    except Image.DecompressionBombError as error:
        raise UnreadableImage(first_line(error), remedy=_largest.get()[1]) from error


def load_npy(data: bytes) -> np.ndarray:
    """The array of a npy file.

    Raises
    ------
    UnreadableImage : larger than the bound.
    ValueError, EOFError : damaged, or Python objects, which could run code.
    """
    stream = io.BytesIO(data)
    headers = np.lib.format
    read: Any = headers.read_array_header_1_0
    if headers.read_magic(stream) != (1, 0):
        read = headers.read_array_header_2_0
    shape, _, dtype = read(stream)
    check_bytes(_bytes(shape, dtype))
    stream.seek(0)
    return np.load(stream, allow_pickle=False)


def load_npz(source: bytes | str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of a npz file by name; raises as `load_npy`, or `zipfile.BadZipFile`."""
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    with zipfile.ZipFile(stream) as archive:
        check_bytes(sum(info.file_size for info in archive.infolist()))
        return {
            info.filename.removesuffix(".npy"): load_npy(archive.read(info))
            for info in archive.infolist()
        }
