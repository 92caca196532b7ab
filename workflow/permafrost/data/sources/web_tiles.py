"""Locations and groups of web map tiles, from x, y and zoom in their names.

Tile (x, y) of zoom z is one of 2^z by 2^z squares of the Web-Mercator world, x from 180° W to the
east and y from 85.05° N to the south; tile (x >> k, y >> k) of zoom z - k contains it. Source:
https://wiki.openstreetmap.org/wiki/Slippy_map_tilenames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from permafrost.core.errors import PermafrostError
from permafrost.data.sources.options import WebTileNames

_PARTS = ("x", "y", "z")


@dataclass(frozen=True)
class WebTile:
    """Tile `x`, `y` of zoom `z`."""

    x: int
    y: int
    z: int

    def above(self, zoom: int) -> WebTile:
        """The tile of a smaller zoom that contains this one."""
        return WebTile(self.x >> (self.z - zoom), self.y >> (self.z - zoom), zoom)

    def lonlat(self) -> tuple[float, float]:
        """Longitude and latitude of its centre in degrees."""
        side = 2**self.z
        lat = math.atan(math.sinh(math.pi * (1 - 2 * (self.y + 0.5) / side)))
        return (self.x + 0.5) / side * 360 - 180, math.degrees(lat)

    def __str__(self) -> str:
        return f"{self.z}/{self.x}/{self.y}"


def web_tiles(
    names: Sequence[str], options: WebTileNames, *, where: object
) -> list[tuple[WebTile, str]]:
    """The tile of each name, and its group: the tile of ``group_zoom`` that contains it.

    Tiles of several zooms may show the same area, so a group must be at least as large as the
    largest tile; without ``group_zoom``, it is that large.

    Raises
    ------
    PermafrostError : a name without the pattern, a tile that does not exist, a group smaller than a tile.
    """
    pattern = _expression(options.pattern, where)
    found = [pattern.search(name) for name in names]
    tiles = cast(
        "list[WebTile]",
        [match and WebTile(*(int(match[part]) for part in _PARTS)) for match in found],
    )
    wrong = [n for n, t in zip(names, tiles, strict=True) if t is None or max(t.x, t.y) >= 2**t.z]
    if wrong:
        raise PermafrostError(
            f"{len(wrong)} names hold no tile of a web map by {options.pattern!r}:"
            f" {', '.join(wrong[:5])}",
            where=where,
            remedy="correct web_tiles: pattern",
        )
    zoom = options.group_zoom
    if zoom is None:
        zoom = min((tile.z for tile in tiles), default=0)
    smaller = [name for name, tile in zip(names, tiles, strict=True) if tile.z < zoom]
    if smaller:
        raise PermafrostError(
            f"{len(smaller)} tiles are larger than groups of zoom {zoom}: {', '.join(smaller[:5])}",
            where=where,
            remedy="use a smaller web_tiles: group_zoom",
        )
    return [(tile, str(tile.above(zoom))) for tile in tiles]


def _expression(pattern: str, where: object) -> re.Pattern:
    pieces = re.split(r"<(\w+)>", pattern)
    if sorted(pieces[1::2]) != sorted(_PARTS):
        raise PermafrostError(
            f"web_tiles: pattern {pattern!r} does not name <x>, <y> and <z>, once each",
            where=where,
            remedy="write for example OAM-<x>-<y>-<z>",
        )
    texts = [re.escape(piece) for piece in pieces]
    # 22 is the highest zoom in use; longer numbers mean something else
    texts[1::2] = [f"(?P<{part}>[0-9]{{1,{2 if part == 'z' else 8}}})" for part in pieces[1::2]]
    return re.compile(rf"(?<![0-9]){''.join(texts)}(?![0-9])")
