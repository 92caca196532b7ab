"""Samples of GEO-Bench V1 in its own layout: HDF5 files whose attribute is a pickle of its classes."""

from __future__ import annotations

import json
import pickle
import sys
import types
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
from affine import Affine
from rasterio.crs import CRS

PLACE = {"transform": Affine(10, 0, 624600, 0, -10, 4877280), "crs": CRS.from_epsg(32635)}
NOWHERE = {"transform": None, "crs": None}


def as_written(label=None, arrays: Iterable[str] = (), *, module="geobench.dataset", place=PLACE):
    """The mapping that geobench pickles for a sample, its band infos as instances of geobench's classes."""
    infos = {}
    for name in arrays:
        cls = "SegmentationClasses" if name.startswith("label") else "Sentinel2"
        info = _foreign(module, cls)()
        info.__dict__.update(name=name, alt_names=("1",), spatial_resolution=10, wavelength=0.49)
        common = {"date": None, "date_id": None, "spatial_resolution": 10, "meta_info": None}
        infos[name] = {**common, **place, "band_info": info}
    return {**({} if label is None else {"label": label}), **infos, "bands_order": list(arrays)}


def pickled(value, *, protocol: int = 4) -> str:
    """The text that geobench stores; classes of modules that are not installed are pickled all the same."""
    with _importable():
        return str(pickle.dumps(value, protocol=protocol))


def write_sample(
    folder: Path, name: str, arrays: dict[str, np.ndarray], label=None, *, stored=None, **written
) -> Path:
    """``<name>.hdf5`` with these arrays; `stored` replaces the attribute."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.hdf5"
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
        attribute = pickled(as_written(label, arrays, **written)) if stored is None else stored
        file.attrs["pickle"] = attribute
    return path


def write_partition(folder: Path, splits: dict[str, list[str]], name: str = "default") -> Path:
    path = folder / f"{name}_partition.json"
    path.write_text(json.dumps({"train": [], "valid": [], "test": [], **splits}))
    return path


def write_dataset(
    folder: Path,
    entry: dict,
    *,
    count: int = 8,
    array: Callable[[int, int], np.ndarray] | None = None,
    side: int | None = None,
    called: Callable[[int], str] = "sample_{}".format,
    **written,
) -> Path:
    """Files as an entry expects them, `count` samples for each split; every class occurs in each.

    Parameters
    ----------
    array : the pixels of (sample, band); by default smooth noise that differs with the class.
    called : the name of a sample, by its number.
    """
    source = entry["source"]
    side = side or source.get("size", 16)
    classes = len(entry["classes"])
    names = [called(number) for number in range(3 * count)]
    for number, name in enumerate(names):
        label, arrays = _label(entry, number, classes), {}
        for band, key in enumerate(source["arrays"]):
            arrays[key] = (array or _noise)(number, band)
            if array is None:
                arrays[key] = np.kron(arrays[key], np.ones((side // 8 + 1,) * 2))[:side, :side]
                arrays[key] = (arrays[key] + 20 * (number % classes)).astype(np.uint8)
        if entry["task"] == "segmentation":
            values = [int(value) for value in entry.get("mask_values", range(classes))]
            strips = np.resize(np.repeat(values, -(-side // len(values))), side).astype(np.int16)
            arrays["label"] = np.roll(np.tile(strips, (side, 1)), number, axis=1)
        write_sample(folder, name, arrays, label, **written)
    parts = {split: names[i::3] for i, split in enumerate(("train", "valid", "test"))}
    write_partition(folder, parts)
    return folder


def _label(entry: dict, number: int, classes: int):
    if entry["task"] == "classification":
        return number // 3 % classes
    if entry["task"] == "multilabel":
        return (np.arange(classes) % 3 <= number // 3 % 3).astype(np.int64)
    return None


def _noise(number: int, band: int) -> np.ndarray:
    return np.random.default_rng([number, band]).integers(10, 60, (8, 8))


def _foreign(module: str, name: str) -> type:
    return _FOREIGN.setdefault((module, name), type(name, (), {"__module__": module}))


_FOREIGN: dict[tuple[str, str], type] = {}


@contextmanager
def _importable():
    """pickle looks up the classes that it names: their modules exist meanwhile."""
    modules = {}
    for (module, name), cls in _FOREIGN.items():
        parts = module.split(".")
        for depth in range(1, len(parts) + 1):
            modules.setdefault(".".join(parts[:depth]), types.ModuleType(parts[depth - 1]))
        setattr(modules[module], name, cls)
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
