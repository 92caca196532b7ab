"""Average precision of points, by hand and against a matching written out."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.objects import all_crowd, predictions, repeated, without
from permafrost.core.errors import PermafrostError
from permafrost.metrics.objects.point_precision import (
    FoundPoints,
    TruePoints,
    point_average_precision,
)

ONE = np.array([[5.0, 5.0]])


def average_precision(truths, detections, scores, **options):
    """Of one class."""
    crowd = options.pop("crowd", [np.zeros(len(points), bool) for points in truths])
    pairs = [zip(truths, crowd, strict=True), zip(detections, scores, strict=True)]
    kinds = (TruePoints, FoundPoints)
    images = [
        [kind(points, np.zeros(len(points), int), column) for points, column in each]
        for kind, each in zip(kinds, pairs, strict=True)
    ]
    value = point_average_precision(*images, **{"classes": 1, "distance": 10.0} | options)[0]
    # COCO divides by a little more than the number of detections
    return round(value, 12)


def brute_force(found, label, distance) -> float:
    """Loops over everything, with a precision-recall curve read point by point."""
    entries, total = [], 0
    for number, (one, made) in enumerate(zip(found.objects, found.detections, strict=True)):
        mine = [p for p, k, c in zip(one.centres, one.classes, one.crowd) if k == label and not c]  # noqa: B905
        crowds = [p for p, k, c in zip(one.centres, one.classes, one.crowd) if k == label and c]  # noqa: B905
        total += len(mine)
        free = list(range(len(mine)))
        own = [place for place in range(len(made)) if made.classes[place] == label]
        for place in sorted(own, key=lambda place: -made.scores[place]):
            point = made.centres[place]
            near = [(np.linalg.norm(mine[t] - point), t) for t in free]
            best = min(near, default=(np.inf, -1))
            if best[0] < distance:
                free.remove(best[1])
                entries.append((-made.scores[place], number, place, True))
            elif all(np.linalg.norm(crowd - point) >= distance for crowd in crowds):
                entries.append((-made.scores[place], number, place, False))
    if not total:
        return float("nan")
    hits, curve = 0, []
    for rank, (*_, hit) in enumerate(sorted(entries), 1):
        hits += hit
        curve.append((hits / total, hits / rank))
    grid = [step / 100 for step in range(101)]
    return np.mean([max((p for r, p in curve if r >= want - 1e-12), default=0) for want in grid])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ties", [False, True])
def test_it_equals_a_brute_force(seed, ties):
    found = predictions("point_detection", seed=seed, ties=ties, objects=10)
    values = found.evaluate()
    expected = [brute_force(found, label, 10.0) for label in range(3)]
    np.testing.assert_allclose(values["class_point_ap"], expected, rtol=1e-12)
    assert values["point_ap"] == pytest.approx(np.nanmean(expected), rel=1e-12)
    assert 0.1 < values["point_ap"] < 0.9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [lambda p: p, lambda p: without(p, detections=True), all_crowd])
def test_the_value_is_the_replicate_of_images_drawn_once_bit_by_bit(seed, make):
    found = make(predictions("point_detection", seed=seed, ties=True, objects=10))
    counts = np.random.default_rng(seed).poisson(1, (len(found), 9))
    counts[:, 4], counts[:, 5] = 1, 0
    drawn = found.scores.curve_replicates(counts, {"point_ap"})
    values = found.scores.curve_values()
    assert np.array_equal(drawn["class_point_ap"][:, 4], values["class_point_ap"], equal_nan=True)
    assert np.array_equal(drawn["point_ap"][4], values["point_ap"], equal_nan=True)
    assert np.isnan(drawn["class_point_ap"][:, 5]).all()


@pytest.mark.parametrize("seed", range(3))
def test_weighing_equals_copying_the_images(seed):
    found = predictions("point_detection", seed=seed, objects=10)
    counts = np.random.default_rng(seed).poisson(1, len(found))
    drawn = found.scores.curve_replicates(counts[:, None], {"point_ap"})
    again = repeated(found, counts).evaluate()
    np.testing.assert_allclose(
        drawn["class_point_ap"][:, 0], again["class_point_ap"], rtol=0, atol=1e-13
    )


def test_by_hand():
    # a hit, a false alarm, a hit of three truths: precision 1 up to a third, 2/3 up to two thirds
    truths = [np.array([[0.0, 0], [50, 0], [100, 0]])]
    detections = [np.array([[1.0, 0], [200, 0], [51, 0]])]
    found = average_precision(truths, detections, [[0.9, 0.8, 0.7]])
    assert found == pytest.approx((34 * 1 + 33 * 2 / 3) / 101, abs=1e-12)


def test_the_distance_is_strict_and_the_better_score_comes_first():
    assert average_precision([ONE], [ONE + [10, 0]], [[0.5]]) == 0
    assert average_precision([ONE], [ONE + [9.999, 0]], [[0.5]]) == 1
    near, far = ONE + [1, 0], ONE + [5, 0]
    # the far one scores more and takes the truth; the near one is then a false alarm below it
    assert average_precision([ONE], [np.concatenate([near, far])], [[0.5, 0.6]]) == 1
    two = np.concatenate([ONE, ONE + [12, 0]])
    # it takes the nearest truth of two in reach, which leaves the other to the second
    assert average_precision([two], [np.concatenate([ONE + [5, 0], two[1:]])], [[0.9, 0.8]]) == 1


def test_images_do_not_share_truths_and_empty_ones_are_fine():
    nothing = np.empty((0, 2))
    assert average_precision([ONE, nothing], [nothing, ONE], [[], [0.5]]) == 0
    assert average_precision([ONE, nothing], [ONE, nothing], [[0.5], []]) == 1
    assert np.isnan(average_precision([nothing], [ONE], [[0.5]]))
    assert np.isnan(average_precision([], [], []))
    assert average_precision([ONE], [nothing], [[]]) == 0


def test_a_crowd_excuses_what_is_near_it_and_finds_nothing_else():
    beside = ONE + [3, 0]
    both = [np.concatenate([ONE, ONE + [100, 0]])]
    detections = [np.concatenate([beside, beside, ONE + [100, 0]])]
    scores = [[0.9, 0.8, 0.5]]
    assert average_precision(both, detections, scores, crowd=[[True, False]]) == 1
    assert average_precision(both, detections, scores) < 1
    # a crowd takes no detection away from a truth
    assert average_precision([np.repeat(ONE, 2, 0)], [ONE], [[0.5]], crowd=[[True, False]]) == 1
    assert np.isnan(average_precision([ONE], [ONE], [[0.5]], crowd=[[True]]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": 0.0}, "not above 0"),
        ({"distance": np.nan}, "not above 0"),
        ({"detections": [FoundPoints(ONE, [0], [0.5, 0.5])]}, "scores of image 0 are not one per point"),
        ({"detections": [FoundPoints(ONE, [0, 0], [0.5])]}, "classes of image 0 are not one per point"),
        ({"truth": [TruePoints(ONE, [0], [])]}, "crowd of image 0 are not one per point"),
        ({"detections": [FoundPoints(ONE, [0], [np.nan])]}, "score that is not finite"),
        ({"detections": [FoundPoints([[np.inf, 1.0]], [0], [0.5])]}, "x or y is not finite"),
        ({"truth": [TruePoints(ONE, [2], [False])]}, "class id outside of 0 … 1"),
        ({"detections": [FoundPoints(ONE, [-1], [0.5])]}, "class id outside"),
        ({"detections": [FoundPoints(ONE, [0], [0.5])] * 2}, "on 1 images"),
    ],
)  # fmt: skip
def test_what_cannot_be_ranked_is_refused(change, message):
    arguments = {
        "truth": [TruePoints(ONE, [0], [False])],
        "detections": [FoundPoints(ONE, [0], [0.5])],
        "classes": 2,
        "distance": 10.0,
    } | change
    with pytest.raises(PermafrostError, match=message):
        point_average_precision(**arguments)
