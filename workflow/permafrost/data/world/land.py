"""Satellite views of a scene: its land cover, its changes, or its crops on several dates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.data.world import farmland, pairs, scene


@dataclass(frozen=True)
class Land:
    """Images of scenes and ground truth of their pixels.

    Attributes
    ----------
    mask : scene -> (size, size) ids of `classes`.
    render : scene, band names -> (C, size, size), or (T, C, size, size) for several dates.
    days : scene -> acquisition dates; None for a single image.
    patchy : whether single clouds hide parts of an image.
    """

    classes: list[str]
    mask: Callable[[scene.SceneSpec], np.ndarray]
    render: Callable[[scene.SceneSpec, list[str]], np.ndarray]
    days: Callable[[scene.SceneSpec], Sequence[np.datetime64]] | None = None
    patchy: bool = False


def covers_of(*, patchy: bool) -> Land:
    """Land cover on one date."""
    return Land(list(scene.CLASSES), scene.mask, scene.render, patchy=patchy)


def pairs_of(kinds: str) -> Land:
    """Land cover before and after; changes are ``one`` class, or with ``each`` one class per kind."""
    each = kinds == "each"
    return Land(
        list(pairs.KINDS) if each else [pairs.KINDS[0], "change"],
        lambda spec: pairs.mask(spec, each=each),
        pairs.render,
        pairs.days,
        patchy=True,
    )


def series_of(cloudy: float) -> Land:
    """Crops through a summer; clouds hide a date with probability `cloudy`."""

    def seen(spec: scene.SceneSpec) -> list[int]:
        return farmland.visible(spec, cloudy)

    return Land(
        list(farmland.CROPS),
        farmland.layout,
        lambda spec, bands: farmland.render(spec, bands, seen(spec)),
        lambda spec: [farmland.day(spec, date) for date in seen(spec)],
    )
