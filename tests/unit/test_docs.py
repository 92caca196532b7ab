"""The page on evaluations names every one of them, and what it shows exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from permafrost.metrics.representation import MEASURES
from permafrost.probes.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "which-evaluation-when.md").read_text()
PROBES = (ROOT / "docs" / "probes.md").read_text()
# as the page calls them
MEASURED = {
    "rankme": "RankMe",
    "alpha_req": "α-ReQ",
    "nesum": "NESum",
    "dimension_lpca": "PCA",
    "dimension_two_nn": "TwoNN",
    "dimension_mle": "MLE",
    "lidar": "LiDAR",
    "silhouette_normalised": "silhouette",
    "alignment_augmentations": "augmented views",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_probe_is_explained(kind):
    assert f"`{kind}`" in PAGE
    assert f"| `{kind}`" in PROBES or f", `{kind}`" in PROBES


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_explained(name):
    assert MEASURED.get(name, name.replace("_", " ")).lower() in PAGE.lower()


def test_the_files_it_names_exist():
    named = re.findall(r"`?((?:config|benchmarks|docs)/[\w./-]*\w)", PAGE)
    assert named and [name for name in named if not (ROOT / name).exists()] == []
