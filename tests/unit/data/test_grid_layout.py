"""Where tiles lie: all that fit, none across blocks, no pixel in two of them; far places cost nothing."""

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.files.windows import Window
from permafrost.data.sources import grid_layout
from permafrost.data.sources.grid_layout import Axis, Grid, cut, region, shared_pixels


def every_tile(axis: Axis) -> list[tuple[int, int]]:
    """First pixel and block of every tile along an axis, the plain way."""
    side = axis.block or axis.stop - axis.start
    count = -(-(axis.stop - axis.start) // side)
    found = []
    for block in range(count):
        begin = axis.start + block * side + (axis.margin if block > 0 else 0)
        end = min(axis.start + (block + 1) * side, axis.stop)
        end -= axis.margin if block < count - 1 else 0
        found += [(x, block) for x in range(begin, end - axis.size + 1, axis.stride)]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_an_axis_finds_the_tiles_that_share_pixels_with_an_interval(seed):
    rng = np.random.default_rng(seed)
    start, size = int(rng.integers(0, 20)), int(rng.integers(1, 12))
    axis = Axis(
        start,
        start + int(rng.integers(1, 200)),
        size,
        int(rng.integers(1, 15)),
        None if seed % 4 == 0 else int(rng.integers(size, 50)),
        int(rng.integers(0, 4)),
    )
    low = float(rng.uniform(-20, 220))
    high = low + float(rng.uniform(0, 120))
    starts, blocks = axis.tiles(low, high)
    expected = [(x, block) for x, block in every_tile(axis) if x < high and x + size > low]
    assert list(zip(starts.tolist(), blocks.tolist(), strict=True)) == expected


def painted(tiles, shape) -> np.ndarray:
    """(H, W) the number of the block that each pixel's tiles are of, -1 without one; two blocks are a failure."""
    owner = np.full(shape, -1)
    names = np.unique(tiles.blocks, axis=0, return_inverse=True)[1].ravel()
    for index in range(len(tiles)):
        part = tiles.window(index).of(owner)
        assert ((part == -1) | (part == names[index])).all()
        part[:] = names[index]
    return owner


@pytest.mark.parametrize("stride", [3, 8, 11])
@pytest.mark.parametrize("margin", [0, 2])
def test_no_pixel_lies_in_tiles_of_two_blocks_and_margins_keep_them_apart(stride, margin):
    across, down = (Axis(0, length, 8, stride, 27, margin) for length in (150, 110))
    tiles = cut(across, down, [(0, 0, 150, 110)], where=None)
    owner = painted(tiles, (110, 150))
    assert len(np.unique(tiles.blocks, axis=0)) == 6 * 4 or margin
    if margin:
        # next to every pixel of a block, so many pixels in any direction are its own or nobody's
        for distance in range(1, 2 * margin + 1):
            for one, other in (
                (owner[:, :-distance], owner[:, distance:]),
                (owner[:-distance], owner[distance:]),
            ):
                assert ((one == other) | (one == -1) | (other == -1)).all()


def test_tiles_of_overlapping_scenes_are_listed_once_and_row_by_row():
    axis = Axis(0, 64, 16, 16)
    tiles = cut(axis, axis, [(0, 0, 40, 40), (20, 20, 64, 64)], where=None)
    corners = [tuple(corner) for corner in tiles.corners.tolist()]
    assert corners == sorted(set(corners), key=lambda corner: corner[::-1])
    assert set(corners) == {(x, y) for x in range(0, 64, 16) for y in range(0, 64, 16)} - {
        (48, 0),
        (0, 48),
    }


def test_what_lies_between_far_scenes_costs_nothing():
    # all tiles of such a row would not fit into memory
    axis = Axis(0, 10**13, 16, 16)
    ends = [(0, 0, 32, 32), (10**13 - 32, 10**13 - 32, 10**13, 10**13)]
    assert len(cut(axis, axis, ends, where=None)) == 8


def test_too_many_tiles_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(grid_layout, "MOST_TILES", 100)
    axis = Axis(0, 176, 16, 16)
    with pytest.raises(PermafrostError, match="more than 100 tiles"):
        cut(axis, axis, [(0, 0, 176, 176)], where=None)


GRID = Grid("EPSG:32631", 500_000.0, 5_000_000.0, (10.0, 20.0), 300, 200)


def test_bounds_and_pixels_are_each_others_inverse():
    window = Window(30, 40, 16, 8)
    assert GRID.bounds(window) == (500_300.0, 4_999_040.0, 500_460.0, 4_999_200.0)
    assert GRID.pixels(GRID.bounds(window)) == window.bounds


def test_a_region_holds_whole_pixels_only():
    assert region(GRID, (500_001, 4_999_950, 500_050, 5_000_000)) == (1, 0, 5, 2)
    assert region(GRID, (0, 0, 10**9, 10**9)) == (0, 0, 300, 200)


def test_pixels_are_measured_in_metres_whatever_the_unit():
    assert GRID.metres() == (10.0, 20.0)
    degrees = Grid("EPSG:4326", 0.0, 60.5, (0.001, 0.001), 10, 1000)
    np.testing.assert_allclose(degrees.metres(), (111.195 / 2, 111.195), rtol=1e-3)
    feet = Grid("EPSG:2263", 0.0, 0.0, (1.0, 1.0), 10, 10)
    np.testing.assert_allclose(feet.metres(), (0.3048, 0.3048), rtol=1e-4)


def test_a_tile_meets_what_it_shares_an_area_with_and_not_what_it_touches():
    import shapely

    axis = Axis(0, 64, 16, 16)
    tiles = cut(axis, axis, [(0, 0, 64, 64)], where=None)
    met = tiles.take(tiles.meeting(shapely.box([0, 40], [0, 40], [32, 41], [16, 41])))
    assert sorted(map(tuple, met.corners.tolist())) == [(0, 0), (16, 0), (32, 32)]


def test_parts_that_share_a_pixel_are_named_and_those_that_touch_are_not():
    axis = Axis(0, 64, 16, 16)
    left = cut(axis, axis, [(0, 0, 16, 64)], where=None)
    right = cut(axis, axis, [(16, 0, 64, 64)], where=None)
    assert shared_pixels({"train": left, "test": right}) is None
    moved = cut(Axis(15, 64, 16, 16), axis, [(0, 0, 64, 64)], where=None)
    assert shared_pixels({"train": left, "val": right, "test": moved}) == ("train", "test")
