"""What kinds of backbones build that are fed no pixels: features of where, and when, an image was taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from permafrost.data.embeddings.places import Place


class Located(Protocol):
    """Features of places.

    Attributes
    ----------
    needs_place : whether it can do nothing without longitude and latitude.
    layer : name of its only map; None where it makes none.
    pooling : how the features of an image come about, for the record.
    weights_sha256, parameters, packages : as of a `backbone.Backbone`.
    """

    needs_place: bool
    layer: str | None
    pooling: str
    weights_sha256: str | None
    parameters: int
    packages: tuple[str, ...]

    def features(self, places: Sequence[Place]) -> tuple[np.ndarray, dict[int, str]]:
        """(n, K) float32, and for the positions that have none the reason why."""
        ...

    def maps(self, place: Place, rows: int, columns: int) -> np.ndarray:
        """(C, rows, columns) float32 on a grid that covers the image, NaN where there is nothing."""
        ...

    def describe(self) -> dict:
        """What a feature store records of its input, after the features of all images were asked for."""
        ...
