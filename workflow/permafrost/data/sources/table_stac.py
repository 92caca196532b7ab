"""STAC items as a table: one row per item, whose assets are files next to it."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from permafrost.core.identity import unique_keys
from permafrost.data.sources.table_files import Cell, TableFile, flat

ENDINGS = (".json", ".geojson")


def read_items(path: Path, root: Path | None, names: Collection[str]) -> TableFile:
    """The items of a file: an Item or a FeatureCollection; none for a Catalog or Collection.

    Columns are ``id``, ``collection``, ``lon`` and ``lat`` of the centre of its bounding box,
    ``properties.KEY`` and ``assets.KEY``: the file of each asset.

    Parameters
    ----------
    root : folder of the table, which must contain the assets; None if the table is a single file,
        and assets are relative to it.
    names : the files of that folder.

    Raises
    ------
    ValueError : it is none of these types.
    """
    items = list(_items(json.loads(path.read_text("utf-8-sig"), object_pairs_hook=unique_keys)))
    folder = path.parent.relative_to(root).as_posix() if root else ""
    rows = [dict(_cells(item)) for item in items]
    assets = [
        {f"assets.{key}": _file(href, folder) for key, href in _assets(item)} for item in items
    ]
    if root is None:
        return TableFile(_columns([row | own for row, own in zip(rows, assets, strict=True)]))
    files = _columns(assets)

    def read(column: str, row: int) -> bytes:
        name = files[column][row]
        if name is None:
            raise OSError(f"the item {items[row]['id']} has no {column}")
        if name not in names:
            raise OSError(
                f"the item {items[row]['id']} has {name} for {column}, which is not a file of {root}"
            )
        return (root / name).read_bytes()

    return TableFile(_columns(rows), images=files, read=read if files else None)


def _items(content: Any) -> Iterator[dict]:
    kind = content.get("type") if isinstance(content, dict) else None
    if kind == "FeatureCollection" and isinstance(content.get("features"), list):
        for one in content["features"]:
            yield from _items(one)
    elif kind == "Feature" and isinstance(content.get("assets"), dict) and content.get("id"):
        yield content
    elif kind not in ("Catalog", "Collection"):
        raise ValueError("it is neither an Item of STAC nor a FeatureCollection of them")


def _cells(item: dict) -> Iterator[tuple[str, Cell]]:
    yield "id", str(item["id"])
    yield from flat("collection", item.get("collection"))
    yield from flat("properties", item.get("properties") or {})
    box = item.get("bbox")
    if isinstance(box, list) and len(box) in (4, 6):
        half = len(box) // 2
        west, south, east, north = *map(float, box[:2]), *map(float, box[half : half + 2])
        # across the date line
        east += 360 if east < west else 0
        lon = (west + east) / 2
        yield "lon", str(lon - 360 if lon > 180 else lon)
        yield "lat", str((south + north) / 2)


def _assets(item: dict) -> Iterator[tuple[str, str]]:
    for key, one in item["assets"].items():
        if isinstance(one, dict) and isinstance(one.get("href"), str):
            yield key, one["href"]


def _file(href: str, folder: str) -> str:
    """Path relative to the table's folder; a URL is unchanged."""
    return href if "://" in href else posixpath.normpath(posixpath.join(folder, unquote(href)))


def _columns(rows: list[dict[str, Cell]]) -> dict[str, list[Cell]]:
    return {
        name: [row.get(name) for row in rows] for name in dict.fromkeys(k for r in rows for k in r)
    }
