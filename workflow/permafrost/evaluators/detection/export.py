"""All tables of an evaluation as Arrow tables, with reasons for those that cannot be made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.analysis.calibration import Calibration
from permafrost.metrics.detection.analysis.confusion import confused_pairs
from permafrost.metrics.detection.analysis.olrp import OptimalLRP
from permafrost.metrics.detection.analysis.overview import Analysis, analyse
from permafrost.metrics.detection.analysis.tables import (
    category_table,
    curve_table,
    detection_table,
    image_table,
    pair_table,
)
from permafrost.metrics.detection.analysis.tide import ErrorKinds
from permafrost.metrics.detection.evaluation import Evaluation

# no category: the true one of a false alarm, the predicted one of a miss
NONE = "__none__"


def arrow_tables(
    evaluation: Evaluation, analysis: Analysis | None = None
) -> tuple[dict, list[str]]:
    """Tables by name, and sentences about tables that this evaluation cannot provide.

    ``images``, ``categories``, ``curves``, ``detections``, ``pairs``: see `tables`; ``confusion``:
    a row per pair of categories that occurs; ``errors``: kinds of errors and the loss from each;
    ``olrp``: a row per category; ``calibration``: a row per bin, ``calibration_categories``: one
    per category. Undefined values are null. Pass `analysis` if it was already computed for the
    evaluation.
    """
    analysis = analyse(evaluation) if analysis is None else analysis
    makers: dict[str, Callable[..., dict]] = {
        "images": image_table,
        "categories": _categories,
        "curves": curve_table,
        "detections": detection_table,
        "pairs": pair_table,
        "confusion": _confusion,
    }
    found, notes = {}, []
    for name, make in makers.items():
        try:
            found[name] = arrow_table(make(evaluation))
        except PermafrostError as error:
            notes.append(f"No table {name}: {error.problem}.")
    analysed: dict[str, tuple[str, Callable[..., dict]]] = {
        "errors": ("tide", _errors),
        "olrp": ("olrp", _olrp),
        "calibration": ("calibration", _bins),
        "calibration_categories": ("calibration", _per_category),
    }
    for name, (kind, make) in analysed.items():
        result = getattr(analysis, kind)
        if result is not None:
            found[name] = arrow_table(make(evaluation, result))
        elif name != "calibration_categories":
            notes.append(f"No table {name}: {analysis.missing[kind]}.")
    return found, notes


def _categories(evaluation: Evaluation) -> dict[str, np.ndarray]:
    """COCO writes -1 for a category without truth; the table has null."""
    columns = category_table(evaluation)
    return {
        name: np.where(column == -1, np.nan, column) if name.startswith(("ap", "ar")) else column
        for name, column in columns.items()
    }


def _names(evaluation: Evaluation) -> dict[str, np.ndarray]:
    columns = category_table(evaluation)
    return {name: columns[name] for name in ("category_id", "name")}


def _confusion(evaluation: Evaluation) -> dict[str, np.ndarray]:
    true, predicted, counts = confused_pairs(evaluation)
    categories = evaluation.truths.categories
    ids = np.array([*categories.ids.tolist(), None], object)
    names = np.array([*categories.names, NONE], object)
    return {
        "true_category_id": ids[true],
        "true_category": names[true],
        "predicted_category_id": ids[predicted],
        "predicted_category": names[predicted],
        "count": counts,
    }


def _errors(evaluation: Evaluation, kinds: ErrorKinds) -> dict[str, np.ndarray]:
    alarms = sum(count for kind, count in kinds.counts.items() if kind != "missed")
    return {
        "kind": np.array([*kinds.gain, "all false alarms"], object),
        "count": np.array([*kinds.counts.values(), alarms], np.int64),
        "gain": np.array([*kinds.gain.values(), kinds.no_false_alarms]),
        "ap": np.full(len(kinds.gain) + 1, kinds.precision),
    }


def _olrp(evaluation: Evaluation, found: OptimalLRP) -> dict[str, np.ndarray]:
    return {
        **_names(evaluation),
        "olrp": found.value,
        "localisation": found.localisation,
        "false_alarms": found.false_alarms,
        "misses": found.misses,
        "score": found.score,
    }


def _bins(evaluation: Evaluation, found: Calibration) -> dict[str, np.ndarray]:
    # if all scores are equal, there is one bin with a single edge
    edges = found.edges if len(found.edges) > 1 else np.repeat(found.edges, 2)
    return {
        "low_score": edges[:-1],
        "high_score": edges[1:],
        "count": found.counts,
        "mean_score": found.mean_score,
        "accuracy": found.accuracy,
        "accuracy_low": found.low,
        "accuracy_high": found.high,
    }


def _per_category(evaluation: Evaluation, found: Calibration) -> dict[str, np.ndarray]:
    return {**_names(evaluation), "expected_calibration_error": found.per_category}


def arrow_table(columns: dict[str, np.ndarray]):
    """Columns as an Arrow table; NaN and None are null."""
    arrays = {}
    for name, column in columns.items():
        if column.dtype.kind == "f":
            arrays[name] = pa.array(column, pa.float64(), mask=np.isnan(column))
        elif column.dtype.kind == "O":
            kind = None if any(value is not None for value in column) else pa.int64()
            arrays[name] = pa.array(column.tolist(), kind)
        else:
            arrays[name] = pa.array(column)
    return pa.table(arrays)
