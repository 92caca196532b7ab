"""Write predicted masks, or rasters of numbers, to a zarr store or a folder of GeoTIFFs.

The output is complete or absent.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.inventory import INVENTORY, write_inventory
from permafrost.core.outputs import whole_directory
from permafrost.core.stores import INVENTORY_DIGEST, SAMPLES, write_store
from permafrost.core.tables import write_table
from permafrost.probes.dense.map_splits import MaskSplit, TargetSplit
from permafrost.probes.job import ProbeJob

ROWS_PER_CHUNK = 16


@contextlib.contextmanager
def raster_writer(job: ProbeJob, test: MaskSplit | TargetSplit) -> Iterator:
    """Yield ``put(row, raster)``, to be called for every test image in order.

    Parameters
    ----------
    job : has the options ``masks`` (none, zarr or geotiff) and ``resolution``.
    test : has ``answer_dtype``, the type of the written values.
    """
    kind = job.options.masks
    if kind == "none":
        yield lambda row, raster: None
        return
    if job.second_output is None:
        raise PermafrostError(
            f"masks: {kind} needs a place to write them to",
            where="second_output",
            remedy="run the probe through snakemake, or give --second-output",
        )
    writer = {"zarr": _zarr, "geotiff": _geotiff}[kind]
    with writer(Path(job.second_output), test, job) as put:
        yield put


@contextlib.contextmanager
def _zarr(path: Path, test: MaskSplit | TargetSplit, job: ProbeJob) -> Iterator:
    """``predictions`` (N, H, W), padded with zeros where sizes differ; sizes in samples.parquet."""
    sizes = test.scored_sizes(job.options.resolution)
    shape = (len(test), *(int(side) for side in sizes.max(axis=0, initial=1)))
    with write_store(path, fingerprint=job.fingerprint) as store:
        array = store.array("predictions", shape, test.answer_dtype, rows_per_chunk=ROWS_PER_CHUNK)
        held = np.zeros((min(ROWS_PER_CHUNK, max(1, len(test))), *shape[1:]), test.answer_dtype)

        def put(row: int, mask: np.ndarray) -> None:
            place = row % len(held)
            held[place] = 0
            held[place, : mask.shape[0], : mask.shape[1]] = mask
            if place == len(held) - 1 or row == len(test) - 1:
                array[row - place : row + 1] = held[: place + 1]

        yield put
        store.samples(_sized(test.samples, sizes))
        store.attributes.update(
            {
                **{key: test.attributes[key] for key in ("dataset", "backbone", "classes")},
                "resolution": job.options.resolution,
                "ignore_index": test.attributes.get("ignore_index"),
            }
        )


def _sized(samples: pa.Table, sizes: np.ndarray) -> pa.Table:
    """The samples with the height and width of their masks."""
    for i, name in enumerate(("height", "width")):
        column = pa.array(sizes[:, i], samples.schema.field(name).type)
        samples = samples.set_column(samples.schema.get_field_index(name), name, column)
    return samples


@contextlib.contextmanager
def _geotiff(path: Path, test: MaskSplit | TargetSplit, job: ProbeJob) -> Iterator:
    """One file per image, named by its sample id, and samples.parquet with the column ``file``."""
    names = [f"{quote(name, safe='')}.tif" for name in test.samples["sample_id"].to_pylist()]
    places = [
        test.samples[name].to_pylist() if name in test.samples.column_names else [None] * len(test)
        for name in ("crs", "transform")
    ]
    with whole_directory(path) as folder:

        def put(row: int, mask: np.ndarray) -> None:
            crs, transform = (column[row] for column in places)
            native = test.sizes[row]
            _write_tiff(folder / names[row], mask.astype(test.answer_dtype), crs, transform, native)

        yield put
        samples = _sized(test.samples, test.scored_sizes(job.options.resolution))
        samples = samples.append_column("file", pa.array(names, pa.string()))
        write_inventory(folder, {}, without=SAMPLES)
        sealed = {INVENTORY_DIGEST: file_digest(folder / INVENTORY)}
        write_table(folder / SAMPLES, samples, {"fingerprint": job.fingerprint, **sealed})


def _write_tiff(path: Path, mask: np.ndarray, crs, transform, native) -> None:
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    height, width = mask.shape
    profile = {
        "driver": "GTiff",
        "height": height,
        "width": width,
        "count": 1,
        "dtype": mask.dtype,
        "compress": "deflate",
    }
    if crs is not None:
        profile["crs"] = crs
    if transform is not None:
        # the raster covers the same ground with pixels of another size
        scale = rasterio.Affine.scale(float(native[1]) / width, float(native[0]) / height)
        profile["transform"] = rasterio.Affine(*transform) @ scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", **profile) as file:
            file.write(mask, 1)
