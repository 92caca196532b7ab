"""Files of truth and predictions, and the options that name them to the commands."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from helpers.predictions.crowns import random_crowns
from helpers.predictions.detection_command import write
from helpers.predictions.detections import coco_case
from helpers.predictions.panoptic import panoptic_case, write_panoptic
from helpers.predictions.rasters import write as write_raster


@pytest.fixture
def detections(tmp_path):
    truth, results = coco_case(1, detections=12)
    options = []
    for name, content in (("truth", truth), ("predictions", results)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        options += [f"--{name}", path]
    return [*options, "--iou-type", "bbox"]


@pytest.fixture
def coco_files(tmp_path):
    """Truth and detections of two categories of one name."""
    truth, results = coco_case(1, ties=False, detections=12, first_id=0)
    truth["categories"][1]["name"] = truth["categories"][0]["name"]
    return write(tmp_path, truth, results)


@pytest.fixture
def boxes(tmp_path):
    options = []
    cases = random_crowns(np.random.default_rng(1), "box", 6)
    for name, rows in zip(("truth", "predictions"), cases, strict=True):
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
        options += [f"--{name}", tmp_path / f"{name}.csv"]
    return options


@pytest.fixture
def rasters(tmp_path):
    codes = np.random.default_rng(2).integers(0, 3, (2, 64, 64)).astype(np.uint8)
    options = []
    for name, values in zip(("reference", "prediction"), codes, strict=True):
        options += [f"--{name}", write_raster(tmp_path / f"{name}.tif", values)]
    return [*options, "--block", 16]


@pytest.fixture(name="files")
def _files(tmp_path):
    truth, predictions = panoptic_case(4)
    return write_panoptic(tmp_path, "truth", *truth), write_panoptic(
        tmp_path, "found", *predictions
    )
