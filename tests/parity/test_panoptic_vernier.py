"""Panoptic quality equals vernier's, in both modes.

Of boundaries, vernier's bands are wider than the published ones on some segments of a few pixels; those
are held against brute force instead.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.predictions.panoptic import CATEGORIES, panoptic_case
from permafrost.evaluators.panoptic import evaluate

panoptic = pytest.importorskip("vernier.panoptic")

HEADLINE = [measure + part for part in ("", "_things", "_stuff") for measure in ("pq", "sq", "rq")]


def theirs(case, mode: str):
    (truth, maps), (predictions, others) = case
    segments = [
        json.dumps({entry["image_id"]: entry["segments_info"] for entry in side["annotations"]})
        for side in (truth, predictions)
    ]
    maps, others = (
        {image: ids.astype(np.uint32) for image, ids in side.items()} for side in (maps, others)
    )
    return panoptic.evaluate_panoptic(
        panoptic.Dataset.from_arrays(maps, segments[0].encode(), json.dumps(CATEGORIES).encode()),
        panoptic.Predictions.from_arrays(others, segments[1].encode()),
        mode,
        True,
    )


@pytest.mark.parametrize("mode", ["corrected", "strict"])
@pytest.mark.parametrize("seed", range(30))
def test_counts_and_headline(seed, mode):
    case = panoptic_case(seed)
    # which crowd comes last: by the file in panopticapi, by the id in vernier
    for entry in case[0][0]["annotations"]:
        entry["segments_info"].sort(key=lambda segment: segment["id"])
    found, other = evaluate(*case, mode=mode), theirs(case, mode)
    for counted in found.class_counts():
        one = other.per_class().get(counted["id"])
        expected = (one.n_tp, one.n_fp, one.n_fn, one.iou_sum) if one else (0, 0, 0, 0)
        mine = tuple(counted[name] for name in ("tp", "fp", "fn", "iou_sum"))
        assert mine == pytest.approx(expected, abs=1e-12)
    for name in HEADLINE:
        value = found.values[name, None]
        if not np.isnan(value):
            assert value == pytest.approx(getattr(other, name), abs=1e-12), name
