"""Small image datasets on disk, for the tests of the room `data`."""

from __future__ import annotations

import copy
import csv
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from permafrost.core.specification import substitute
from permafrost.core.store_parts import Part
from permafrost.core.stores import Store
from permafrost.data import sources
from permafrost.data.entry import DatasetEntry
from permafrost.data.records import Source
from permafrost.data.sources import read_entry
from permafrost.data.store.card import read_card
from permafrost.data.store.joining import join_parts
from permafrost.data.store.parts import prepare_part
from permafrost.data.store.prepare import PrepareSpec, prepare
from permafrost.plan.catalogue import Catalogue

CONFIG = Path(__file__).parents[3] / "config"
RANDOM = {"method": "random", "fractions": [0.5, 0.25, 0.25]}

RGB_ENTRY = {
    "task": "classification",
    "sensor": "rgb",
    "bands": ["red", "green", "blue"],
    "units": {"unit": "uint8"},
}


def folder_entry(path, **more) -> dict:
    """An entry for folders of classes, or with ``task: segmentation`` for pairs."""
    return {**RGB_ENTRY, "source": {"kind": "folder", "path": str(path)}, "splits": RANDOM, **more}


def catalogue_entry(name: str, data: Path) -> dict:
    """An entry of the catalogue as a job gets it: validated, defaults and places filled in."""
    return substitute(Catalogue("dataset", [CONFIG], {}).entry(name), str(data))


def photo(seed: int, size=(24, 32), *, low=0, high=255) -> np.ndarray:
    """(H, W, 3) uint8 with smooth structure, different for every seed."""
    from PIL import Image

    coarse = np.random.default_rng(seed).integers(low, high, (4, 4, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize(size[::-1], Image.Resampling.BILINEAR))


def chw(seed: int) -> np.ndarray:
    """(3, H, W): a photo as decoders give it."""
    return photo(seed).transpose(2, 0, 1)


def encode(array: np.ndarray, kind: str = "png", **options) -> bytes:
    """An image file by Pillow."""
    from PIL import Image

    stream = io.BytesIO()
    mode = options.pop("mode", None)
    image = Image.fromarray(array)
    if mode:
        image = image.convert(mode)
    image.save(stream, format=kind, **options)
    return stream.getvalue()


def geotiff(array: np.ndarray, *, lon=10.0, lat=50.0, colormap=None, **profile) -> bytes:
    """A GeoTIFF of (C, H, W) whose centre lies at lon, lat; `profile` may give another place."""
    import rasterio
    from rasterio.transform import from_origin

    bands, height, width = array.shape
    step = 1e-4
    transform = from_origin(lon - width * step / 2, lat + height * step / 2, step, step)
    place = {"crs": "EPSG:4326", "transform": transform}
    with rasterio.MemoryFile() as memory:
        with memory.open(
            count=bands,
            height=height,
            width=width,
            dtype=array.dtype,
            **{"driver": "GTiff", **place, **profile},
        ) as dataset:
            dataset.write(array)
            if colormap:
                dataset.write_colormap(1, colormap)
        return memory.read()


def class_files(classes=("field", "town"), count: int = 10, kind: str = "png", **photos) -> dict:
    """``{"field/000.png": bytes, …}``."""
    return {
        f"{name}/{number:03d}.{kind}": encode(photo(1000 * c + number, **photos), kind)
        for c, name in enumerate(classes)
        for number in range(count)
    }


def write_folder(place: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    return place


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def write_tar(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_table(path: Path, rows: list[dict]) -> Path:
    """A CSV, or by its ending a parquet file."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


MASK_ENTRY = {
    **RGB_ENTRY,
    "task": "segmentation",
    "classes": ["land", "sea", "town"],
    "ignore_index": 255,
}


def mask(seed: int, size=(24, 32), values=(0, 1, 2, 255)) -> np.ndarray:
    """(H, W) uint8 of blocks that hold each of `values`."""
    generator = np.random.default_rng(seed)
    blocks = np.resize(generator.permutation(np.resize(values, 16)), (4, 4)).astype(np.uint8)
    return np.kron(blocks, np.ones((size[0] // 4, size[1] // 4), np.uint8))


def pair_files(count: int = 12, *, images="images/{}.png", masks="masks/{}.png", **options) -> dict:
    """``{"images/00.png": bytes, "masks/00.png": bytes, …}``; `options` are those of `mask`."""
    files = {}
    for number in range(count):
        files[images.format(f"{number:02d}")] = encode(photo(number))
        files[masks.format(f"{number:02d}")] = encode(mask(number, **options))
    return files


def pair_entry(path, source: dict | None = None, **more) -> dict:
    """An entry for pairs of images and masks in a folder or an archive."""
    place = {"kind": "folder", "path": str(path), **(source or {})}
    return {**MASK_ENTRY, "source": place, "splits": RANDOM, **more}


def validated(entry: dict) -> dict:
    """A copy of the entry as a job gets it: validated, defaults filled in. None leaves a key out."""
    from permafrost.plan.validation import validate

    entry = copy.deepcopy({key: value for key, value in entry.items() if value is not None})
    validate(entry, "dataset", where="entry of a test")
    return entry


def dataset_entry(entry: dict, *, where: str = "dataset set") -> DatasetEntry:
    """The typed entry."""
    return read_entry(validated(entry), where=where)


def open_source(entry: dict, *, where: str = "dataset set") -> Source:
    """`permafrost.data.sources.open_source` of an entry as a test writes it."""
    return sources.open_source(dataset_entry(entry, where=where), where=where)


class Prepared:
    """Where `prepare` writes in a test, and what it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs = {split: folder / f"{split}.zarr" for split in ("train", "val", "test")}
        self.card_path = folder / "card.json"

    def run(
        self, entry: dict, *, name: str = "set", workers: int = 2, parts: int | None = None, **told
    ) -> dict:
        """The card; in `parts` parts where a number is given."""
        spec = PrepareSpec(dataset=name, entry=validated(entry), **told)
        if parts is not None:
            folders = [self.folder.with_name("parts") / f"{n}-of-{parts}" for n in range(parts)]
            for folder in folders:
                self.run_part(spec, folder, workers=workers)
            return self.join(spec, folders)
        return prepare(
            spec,
            outputs=self.outputs,
            card_path=self.card_path,
            fingerprint="f" * 32,
            workers=workers,
        ).as_json()

    def run_part(self, spec: PrepareSpec, folder: Path, workers: int = 2) -> None:
        """One part, by the name of its folder."""
        part = Part.of(folder.name)
        prepare_part(spec, output=folder, part=part, fingerprint="f" * 32, workers=workers)

    def join(self, spec: PrepareSpec, folders: list[Path]) -> dict:
        """Parts in folders to stores and a card."""
        return join_parts(
            spec,
            parts=folders,
            outputs=self.outputs,
            card_path=self.card_path,
            fingerprint="f" * 32,
        ).as_json()

    def contents(self) -> dict[str, bytes]:
        """Path to bytes of all files."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    @property
    def card(self) -> dict:
        return read_card(self.card_path, expect="f" * 32).as_json()

    def store(self, split: str) -> Store:
        return Store(self.outputs[split], expect="f" * 32)

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*")) if self.folder.exists() else []
