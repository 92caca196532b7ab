"""Entries of backbones as dataclasses: what the schema describes, and nothing else."""

import dataclasses
from importlib import import_module

import pytest
from helpers.backbones import backbone_entry
from permafrost.backbones.registry import KINDS, NOT_BUILT, BackboneEntry
from permafrost.plan.validation import load_schema


@pytest.mark.parametrize("kind", KINDS)
def test_the_options_of_a_kind_are_those_of_the_schema(kind):
    options = getattr(import_module(KINDS[kind].module), KINDS[kind].options)
    # three kinds have an option of this name themselves
    common = {field.name for field in dataclasses.fields(BackboneEntry)} - {"options"}
    described = set(load_schema("backbone")["$defs"][kind]["properties"])
    assert {field.name for field in dataclasses.fields(options)} == described - common - {
        *NOT_BUILT
    }


def test_what_describes_a_backbone_builds_none_of_it():
    entry = {"kind": "rcf", "title": "T", "runtime": {"batch_size": 3}}
    assert backbone_entry(entry) == backbone_entry({"kind": "rcf"})
