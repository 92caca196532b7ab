"""Find images of one location: cut from one scene by their names, web map tiles, or neighbours on the ground."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.files.members import folder_prefix
from permafrost.data.labels.splits import joined_blocks
from permafrost.data.proposal.draft import Draft
from permafrost.data.sources.web_tiles import WebTileNames, web_tiles

# kinds of sources whose option `group` is an expression for names
_BY_NAME = ("folder", "coco", "cvat", "deepforest", "dota", "vectors", "voc", "yolo", "points")
_AXIS = r"(?:x|y|row|col|column|r|c|i|j|h|w|left|top|xmin|ymin)[-_]?[0-9]+"
_PIECE = r"(?:p|part|patch|piece|chip|crop|tile|window)[-_]?[0-9]+"
_AXES = rf"[-_.]+{_AXIS}[-_.]*{_AXIS}"
_NUMBERS = r"[-_]+([0-9]+)[-_]+([0-9]+)"
#: text after the name of a scene; the largest scenes first
_CUTS = (rf"(?:[-_.]+{_PIECE})?{_AXES}", _AXES, _NUMBERS, rf"[-_.]+{_PIECE}")
# an expression with more variants would be unreadable
_WAYS = 3
# fewer groups widen intervals and may leave a split without a class
_ENOUGH, _LEAST = 10, 3
# numbers in names are pixel offsets if they are multiples of at least this
_STEP = 16


def keep_places_together(draft: Draft) -> None:
    """Make the scene or the block on the ground the group, if the names show several images of one.

    Does nothing if the files name splits or the draft has a group.
    """
    source = draft.source
    if draft.splits is not None or "group" in source or source["kind"] not in _BY_NAME:
        return
    start = len(folder_prefix(source.get("root", ".").strip(".")))
    names = [name[start:] for name in draft.images]
    if source["kind"] != "folder" and _tiles_of_a_map(draft, names):
        return
    found = [
        (pattern, groups)
        for pattern in _patterns(names, folders=draft.task != "classification")
        if _LEAST <= len(groups := _groups(names, pattern)) < len(names)
    ]
    if not found:
        return
    pattern, groups = next((one for one in found if len(one[1]) >= _ENOUGH), found[-1])
    source["group"] = pattern
    draft.splits = {"method": "group"}
    example = next(name for name in groups if groups[name] > 1)
    draft.note(
        "splits",
        f"names show images cut from {len(groups)} scenes, such as {example} ({groups[example]} images):"
        " group in source keeps each scene in one split",
    )
    if len(groups) < _ENOUGH:
        draft.note("splits", f"{len(groups)} scenes are few: intervals will be wide")
    elif len(found) > 1 and pattern != found[0][0]:
        coarse, scenes = found[0]
        draft.note(
            "splits",
            f"if its {len(scenes)} larger scenes are one place each, use group: '{coarse}'",
        )


def _patterns(names: Sequence[str], *, folders: bool) -> Iterator[str]:
    """Expressions that find the scene in the names, by the text that follows it in most of them."""
    for cut in _CUTS:
        # of more than two numbers, only the last two are offsets
        rest = "(?:[-_]+[a-zA-Z]+)*[.][^./]+$" if cut == _NUMBERS else "[-_.][^/]*$"
        expression = re.compile(rf"^(?:.*/)?([^/]+?)({cut}){rest}", re.I)
        matches = [match for name in names if (match := expression.match(name))]
        if len(matches) * 2 < len(names):
            continue
        if cut == _NUMBERS and not _are_offsets([(m[1], int(m[3]), int(m[4])) for m in matches]):
            continue
        ways = sorted(
            {re.sub("[0-9]+", "[0-9]+", match[2].replace(".", "[.]")) for match in matches}
        )
        if len(ways) > _WAYS:
            continue
        written = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
        if len(matches) == len(names):
            yield rf"([^/]+?){written}{rest}"
        else:
            yield rf"([^/]+?)(?:{written}[^/]*)?[.][^./]+$"
    # if file names are offsets only, their folder is the scene
    alone = re.compile(rf"(?:{_AXIS}[-_]*{_AXIS}|[0-9]+[-_][0-9]+)\.[^./]+", re.I)
    if folders and all("/" in n and alone.fullmatch(n.rpartition("/")[2]) for n in names):
        yield "^(.+)/[^/]*$"


def _are_offsets(found: Sequence[tuple[str, int, int]]) -> bool:
    """Whether two numbers are offsets in a scene: multiples of a step, each with several values."""
    rows, columns = {row for _, row, _ in found}, {column for _, _, column in found}
    step = min(np.gcd.reduce([*rows]), np.gcd.reduce([*columns]))
    return len(rows) > 1 and len(columns) > 1 and step >= _STEP


def _groups(names: Sequence[str], pattern: str) -> Counter[str]:
    expression = re.compile(pattern)
    found = [expression.search(name) for name in names]
    return Counter(match[1] for match in found) if all(found) else Counter()


def _tiles_of_a_map(draft: Draft, names: Sequence[str]) -> bool:
    """Set `web_tiles` if all names hold x, y and zoom of a tile; returns whether they do."""
    for order, mark in product(("xyz", "zxy"), "-_"):
        numbers = mark.join(["([0-9]+)"] * 3)
        found = [re.search(rf"(^|[^0-9/]*)(?<![0-9]){numbers}\.[^./]+$", name) for name in names]
        if not all(found) or len({match[1] for match in found}) > 1:
            continue
        pattern = found[0][1] + mark.join(f"<{part}>" for part in order)
        zooms = [int(match[2 + order.index("z")]) for match in found]
        across = [int(match[2 + order.index("x")]) for match in found]
        # a small number next to two that fit by chance is not a zoom
        if not all(8 <= z <= 22 and x >= 2**z / 64 for z, x in zip(zooms, across, strict=True)):
            continue
        options: dict[str, Any] = {"pattern": pattern}
        for zoom in range(4, min(zooms) + 1):
            options = {"pattern": pattern, "group_zoom": zoom}
            try:
                tiles = web_tiles(names, WebTileNames(**options), where=draft.source["kind"])
            except PermafrostError:
                break
            if len({group for _, group in tiles}) >= _ENOUGH:
                break
        else:
            zoom = min(zooms)
        if not _is_map(names, options):
            continue
        draft.source["web_tiles"] = options
        draft.splits = {"method": "group"}
        draft.note(
            "splits",
            f"names are tiles of a web map (zoom {min(zooms)} to {max(zooms)}): those of one tile of zoom"
            f" {options['group_zoom']} are one group, so that the same ground is never in two splits",
        )
        return True
    return False


def _is_map(names: Sequence[str], options: dict) -> bool:
    try:
        web_tiles(names, WebTileNames(**options), where="names")
    except PermafrostError:
        return False
    return True


def blocks_of(places: np.ndarray, reach_km: float | None) -> tuple[dict, str]:
    """`splits` by square blocks on the ground that keep neighbours together, and a sentence about them.

    Parameters
    ----------
    places : (N, 2) degrees east and north of the images' centres.
    reach_km : images with centres closer than this may overlap; None if their size on the ground is
        unknown.
    """
    north = np.ptp(places[:, 1]) * 111.2
    east = np.ptp(places[:, 0]) * 111.2 * np.cos(np.radians(places[:, 1].mean()))
    extent = max(north, east)
    sides = [float(f"{max(extent / share, 0.01):.2g}") for share in (20, 40, 80, 160)]
    words = f"squares on the ground, %s of the {extent:.3g} km that images span"
    for side, share in zip(sides, ("a twentieth", "a 40th", "an 80th", "a 160th"), strict=True):
        if reach_km is None:
            break
        join = float(f"{max(reach_km, 0.001):.2g}")
        sizes = np.bincount(joined_blocks(places, side, join))
        if len(sizes) >= _ENOUGH and sizes.max() * 2 <= len(places):
            return {"method": "block", "block_km": side, "join_km": join}, (
                f"{words % share}; squares with images nearer than join_km to each other, which touch or overlap,"
                f" are one: {len(sizes)} blocks"
            )
    block = {"method": "block", "block_km": sides[0]}
    if reach_km is None:
        return block, f"{words % 'a twentieth'}"
    apart = joined_blocks(places, sides[0], None)
    return block, (
        f"{words % 'a twentieth'}: {len(set(apart.tolist()))} blocks; images of neighbouring squares may touch, since"
        " they lie side by side over most of the ground"
    )
