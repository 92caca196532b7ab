"""Similarity of backbones on a dataset: debiased linear CKA of every pair, as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.core.row_file import RowFile
from permafrost.core.specification import Specification
from permafrost.core.tables import write_table
from permafrost.metrics.representation import cka_matrix
from permafrost.statistics.measures.measured import measured
from permafrost.statistics.measures.rows import FeatureRows, read_rows
from permafrost.statistics.tables import read_columns, table_of

MEASURE = "debiased_cka"
COLUMNS = read_columns(Path(__file__).with_name("similarity_columns.json"))


@dataclass(frozen=True, kw_only=True)
class OfFeatures:
    """Fingerprints of the features' stores, by backbone."""

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
    folder : holds ``{dataset}/{backbone}/{split}.zarr``.

    Raises
    ------
    PermafrostError : two backbones have features of different samples (both are named).
    """
    dataset, options = spec.dataset, spec.options
    expected = spec.inputs.features
    names = sorted(expected)

    def read(backbone: str) -> FeatureRows:
        path = folder / dataset / backbone / f"{options['split']}.zarr"
        return read_rows(path, options, dataset=dataset, expect=expected[backbone])

    first = read(names[0])
    # a matrix of many backbones asks again for those that it cannot keep, and a store may be very large
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
    return table_of(lines, COLUMNS)


def _check_same_samples(name_a: str, a: FeatureRows, name_b: str, b: FeatureRows) -> None:
    if a.sample_ids != b.sample_ids or a.total != b.total:
        raise PermafrostError(
            f"the features of {name_a!r} and {name_b!r} are of different samples",
            remedy="delete the features of both and run snakemake again",
        )
