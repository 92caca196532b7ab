"""From a table of predictions to a table of scores: one row per metric, with its interval."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from permafrost.core.identity import canonical_json, derive_seed
from permafrost.core.tables import read_table, write_table

from .bootstrap import bootstrap_scores
from .gates import score_gates
from .predictions import predictions_from_table

# columns that a score repeats from its predictions, so that every row says what it is
_STRINGS = ("dataset", "backbone", "probe", "kind", "task", "split_method", "backbone_fingerprint")
_INTEGERS = ("seed", "n_train", "n_val", "feature_dim")


def score_predictions(predictions: Path, output: Path, *, spec: dict, fingerprint: str) -> str:
    """Score the table `predictions` as `spec` says and write `output`; returns a line for the log.

    The resamples follow from the dataset's name and the configured seed, so all backbones and
    probes of a dataset are scored on the same ones.
    """
    table, metadata = read_table(predictions, expect=spec["inputs"]["predictions"])
    found = predictions_from_table(table, metadata)
    options = spec["options"]
    rows = bootstrap_scores(
        found,
        resamples=options["resamples"],
        confidence=options["confidence"],
        method=options["method"],
        seed=bootstrap_seed(spec),
    )
    gates = score_gates(found, rows)
    table = _table(rows, metadata, sorted({*metadata["gates"], *gates}), options["seed"])
    write_table(output, table, {"fingerprint": fingerprint, "stage": spec["stage"]})
    return _summary(rows, metadata)


def bootstrap_seed(spec: dict) -> int:
    """The seed of a dataset's resamples."""
    return derive_seed("bootstrap", spec["dataset"], spec["options"]["seed"])


def _table(rows: list[dict], metadata: dict, gates: list[str], seed: int) -> pa.Table:
    count = len(rows)
    columns: dict = {}
    for name in _STRINGS:
        columns[name] = pa.array([metadata[name]] * count, pa.string())
    for name in _INTEGERS:
        columns[name] = pa.array([metadata[name]] * count, pa.int64())
    for name, kind in _MEASURED.items():
        columns[name] = pa.array([row[name] for row in rows], kind)
    columns["spatially_random"] = pa.array([metadata["spatially_random"]] * count, pa.bool_())
    columns["gates"] = pa.array([";".join(gates)] * count, pa.string())
    columns["settings"] = pa.array(
        [canonical_json(_brief(metadata["settings"]))] * count, pa.string()
    )
    columns["bootstrap_seed"] = pa.array([seed] * count, pa.int64())
    columns["fingerprint"] = pa.array([metadata["fingerprint"]] * count, pa.string())
    return pa.table({name: columns[name] for name in COLUMNS})


_MEASURED = {
    "metric": pa.string(),
    "class": pa.string(),
    "value": pa.float64(),
    "lower": pa.float64(),
    "upper": pa.float64(),
    "confidence": pa.float64(),
    "method": pa.string(),
    "resamples": pa.int64(),
    "n_undefined": pa.int64(),
    "unit": pa.string(),
    "n_units": pa.int64(),
    "n_test": pa.int64(),
    "primary": pa.bool_(),
    "higher_is_better": pa.bool_(),
}

COLUMNS = (
    "dataset", "backbone", "probe", "kind", "seed", "task", "metric", "class",
    "value", "lower", "upper", "confidence", "method", "resamples", "n_undefined",
    "unit", "n_units", "n_test", "n_train", "n_val", "feature_dim", "primary",
    "higher_is_better", "split_method", "spatially_random", "gates", "settings",
    "bootstrap_seed", "fingerprint", "backbone_fingerprint",
)  # fmt: skip


def _brief(settings: dict) -> dict:
    """Settings without what has one number per C: those stay with the predictions."""
    return {key: value for key, value in settings.items() if not isinstance(value, list | dict)}


def _summary(rows: list[dict], metadata: dict) -> str:
    primary = next(row for row in rows if row["primary"])
    return (
        f"{metadata['dataset']} | {metadata['backbone']} | {metadata['probe']}: {primary['metric']} "
        f"{primary['value']:.4f} [{primary['lower']:.4f}, {primary['upper']:.4f}]"
    )
