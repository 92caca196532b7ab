"""Files whose headers claim more than the files hold. Run as a program, it reads them with little memory left."""

from __future__ import annotations

import io
import resource
import struct
import sys
import zipfile
import zlib
from pathlib import Path

SIDE = 40_000


def sparse_tiff(path: Path, **options) -> Path:
    """A GeoTIFF of 3 x 40,000 x 40,000 pixels of which nothing is stored."""
    import rasterio

    sides = {"width": SIDE, "height": SIDE, "count": 3, "dtype": "uint8"}
    with rasterio.open(path, "w", driver="GTiff", **sides, SPARSE_OK=True, **options):
        pass
    return path


def empty_hdf5(path: Path, chunks=(1000, 1000), shape=(60_000, 60_000), **options) -> Path:
    """An HDF5 file with the array ``data``, of which nothing is stored."""
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("data", shape, "uint8", chunks=chunks, **options)
    return path


def png(width: int = SIDE, height: int = SIDE, *, depth: int = 8) -> bytes:
    """The header of a PNG of colours, and its first rows."""
    head = struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)
    packed = zlib.compressobj(9)
    row = bytes(1 + width * 3 * depth // 8)
    body = b"".join(packed.compress(row) for _ in range(min(height, 50))) + packed.flush()
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in ((b"IHDR", head), (b"IDAT", body), (b"IEND", b""))
    )


def npy(shape: tuple[int, ...]) -> bytes:
    """The header of an array, and nothing after it."""
    import numpy as np

    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def npz(size: int = 1_100_000_000) -> bytes:
    """An archive with a member that unpacks to so many zeros."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w", force_zip64=True) as member,
    ):
        for _ in range(size // 10**7):
            member.write(bytes(10**7))
    return stream.getvalue()


def equal_texts(name: str = "id", count: int = 400_000, length: int = 10_000, **columns) -> bytes:
    """A parquet table with a text in column `name` that each row repeats, and `columns` of one value each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, stream = pa.array([0] * count, pa.int32()), io.BytesIO()
    text = pa.DictionaryArray.from_arrays(rows, pa.array(["x" * length]))
    others = {name: pa.array([value]).take(rows) for name, value in columns.items()}
    pq.write_table(pa.table({name: text, **others}), stream, store_schema=False)
    return stream.getvalue()


def main(folder: Path) -> None:
    """Read each file, with 200 MB more than the libraries take; print what its reader says."""
    from permafrost.data.embeddings.tables import TableEmbeddings, TableOptions
    from permafrost.data.files import opening
    from permafrost.data.files.decode import Decoding, decode_image, read_tiff
    from permafrost.data.files.members import DirectoryMembers
    from permafrost.data.files.tortilla import Extent, Item, read_items
    from permafrost.data.files.tortilla_parts import annotations_of, read_sensor
    from permafrost.data.labels.masks import decode_mask
    from permafrost.data.labels.rasters import decode_raster
    from permafrost.data.proposal.looks import pixel_values
    from permafrost.data.sources.geobench_sample import open_sample, read_array
    from permafrost.data.sources.table_files import read_file, row_groups
    from permafrost.evaluators.raster import evaluate

    def sample(name: str) -> None:
        with open_sample(DirectoryMembers(folder, "set"), name) as file:
            read_array(file, "data")

    def part(name: str) -> None:
        read_sensor([Item("s2", "HDF5", Extent.whole(folder / name), {})])

    colours = Decoding(3)
    small = (folder / "small.tif").read_bytes()
    decode_image(small, colours)
    sample("small.hdf5")
    readers = {
        "an image": lambda: decode_image((folder / "sparse.tif").read_bytes(), colours),
        "an image by its path": lambda: read_tiff(str(folder / "sparse.tif"), colours),
        "one tile": lambda: opening.open_raster(folder / "tile.tif", "GTiff"),
        "a mask": lambda: decode_mask((folder / "sparse.tif").read_bytes()),
        "a target": lambda: decode_raster((folder / "plane.tif").read_bytes()),
        "a raster to evaluate": lambda: evaluate(folder / "tile.tif", folder / "tile.tif"),
        "many bands to evaluate": lambda: evaluate(
            folder / "plane.tif", logits=folder / "plane.tif", block=SIDE
        ),
        "a mask of a draft": lambda: pixel_values(
            DirectoryMembers(folder, "set"), ["plane.tif"], where="set"
        ),
        "a sample": lambda: sample("empty.hdf5"),
        "a chunk": lambda: sample("chunk.hdf5"),
        "a part": lambda: part("empty.hdf5"),
        "a part of one chunk": lambda: part("chunk.hdf5"),
        "a PNG": lambda: decode_image(png(), colours),
        "a PNG of 16 bits": lambda: decode_image(png(depth=16), colours),
        "a PNG as a mask": lambda: decode_mask(png(), colours=True),
        "a npy": lambda: decode_image(npy((3, SIDE, SIDE)), colours),
        "a npz": lambda: opening.load_npz(folder / "bomb.npz"),
        "a table": lambda: read_file(folder / "texts.parquet", "table", row_groups()),
        "embeddings": lambda: TableEmbeddings(
            str(folder / "texts.parquet"), TableOptions(embedding="e", by="id", id="id"), "table"
        ),
        "a footer": lambda: read_items(Extent.whole(folder / "footer.tortilla")),
        "objects": lambda: annotations_of(
            Item("boxes", "GeoParquet", Extent.whole(folder / "objects.parquet"), {})
        ),
    }
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 10**6,) * 2)
    for name, read in readers.items():
        try:
            read()
            print(f"{name}: was read")
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
