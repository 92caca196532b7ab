"""Readers of the library for any bytes; `tests/fuzz` tries them, and the suite replays what was found.

Each module below has `READERS`, name to `Reader`. A reader gives a value, or raises `PermafrostError` or
`UnreadableImage`; everything else is a finding, see `bounds.attempt`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
# modules are imported one at a time: some need torch
_MODULES = {
    "annotations": "codec polygons truth predictions edits crowns manifest panoptic",
    "pictures": "image tiff window mask raster colours map geobench-array geobench-pickle"
    " evaluated-raster",
    "sources": "folder coco voc yolo points deepforest csv parquet tar stac zarr tortilla geobench"
    " shapes shapefile scene zip oriented-voc hrsc dota cvat vectors",
    "results": "table predictions-table card store plan published",
    "embeddings": "embedding-table embedding-csv embedding-raster",
    "settings": "yaml catalogue configuration suite",
    "archives": "unpack restore",
    "weights": "safetensors checkpoint convert",
}
NAMES = {name: module for module, names in _MODULES.items() for name in names.split()}


@dataclass(frozen=True)
class Reader:
    """What is tried.

    Parameters
    ----------
    read : reads bytes.
    seeds : good inputs.
    words : texts that the format knows.
    accepted : further exceptions that it documents.
    """

    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[str, ...] = ()
    accepted: tuple[type[Exception], ...] = ()


def reader_of(name: str) -> Reader:
    """The reader of that name."""
    return importlib.import_module(f"helpers.fuzzing.{NAMES[name]}").READERS[name]


def kept(name: str) -> list[Path]:
    """Inputs in the repository: findings, and inputs that reached what no other did."""
    return sorted(path for path in (CORPUS / name).glob("*") if path.is_file())
