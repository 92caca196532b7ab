"""The table of a probe's predictions on the test split, for statistics and reports."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from permafrost.core.columns import Column
from permafrost.core.leakage import sample_columns
from permafrost.core.tables import write_table
from permafrost.probes.embeddings.features import Features
from permafrost.probes.job import ProbeJob
from permafrost.probes.metadata import PredictionColumns, prediction_metadata

_CLASSES = ("int32", "fixed_size_list<uint8>")


class LabelPredictions(PredictionColumns):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet of a dataset with one label or
    several per image: one test sample. The metadata of the file name the classes, the fitted settings,
    and everything that identifies the evaluation.

    Columns
    -------
    target : True class id, counted from 0 in the order of the classes in the metadata; for multi-label data one 0
        or 1 for each class.
    prediction : Predicted class id, or one 0 or 1 for each class.
    scores : One score for each class, higher is more likely: probabilities for linear, shares of neighbours for
        knn. Classes without training samples also have a score.
    """

    columns = PredictionColumns.changed(
        Column("target", _CLASSES),
        Column("prediction", _CLASSES),
        Column("scores", "fixed_size_list<float>"),
    )


class NumberPredictions(PredictionColumns):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet of a dataset with a number per
    image: one test sample. The metadata of the file name the number (target), the fitted settings, and
    everything that identifies the evaluation.

    Columns
    -------
    target : True number, in its unit.
    prediction : Predicted number, in the unit of the target.
    setting_numbers : The number predicted with each setting in scored_settings of the metadata (fine_tune:
        fine-tuned, frozen).
    """

    columns = PredictionColumns.changed(
        Column("target", "double"),
        Column("prediction", "double"),
        Column("setting_numbers", "fixed_size_list<double>", optional=True),
    )


@dataclass(frozen=True)
class Prediction:
    """A probe's predictions of the test split.

    Attributes
    ----------
    prediction : (N,) class ids, (N, L) 0/1 for multi-label, or (N,) float64 numbers.
    scores : (N, K) float32, one column per class id of the dataset, whether or not it was in train;
        None for numbers.
    settings : fitted or chosen settings (best C, …); JSON-able.
    gates : names of the failed sanity checks.
    """

    prediction: np.ndarray
    scores: np.ndarray | None
    settings: dict = field(default_factory=dict)
    gates: list[str] = field(default_factory=list)

    def write(self, job: ProbeJob, splits: dict[str, Features]) -> None:
        """Write one row per test item: sample, group, target, prediction and, for classes, scores."""
        columns = answer_columns(splits["test"], self)
        write_rows(job, splits, columns, settings=self.settings, gates=self.gates)


def answer_columns(test: Features, result: Prediction) -> dict[str, pa.Array]:
    """The columns target, prediction and, for classes, scores."""
    columns = {"target": _column(test.labels), "prediction": _column(result.prediction)}
    if result.scores is not None:
        columns["scores"] = _column(np.asarray(result.scores, dtype=np.float32))
    return columns


def write_rows(
    job: ProbeJob,
    splits: dict[str, Features],
    columns: dict[str, pa.Array],
    *,
    settings: dict,
    gates: list[str],
    **own,
) -> None:
    """Write `columns` of the test split next to those that identify samples; `own` goes into the metadata."""
    test = splits["test"]
    metadata = prediction_metadata(
        job,
        test.attributes,
        counts={split: len(features.embeddings) for split, features in splits.items()},
        feature_dim=int(test.embeddings.shape[-1]),
        settings=settings,
        gates=gates,
    )
    write_table(
        job.output, pa.table({**sample_columns(test.samples), **columns}), {**metadata, **own}
    )


def _column(values: np.ndarray) -> pa.Array:
    values = np.ascontiguousarray(values)
    if values.ndim == 2:
        kind = np.float32 if values.dtype.kind == "f" else np.uint8
        flat = pa.array(values.astype(kind, copy=False).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    kind = np.float64 if values.dtype.kind == "f" else np.int32
    return pa.array(values.astype(kind, copy=False))
