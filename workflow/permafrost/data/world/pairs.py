"""A scene before and after construction or clearing, in another season and light.

Both images show the same ground: unchanged land has the same fields, trees and houses in both.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from permafrost.data.world import fields, scene

#: kinds of change, in the order of the ids
KINDS = ["no change", "built", "cleared"]
_BUILT, _CLEARED = 1, 2
#: kind -> covers that it replaces, and covers that follow, in equal shares
_COVERS = {
    _BUILT: (("pasture", "cropland"), ("residential", "industrial")),
    _CLEARED: (("forest", "scrubland", "orchard"), ("cropland", "pasture")),
}
#: size of the plots that change, in pixels, and the share of eligible plots that change
_PLOT, _SHARE = 14, 0.3
#: index of the later image of the two
_AFTER = 1


@functools.lru_cache(maxsize=64)
def change(spec: scene.SceneSpec) -> tuple[np.ndarray, np.ndarray]:
    """Changes, (size, size) uint8 ids of `KINDS`, and the covers afterwards, ids of `scene.CLASSES`; read-only."""
    site = fields.Site(spec.rng("change"), np.ones((spec.size, spec.size), bool))
    cell, _ = site.parcels(_PLOT, stretch=1.3)
    drawn = site.per_cell(cell).reshape(spec.size, spec.size)
    follower = site.per_cell(cell).reshape(spec.size, spec.size)
    before = scene.layout(spec)
    kinds, after = np.zeros_like(before), before.copy()
    for kind, (lost, won) in _COVERS.items():
        here = np.isin(before, [scene.CLASSES.index(name) for name in lost]) & (drawn < _SHARE)
        ids = np.array([scene.CLASSES.index(name) for name in won], np.uint8)
        kinds[here] = kind
        after[here] = ids[(follower[here] * len(ids)).astype(int)]
    kinds.flags.writeable = after.flags.writeable = False
    return kinds, after


def days(spec: scene.SceneSpec) -> list[np.datetime64]:
    """Acquisition dates of both images, two years apart."""
    return [
        np.datetime64("2019-04-01") + spec.number * 37 % 180,
        np.datetime64("2021-04-01") + spec.number * 53 % 180,
    ]


def mask(spec: scene.SceneSpec, *, each: bool) -> np.ndarray:
    """Labels per pixel, uint8: ids of `KINDS`, or 1 for every change unless `each`.

    `scene.CLOUD` where clouds hide the ground on either date.
    """
    kinds = change(spec)[0]
    truth = kinds.copy() if each else np.minimum(kinds, 1)
    if spec.clouds:
        truth[scene.hidden(spec) | scene.hidden(spec, _AFTER)] = scene.CLOUD
    return truth


def render(spec: scene.SceneSpec, bands: list[str]) -> np.ndarray:
    """Digital numbers (2, C, size, size) uint16, before and after; before equals `scene.render`."""
    rng, own = spec.rng("render"), spec.rng("render", _AFTER)
    season = scene.season(rng)
    # forests keep their trees through the seasons
    season = replace(scene.season(own), broadleaf=season.broadleaf)
    shares = scene.materials(rng, change(spec)[1], season)
    sunlight = scene.light(rng, spec.size, own)
    after = scene.expose(spec, bands, shares, sunlight, own, _AFTER)
    return np.stack([scene.render(spec, bands), after])
