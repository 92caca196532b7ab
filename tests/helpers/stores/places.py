"""Image stores whose samples lie somewhere, and rasters and tables of embeddings, as tests write them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import rasterio
from permafrost.core.stores import Store, write_store
from permafrost.data.embeddings.places import Place
from permafrost.data.store.card import write_card
from rasterio import Affine
from rasterio.warp import transform as reproject

from helpers.stages.specifications import extraction_of, specification
from helpers.stores.images import IMAGES, SPLITS, card_of, rgb_bands

UTM = "EPSG:32633"


def write_raster(path: Path, values: np.ndarray, transform: Affine, *, crs=UTM, **options) -> Path:
    """A GeoTIFF of (C, H, W) values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = values.shape
    profile = {"driver": "GTiff", "count": count, "height": height, "width": width}
    with rasterio.open(
        path, "w", **profile, dtype=values.dtype, crs=crs, transform=transform, **options
    ) as file:
        file.write(values)
    return path


def image_at(
    x: float, y: float, *, name="a", side=8, pixel=10.0, crs=UTM, day=None, size=None
) -> Place:
    """An image whose upper left corner lies at x, y; north is up."""
    transform = (pixel, 0.0, x, 0.0, -pixel, y)
    height, width = size or (side, side)
    centre = [x + pixel * width / 2], [y - pixel * height / 2]
    (lon,), (lat,) = reproject(crs, "EPSG:4326", *centre)
    return Place(name, lon, lat, day, crs, transform, height, width)


def point(lon: float, lat: float, *, name="a", day=None) -> Place:
    """An image of which only the centre is known."""
    return Place(name, lon, lat, day, None, None, 8, 8)


@dataclass
class PlacedDataset:
    """Stores of noise whose samples lie at `places`, one list for each split; `extract` runs the stage over them."""

    folder: Path
    places: dict[str, list[Place]]
    masks: bool = False

    def __post_init__(self) -> None:
        generator = np.random.default_rng(0)
        for split in SPLITS:
            places = self.places[split]
            side = places[0].height
            with write_store(self.folder / f"{split}.zarr", fingerprint=IMAGES) as writer:
                shape = (len(places), 3, side, side)
                pixels = generator.integers(0, 256, shape).astype(np.uint8)
                writer.array("images", shape, np.uint8, rows_per_chunk=4)[:] = pixels
                if self.masks:
                    found = generator.integers(0, 3, (len(places), side, side)).astype(np.uint8)
                    writer.array("masks", found.shape, np.uint8, rows_per_chunk=4)[:] = found
                else:
                    labels = np.arange(len(places)) % 3
                    writer.array("labels", labels.shape, np.int64, rows_per_chunk=64)[:] = labels
                writer.samples(self._samples(places))
        dense = {"task": "segmentation", "ignore_index": 255} if self.masks else {}
        write_card(self.folder / "card.json", card_of(rgb_bands(), **dense))

    @staticmethod
    def _samples(places: list[Place]) -> pa.Table:
        columns = {name: [getattr(one, name) for one in places] for name in ("sample_id", "lon")}
        columns |= {name: [getattr(one, name) for one in places] for name in ("lat", "crs")}
        columns |= {"group_id": columns["sample_id"], "date": [one.day for one in places]}
        columns |= {
            name: pa.array([getattr(one, name) for one in places], pa.int32())
            for name in ("height", "width")
        }
        lists = [None if one.transform is None else list(one.transform) for one in places]
        columns["transform"] = pa.array(lists, pa.list_(pa.float64(), 6))
        for name in ("crs", "date"):
            columns[name] = pa.array(columns[name], pa.string())
        for name in ("lon", "lat"):
            columns[name] = pa.array(columns[name], pa.float64())
        return pa.table(columns)

    def extract(self, entry: dict, *, out="features", **extraction) -> dict[str, Store]:
        """Feature stores by split."""
        from permafrost.features.extract import extract
        from permafrost.features.specification import Running

        outputs = {split: self.folder / out / f"{split}.zarr" for split in SPLITS}
        spec = {
            "stage": "extract",
            "backbone": "tried",
            "dataset": "tiny",
            "entry": entry,
            "extraction": extraction_of(maps=self.masks) | extraction,
            "inputs": {"images": IMAGES},
        }
        extract(
            specification(spec),
            images={split: self.folder / f"{split}.zarr" for split in SPLITS},
            card=self.folder / "card.json",
            outputs=outputs,
            fingerprint="fingerprint-of-features",
            running=Running(),
        )
        return {split: Store(path) for split, path in outputs.items()}
