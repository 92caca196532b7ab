"""Panoptic quality equals a plain loop over all pairs of masks."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.panoptic import CATEGORIES, documents, listed, panoptic_case
from permafrost.evaluators.panoptic import evaluate

IDS = [entry["id"] for entry in CATEGORIES]


def band(mask: np.ndarray, ratio: float) -> np.ndarray:
    """Pixels with a pixel outside of the mask within d rows and columns."""
    d = max(1, round(ratio * float(np.hypot(*mask.shape))))
    out = np.zeros_like(mask)
    padded = np.pad(mask, d)
    for row, column in zip(*np.nonzero(mask), strict=True):
        out[row, column] = not padded[row : row + 2 * d + 1, column : column + 2 * d + 1].all()
    return out


def overlap(truth, found, void, area) -> float:
    both = int((truth & found).sum())
    return both / ((truth.sum() if area is None else area) + (found & ~void).sum() - both)


def by_hand(true_ids, true_segments, found_ids, found_segments, strict=False, ratio=None):
    """{category: [tp, fp, fn, iou]} of one image."""
    counts = {category: [0, 0, 0, 0.0] for category in IDS}
    void, hits, right = true_ids == 0, set(), set()
    for one in true_segments:
        truth = true_ids == one["id"]
        for other in found_segments:
            found = found_ids == other["id"]
            if one["iscrowd"] or one["category_id"] != other["category_id"]:
                continue
            iou = overlap(truth, found, void, one["area"] if strict else None)
            if ratio:
                iou = min(iou, overlap(band(truth, ratio), band(found, ratio), void, None))
            if iou > 0.5:
                counts[one["category_id"]][0] += 1
                counts[one["category_id"]][3] += iou
                hits.add(one["id"])
                right.add(other["id"])
    for one in true_segments:
        counts[one["category_id"]][2] += not one["iscrowd"] and one["id"] not in hits
    for other in found_segments:
        crowds = [
            one["id"]
            for one in true_segments
            if one["iscrowd"] and one["category_id"] == other["category_id"]
        ]
        found = found_ids == other["id"]
        excuse = np.isin(true_ids, [0, *(crowds[-1:] if strict else crowds)])
        counted = (found & excuse).sum() <= 0.5 * found.sum()
        counts[other["category_id"]][1] += other["id"] not in right and bool(counted)
    return counts


def summary(counts: np.ndarray) -> dict:
    """pq, sq, rq and the same of things and stuff, from (C, 4) sums."""
    ratios = {}
    for category, (tp, fp, fn, iou) in zip(CATEGORIES, counts, strict=True):
        if tp + fp + fn:
            below = tp + fp / 2 + fn / 2
            ratios[category["name"]] = (iou / below, iou / tp if tp else 0.0, tp / below)
    found = {}
    things = {entry["name"]: entry["isthing"] for entry in CATEGORIES}
    for part, kinds in (("", (0, 1)), ("_things", (1,)), ("_stuff", (0,))):
        chosen = [value for name, value in ratios.items() if things[name] in kinds]
        mean = np.mean(chosen, axis=0) if chosen else [np.nan] * 3
        found.update({(m + part, None): v for m, v in zip(("pq", "sq", "rq"), mean, strict=True)})
    for name in things:
        values = ratios.get(name, (np.nan,) * 3)
        found.update({(m, name): v for m, v in zip(("pq", "sq", "rq"), values, strict=True)})
    return found


def table(case, **how) -> np.ndarray:
    """(I, C, 4) counts by hand."""
    (truth, maps), (predictions, others) = case
    pairs = zip(truth["annotations"], predictions["annotations"], strict=True)
    return np.array(
        [
            list(
                by_hand(
                    maps[one["image_id"]],
                    one["segments_info"],
                    others[one["image_id"]],
                    other["segments_info"],
                    **how,
                ).values()
            )
            for one, other in pairs
        ]
    )


@pytest.mark.parametrize("mode", ["corrected", "strict"])
@pytest.mark.parametrize("ratio", [None, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(20))
def test_counts_and_values(seed, mode, ratio):
    case = panoptic_case(seed)
    found = evaluate(*case, mode=mode, boundary_ratio=ratio)
    expected = table(case, strict=mode == "strict", ratio=ratio)
    counts = np.stack([found.tp, found.fp, found.fn, found.iou], axis=2)
    np.testing.assert_allclose(counts, expected, rtol=0, atol=1e-12)
    wanted = summary(expected.sum(axis=0))
    assert set(found.values) == set(wanted)
    for name, value in wanted.items():
        assert found.values[name] == pytest.approx(value, abs=1e-12, nan_ok=True), name


def test_cases_hold_what_they_are_for():
    cases = [panoptic_case(seed) for seed in range(20)]
    strict = np.concatenate([table(case, strict=True) for case in cases])
    plain = np.concatenate([table(case) for case in cases])
    assert plain[..., :3].sum(axis=(0, 1)).min() > 20
    assert (strict[..., 1] > plain[..., 1]).any(), "no image where an earlier crowd excuses"
    ties = 0
    for (truth, maps), (predictions, others) in cases:
        for one, other in zip(truth["annotations"], predictions["annotations"], strict=True):
            ids, found = maps[one["image_id"]], others[one["image_id"]]
            ties += sum(
                overlap(ids == a["id"], found == b["id"], ids == 0, None) == 0.5
                for a in one["segments_info"]
                for b in other["segments_info"]
                if a["category_id"] == b["category_id"] and not a["iscrowd"]
            )
    assert ties >= 5


def test_replicates_are_evaluations_of_repeated_images():
    case = panoptic_case(1)
    found = evaluate(*case)
    drawn = np.random.default_rng(0).integers(0, 3, (4, 6))
    per_image = table(case)
    replicates = found.replicates(drawn)
    for column in range(6):
        wanted = summary(np.tensordot(drawn[:, column], per_image, axes=1))
        for name, value in wanted.items():
            assert replicates[name][column] == pytest.approx(value, abs=1e-12, nan_ok=True), name


def one_image(true_ids, true_category, found_ids, found_category, crowd=()):
    maps = np.array([true_ids]), np.array([found_ids])
    first, second = documents(
        {1: (maps[0], listed(maps[0], true_category, crowd))},
        {1: (maps[1], listed(maps[1], found_category))},
    )
    return (first, {1: maps[0]}), (second, {1: maps[1]})


def totals(found) -> list:
    return [int(kind.sum()) for kind in (found.tp, found.fp, found.fn)]


def test_one_half_is_no_match():
    case = one_image([1, 1, 2, 2], {1: 3, 2: 11}, [5, 0, 6, 6], {5: 3, 6: 11})
    assert totals(evaluate(*case)) == [1, 1, 1]


def test_half_on_void_or_crowd_is_still_a_false_alarm_and_more_is_not():
    # the second segment lies on a crowd of its class by half, then by more
    half = one_image([1, 1, 2, 2], {1: 3, 2: 11}, [0, 5, 5, 0], {5: 3}, crowd={1})
    assert totals(evaluate(*half)) == [0, 1, 1]
    most = one_image([1, 1, 0, 2], {1: 3, 2: 11}, [0, 5, 5, 5], {5: 3}, crowd={1})
    assert totals(evaluate(*most)) == [0, 0, 1]
    other = one_image([1, 1, 0, 2], {1: 7, 2: 11}, [0, 5, 5, 5], {5: 3}, crowd={1})
    assert totals(evaluate(*other)) == [0, 1, 1]


def test_strict_takes_the_areas_of_the_truth_as_they_are_written():
    truth, predictions = one_image([1, 1, 1, 2], {1: 3, 2: 11}, [5, 5, 0, 6], {5: 3, 6: 11})
    truth[0]["annotations"][0]["segments_info"][0]["area"] = 8
    assert totals(evaluate(truth, predictions)) == [2, 0, 0]
    assert totals(evaluate(truth, predictions, mode="strict")) == [1, 1, 1]
