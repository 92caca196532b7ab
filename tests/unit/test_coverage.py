"""The page that counts what is covered of others: made from what is there, so that nothing lacks unnoticed."""

from __future__ import annotations

import importlib.util

import pytest
import yaml
from helpers.project import REPOSITORY


@pytest.fixture
def generate():
    spec = importlib.util.spec_from_file_location("generate", REPOSITORY / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def parts(generate) -> dict[str, dict]:
    return {one["title"]: one for one in generate.covered_parts()}


def test_every_part_is_counted_and_what_lacks_has_a_reason(generate, parts):
    page = generate.pages()["reference/coverage.md"]
    for title, part in parts.items():
        missing = sum(len(names) for names in part["missing"].values())
        assert f"| {title} | {part['covered']} | {part['all']} |" in page
        assert 0 < part["covered"] <= part["all"] and part["all"] - part["covered"] >= missing
        assert all(part["missing"]), title


def test_weights_of_torchgeo_without_an_entry_are_those_that_no_entry_could_name(parts):
    """New weights of another version need an entry, or a reason in NOT_FOR_IMAGES."""
    assert not [why for why in parts["torchgeo, weights"]["missing"] if why.startswith("no entry")]
    assert parts["Copernicus-Bench, datasets that kind torchgeo reads"]["all"] == 15


def test_a_part_counts_configurations_and_says_why_others_lack(generate):
    part = generate._part("x", "y", {"a": None, "b": "not\n here", "c": None}, {"a": 5})
    assert (part["covered"], part["all"]) == (6, 7) and part["missing"] == {"not here": ["`b`"]}


def test_an_entry_that_is_no_longer_there_stops_the_page(generate, tmp_path, monkeypatch):
    told = yaml.safe_load((REPOSITORY / "docs" / "coverage.yaml").read_text())
    told["parts"][0]["items"]["timm"] = "gone"
    for name in ("config", "workflow"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/datasets.md").symlink_to(REPOSITORY / "docs" / "datasets.md")
    (tmp_path / "docs/coverage.yaml").write_text(yaml.safe_dump(told))
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="there is no entry 'gone'"):
        list(generate.covered_parts())
