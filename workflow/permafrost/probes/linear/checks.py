"""Checks before fitting; every error message has a remedy."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.row_file import RowFile, row_blocks
from permafrost.probes.embeddings.arithmetic import bad_rows

SOLVERS = ("lbfgs", "adam")


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    look_up(known, value, f"the linear probe has no {name}")


def check_features(features, split: str, width: int | None = None) -> np.ndarray | RowFile:
    """Check and return (N, d) float features without NaN or infinity; (N, ``width``) if given."""
    features = features if isinstance(features, RowFile) else np.asarray(features)
    where = f"linear probe, {split} features"
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind not in "fiu":
        raise PermafrostError(
            f"need numbers of shape (samples, dimensions), got {features.dtype} {features.shape}",
            where=where,
            remedy="pool the embeddings to one vector per sample and keep every split non-empty",
        )
    if width is not None and features.shape[1] != width:
        raise PermafrostError(
            f"have {features.shape[1]} dimensions, train has {width}",
            where=where,
            remedy="extract all splits with the same backbone",
        )
    if features.dtype == np.float16:
        features = features.astype(np.float32)
    # one pass: a NaN or infinity makes the sum not finite
    sums = [np.sum(features[rows], dtype=np.float64) for rows in row_blocks(features)]
    if not np.isfinite(sums).all():
        bad = bad_rows(features)
        if len(bad):
            raise PermafrostError(
                f"{len(bad)} of {len(features)} rows hold NaN or infinity, first row {bad[0]}",
                where=where,
                remedy="check the backbone's weights, its input normalisation and its precision",
            )
    return features


def check_grid(grid) -> np.ndarray:
    """Check and return ascending positive values of C; by default 40 from 10^-6 to 10^4."""
    if grid is None:
        return 10.0 ** np.linspace(-6.0, 4.0, 40)
    values = np.sort(np.asarray(grid, dtype=np.float64).reshape(-1))
    distinct = len(values) > 0 and (np.diff(values) > 0).all()
    if not distinct or not np.isfinite(values).all() or values[0] <= 0:
        raise PermafrostError(
            f"C values must be positive, finite and different from each other, got {grid}",
            where="linear probe: c_grid",
            remedy="give c_min, c_max > 0 and a c_count, or a list of different values",
        )
    return values
