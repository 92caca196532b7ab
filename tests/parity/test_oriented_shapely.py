"""IoU of oriented boxes equals shapely's, and an exact one in fractions where shapely's own rounding is larger."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import shapely
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import corners_of, uncrossed
from permafrost.metrics.detection.kernels.oriented import oriented_iou, pair_iou


def rectangles(random, count: int, *, extent=60.0, size=40.0) -> np.ndarray:
    numbers = np.column_stack(
        [
            random.uniform(0, extent, (count, 2)),
            random.uniform(0.5, size, (count, 2)),
            random.uniform(-np.pi, np.pi, count),
        ]
    )
    return corners_of(numbers, "le90")


def quadrilaterals(random, count: int) -> np.ndarray:
    """Convex ones and ones with a dent, on whole pixels in half of the cases, so that edges coincide."""
    corners = random.uniform(0, 40, (count, 4, 2))
    corners[: count // 2] = np.round(corners[: count // 2] / 4) * 4
    return uncrossed(corners)[0]


def by_shapely(first: np.ndarray, second: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    a, b = shapely.polygons(first), shapely.polygons(second)
    shared = shapely.area(shapely.intersection(a, b))
    union = np.where(crowd, shapely.area(a), shapely.area(a) + shapely.area(b) - shared)
    return np.divide(shared, union, out=np.zeros(len(a)), where=union > 0)


def exact(first, second) -> Fraction:
    """IoU of two convex quadrilaterals without any rounding: one clipped by the edges of the other."""

    def area(points) -> Fraction:
        turned = points[1:] + points[:1]
        return (
            sum(
                (p[0] * q[1] - p[1] * q[0] for p, q in zip(points, turned, strict=True)),
                Fraction(0),
            )
            / 2
        )

    def around(points):
        points = [tuple(map(Fraction, point)) for point in points.tolist()]
        return points if area(points) > 0 else points[::-1]

    a, b = around(first), around(second)
    clipped = a
    for start, end in zip(b, b[1:] + b[:1], strict=True):
        side = [
            (end[0] - start[0]) * (p[1] - start[1]) - (end[1] - start[1]) * (p[0] - start[0])
            for p in clipped
        ]
        kept = []
        for i, p in enumerate(clipped):
            q, here, there = clipped[i - 1], side[i], side[i - 1]
            if here * there < 0:
                t = there / (there - here)
                kept.append((q[0] + t * (p[0] - q[0]), q[1] + t * (p[1] - q[1])))
            if here >= 0:
                kept.append(p)
        clipped = kept
    shared = area(clipped) if clipped else Fraction(0)
    return shared / (area(a) + area(b) - shared)


CASES = {
    "rectangles": rectangles,
    "thin": lambda random, n: rectangles(random, n) * [1, 1e-2],
    "any quadrilateral": quadrilaterals,
    "whole pixels": lambda random, n: np.round(rectangles(random, n)),
}


@pytest.mark.parametrize("name", CASES)
def test_random_pairs(name):
    random = np.random.default_rng(len(name))
    count = 30_000
    first, second = (uncrossed(CASES[name](random, count))[0] for _ in range(2))
    # shapely says nothing of outlines that touch themselves
    fine = shapely.is_valid(shapely.polygons(first)) & shapely.is_valid(shapely.polygons(second))
    first, second = first[fine], second[fine]
    assert len(first) > 0.9 * count
    crowd = random.random(len(first)) < 0.3
    every = np.arange(len(first))
    found = pair_iou(first, second, crowd, every, every)
    expected = by_shapely(first, second, crowd)
    assert 0.2 < (expected > 0).mean() < 1 or name == "thin"
    assert found == pytest.approx(expected, abs=1e-11)
    assert ((found >= 0) & (found <= 1)).all()
    other = pair_iou(second, first, np.zeros(len(first), bool), every, every)
    assert other[~crowd] == pytest.approx(found[~crowd], abs=1e-11)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e-12, 1e-9, 1e-6])
def test_nearly_equal_boxes_by_exact_numbers(shift, offset):
    random = np.random.default_rng(5)
    first = rectangles(random, 60) + offset
    second = first + random.normal(0, 1, first.shape) * shift
    # and turned by as little, about its own corner
    second[::2] = first[::2] + (first[::2] - first[::2, :1])[..., ::-1] * [shift, -shift]
    second = np.roll(second, 1, axis=1)
    every = np.arange(len(first))
    found = pair_iou(first, second, np.zeros(len(first), bool), every, every)
    for place in every:
        assert abs(Fraction(found[place]) - exact(first[place], second[place])) < 1e-14


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e7])
def test_tiny_and_huge_boxes_by_exact_numbers(scale):
    random = np.random.default_rng(6)
    first, second = rectangles(random, 60) * scale, rectangles(random, 60) * scale
    first[::3] = np.round(first[::3] / scale) * scale
    found = np.diagonal(oriented_iou(first, second))
    for place in range(len(first)):
        assert abs(Fraction(found[place]) - exact(first[place], second[place])) < 1e-14


SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4]]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (SQUARE, 1),
        (np.roll(SQUARE, 2, axis=0)[::-1], 1),
        ([[4, 0], [8, 0], [8, 4], [4, 4]], 0),  # a common edge
        ([[4, 4], [6, 4], [6, 6], [4, 6]], 0),  # a common corner
        ([[0, 0], [2, 0], [2, 4], [0, 4]], 1 / 2),  # three common edges
        ([[2, 0], [4, 2], [2, 4], [0, 2]], 1 / 2),  # corners on the edges
        ([[1, 1], [3, 1], [3, 3], [1, 3]], 1 / 4),  # inside
        ([[0, 0], [4, 4], [4, 0], [0, 4]], 1),  # crosses itself: its hull
        ([[0, 0], [4, 0], [1, 1], [0, 4]], 1 / 4),  # a dent
        ([[1, 1], [3, 3], [3, 3], [1, 1]], 0),  # a line
        ([[2, 2], [2, 2], [2, 2], [2, 2]], 0),  # a point
        ([[0, 0], [4, 0], [4, 4], [4, 4]], 1 / 2),  # a triangle
    ],
)
def test_known_shapes(other, expected):
    square, other = np.array([SQUARE], float), np.array([other], float)
    for move in (0, 1e6):
        assert oriented_iou(square + move, other + move)[0, 0] == pytest.approx(expected, abs=2e-16)
        assert oriented_iou(other + move, square + move)[0, 0] == pytest.approx(expected, abs=2e-16)


def test_equal_boxes_of_any_angle_have_exactly_one():
    boxes = rectangles(np.random.default_rng(2), 300) + 1e5
    assert (np.diagonal(oriented_iou(boxes, np.roll(boxes, 3, axis=1)[:, ::-1])) == 1).all()


def test_a_crowd_takes_the_area_of_the_detection():
    square, half = np.array([SQUARE], float), np.array([SQUARE], float) / 2
    assert oriented_iou(half, square, [True])[0, 0] == 1
    assert oriented_iou(square, half, [True])[0, 0] == 1 / 4
    nothing = np.array([[[1, 1], [3, 3], [3, 3], [1, 1]]], float)
    assert oriented_iou(nothing, square, [True])[0, 0] == 0 == oriented_iou(nothing, nothing)[0, 0]


def test_empty_sides_and_numbers_that_are_not_finite():
    assert oriented_iou([], [SQUARE]).shape == (0, 1)
    assert oriented_iou([SQUARE, SQUARE], np.empty((0, 4, 2))).shape == (2, 0)
    with pytest.raises(PermafrostError, match="box 0: a corner is not finite"):
        oriented_iou(np.full((1, 4, 2), np.nan), [SQUARE])
