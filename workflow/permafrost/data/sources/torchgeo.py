"""Kind ``torchgeo``: a torchgeo dataset that returns an image and its labels, by class name."""

from __future__ import annotations

from permafrost.data.records import Source
from permafrost.data.sources.torchgeo_detection import TorchgeoDetection
from permafrost.data.sources.torchgeo_source import TorchgeoSource


def open_torchgeo(entry: dict, *, where: object) -> Source:
    """Samples with boxes, or with a label or mask, as the task asks for."""
    kind = TorchgeoDetection if entry["task"] == "detection" else TorchgeoSource
    return kind(entry, where=where)
