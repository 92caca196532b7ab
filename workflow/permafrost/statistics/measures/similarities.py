"""Similarity of backbones on a dataset: debiased linear CKA of every pair, as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.columns import Column
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.core.row_file import RowFile
from permafrost.core.specification import SPLITS, Specification
from permafrost.core.tables import write_table
from permafrost.metrics.representation import cka_matrix
from permafrost.statistics.measures.measured import measured
from permafrost.statistics.measures.rows import FeatureRows, read_rows
from permafrost.statistics.tables import ScoreColumns

MEASURE = "debiased_cka"


class Similarities(ScoreColumns):
    """One row of results/similarity/{dataset}.parquet: how similar the features of two backbones are on the same
    samples of a dataset.

    Columns
    -------
    measure : What was measured: debiased linear CKA.
    backbone_a : Name of one backbone.
    backbone_b : Name of the other backbone, which comes later in the alphabet.
    value : 1 for features that are equal up to rotation and scale; about 0, also below, for unrelated ones. NaN
        if it is undefined; notes says why.
    method : How the interval was computed: by Student's t and the standard error from the effect of each unit.
    resamples : Number of units whose effect the interval comes from.
    n_undefined : Resamples on which the measure is undefined: all of them or none.
    n_units : Number of such units among the samples that were compared.
    split : The split whose features were compared.
    n_rows : Number of samples that were compared, the same for all pairs.
    notes : As a JSON object: the number of rows and that they were drawn_from, why the value is undefined, why it
        is doubtful (flag).
    """

    columns = (
        *ScoreColumns.but("dataset"),
        Column("measure", values=(MEASURE,)),
        Column("backbone_a"),
        Column("backbone_b"),
        *ScoreColumns.but("value", "lower", "upper", "confidence"),
        Column("method", values=("jackknife_t",)),
        *ScoreColumns.but("resamples", "n_undefined", "unit", "n_units"),
        Column("split", values=SPLITS),
        *ScoreColumns.but("n_rows", nullable=False),
        Column("notes"),
        *ScoreColumns.but("bootstrap_seed"),
    )


@dataclass(frozen=True, kw_only=True)
class OfFeatures:
    """Fingerprints of the feature stores, by backbone."""

    features: dict


@dataclass(frozen=True, kw_only=True)
class SimilaritySpec(Specification):
    """The job of `compare_features`."""

    stage: str = "similarity"
    dataset: str
    options: dict
    inputs: OfFeatures


def compare_features(folder: Path, output: Path, *, spec: SimilaritySpec, fingerprint: str) -> str:
    """Measure every pair of backbones of one dataset and write `output`; returns a line for the log.

    Parameters
    ----------
    folder : contains ``{dataset}/{backbone}/{split}.zarr``.

    Raises
    ------
    PermafrostError : two backbones have features of different samples (the message names both).
    """
    dataset, options = spec.dataset, spec.options
    expected = spec.inputs.features
    names = sorted(expected)

    def read(backbone: str) -> FeatureRows:
        path = folder / dataset / backbone / f"{options['split']}.zarr"
        return read_rows(path, options, dataset=dataset, expect=expected[backbone])

    first = read(names[0])
    # a matrix of many backbones reads those again that it cannot keep, and a store may be very
    # large
    drawn = {names[0]: _in_file(first.features, output.parent)}

    def loader(backbone: str) -> Callable[[], np.ndarray]:
        def load() -> np.ndarray:
            if backbone not in drawn:
                rows = read(backbone)
                _check_same_samples(names[0], first, backbone, rows)
                drawn[backbone] = _in_file(rows.features, output.parent)
            return np.asarray(drawn[backbone])

        return load

    units = first.units
    similarities = cka_matrix({name: loader(name) for name in names}, units=units.index)
    values = measured(similarities, units, options["bootstrap"], dataset=dataset)
    table = _table(values, first, dataset, options["split"])
    write_table(output, table, {"fingerprint": fingerprint, "stage": spec.stage})
    return f"{dataset}: {len(similarities)} pairs of backbones on {len(first)} samples"


def _in_file(features: np.ndarray, scratch: Path) -> RowFile:
    """(N, d) features in a temporary file."""
    scratch.mkdir(parents=True, exist_ok=True)
    rows = RowFile(features.shape[1], scratch, features.dtype)
    rows.append(features)
    return rows


def _table(values: dict[tuple, dict], rows: FeatureRows, dataset: str, split: str) -> pa.Table:
    lines = [
        {
            **line,
            "dataset": dataset,
            "measure": MEASURE,
            "backbone_a": first,
            "backbone_b": second,
            "split": split,
            "n_rows": len(rows),
            "notes": canonical_json({**line["notes"], **rows.notes()}),
        }
        for (first, second), line in values.items()
    ]
    return Similarities.from_rows(lines)


def _check_same_samples(name_a: str, a: FeatureRows, name_b: str, b: FeatureRows) -> None:
    if a.sample_ids != b.sample_ids or a.total != b.total:
        raise PermafrostError(
            f"the features of {name_a!r} and {name_b!r} are of different samples",
            remedy="delete the features of both and run snakemake again",
        )
