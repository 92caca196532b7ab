"""Small image datasets on disk, for the tests of the room `data`."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from permafrost.core.stores import Store
from permafrost.data.card import read_card
from permafrost.data.prepare import prepare

RGB_ENTRY = {
    "task": "classification",
    "sensor": "rgb",
    "bands": ["red", "green", "blue"],
    "units": {"unit": "uint8"},
}


def photo(seed: int, size=(24, 32), *, low=0, high=255) -> np.ndarray:
    """(H, W, 3) uint8 with smooth structure, different for every seed."""
    from PIL import Image

    coarse = np.random.default_rng(seed).integers(low, high, (4, 4, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize(size[::-1], Image.Resampling.BILINEAR))


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


def geotiff(array: np.ndarray, *, lon=10.0, lat=50.0, **profile) -> bytes:
    """A GeoTIFF of (C, H, W) whose centre lies at lon, lat."""
    import rasterio
    from rasterio.transform import from_origin

    bands, height, width = array.shape
    step = 1e-4
    transform = from_origin(lon - width * step / 2, lat + height * step / 2, step, step)
    with rasterio.MemoryFile() as memory:
        with memory.open(
            driver="GTiff",
            count=bands,
            height=height,
            width=width,
            dtype=array.dtype,
            crs="EPSG:4326",
            transform=transform,
            **profile,
        ) as dataset:
            dataset.write(array)
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


class Prepared:
    """Where `prepare` writes in a test, and what it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs = {split: folder / f"{split}.zarr" for split in ("train", "val", "test")}
        self.card_path = folder / "card.json"

    def run(self, entry: dict, *, name: str = "set", workers: int = 2) -> dict:
        return prepare(
            {"dataset": name, "entry": entry},
            outputs=self.outputs,
            card_path=self.card_path,
            fingerprint="f" * 32,
            workers=workers,
        )

    @property
    def card(self) -> dict:
        return read_card(self.card_path, expect="f" * 32)

    def store(self, split: str) -> Store:
        return Store(self.outputs[split], expect="f" * 32)

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*")) if self.folder.exists() else []
