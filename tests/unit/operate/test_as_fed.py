"""What plan and info say of what is fed, once images are prepared."""

from __future__ import annotations

import pytest
from helpers.datasets.sentinel2 import BANDS
from helpers.stores.images import card_of, sentinel2_bands
from permafrost.core.errors import PermafrostError
from permafrost.operate import as_fed
from permafrost.operate.described import describe, facts
from permafrost.operate.offers import Offers

LAND = [one | {"mean": 1000.0, "std": 600.0} for one in sentinel2_bands(BANDS)]
BACKBONES = {
    "photographs": {
        "kind": "timm",
        "model": "test_resnet",
        "weights": {"source": "random"},
        "input": {"normalization": "weights", "mean": 0.418, "std": 0.288},
    },
    "z-scores": {"kind": "timm", "model": "test_resnet", "weights": {"source": "random"}},
    "stored": {"kind": "imagestats"},
    "place": {"kind": "coordinates", "encoder": "sines"},
}
DATASET = {
    "task": "classification",
    "source": {"kind": "folder", "path": "land"},
    "sensor": "sentinel2-l2a",
    "bands": BANDS,
    "units": {"unit": "digital_number", "scale": 1e-4},
}


@pytest.fixture
def offers(offers_of_entries, monkeypatch):
    card = card_of(LAND, dataset="land")
    monkeypatch.setattr(
        as_fed, "known_card", lambda _, dataset: card if dataset == "land" else None
    )
    return offers_of_entries


@pytest.fixture
def offers_of_entries(tmp_path) -> Offers:
    import yaml
    from permafrost.operate.offers import read_offers

    config = tmp_path / "config" / "config.yaml"
    config.parent.mkdir()
    config.write_text(
        yaml.safe_dump(
            {"extra_backbones": BACKBONES, "extra_datasets": {"land": DATASET, "later": DATASET}}
        )
    )
    return read_offers(tmp_path)


def test_every_channel_of_what_is_prepared_is_in_the_plan_and_what_is_unusual_is_said(offers):
    pairs = [(dataset, backbone) for dataset in ("land", "later") for backbone in BACKBONES]
    found = as_fed.known_pairs(offers, pairs)
    assert list(found) == [("land", name) for name in ("photographs", "z-scores", "stored")]
    text = "\n".join(as_fed.fed_lines(found))
    # (0.1 - 0.418) / 0.288 and 0.06 / 0.288
    assert "photographs on land: unusual input: B04 -1.1 ± 0.21, B03 -1.1 ± 0.21, B02" in text
    assert "z-scores on land: B04 0 ± 1, B03 0 ± 1, B02 0 ± 1" in text
    assert "stored on land: B04 1000 ± 600" in text
    first, *_ = as_fed.fed_json(found)
    assert first["unusual"] == ["B04", "B03", "B02"] and first["backbone"] == "photographs"
    assert first["channels"][0]["mean"] == pytest.approx((0.1 - 0.418) / 0.288)


def test_of_many_pairs_those_that_are_unusual_are_listed(offers, monkeypatch):
    monkeypatch.setattr(as_fed, "_MANY", 2)
    pairs = [("land", backbone) for backbone in BACKBONES]
    lines = list(as_fed.fed_lines(as_fed.known_pairs(offers, pairs)))
    assert [line.split()[0] for line in lines[2:]] == ["photographs", "and"]
    assert lines[-1].startswith("  and 2 pairs without anything unusual")
    assert list(as_fed.fed_lines({})) == []


def test_info_says_what_is_fed_where_it_is_known(offers):
    text = " ".join(" ".join(describe(offers, "photographs", "land")).split())
    assert (
        "fed -1.1 ± 0.208 over train" in text and "look at Normalised channels have a mean" in text
    )
    assert "over train" not in " ".join(describe(offers, "photographs", "later"))
    known = facts(offers, "photographs", "land")
    assert known["unusual"] == ["B04", "B03", "B02"] and len(known["as_fed"]) == 3
    assert facts(offers, "z-scores", "land")["unusual"] == []
    assert "unusual" not in facts(offers, "z-scores", "later")


def test_a_card_that_cannot_be_read_is_not_known(offers_of_entries, tmp_path, monkeypatch):
    broken = tmp_path / "card.json"
    broken.write_text("{")
    monkeypatch.setattr(as_fed, "prepared", lambda *_: broken)
    assert as_fed.known_card(offers_of_entries, "land") is None
    with pytest.raises(PermafrostError):
        as_fed.read_card(broken)
