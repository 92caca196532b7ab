"""Entries of backbones as dataclasses."""

import pytest
from helpers.backbones import backbone_entry
from permafrost.backbones.registry import read_entry
from permafrost.core.errors import PermafrostError


def test_what_describes_a_backbone_builds_none_of_it():
    entry = {"kind": "rcf", "title": "T", "runtime": {"batch_size": 3}}
    assert backbone_entry(entry) == backbone_entry({"kind": "rcf"})


def test_a_job_refuses_options_of_another_type():
    with pytest.raises(PermafrostError, match="features: must be a whole number, not the text '8'"):
        read_entry({"kind": "rcf", "features": "8"}, where="job")
