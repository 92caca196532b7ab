"""Extract features of image arrays with a frozen backbone, with the pipeline's preprocessing."""

from __future__ import annotations

import contextlib
import csv
import io
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.extras import explained
from permafrost.core.home import MARK
from permafrost.core.identity import fingerprint
from permafrost.core.memory import keep_freed_memory
from permafrost.core.option_models import read
from permafrost.core.specification import SPLITS
from permafrost.core.stores import Store
from permafrost.data.store.card import read_card
from permafrost.data.store.prepare import PrepareSpec, prepare
from permafrost.features.specification import ExtractSpec, Running
from permafrost.interface.fitting import InputError
from permafrost.interface.given import as_list
from permafrost.plan.catalogue import Catalogue, catalogue_folders, result_fields
from permafrost.plan.options import extraction_of
from permafrost.plan.resources import reading_threads
from permafrost.plan.validation import problems

if TYPE_CHECKING:
    from torch import nn

_NAME, _IMAGES = "given", "images"
CATALOGUES = (f"{MARK}/config", "config")
# modules in use by `extract`; an entry of a backbone refers to them by name
_MODULES: dict[str, nn.Module] = {}


@explained()
def extract(
    backbone: str | Mapping | nn.Module,
    images,
    *,
    bands: Sequence[str] = ("red", "green", "blue"),
    sensor: str = "rgb",
    units: Mapping | str = "uint8",
    reference=None,
    input: Mapping | None = None,
    size: int | None = None,
    batch_size: int = 64,
    precision: str = "fp32",
    device: str = "auto",
    catalogues: Sequence = CATALOGUES,
    progress: bool = False,
) -> np.ndarray:
    """Features of images from a frozen backbone.

    Parameters
    ----------
    backbone : a name in the catalogues; ``timm:MODEL`` with pretrained weights; an entry as in
        YAML; or a module that takes float32 (B, C, H, W), see `config/backbones/template.py` for
        its output.
    images : (N, C, H, W), of uint8, uint16, int16, float32 or a similar type, with channels as in
        `bands`.
    bands, sensor, units : as in a dataset's entry; `units` may be the name of one unit.
    reference : images whose statistics are used if the backbone is normalised by its dataset; by
        default `images`. Benchmarks use those of the training split.
    input : the backbone's input, as in an entry; default of modules and timm: red, green and blue.
    size : pixels that images are resized to, unless the backbone's entry sets a size.
    batch_size : images per forward pass.
    precision : ``fp32``, ``tf32``, ``bf16`` or ``fp16``.
    device : ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
    catalogues : folders of entries to look up names in; ``{permafrost}`` is the workflow's folder.
    progress : print the progress.

    Returns
    -------
    (N, K) float32, in the order of the images.

    Raises
    ------
    PermafrostError : errors that would also stop a run, such as missing bands, weights that do not
        fit, or NaN.
    """
    import torch

    from permafrost.features.extract import extract as extract_stores

    bands = as_list(bands)
    rows = [
        _checked(one, len(bands), what, units)
        for what, one in (("images", images), ("reference", reference))
        if one is not None or what == "images"
    ]
    keep_freed_memory()
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(tempfile.TemporaryDirectory(prefix="permafrost-extract-"))
        if not progress:
            stack.enter_context(_silence())
        folder = Path(made)
        units = {"unit": units} if isinstance(units, str) else dict(units)
        about = {"sensor": sensor, "bands": list(bands), "units": units}
        card = _prepare(rows, about, folder)
        try:
            own = _entry(backbone, input)
            known = Catalogue("backbone", [] if own else _folders(catalogues), own)
            entry = known.entry(_NAME if own else str(backbone))
            options = {"size": size, "precision": precision, "dtype": "float32"}
            entry, extraction = extraction_of(card.task, result_fields(entry), _filled(options))
            spec = {
                "stage": "extract",
                "dataset": _IMAGES,
                "backbone": _NAME if own else str(backbone),
                "entry": entry,
                "extraction": extraction,
                "inputs": {"images": card.fingerprint},
            }
            splits = {split: folder / f"{split}.zarr" for split in ("train", "test")}
            outputs = {split: folder / f"features-{split}.zarr" for split in splits}
            extract_stores(
                read(ExtractSpec, spec, where="extract"),
                images=splits,
                card=folder / "card.json",
                outputs={"test": outputs["test"]},
                fingerprint=card.fingerprint,
                running=Running(
                    device=device,
                    batch_size=batch_size,
                    workers=reading_threads(None, torch.get_num_threads()),
                ),
            )
        finally:
            _MODULES.clear()
        return _in_order(outputs["test"], len(rows[0]))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppress output; warnings are issued afterwards."""
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(record=True) as caught,
        ):
            yield
    finally:
        for one in caught:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _folders(catalogues: Sequence) -> list[Path]:
    """The catalogue folders, each once; missing default folders are omitted."""
    folders = catalogue_folders({"catalogues": [str(one) for one in catalogues]}, Path.cwd())
    if tuple(catalogues) == CATALOGUES:
        folders = [folder for folder in folders if folder.is_dir()]
    return folders


def given_module(inputs) -> nn.Module:
    """Entry point that returns the module passed to `extract`."""
    return _MODULES[_NAME]


def _checked(images, channels: int, what: str, units: Mapping | str) -> np.ndarray:
    if isinstance(images, str | Path):
        raise InputError(
            f"{what} is a path", where=images, remedy="read the images into one array first"
        )
    try:
        images = np.asarray(images)
    except ValueError as error:
        raise InputError(
            f"{what} is not an array ({first_line(error)})", remedy="give images of one size"
        ) from error
    if images.ndim != 4 or 0 in images.shape:
        raise InputError(
            f"{what} have the shape {images.shape}",
            remedy="give (number, channels, height, width)",
        )
    if images.shape[1] != channels:
        last = images.shape[3] == channels
        raise InputError(
            f"{what} have {images.shape[1]} channels for {channels} bands",
            remedy=f"put the channels second: {what}.transpose(0, 3, 1, 2)"
            if last
            else "name the channels in their order: bands=[…]",
        )
    unit = units if isinstance(units, str) else units.get("unit")
    if unit == "uint8" and images.dtype != np.uint8:
        raise InputError(
            f"{what} are {images.dtype}, and units say uint8",
            remedy="give uint8, or units='reflectance' or another unit of the values",
        )
    # TIFF or stores do not support these types
    stored = {"float64": np.float32, "bool": np.uint8}.get(images.dtype.name, images.dtype)
    return images.astype(stored, copy=False)


def _entry(backbone, input: Mapping | None) -> dict[str, dict]:
    """Name -> entry of a backbone that is not in the catalogues; ``{}`` for a catalogue's name."""
    more = {} if input is None else {"input": dict(input)}
    if isinstance(backbone, Mapping):
        return {_NAME: {**backbone, **more}}
    if isinstance(backbone, str):
        kind, _, model = backbone.partition(":")
        if kind == "timm" and model:
            rgb = {"bands": "rgb", "normalization": "weights"}
            weights = {"source": "pretrained"}
            return {_NAME: {"kind": kind, "model": model, "weights": weights, "input": rgb, **more}}
        if input is not None:
            raise InputError(f"input is given for {backbone!r}, whose entry has its own")
        return {}
    _MODULES[_NAME] = backbone
    return {_NAME: {"kind": "entrypoint", "entrypoint": f"{__name__}:given_module", **more}}


def _prepare(rows: list[np.ndarray], about: dict, folder: Path):
    """Write image stores of the images (test) and the reference (train); returns their card."""
    # a dataset needs different targets, so each image gets its number, and a single one is doubled
    train = rows[-1] if len(rows[-1]) > 1 else np.repeat(rows[-1], 2, axis=0)
    splits = [("test", rows[0]), ("train", train), ("val", train[:1])]
    with (folder / "images.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file", "split", "number"])
        for split, images in splits:
            for number, image in enumerate(images):
                name = f"{split}-{number:09d}.tif"
                _write_tiff(folder / name, image)
                writer.writerow([name, split, number])
    entry = {
        "task": "regression",
        "source": {
            "kind": "table",
            "table": str(folder / "images.csv"),
            "images": str(folder),
            "path": "file",
            "target": "number",
            "split": "split",
        },
        "splits": {"method": "given"},
        **about,
    }
    entry = result_fields(Catalogue("dataset", [], {_IMAGES: entry}).entry(_IMAGES))
    prepare(
        PrepareSpec(dataset=_IMAGES, entry=entry),
        outputs={split: folder / f"{split}.zarr" for split in SPLITS},
        card_path=folder / "card.json",
        fingerprint=fingerprint("extract", about),
    )
    return read_card(folder / "card.json")


def _write_tiff(path: Path, image: np.ndarray) -> None:
    """Write a (C, H, W) image without a georeference."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    count, height, width = image.shape
    form = {"driver": "GTiff", "photometric": "minisblack", "alpha": "no", "dtype": image.dtype}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", count=count, height=height, width=width, **form) as dataset:
            dataset.write(image)


def _filled(options: dict) -> dict:
    """Options of extraction, with the schema's defaults; invalid ones are refused."""
    complete = {"extraction": options}
    wrong = [text for text in problems(complete, "config") if text.startswith("extraction")]
    if wrong:
        raise PermafrostError(wrong[0], where="extract")
    return complete["extraction"]


def _in_order(store: Path, count: int) -> np.ndarray:
    found = Store(store)
    names = found.samples(["sample_id"])["sample_id"].to_pylist()
    order = np.argsort(names)
    if len(names) != count:
        raise PermafrostError(f"{len(names)} features of {count} images", where=store)
    return found.read("embeddings")[order].astype(np.float32, copy=False)
