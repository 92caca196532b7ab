"""Checks of features: NaN is an error; collapsed features give a warning (gate)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from permafrost.core.errors import PermafrostError

COLLAPSED = "collapsed_features"
# relative deviations below this count as rounding errors
_NOISE = 1e-5


def check_finite(rows: np.ndarray, first: int, sample_ids, *, where: str, remedy: str) -> None:
    """Check features for NaN and infinity.

    Parameters
    ----------
    rows : (n, K) features of samples ``first``, ``first + 1``, …
    sample_ids : names of all samples.

    Raises
    ------
    PermafrostError : a value is not finite; names the first sample with one.
    """
    if np.isfinite(rows).all():
        return
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    values = rows[bad[0]]
    raise PermafrostError(
        f"the features of {len(bad)} of {len(rows)} samples hold NaN or infinity, first of sample"
        f" {str(sample_ids[first + int(bad[0])])!r}"
        f" ({int((~np.isfinite(values)).sum())} of {values.size} values)",
        where=where,
        remedy=remedy,
    )


class CollapseGate:
    """Detects collapsed features in a stream of rows, in constant memory.

    Features are collapsed if, up to rounding, all rows are one point or lie on one line.
    """

    def __init__(self) -> None:
        self._origin: np.ndarray | None = None
        self._furthest: np.ndarray | None = None
        self._direction: np.ndarray | None = None
        self._scale = 0.0
        self._spans_plane = False
        self._rows = 0

    def update(self, rows: np.ndarray) -> None:
        """Add rows (n, K)."""
        self._rows += len(rows)
        if self._spans_plane or not len(rows):
            return
        rows = rows.astype(np.float64)
        if self._origin is None:
            self._origin = rows[0]
        self._scale = max(self._scale, float(np.abs(rows).max()))
        deviation = rows - self._origin
        lengths = np.linalg.norm(deviation, axis=1)
        noise = _NOISE * self._scale * np.sqrt(rows.shape[1])
        if self._direction is None and lengths.max() > noise:
            furthest = int(lengths.argmax())
            self._furthest = rows[furthest]
            self._direction = deviation[furthest] / lengths[furthest]
        if self._direction is not None:
            off = deviation - np.outer(deviation @ self._direction, self._direction)
            self._spans_plane = bool((np.linalg.norm(off, axis=1) > noise).any())

    def state(self) -> dict:
        """The state that `of_parts` needs, as JSON data."""
        points = [self._origin, self._furthest]
        return {
            "rows": self._rows,
            "scale": self._scale,
            "spans_plane": self._spans_plane,
            "points": [] if self._spans_plane else [p.tolist() for p in points if p is not None],
        }

    @classmethod
    def of_parts(cls, states: Iterable[Mapping]) -> CollapseGate:
        """Merge the states of several gates, which saw consecutive rows, in order.

        Two points represent the rows of a gate whose rows lie on one line.
        """
        whole = cls()
        for state in states:
            whole._scale = max(whole._scale, state["scale"])
            whole._spans_plane |= state["spans_plane"]
            if state["points"]:
                whole.update(np.array(state["points"]))
                whole._rows -= len(state["points"])
            whole._rows += state["rows"]
        return whole

    def gates(self) -> list[str]:
        """``["collapsed_features"]``, or empty; always empty for fewer than three rows."""
        if self._rows < 3 or self._spans_plane or self._origin is None:
            return []
        line_is_all = len(self._origin) == 1 and self._direction is not None
        return [] if line_is_all else [COLLAPSED]
