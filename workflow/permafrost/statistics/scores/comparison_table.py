"""From the predictions of all backbones to a table of their paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from permafrost.core.leakage import leakage_gates
from permafrost.core.specification import Specification
from permafrost.core.tables import write_table
from permafrost.statistics.predictions.reading import Predictions, read_predictions
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
    """Compare all pairs of backbones of one dataset and probe, over all seeds, and write `output`.

    Parameters
    ----------
    folder : holds ``{dataset}/{backbone}/seed{seed}/{probe}.parquet``.
    """
    by_backbone: dict[str, dict[int, Callable]] = {}
    for name, expected in spec.inputs.predictions.items():
        backbone, seed = name.rsplit("/seed", 1)
        path = folder / spec.dataset / backbone / f"seed{seed}" / f"{spec.probe}.parquet"
        read = partial(read_predictions, path, expect=expected, scratch=output.parent)
        by_backbone.setdefault(backbone, {})[int(seed)] = read
    leakage: dict[str, None] = {}
    rows = compare(
        {
            name: _WhenAsked(dict(sorted(seeds.items())), leakage)
            for name, seeds in by_backbone.items()
        },
        resamples=spec.options["resamples"],
        confidence=spec.options["confidence"],
        seed=bootstrap_seed(spec.dataset, spec.options),
        calibration=spec.options.get("calibration"),
    )
    about = {"dataset": spec.dataset, "probe": spec.probe, "bootstrap_seed": spec.options["seed"]}
    for row in rows:
        row["gates"] = ";".join(filter(None, [row["gates"], *leakage]))
    table = table_of([{**row, **about} for row in rows], COLUMNS)
    write_table(output, table, {"fingerprint": fingerprint, "stage": spec.stage})


class _WhenAsked(Mapping):
    """Predictions of the seeds of a backbone that are read when they are asked for, so that all are not held.

    The gates of leakage of what is read are added to `leakage`.
    """

    def __init__(self, readers: dict[int, Callable], leakage: dict[str, None]) -> None:
        self._readers, self._leakage = readers, leakage

    def __getitem__(self, seed: int) -> Predictions:
        predictions, table, _ = self._readers[seed]()
        self._leakage.update(dict.fromkeys(leakage_gates(table)))
        return predictions

    def __iter__(self) -> Iterator[int]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)
