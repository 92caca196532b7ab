"""Predictions of the test images that training has not seen: a further setting of every probe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.leakage import CLEAN, LEAK
from permafrost.core.row_file import RowFile
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.predictions.settings import Draws, ScoredSetting, WholeSetting

if TYPE_CHECKING:
    import pyarrow as pa

    from permafrost.statistics.predictions.reading import Predictions


def clean_part(
    predictions: Predictions, table: pa.Table, metadata: dict
) -> Draws | WholeSetting | None:
    """What is ranked, on the test images without leakage; None where all or none of them leak.

    Parameters
    ----------
    predictions : of all test images; table, metadata : that they were read from, see `reading.read_predictions`.
    """
    if LEAK not in table.column_names:
        return None
    import pyarrow.compute as pc

    clean = table.filter(pc.is_null(table[LEAK]))
    if len(clean) in (0, len(table)):
        return None
    if isinstance(predictions, LabelledSamples):
        some = of_samples(predictions, clean["sample_id"].to_pylist())
    else:
        some = predictions_from_table(clean, metadata)
    if isinstance(some, Draws):
        return replace(some, about=replace(some.about, name=CLEAN))
    counts = (metadata["n_train"], metadata["n_val"])
    return WholeSetting(some, ScoredSetting(CLEAN, metadata["settings"], *counts, []))


def of_samples(predictions: LabelledSamples, sample_ids: list[str]) -> LabelledSamples:
    """Predictions of some samples; scores that lie in a file stay in one."""
    rows = np.flatnonzero(np.isin(predictions.sample_ids, np.array(sample_ids)))
    scores = predictions.scores
    if isinstance(scores, RowFile):
        kept = scores.beside(scores.shape[1], scores.dtype)
        every = 65_536
        for start in range(0, len(rows), every):
            kept.append(scores[rows[start : start + every]])
    else:
        kept = scores[rows]
    groups = predictions.groups
    return replace(
        predictions,
        sample_ids=predictions.sample_ids[rows],
        groups=None if groups is None else groups[rows],
        target=predictions.target[rows],
        prediction=predictions.prediction[rows],
        scores=kept,
    )
