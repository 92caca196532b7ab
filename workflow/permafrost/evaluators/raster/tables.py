"""An evaluation of rasters as Arrow tables."""

from __future__ import annotations

import numpy as np

from permafrost.evaluators.raster.result import RasterEvaluation
from permafrost.metrics.ratios import divide


def confusion_table(evaluation: RasterEvaluation):
    """One row per pair of classes, also of those that no pixel has.

    Columns: ``reference``, ``prediction`` (names of the classes); ``reference_code``, ``prediction_code``;
    ``pixels``; ``reference_share`` and ``prediction_share``, the share of the pixels of that reference class
    and of that predicted class (null where it has none), which are recall and precision where both are one
    class; where pixels differ in area, ``area_m2``, the sum of theirs.
    """
    import pyarrow as pa

    counts, size = evaluation.counts, len(evaluation.codes)
    first, second = (places.ravel() for places in np.indices((size, size)))
    shares = {
        "reference_share": divide(counts, counts.sum(axis=1, keepdims=True)).ravel(),
        "prediction_share": divide(counts, counts.sum(axis=0, keepdims=True)).ravel(),
    }
    names, codes = np.array(evaluation.names, object), np.array(evaluation.codes, np.int64)
    columns = {
        "reference": pa.array(names[first], pa.string()),
        "prediction": pa.array(names[second], pa.string()),
        "reference_code": codes[first],
        "prediction_code": codes[second],
        "pixels": counts.ravel(),
        **{
            name: pa.array(values, pa.float64(), mask=np.isnan(values))
            for name, values in shares.items()
        },
    }
    if evaluation.area_sums is not None:
        columns["area_m2"] = evaluation.area_sums[0].ravel()
    return pa.table(columns)
