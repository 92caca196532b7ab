"""Copies within the test split are one unit; leakage is known of each test image."""

import itertools

import numpy as np
import pytest
from helpers.datasets.images import photo
from permafrost.core.specification import SPLITS
from permafrost.data.records import Record
from permafrost.data.store.audit import audit_splits
from permafrost.data.store.copies import joined_units
from permafrost.data.store.image_hashes import hash_images


def scenes(first, count):
    return [photo(first + i, (64, 64)).transpose(2, 0, 1) for i in range(count)]


def noisy(image):
    noise = np.random.default_rng(0).integers(-6, 7, image.shape)
    return np.clip(image.astype(int) * 0.9 + noise, 0, 255).astype(np.uint8)


def audited(images, groups=None):
    groups = groups or {}
    records = {
        split: [
            Record(f"{split}{i:02}", group_id=groups.get(f"{split}{i:02}"))
            for i in range(len(images[split]))
        ]
        for split in SPLITS
    }
    return audit_splits(records, {split: hash_images(images[split]) for split in SPLITS})


def test_each_test_image_has_the_worst_that_it_shares_with_train_or_val():
    train, val, test = scenes(0, 20), scenes(100, 10), scenes(200, 8)
    test[1], test[2] = train[5].copy(), val[3].copy()
    test[3] = noisy(train[7])
    groups = {"train00": "a", "test01": "a", "test04": "a", "val01": "b", "test05": "b"}
    card, copies = audited({"train": train, "val": val, "test": test}, groups)
    assert copies.leaks == [None, "copy", "copy", "near", "group", "group", None, None]
    assert card["test_in_train"] == {"copy": 2, "near": 1, "group": 2}
    assert copies.columns()["leak"].to_pylist() == copies.leaks


def test_copies_in_test_are_one_unit_joined_with_the_groups():
    test = scenes(200, 8)
    test[4], test[6], test[7] = test[1].copy(), test[1].copy(), noisy(test[0])
    images = {"train": scenes(0, 10), "val": scenes(100, 5), "test": test}
    card, copies = audited(images)
    first, second = "copies of test00", "copies of test01"
    assert copies.units == [first, second, None, None, second, None, second, first]
    assert card["copies_in_test"] == {"exact": 2, "near": 1, "units": 5}
    # the group of a copy comes along, with all its images; of two groups the first name stands for both
    card, copies = audited(images, {"test04": "b", "test05": "b", "test06": "a", "test03": "c"})
    assert copies.units == [first, "a", None, "c", "a", "a", "a", first]
    assert card["copies_in_test"]["units"] == 4
    assert list(copies.columns()) == ["unit_id"]


def test_nothing_is_said_where_there_is_nothing():
    images = {"train": scenes(0, 10), "val": scenes(100, 5), "test": scenes(200, 8)}
    card, copies = audited(images, {"test00": "a", "test01": "a"})
    assert copies.columns() == {}
    assert card["test_in_train"] == {"copy": 0, "near": 0, "group": 0}
    assert card["copies_in_test"] == {"exact": 0, "near": 0, "units": 7}


def test_flat_images_are_no_near_copies_where_all_of_test_is_flat():
    noise = np.random.default_rng(1).normal(0, 0.5, (20, 3, 64, 64))
    water = list(np.rint(40 + np.linspace(0, 2, 64) + noise).astype(np.uint8))
    card, copies = audited({"train": scenes(0, 20), "val": scenes(50, 5), "test": water})
    assert card["copies_in_test"] == {"exact": 0, "near": 0, "units": 20}


@pytest.mark.parametrize("seed", range(20))
def test_units_equal_brute_force_in_any_order(seed):
    rng = np.random.default_rng(seed)
    names = [f"s{i:02}" for i in range(12)]
    groups = [str(g) if g < 4 else None for g in rng.integers(0, 8, 12)]
    pairs = [tuple(pair) for pair in rng.integers(0, 12, (rng.integers(0, 6), 2)).tolist()]
    units = joined(names, groups, pairs)
    same = {(i, i) for i in range(12)} | {*pairs} | {(b, a) for a, b in pairs}
    same |= {
        (i, j)
        for i, j in itertools.product(range(12), repeat=2)
        if groups[i] is not None and groups[i] == groups[j]
    }
    for k, i, j in itertools.product(range(12), repeat=3):
        if (i, k) in same and (k, j) in same:
            same.add((i, j))
    for i, j in itertools.product(range(12), repeat=2):
        together = i == j or (units[i] is not None and units[i] == units[j])
        assert together == ((i, j) in same)
    order = rng.permutation(12)
    place = np.argsort(order)
    turned = joined(
        [names[i] for i in order],
        [groups[i] for i in order],
        [(place[a], place[b]) for a, b in pairs],
    )
    assert turned == [units[i] for i in order]


def joined(names, groups, pairs):
    return joined_units(names, groups, [tuple(np.array(pairs, np.int64).reshape(-1, 2).T)])


def test_a_group_named_as_a_unit_of_copies_is_not_mistaken_for_it():
    units = joined(["a", "b", "c"], [None, None, "copies of a"], [(0, 1)])
    assert units == ["copies of a'", "copies of a'", "copies of a"]
