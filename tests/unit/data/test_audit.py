"""The leakage audit finds what leaks and is not fooled by flat images."""

import numpy as np
import pytest
from helpers.datasets.images import photo
from permafrost.core.specification import SPLITS
from permafrost.data.bands.statistics import BandStatistics
from permafrost.data.records import Record
from permafrost.data.store.audit import audit_splits, min_distance_km
from permafrost.data.store.image_hashes import (
    difference_hash,
    exact_digest,
    hamming_pairs,
    hash_images,
    thumbnail,
)


def audit(images: dict, **columns):
    records = {
        s: [
            Record(f"{s}{i}", **{k: v[s][i] for k, v in columns.items()})
            for i in range(len(images[s]))
        ]
        for s in SPLITS
    }
    return audit_splits(records, {s: hash_images(images[s]) for s in SPLITS})[0]


def scenes(first, count):
    return [photo(first + i, (64, 64)).transpose(2, 0, 1) for i in range(count)]


def test_unrelated_images_are_no_duplicates():
    found = audit({"train": scenes(0, 60), "val": scenes(100, 40), "test": scenes(200, 40)})
    assert found["exact_duplicates"] == found["near_duplicates"] == 0
    assert found["examples"] == []


def test_exact_and_near_copies_are_found_once_and_named():
    train, val, test = scenes(0, 30), scenes(100, 10), scenes(200, 10)
    test[3] = train[7].copy()
    rng = np.random.default_rng(0)
    noisy = train[9].astype(int) * 0.9 + rng.integers(-6, 7, train[9].shape)
    val[4] = np.clip(noisy, 0, 255).astype(np.uint8)
    found = audit({"train": train, "val": val, "test": test})
    assert (found["exact_duplicates"], found["near_duplicates"]) == (1, 1)
    assert {"kind": "exact", "splits": ["train", "test"], "samples": ["train7", "test3"]} in found[
        "examples"
    ]
    assert {"kind": "near", "splits": ["train", "val"], "samples": ["train9", "val4"]} in found[
        "examples"
    ]


def test_a_copy_within_one_split_leaks_nothing():
    train = scenes(0, 10)
    train[5] = train[2]
    found = audit({"train": train, "val": scenes(50, 5), "test": scenes(80, 5)})
    assert found["exact_duplicates"] == 0


def test_flat_images_do_not_all_count_as_near_duplicates():
    rng = np.random.default_rng(1)

    # the same faint slope of light in all of them: without care they correlate perfectly
    slope = np.linspace(0, 2, 64)

    def water(count):
        noise = rng.normal(0, 0.5, (count, 3, 64, 64))
        return list(np.rint(40 + slope + noise).astype(np.uint8))

    found = audit(
        {"train": scenes(0, 20) + water(30), "val": scenes(50, 5) + water(10), "test": water(30)}
    )
    assert found["near_duplicates"] == 0


def test_shared_groups_and_distance():
    images = {s: scenes(100 * i, 2) for i, s in enumerate(SPLITS)}
    found = audit(
        images,
        group_id={"train": ["a", "b"], "val": ["c", None], "test": ["b", "d"]},
        lon={"train": [0.0, 10.0], "val": [0.0, 0.0], "test": [1.0, 50.0]},
        lat={"train": [0.0, 0.0], "val": [0.0, 0.0], "test": [0.0, 50.0]},
    )
    assert found["shared_groups"] == 1
    assert {"kind": "group", "group": "b", "splits": ["train", "test"]} in found["examples"]
    assert found["min_distance_km"] == pytest.approx(111.195, rel=1e-4)


def test_distance_agrees_with_haversine_over_all_pairs():
    rng = np.random.default_rng(2)
    points = np.stack([rng.uniform(-180, 180, 80), rng.uniform(-85, 85, 80)], 1)
    places = [Record(str(i), lon=lon, lat=lat) for i, (lon, lat) in enumerate(points)]
    lon, lat = np.radians(points).T
    a = np.sin((lat[:40, None] - lat[40:]) / 2) ** 2
    a += np.cos(lat[:40, None]) * np.cos(lat[40:]) * np.sin((lon[:40, None] - lon[40:]) / 2) ** 2
    expected = (2 * 6371.0088 * np.arcsin(np.sqrt(a))).min()
    assert min_distance_km(places[:40], places[40:]) == pytest.approx(expected)
    assert min_distance_km([Record("x")], places) is None


def test_hamming_pairs_equal_brute_force_in_any_block_size():
    rng = np.random.default_rng(3)
    old = rng.integers(0, 2**63, 50, dtype=np.uint64)
    new = np.concatenate([old[:5] ^ np.uint64(0b1011), rng.integers(0, 2**63, 30, dtype=np.uint64)])
    expected = {
        (i, j)
        for i in range(35)
        for j in range(50)
        if bin(int(new[i]) ^ int(old[j])).count("1") <= 3
    }
    assert {(i, i) for i in range(5)} <= expected
    for block in (1, 60, 10_000):
        pairs = hamming_pairs(new, old, 3, block=block)
        assert {
            (int(i), int(j)) for rows, cols in pairs for i, j in zip(rows, cols, strict=True)
        } == expected


def test_hashes_depend_on_shape_type_and_pixels():
    image = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    assert exact_digest(image) == exact_digest(image.copy(order="F"))
    assert exact_digest(image) != exact_digest(image.reshape(3, 2, 8))
    assert exact_digest(image) != exact_digest(image.astype(np.int8))
    assert np.isfinite(thumbnail(image)).all()


def test_the_difference_hash_follows_the_slope():
    rising = np.tile(np.arange(72, dtype=np.uint8), (1, 64, 1))
    assert difference_hash(thumbnail(rising)[None])[0] == np.uint64(2**64 - 1)
    assert difference_hash(thumbnail(rising[..., ::-1])[None])[0] == 0


@pytest.mark.parametrize("offset", [0, 1e8])
def test_statistics_equal_numpy_on_the_whole_and_do_not_cancel(offset):
    rng = np.random.default_rng(4)
    images = (rng.normal(3, 2, (40, 2, 5, 7)) + offset).astype(np.float64)
    whole, parts = BandStatistics(2), BandStatistics(2)
    whole.add_alike(images)
    for image in images:
        parts.add(image)
    for statistics in (whole, parts):
        np.testing.assert_allclose(statistics.mean, images.mean((0, 2, 3)), rtol=1e-12)
        np.testing.assert_allclose(statistics.std, images.std((0, 2, 3)), rtol=1e-7)
        np.testing.assert_array_equal(statistics.low, images.min((0, 2, 3)))
        np.testing.assert_array_equal(statistics.high, images.max((0, 2, 3)))


def test_pixels_without_data_do_not_count():
    image = np.array([[[1.0, 2.0, 99.0]]])
    statistics = BandStatistics(1)
    statistics.add(image, image == 99)
    assert (statistics.mean[0], statistics.high[0], statistics.count[0]) == (1.5, 2.0, 2)
    assert statistics.of_band(0)["p98"] == pytest.approx(1.98, rel=1 / 2048)
