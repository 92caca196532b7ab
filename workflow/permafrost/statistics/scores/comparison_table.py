"""From the predictions of all backbones to a table of their paired differences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from permafrost.core.specification import Specification
from permafrost.core.tables import read_table, write_table
from permafrost.statistics.predictions.reading import Predictions, predictions_from_table
from permafrost.statistics.scores.compare import compare
from permafrost.statistics.scores.score_table import bootstrap_seed
from permafrost.statistics.tables import read_columns, table_of

COLUMNS = read_columns(Path(__file__).with_name("comparison_columns.json"))


@dataclass(frozen=True, kw_only=True)
class OfBackbones:
    """Fingerprints of tables of predictions, by ``backbone/seedN``."""

    predictions: dict


@dataclass(frozen=True, kw_only=True)
class CompareSpec(Specification):
    """The job of `compare_predictions`."""

    stage: str = "compare"
    dataset: str
    probe: str
    task: str
    options: dict
    inputs: OfBackbones


def compare_predictions(folder: Path, output: Path, *, spec: CompareSpec, fingerprint: str) -> None:
    """Compare all pairs of backbones of one dataset and probe, for each seed, and write `output`.

    Parameters
    ----------
    folder : holds ``{dataset}/{backbone}/seed{seed}/{probe}.parquet``.
    """
    by_seed: dict[int, dict[str, Predictions]] = {}
    for name, expected in spec.inputs.predictions.items():
        backbone, seed = name.rsplit("/seed", 1)
        path = folder / spec.dataset / backbone / f"seed{seed}" / f"{spec.probe}.parquet"
        read = predictions_from_table(*read_table(path, expect=expected))
        by_seed.setdefault(int(seed), {})[backbone] = read
    rows = [
        {**row, "dataset": spec.dataset, "probe": spec.probe, "seed": seed}
        for seed, predictions in sorted(by_seed.items())
        for row in compare(
            predictions,
            resamples=spec.options["resamples"],
            confidence=spec.options["confidence"],
            seed=bootstrap_seed(spec.dataset, spec.options),
            calibration=spec.options.get("calibration"),
        )
    ]
    for row in rows:
        row["bootstrap_seed"] = spec.options["seed"]
    table = table_of(rows, COLUMNS)
    write_table(output, table, {"fingerprint": fingerprint, "stage": spec.stage})
