"""Oriented boxes: conventions, the smallest rectangle, crossings and refusals."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import shapely
from helpers.project import REPOSITORY
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import (
    CONVENTIONS,
    area_of,
    corners_of,
    corners_of_polygons,
    enclosing,
    polygons_of,
    rotated_of,
    uncrossed,
)

# what is written keeps to these ranges, in degrees: bounds, and whether the lower one is included
RANGES = {"le90": (-90, 90), "le135": (-45, 135), "oc": (0, 90), "detectron2": (-90, 90)}
FIVE = [name for name in CONVENTIONS if name != "corners"]


def boxes(count: int, convention: str) -> np.ndarray:
    """Random numbers, among them squares, upright boxes and boxes without width."""
    random = np.random.default_rng(3)
    out = np.column_stack(
        [random.uniform(0, 900, (count, 2)), random.uniform(1, 60, (count, 2)), np.zeros(count)]
    )
    out[::5, 3] = out[::5, 2]
    out[::7, 2] = 0
    angle = random.uniform(-180, 180, count)
    angle[::4] = random.choice([-180, -135, -90, -45, 0, 45, 90, 135, 180], len(angle[::4]))
    out[:, 4] = angle if CONVENTIONS[convention].degrees else np.deg2rad(angle)
    return out


def apart(first: np.ndarray, second: np.ndarray) -> float:
    """Largest distance of a corner from the nearest corner of the other box."""
    return float(np.abs(first[:, :, None] - second[:, None]).sum(-1).min(2).max())


@pytest.mark.parametrize("name", FIVE)
def test_a_convention_describes_the_same_rectangle(name):
    given = corners_of(boxes(4000, name), name)
    written = rotated_of(given, name)
    assert apart(given, corners_of(written, name)) < 1e-9
    low, high = RANGES[name.removesuffix("-degrees")]
    angle = written[:, 4] if CONVENTIONS[name].degrees else np.rad2deg(written[:, 4])
    wide = written[:, 2:4].prod(axis=1) > 0
    if name.startswith("oc"):
        assert (angle > low).all() and (angle <= high).all()
    else:
        assert (angle >= low).all() and (angle < high).all()
        assert (written[wide, 2] >= written[wide, 3] * (1 - 1e-8)).all()
    square = wide & (np.abs(written[:, 2] - written[:, 3]) < 1e-7)
    if not name.startswith("oc"):
        assert (np.abs(angle[square]) <= 45 + 1e-9).all()


@pytest.mark.parametrize(
    ("name", "numbers", "first_edge"),
    [
        # the side of length 4 points down to the right on the screen
        ("le90-degrees", (0, 0, 4, 2, 30), (np.sqrt(12), 2)),
        ("le90", (0, 0, 4, 2, np.pi / 6), (np.sqrt(12), 2)),
        # counter-clockwise: up to the right
        ("detectron2", (0, 0, 4, 2, 30), (np.sqrt(12), -2)),
        ("oc-degrees", (0, 0, 4, 2, 90), (0, 4)),
    ],
)
def test_the_angle_turns_as_the_convention_says(name, numbers, first_edge):
    corners = corners_of([numbers], name)[0]
    assert corners[1] - corners[0] == pytest.approx(first_edge, abs=1e-12)
    # clockwise on the screen, where y points down
    assert shapely.LinearRing(corners * [1, -1]).is_ccw is False


def test_the_same_upright_box_in_all_conventions():
    corners = np.array([[[10, 20], [40, 20], [40, 30], [10, 30]]], float)
    expected = {
        "le90-degrees": (25, 25, 30, 10, 0),
        "le135-degrees": (25, 25, 30, 10, 0),
        "oc-degrees": (25, 25, 10, 30, 90),
        "detectron2": (25, 25, 30, 10, 0),
    }
    for name, numbers in expected.items():
        assert rotated_of(corners, name)[0] == pytest.approx(numbers, abs=1e-12)
    assert rotated_of(corners, "corners")[0].tolist() == [10, 20, 40, 20, 40, 30, 10, 30]


def test_the_smallest_rectangle_of_any_quadrilateral():
    random = np.random.default_rng(0)
    corners = uncrossed(random.uniform(0, 50, (3000, 4, 2)))[0]
    smallest = area_of(corners_of(rotated_of(corners, "le90"), "le90"))
    # every direction of a fine fan bounds the least area from above, and is near it
    angles = np.linspace(0, np.pi / 2, 4001)
    fan = np.inf
    for angle in angles:
        along = corners @ [np.cos(angle), np.sin(angle)]
        across = corners @ [-np.sin(angle), np.cos(angle)]
        fan = np.minimum(fan, np.ptp(along, axis=1) * np.ptp(across, axis=1))
    assert (smallest <= fan + 1e-9).all()
    assert (smallest >= fan * (1 - 0.05) - 0.5).all()
    rectangles = shapely.polygons(corners_of(rotated_of(corners, "le90"), "le90"))
    wider = shapely.buffer(rectangles, 1e-9)
    assert shapely.covers(wider, shapely.polygons(corners)).all()


def test_areas_bounds_and_crossings_are_those_of_shapely():
    random = np.random.default_rng(1)
    raw = random.uniform(0, 50, (5000, 4, 2))
    valid = shapely.is_valid(shapely.polygons(raw))
    corners, crossed = uncrossed(raw)
    assert (crossed == ~valid).all() and crossed.any() and valid.any()
    shapes = shapely.polygons(corners)
    assert shapely.is_valid(shapes).all()
    hulls = shapely.convex_hull(shapely.multipoints(raw))
    assert area_of(corners) == pytest.approx(shapely.area(shapes), rel=1e-12)
    assert area_of(corners)[crossed] == pytest.approx(shapely.area(hulls)[crossed], rel=1e-12)
    assert (corners[valid] == raw[valid]).all()
    assert (enclosing(raw) == shapely.bounds(shapes)).all()
    assert (corners_of(raw.reshape(-1, 8), "corners") == corners).all()
    assert (corners_of_polygons(polygons_of(corners)) == corners).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: corners_of([[0, 0, 1, 1, np.nan]], "le90"),
            "boxes: box 0: a number .* not finite",
        ),
        (
            lambda: corners_of([[0, 0, 1, 1, 0], [0, 0, -1, 1, 0]], "le90"),
            "box 1: a side .* negative",
        ),
        (lambda: corners_of([[0, 0, 1, 1, 45]], "le90"), "full turn.*le90-degrees"),
        (lambda: corners_of([[0, 0, 1, 1]], "le90"), "has 5 numbers, not 4"),
        (lambda: corners_of([[0, 0, 1, 1, 0]], "le9"), "did you mean 'le90'"),
        (lambda: enclosing(np.zeros((2, 8))), r"\(N, 4, 2\), not \(2, 8\)"),
        (lambda: area_of(np.full((1, 4, 2), np.inf)), "box 0: a corner is not finite"),
        (lambda: corners_of_polygons([[[0, 0, 1, 0, 1, 1]]]), "object 0: .*four corners"),
        (lambda: corners_of_polygons([None]), "object 0: .*four corners"),
    ],
)
def test_bad_boxes_are_refused(call, message):
    with pytest.raises(PermafrostError, match=message):
        call()


def test_empty_arrays():
    assert corners_of([], "le90").shape == (0, 4, 2)
    assert rotated_of(np.empty((0, 4, 2)), "oc").shape == (0, 5)
    assert enclosing([]).shape == (0, 4) and area_of([]).shape == (0,)


def test_the_pictures_of_the_documentation_are_those_of_the_code(tmp_path):
    script = REPOSITORY / "docs" / "oriented_pictures.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    made = sorted(tmp_path.iterdir())
    assert len(made) == 4
    for file in made:
        assert file.read_text() == (REPOSITORY / "docs" / "images" / file.name).read_text()
