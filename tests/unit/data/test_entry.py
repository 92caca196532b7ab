"""Entries of datasets as dataclasses: what the schema describes, and nothing else."""

import copy

import pytest
from helpers.datasets.images import dataset_entry, folder_entry, validated
from permafrost.core.errors import PermafrostError
from permafrost.data.sources import read_entry


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entry: entry.update(clases=["a"]), "clases: unknown key, did you mean 'classes'"),
        (lambda entry: entry["source"].update(rot="x"), "source: rot: unknown key, .*root"),
        (lambda entry: entry["splits"].update(sed=1), "splits.sed: unknown key, .* 'seed'"),
        (lambda entry: entry.pop("task"), "missing key 'task'"),
        (lambda entry: entry.update(gsd_m="10"), "gsd_m: must be a number, not the text '10'"),
        (lambda entry: entry["source"].update(kind="folders"), "unknown kind of source 'folders'"),
    ],
)
def test_a_key_that_is_misspelt_missing_or_of_another_type_is_refused_at_the_door(change, message):
    entry = validated(folder_entry("images"))
    assert read_entry(entry, where="dataset set").source.root == ""
    change(entry)
    with pytest.raises(PermafrostError, match=message):
        read_entry(entry, where="dataset set")


def test_defaults_may_follow_from_the_task():
    def demo(task, **source):
        return dataset_entry({"task": task, "source": {"kind": "demo", **source}})

    assert (demo("classification").source.chip_size, demo("detection").source.chip_size) == (
        64,
        128,
    )
    assert demo("multilabel", chips={"val": 7}).source.chips == {
        "train": 480,
        "val": 7,
        "test": 240,
    }
    assert demo("pixel_regression").target.scale == 1 and demo("detection").target is None
    masks = dataset_entry(folder_entry("x", task="segmentation", classes=["a", "b"])).source
    assert (masks.images, masks.masks, masks.targets) == ("images", "masks", None)
    assert dataset_entry(folder_entry("x")).source.images is None
    assert dataset_entry(folder_entry("x", splits={"method": "group"})).splits.fractions[0] == 0.6
    assert dataset_entry(folder_entry("x", splits={"method": "given"})).splits.fractions is None


def test_numbers_of_an_entry_stay_as_they_are_written():
    entry = dataset_entry(folder_entry("x", gsd_m=10, nodata={"value": 0, "fill": 1.0}))
    assert [type(n) for n in (entry.gsd_m, entry.nodata.value, entry.nodata.fill)] == [
        int,
        int,
        float,
    ]


def test_a_complete_entry_stays_as_it_is():
    for task in ("regression", "pixel_regression", "detection", "segmentation"):
        entry = validated({"task": task, "source": {"kind": "demo"}})
        assert validated(copy.deepcopy(entry)) == entry
