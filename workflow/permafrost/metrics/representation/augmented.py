"""Every measure of augmented views at once."""

from __future__ import annotations

from permafrost.metrics.representation.directions import view_alignment
from permafrost.metrics.representation.lidar import lidar
from permafrost.metrics.representation.measure import Measure

VIEW_MEASURES = ("alignment_augmentations", "lidar")


def measures_of_views(views, *, delta: float, units=None, names=None) -> dict[str, Measure]:
    """Measures of (N, q, d) features of q augmented views of N images, in the order of `VIEW_MEASURES`.

    Parameters
    ----------
    delta : of `lidar`.
    units : (N,) independent unit of each image, numbered from 0; terms are by unit.
    names : the measures wanted; all by default.

    Raises
    ------
    PermafrostError : NaN or infinite features, wrong shapes.
    """
    made = {
        "alignment_augmentations": lambda: view_alignment(views, units=units),
        "lidar": lambda: lidar(views, delta=delta, units=units),
    }
    return {name: made[name]() for name in VIEW_MEASURES if names is None or name in names}
