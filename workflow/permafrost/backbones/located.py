"""Interface of backbones that map locations and dates to features, instead of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from permafrost.data.embeddings.places import Place


class Located(Protocol):
    """Features of locations.

    Attributes
    ----------
    needs_place : whether it requires longitude and latitude.
    layer : name of its only feature map; None without maps.
    pooling : how the features of an image are computed, recorded in feature stores.
    weights_sha256, parameters, packages : as in `backbone.Backbone`.
    """

    needs_place: bool
    layer: str | None
    pooling: str
    weights_sha256: str | None
    parameters: int
    packages: tuple[str, ...]

    def features(self, places: Sequence[Place]) -> tuple[np.ndarray, dict[int, str]]:
        """Features (n, K) float32, and for positions without features the reason."""
        ...

    def maps(self, place: Place, rows: int, columns: int) -> np.ndarray:
        """Map (C, rows, columns) float32 on a grid that covers the image; NaN for cells without data."""
        ...

    def describe(self) -> dict:
        """Description of the input for feature stores; call it after `features` of all images."""
        ...
