"""Agreement of sensors: brute force, random orders of ties, closed forms, and results on disk."""

from __future__ import annotations

import shutil
from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.measuring import FINGERPRINT, write_features
from permafrost.core.errors import PermafrostError
from permafrost.report.tables.agreeing import AgreementResults, agreement_block
from permafrost.report.tables.copied import (
    SUSPECT_COLUMNS,
    CopyResults,
    suspect_block,
    suspect_table,
)
from permafrost.statistics.measures.agreement import agreement, recall_interval
from permafrost.statistics.resampling.intervals import share_interval, wilson_interval
from permafrost.statistics.resampling.units import find_units
from scipy.stats import t

RNG = np.random.default_rng(0)
FIRST = RNG.normal(size=(60, 8))
SECOND = FIRST + RNG.normal(scale=0.8, size=FIRST.shape)
NAMES = [f"s{i:02d}" for i in range(60)]
UNITS = find_units(60, sample_ids=NAMES)


def found(first, second, **options) -> dict:
    units = find_units(len(first), sample_ids=NAMES[: len(first)])
    rows = agreement(first, second, units, **options)
    return {(one.measure, one.direction): one for one in rows}


def test_recall_is_that_of_a_search_by_hand():
    def recall(queries, gallery, k):
        right = 0
        for place, query in enumerate(queries):
            cosines = [q @ query / np.linalg.norm(q) / np.linalg.norm(query) for q in gallery]
            right += place in np.argsort(cosines)[::-1][:k]
        return right / len(queries)

    rows = found(FIRST, SECOND, centred=False)
    for k in (1, 5, 10):
        both = [rows[f"recall@{k}", way].value for way in ("a to b", "b to a")]
        assert both == pytest.approx([recall(FIRST, SECOND, k), recall(SECOND, FIRST, k)])
        assert rows[f"recall@{k}", "a to b"].by_chance == pytest.approx(k / 60)
        assert rows[f"recall@{k}", "a to b"].lower == share_interval(both[0], 60, 0.95)[0]


def test_equally_near_places_count_as_in_the_mean_of_their_orders():
    places = np.repeat(np.eye(3)[:, :2] + 0.1, [2, 1, 2], axis=0)
    rows = found(places, places, ks=(1, 2, 3), centred=False)
    for k in (1, 2, 3):
        hits = []
        for order in permutations(range(5)):
            for query in range(5):
                cosines = places @ places[query] / np.linalg.norm(places, axis=1)
                near = sorted(order, key=lambda one: -round(cosines[one], 9))
                hits.append(query in near[:k])
        assert rows[f"recall@{k}", "a to b"].value == pytest.approx(np.mean(hits))
    constant = found(np.ones((60, 4)), SECOND[:, :4])
    assert constant["recall@5", "a to b"].value == pytest.approx(5 / 60)
    assert np.isnan(constant["cka", None].value)


def test_a_shift_of_one_sensor_costs_nothing_and_a_rotation_leaves_cka_alone():
    shifted = found(FIRST, FIRST + 7)
    assert shifted["recall@1", "a to b"].value == 1
    assert found(FIRST, FIRST + 7, centred=False)["recall@1", "a to b"].value < 0.7
    turned = found(FIRST, FIRST @ np.linalg.qr(RNG.normal(size=(8, 8)))[0])
    assert turned["recall@1", "a to b"].value < 0.3
    cka = turned["cka", None]
    assert cka.value == pytest.approx(1) and abs(cka.by_chance) < 0.03
    other = found(FIRST, SECOND[:, :5])
    assert (
        list(other) == [("cka", None)] and 0 < other["cka", None].lower < other["cka", None].value
    )


def test_an_interval_over_groups_has_the_error_without_each_of_them():
    groups = [f"g{i % 9}" for i in range(60)]
    units = find_units(60, sample_ids=NAMES, groups=groups)
    hits = (np.arange(60) % 9 < 4) & (RNG.random(60) < 0.8) | (RNG.random(60) < 0.1)
    value = hits.mean()
    without = np.array([hits[units.index != one].mean() for one in range(9)])
    error = np.sqrt(8 / 9 * np.sum((value - without) ** 2))
    lower, upper = recall_interval(hits.astype(float), units, 0.95)
    # few groups have fewer degrees of freedom than groups
    narrow = wilson_interval(value, value * (1 - value) / error**2, t.ppf(0.975, 8))
    assert lower <= narrow[0] < narrow[1] <= upper and upper - lower < 2 * (narrow[1] - narrow[0])
    none = recall_interval(np.zeros(60), units, 0.95)
    assert none == pytest.approx(wilson_interval(0, 9, t.ppf(0.975, 8)))
    one = find_units(60, sample_ids=NAMES, groups=["g"] * 60)
    assert np.isnan(recall_interval(hits.astype(float), one, 0.95)).all()


@pytest.fixture
def results(tmp_path) -> AgreementResults:
    """Backbones net and other on the datasets radar and optical, which share the places s10 to s59."""
    outputs = []
    for name, ids, values in (
        ("optical", NAMES, FIRST),
        ("radar", NAMES[:9:-1], SECOND[:9:-1]),
        ("elsewhere", [f"x{i}" for i in range(50)], SECOND[10:]),
    ):
        both = ("net", 8), ("other", 5)
        for (backbone, kept), split in product(both, ("test", "train", "val")):
            path = tmp_path / f"{name}-{backbone}-{split}"
            own = values[:, :kept].astype(np.float32)
            # train and val show other images
            own = own if split == "test" else RNG.normal(size=own.shape).astype(np.float32)
            write_features(path, own, ids=[one if split == "test" else split + one for one in ids])
            labels = {"dataset": name, "backbone": backbone, "split": split}
            about = {"stage": "extract", "path": path.name, "fingerprint": FINGERPRINT}
            outputs.append(labels | about)
    plan = {"datasets": dict.fromkeys(("optical", "radar", "elsewhere"), {}), "outputs": outputs}
    return AgreementResults({**plan, "results": "results"}, lambda row: tmp_path / row["path"])


def test_places_are_matched_by_name_and_two_backbones_on_one_dataset_compare(results):
    rows = results.agreeing("optical", "radar")
    assert len(rows) == 14 and {row["places"] for row in rows} == {50}
    values = FIRST[10:].astype(np.float32), SECOND[10:].astype(np.float32)
    expected = found(*values)["recall@1", "a to b"]
    assert rows[0]["value"] == pytest.approx(expected.value) and rows[0]["lower"] == expected.lower
    one = results.agreeing("optical", "optical", [("net", "other")])
    assert [row["measure"] for row in one] == ["cka"] and one[0]["value"] > 0.4
    said = agreement_block(one).plain()
    assert "net and other" in said and "features of different lengths" in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("optical", "rader"), "no features on the dataset 'rader'.*radar"),
        (("optical", "radar", [("net", "nets")]), "no features on radar of the backbone 'nets'"),
        (("optical", "optical"), "features agree with themselves.*--backbones A B"),
        (
            ("optical", "elsewhere"),
            "optical and elsewhere, test: 0 samples of both have the same name",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_clear_error(results, asked, said):
    with pytest.raises(PermafrostError, match=said):
        results.agreeing(*asked)
    with pytest.raises(PermafrostError, match="there is no split 'tests'"):
        results.agreeing("optical", "radar", split="tests")


def test_images_of_another_dataset_with_nearly_the_same_features_are_suspected(results, tmp_path):
    radar = tmp_path / "radar-net-train"
    shutil.rmtree(radar)
    copied = RNG.normal(size=(50, 8)).astype(np.float32)
    copied[20] = FIRST[7] + 0.01
    write_features(radar, copied, ids=[f"r{i}" for i in range(50)])

    class Copies(CopyResults):
        def _store(self, dataset, split):
            return SimpleNamespace(samples=pa.table({"sample_id": NAMES}))

    copies = Copies(results.plan, results.place)
    first, *_ = [row for row in copies.suspected("net", "radar") if row["dataset"] == "optical"]
    assert list(first) == [*SUSPECT_COLUMNS]
    assert (first["sample_id"], first["other_split"], first["other_sample_id"]) == (
        "s07",
        "train",
        "r20",
    )
    assert first["ratio"] < 0.05 and first["by_chance"] == pytest.approx(60 / 61)
    assert "s07" in suspect_block([first], "net").plain()
    assert suspect_table([]).column_names == [*SUSPECT_COLUMNS]
    with pytest.raises(PermafrostError, match="nets has features of 0 of the datasets"):
        copies.suspected("nets")
