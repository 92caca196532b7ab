"""Splits: as given, stratified, by group, by block; what cannot be split is an error."""

import json
import re

import numpy as np
import pytest
from helpers.datasets.images import dataset_entry
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.labels.classes import check_classes
from permafrost.data.labels.objects import Objects
from permafrost.data.labels.splits import make_splits
from permafrost.data.records import Record


def records(count=300, classes=3, **columns):
    return [
        Record(f"s{i}", label=i % classes, **{key: column[i] for key, column in columns.items()})
        for i in range(count)
    ]


def split(data, **options):
    entry = {"task": "classification", "source": {"kind": "demo"}, "splits": options}
    return make_splits(data, dataset_entry(entry).splits, name="set", where="dataset set")


def labels(data, plan, part):
    return np.bincount([data[i].label for i in plan.indices[part]], minlength=3)


def test_given_splits_keep_the_order_of_the_data():
    data = records(6, split=["test", "train", "val", "train", "test", "train"])
    plan = split(data)
    assert {s: plan.indices[s].tolist() for s in SPLITS} == {
        "train": [1, 3, 5],
        "val": [2],
        "test": [0, 4],
    }
    assert not plan.spatially_random


def test_names_of_the_data_are_mapped_or_left_out_and_never_dropped():
    data = records(4, split=["a", "b", "c", "odd"])
    mapped = {"train": ["a"], "val": ["b"], "test": ["c"]}
    with pytest.raises(PermafrostError, match="does not map: odd"):
        split(data, map=mapped)
    assert split(data, map=mapped, leave_out=["odd"]).indices["test"].tolist() == [2]
    with pytest.raises(PermafrostError, match="names nowhere"):
        split(data, map={**mapped, "test": ["c", "odd", "nowhere"]})


def test_random_splits_are_stratified_disjoint_and_complete():
    data = records()
    plan = split(data, method="random", fractions=[0.6, 0.2, 0.2])
    everything = np.concatenate([plan.indices[s] for s in SPLITS])
    assert sorted(everything) == list(range(300))
    assert labels(data, plan, "train").tolist() == [60, 60, 60]
    assert labels(data, plan, "test").tolist() == [20, 20, 20]
    for part in SPLITS:
        assert (np.diff(plan.indices[part]) > 0).all()


def test_a_seed_gives_the_same_split_and_another_seed_another():
    data = records()
    one, same, other = (split(data, method="random", seed=s).indices["test"] for s in (1, 1, 2))
    assert (one == same).all()
    assert one.tolist() != other.tolist()


def test_groups_stay_together_and_sizes_come_near():
    groups = [f"g{i // 7}" for i in range(300)]
    data = records(group_id=groups)
    plan = split(data, method="group", fractions=[0.5, 0.25, 0.25])
    homes = [{groups[i] for i in plan.indices[s]} for s in SPLITS]
    assert not homes[0] & homes[1] and not homes[0] & homes[2] and not homes[1] & homes[2]
    assert abs(len(plan.indices["train"]) - 150) <= 14
    assert not plan.spatially_random


def test_a_record_without_group_cannot_be_split_by_group():
    with pytest.raises(PermafrostError, match="1 have none, e.g. s2"):
        split(records(3, group_id=["a", "b", None]), method="group")


def test_blocks_hold_neighbours_together_also_where_degrees_are_short():
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(20, 21, 300), rng.uniform(69, 69.4, 300)
    data = records(lon=lon, lat=lat)
    plan = split(data, method="block", block_km=10)
    part = np.empty(300, int)
    for number, s in enumerate(SPLITS):
        part[plan.indices[s]] = number
    row = np.floor(lat * 111.195 / 10)
    width = 111.195 * np.cos(np.radians((row + 0.5) * 10 / 111.195))
    block = row * 1e6 + np.floor((lon + 180) * width / 10)
    for number in np.unique(block):
        assert len(np.unique(part[block == number])) == 1
    assert len(np.unique(block)) > 10
    assert min(len(plan.indices[s]) for s in SPLITS) > 20


def test_blocks_need_coordinates_and_a_side():
    with pytest.raises(PermafrostError, match="need lon and lat"):
        split(records(9), method="block", block_km=1)
    with pytest.raises(PermafrostError, match="need block_km"):
        split(records(9), method="block")


def test_validation_is_taken_from_train_by_class_or_by_group():
    data = records(split=["train"] * 200 + ["test"] * 100)
    plan = split(data, val_from_train=0.25)
    assert [len(plan.indices[s]) for s in SPLITS] == [150, 50, 100]
    assert max(labels(data, plan, "val")) - min(labels(data, plan, "val")) <= 1
    grouped = records(
        split=["train"] * 200 + ["test"] * 100, group_id=[f"g{i // 10}" for i in range(300)]
    )
    plan = split(grouped, val_from_train=0.25)
    homes = [{grouped[i].group_id for i in plan.indices[s]} for s in ("train", "val")]
    assert not homes[0] & homes[1]


def test_val_from_train_beside_a_given_validation_split_is_an_error():
    with pytest.raises(PermafrostError, match="have a validation split"):
        split(records(3, split=["train", "val", "test"]), val_from_train=0.2)


def test_an_empty_split_names_itself_and_the_remedy():
    with pytest.raises(PermafrostError, match="split val is empty.*val_from_train"):
        split(records(3, split=["train", "train", "test"]))


@pytest.mark.parametrize(
    "groups, options, said, works",
    [
        (6, {"fractions": [0.9, 0.05, 0.05]}, "6 groups for the fractions 0.9, 0.05, 0.05", True),
        (2, {"fractions": [0.6, 0.2, 0.2]}, "2 groups for the fractions", False),
        (
            4,
            {"val_from_train": 0.05},
            "3 groups of train, of which val_from_train takes 0.05",
            True,
        ),
        (2, {"val_from_train": 0.2}, "1 groups of train", False),
    ],
)
def test_an_empty_split_says_how_many_groups_there_are_and_which_fractions_work(
    groups, options, said, works
):
    names = [f"g{i * groups // 300}" for i in range(300)]
    last = f"g{groups - 1}"
    data = records(group_id=names, split=["test" if one == last else "train" for one in names])
    method = "given" if "val_from_train" in options else "group"
    with pytest.raises(PermafrostError) as found:
        split(data, method=method, **options)
    assert "is empty: " + said in str(found.value)
    assert ("leaves no split empty" in str(found.value)) == works
    if works:
        option, value = re.search(r"write (\w+): (.+?) under splits", str(found.value)).groups()
        plan = split(data, method=method, **{option: json.loads(value)})
        assert all(len(chosen) for chosen in plan.indices.values())


def test_options_that_the_method_does_not_use_are_errors():
    with pytest.raises(PermafrostError, match="do not use block_km"):
        split(records(), method="random", block_km=1)
    with pytest.raises(PermafrostError, match="sum 1"):
        split(records(), method="random", fractions=[0.5, 0.2, 0.2])


def test_random_splits_of_places_and_shared_groups_are_marked():
    assert not split(records(), method="random").spatially_random
    lon = np.linspace(0, 1, 300)
    assert split(records(lon=lon, lat=lon), method="random").spatially_random
    crossing = records(4, split=["train", "train", "val", "test"], group_id=["a", "b", "c", "a"])
    assert split(crossing).spatially_random
    apart = records(3, split=["train", "val", "test"], group_id=["a", "b", "c"])
    assert not split(apart).spatially_random
    assert split(apart, spatially_random=True).spatially_random


def test_several_labels_are_stratified_by_the_rarest():
    data = [Record(f"s{i}", label=(1, int(i < 20))) for i in range(200)]
    plan = split(data, method="random", fractions=[0.5, 0.25, 0.25])
    rare = [sum(data[i].label[1] for i in plan.indices[s]) for s in SPLITS]
    assert rare == [10, 5, 5]


def test_a_common_label_does_not_hide_the_rarest_of_three():
    """All of the rarest stand among many of the next, and not beside the most common."""
    kinds = [(0, 1, int(i % 10 == 0)) for i in range(200)] + [(1, 0, 0)] * 300
    data = [Record(f"s{i}", label=kind) for i, kind in enumerate(kinds)]
    for seed in range(5):
        plan = split(data, method="random", fractions=[0.5, 0.25, 0.25], seed=seed)
        counts = [np.sum([data[i].label for i in plan.indices[s]], axis=0).tolist() for s in SPLITS]
        assert counts == [[150, 100, 10], [75, 50, 5], [75, 50, 5]]


def test_crowds_take_no_part_in_the_stratification():
    generator = np.random.default_rng(0)
    plain, crowded = [], []
    for i in range(60):
        classes = generator.integers(0, 2, generator.integers(0, 6))
        crowd = generator.integers(0, 2, generator.integers(1, 40))
        boxes = np.tile([0, 0, 4, 4], (len(classes) + len(crowd), 1))
        flags = np.arange(len(boxes)) >= len(classes)
        every = Objects.of(boxes, [*classes, *crowd], crowd=flags)
        crowded.append(Record(f"s{i}", objects=every))
        plain.append(Record(f"s{i}", objects=every.take(~flags)))
    options = {"method": "random", "fractions": [0.5, 0.25, 0.25]}
    for left, right in zip(
        split(plain, **options).indices.values(),
        split(crowded, **options).indices.values(),
        strict=True,
    ):
        assert left.tolist() == right.tolist()


def test_a_class_missing_from_train_is_named():
    counts = {"train": np.array([3, 0, 0]), "val": np.array([1, 1, 0]), "test": np.array([1, 0, 0])}
    with pytest.raises(PermafrostError, match=r"2 classes: ice, fog \(ice in val or test\)"):
        check_classes(["sea", "ice", "fog"], counts, allow_missing=False, where="x")
    check_classes(["sea", "ice", "fog"], counts, allow_missing=True, where="x")
