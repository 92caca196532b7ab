"""Entries of datasets as dataclasses: what the schema describes, and nothing else."""

import copy
import dataclasses
from importlib import import_module

import pytest
from helpers.datasets.images import dataset_entry, folder_entry, validated
from permafrost.core.errors import PermafrostError
from permafrost.data.entry import DatasetEntry
from permafrost.data.sources import KINDS, read_entry
from permafrost.plan.validation import load_schema

SCHEMA = load_schema("dataset")


def fields(place) -> set[str]:
    return {field.name for field in dataclasses.fields(place)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_options_of_a_kind_of_source_are_those_of_the_schema(kind):
    module, _, name = KINDS[kind].options.partition(":")
    described = SCHEMA["$defs"][kind]["properties"]
    assert fields(getattr(import_module(module), name)) == set(described) - {"kind"}


def test_the_keys_of_an_entry_are_those_of_the_schema():
    assert fields(DatasetEntry) - {"kind"} == set(SCHEMA["properties"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entry: entry.update(clases=["a"]), "'clases', did you mean 'classes'"),
        (lambda entry: entry["source"].update(rot="x"), "source: unknown key 'rot'.* 'root'"),
        (lambda entry: entry["splits"].update(sed=1), "splits: unknown key 'sed'.* 'seed'"),
        (lambda entry: entry.pop("splits"), "missing key 'splits'"),
        (lambda entry: entry["source"].update(kind="folders"), "unknown kind of source 'folders'"),
    ],
)
def test_a_key_that_is_misspelt_or_missing_is_refused_at_the_door(change, message):
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


def test_a_complete_entry_stays_as_it_is():
    for task in ("regression", "pixel_regression", "detection", "segmentation"):
        entry = validated({"task": task, "source": {"kind": "demo"}})
        assert validated(copy.deepcopy(entry)) == entry
