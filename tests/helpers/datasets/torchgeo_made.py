"""Small datasets in the layout of torchgeo's classes whose own fixtures are too large to keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers.datasets.images import geotiff, write_folder


def flair_hub(place: Path) -> Path:
    """FLAIR-HUB's toy: aerial photographs, heights, and series of both Sentinels of different lengths."""
    import geopandas
    from shapely.geometry import Point

    root = place / "FLAIR-HUB_TOY"
    rng = np.random.default_rng(0)
    splits = ["train", "train", "train", "valid", "valid", "test"]
    names = [f"D004-2021_ZONE_{number}" for number in range(len(splits))]
    for number, name in enumerate(names):
        head, _, tail = name.partition("_")
        sizes = {
            "AERIAL_LABEL-COSIA": ("uint8", (1, 32, 32), 18),
            "AERIAL_RGBI": ("uint8", (4, 32, 32), 256),
            "DEM_ELEV": ("float32", (2, 16, 16), 500),
            "SENTINEL2_TS": ("uint16", (10 * (number + 2), 8, 8), 10_000),
            "SENTINEL1-ASC_TS": ("float32", (2 * (number + 1), 8, 8), 1),
        }
        for modality, (dtype, shape, top) in sizes.items():
            pixels = (rng.random(shape) * top).astype(dtype)
            file = f"{head}_{modality}/ZONE/{head}_{modality}_{tail}.tif"
            write_folder(root, {file: geotiff(pixels)})
    table = {"patch_id": names, "split_toy": splits, "geometry": [Point(0, 0)] * len(names)}
    (root / "GLOBAL_ALL_MTD").mkdir()
    geopandas.GeoDataFrame(table, crs="EPSG:4326").to_file(
        root / "GLOBAL_ALL_MTD/GLOBAL_ALL_MTD_SPLIT.gpkg"
    )
    return place


def substation(place: Path) -> Path:
    """Substation: more or fewer dates than asked for."""
    rng = np.random.default_rng(0)
    for folder in ("image_stack", "mask"):
        (place / folder).mkdir(parents=True)
    for number in range(4):
        images = rng.integers(1, 3000, (3 + number, 13, 16, 16)).astype(np.int16)
        np.savez(place / f"image_stack/{number}.npz", arr_0=images)
        np.savez(place / f"mask/{number}.npz", arr_0=rng.integers(0, 4, (16, 16)))
    return place


def skippd(place: Path) -> Path:
    """SKIPP'D, forecasting: sixteen pictures of the sky, a minute apart."""
    import h5py

    place.mkdir()
    rng = np.random.default_rng(0)
    with h5py.File(place / "2017_2019_images_pv_processed_forecast.hdf5", "w") as file:
        for split, count in (("trainval", 6), ("test", 3)):
            images = rng.integers(0, 256, (count, 16, 8, 8, 3)).astype(np.uint8)
            file[f"{split}/images_log"] = images
            file[f"{split}/pv_log"] = rng.random(count).astype(np.float32)
    return place


MADE = {"flair_hub": flair_hub, "skippd": skippd, "substation": substation}
