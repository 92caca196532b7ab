"""What a page says of a dataset whose samples hold several sensors and dates."""

import pytest
from helpers.stores.images import card_of, rgb_bands
from permafrost.report.sections.dataset import card_facts, dataset_flags, trained_on_flags

CHOICE = {
    "parts": ["s2", "s1"],
    "date": "July",
    "left_out": 3,
    "labels": {"boxes": "instance", "mask": "semantic"},
}


def facts_of(**fields) -> dict[str, str]:
    known = {"image_size": {"min": [8, 8], "max": [8, 8]}, "split_seed": 0}
    return dict(card_facts(card_of(rgb_bands(), **known, **fields)))


def test_the_choice_of_parts_and_date_and_the_published_size_are_said():
    facts = facts_of(choice=CHOICE, published="10 / 2 / 3 images")
    assert facts["parts of a sample that are its image"] == "s2, s1"
    assert facts["of several dates"] == "July"
    assert facts["samples without them, left out"] == "3"
    assert facts["labels are in"] == "instance (boxes), semantic (mask)"
    assert facts["as published"] == "10 / 2 / 3 images"


@pytest.mark.parametrize(
    ("date", "said"), [("last", "last"), (2, "number 2, from 0"), (-2, "number 2 from the end")]
)
def test_a_date_by_number_is_called_so(date, said):
    facts = facts_of(choice={**CHOICE, "date": date, "left_out": 0})
    assert facts["of several dates"] == said and "samples without them, left out" not in facts


def test_of_a_sample_that_is_one_image_nothing_more_is_said():
    facts = facts_of()
    assert {"of several dates", "as published", "labels are in"} & set(facts) == set()


@pytest.mark.parametrize(
    ("task", "geometry", "said"),
    [
        ("detection", "polygon", "polygon, scored by its box"),
        ("instance_segmentation", "polygon", "polygon, scored by its mask"),
        ("instance_segmentation", "box", "mask"),
    ],
)
def test_card_says_by_which_shape_objects_are_scored(task, geometry, said):
    options = {"geometry": geometry, "tiles": None, "match_distance": None, "max_detections": 100}
    splits = {"train": {"objects": 1}}
    facts = facts_of(task=task, detection={**options, "splits": splits})
    assert facts["geometry of objects"] == said


def test_doubts_about_bands_are_flagged_with_what_was_found():
    found = [{"bands": ["VH", "VV"], "found": "VH is above VV in 99% of the pixels"}]
    (flag,) = dataset_flags(card_of(rgb_bands(), audit={"bands": found}))
    assert "VH is above VV in 99% of the pixels" in flag["long"] and "bands" in flag["short"]
    # of a card in an archive that was made before there were any
    assert dataset_flags(card_of(rgb_bands(), audit={})) == []


def test_backbones_that_were_trained_on_the_images_are_named():
    backbones = {
        "remoteclip": {"trained_on": ["clip-wit-400m", "dota"]},
        "resnet": {"trained_on": ["imagenet-1k"]},
        "random": {},
    }
    (flag,) = trained_on_flags({"images_of": ["dota"]}, backbones)
    assert "remoteclip (on dota)" in flag["long"] and "resnet" not in flag["long"]
    assert trained_on_flags({"images_of": ["dior"]}, backbones) == []
    assert trained_on_flags({}, backbones) == []
