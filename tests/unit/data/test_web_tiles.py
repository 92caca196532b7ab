"""Tiles of a web map: places against pyproj's Web Mercator, groups against the ground they show."""

from __future__ import annotations

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.sources.web_tiles import WebTile, WebTileNames, web_tiles

OPTIONS = {"pattern": "OAM-<x>-<y>-<z>"}


@pytest.mark.parametrize(
    "tile", [WebTile(0, 0, 0), WebTile(1238424, 1046544, 21), WebTile(17602, 10747, 15)]
)
def test_the_middle_of_a_tile_is_that_of_its_square_in_web_mercator(tile):
    pyproj = pytest.importorskip("pyproj")
    world = 2 * 20037508.342789244
    east = ((tile.x + 0.5) / 2**tile.z - 0.5) * world
    north = (0.5 - (tile.y + 0.5) / 2**tile.z) * world
    expected = pyproj.Transformer.from_crs(3857, 4326, always_xy=True).transform(east, north)
    assert tile.lonlat() == pytest.approx(expected, abs=1e-9)


def test_tiles_of_any_zoom_that_show_the_same_ground_are_one_group():
    names = [
        "OAM-4-6-3.png",
        "OAM-9-13-4.png",
        "OAM-19-27-5.png",
        "OAM-16-24-5.png",
        "OAM-5-6-3.png",
    ]
    groups = [group for _, group in web_tiles(names, WebTileNames(**OPTIONS), where="data")]
    assert groups == ["3/4/6", "3/4/6", "3/4/6", "3/4/6", "3/5/6"]
    coarse = web_tiles(names, WebTileNames(**OPTIONS, group_zoom=2), where="data")
    assert {group for _, group in coarse} == {"2/2/3"}


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("a-1-2-3.png", OPTIONS, "no tile"),
        ("OAM-8-0-3.png", OPTIONS, "no tile"),
        ("OAM-1-2-123.png", OPTIONS, "no tile"),
        ("OAM-1-2-3.png", {**OPTIONS, "group_zoom": 4}, "larger than groups"),
        ("OAM-1-2-3.png", {"pattern": "OAM-<x>-<y>"}, "does not name"),
        ("OAM-1-2-3.png", {"pattern": "<x><x><y><z>"}, "does not name"),
    ],
)
def test_what_is_no_tile_is_refused_by_name(name, options, problem):
    with pytest.raises(PermafrostError, match=problem):
        web_tiles([name], WebTileNames(**options), where="data")
