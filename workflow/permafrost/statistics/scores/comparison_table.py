"""Compute a table of paired differences from the predictions of all backbones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from permafrost.core.columns import BETWEEN_0_AND_1, Column
from permafrost.core.leakage import leakage_gates
from permafrost.core.specification import Specification
from permafrost.core.tables import write_table
from permafrost.statistics.options import ComparisonOptions
from permafrost.statistics.predictions.reading import Predictions, read_predictions
from permafrost.statistics.scores.compare import compare
from permafrost.statistics.scores.score_table import bootstrap_seed
from permafrost.statistics.tables import ScoreColumns


class Comparisons(ScoreColumns):
    """One row of results/comparisons/{dataset}/{probe}.parquet: the difference of two backbones on the same test
    items, as a mean over all seeds that both have.

    Columns
    -------
    seeds : The seeds that both backbones have, joined by semicolons. The row is about the mean over them.
    n_runs : Number of runs that the difference is a mean of: seeds, times draws of the training set if the probe
        has several. The spread of the runs is part of the interval and of the p-values.
    metric : The metric that is compared: the primary one and, if calibration was judged, brier_score,
        expected_calibration_error and aurc.
    higher_is_better : Whether a higher value is better; if not, a difference below 0 favours backbone_a.
    backbone_a : Name of one backbone.
    backbone_b : Name of the other backbone.
    difference : Value of backbone_a minus value of backbone_b, in the unit of the metric.
    lower : Lower end of the interval of the difference, by Student's t and the jackknife standard
        error; for expected_calibration_error, from resamples reflected as squares, as for scores.
    upper : Upper end of the interval of the difference.
    p_value : Two-sided p-value of no difference, by the test that also gives the interval.
    detectable : The smallest difference that the test of this pair, adjusted for its family, detects with a
        probability of 80 %; null if no difference is large enough, or nothing could be tested.
    p_adjusted : p_value adjusted over the family of all pairs of this dataset, probe and metric; of a derived
        backbone, the pairs of its parent with all that are derived from it. With several
        pairs, at least 1 / (resamples + 1), whatever their number.
    adjustment : How p_adjusted was computed: romano_wolf is the step-down max-T procedure with the same resamples
        for all pairs, which keeps the probability of any false finding in the family at the level of the test.
    p_mcnemar : Unadjusted p-value of McNemar's test; null unless accuracy is compared and images are the units.
    resamples : Number of bootstrap resamples.
    gates : Reasons not to rely on the test, joined by semicolons; empty if there is none.
        significance_out_of_reach: no difference could be significant whatever the data, because there are too few
        resamples or test units; with a number, only larger differences are detected with a probability of
        80 %, and it exceeds the distance between chance and the best possible score. one_unit, few_units: no interval
        can be computed, or trusted. test_duplicates_in_train and similar ones count the test images that
        occur in training.
    """

    columns = (
        *ScoreColumns.but("dataset", "probe"),
        Column("seeds"),
        Column("n_runs", "int64", least=1),
        Column("metric"),
        Column("higher_is_better", "bool"),
        Column("backbone_a"),
        Column("backbone_b"),
        *(Column(name, "double", nullable=True) for name in ("difference", "lower", "upper")),
        Column("p_value", "double", nullable=True, rules=BETWEEN_0_AND_1),
        Column("detectable", "double", nullable=True, least=0),
        Column("p_adjusted", "double", nullable=True, rules=BETWEEN_0_AND_1),
        Column("adjustment", values=("romano_wolf",)),
        Column("p_mcnemar", "double", nullable=True, rules=BETWEEN_0_AND_1),
        *ScoreColumns.but("confidence"),
        Column("resamples", "int64", least=2),
        *ScoreColumns.but("n_undefined", "unit", "n_units", "n_test", "gates", "bootstrap_seed"),
    )


@dataclass(frozen=True, kw_only=True)
class OfBackbones:
    """Fingerprints of prediction tables, by ``backbone/seedN``."""

    predictions: dict


@dataclass(frozen=True, kw_only=True)
class CompareSpec(Specification):
    """The job of `compare_predictions`.

    Attributes
    ----------
    derived : backbones that are derived from others, to those.
    """

    stage: str = "compare"
    dataset: str
    probe: str
    task: str
    options: ComparisonOptions
    inputs: OfBackbones
    derived: dict[str, list[str]] = field(default_factory=dict)


def compare_predictions(folder: Path, output: Path, *, spec: CompareSpec, fingerprint: str) -> None:
    """Compare backbones of one dataset and probe, over all seeds, and write `output`.

    A family is all pairs of backbones that are not derived, or a backbone and all that are derived from it. So a
    backbone's small forms, which hardly differ, do not weaken the tests of others.

    Parameters
    ----------
    folder : contains ``{dataset}/{backbone}/seed{seed}/{probe}.parquet``.
    """
    by_backbone: dict[str, dict[int, Callable]] = {}
    for name, expected in spec.inputs.predictions.items():
        backbone, seed = name.rsplit("/seed", 1)
        path = folder / spec.dataset / backbone / f"seed{seed}" / f"{spec.probe}.parquet"
        read = partial(read_predictions, path, expect=expected, scratch=output.parent)
        by_backbone.setdefault(backbone, {})[int(seed)] = read
    leakage: dict[str, None] = {}
    options = asdict(spec.options) | {"seed": bootstrap_seed(spec.dataset, spec.options.seed)}
    rows = []
    for names, parent in families(by_backbone, spec.derived):
        runs = {
            name: _WhenAsked(dict(sorted(by_backbone[name].items())), leakage) for name in names
        }
        rows += compare(runs, **options, reference=parent)
    about = {"dataset": spec.dataset, "probe": spec.probe, "bootstrap_seed": spec.options.seed}
    for row in rows:
        row["gates"] = ";".join(filter(None, [row["gates"], *leakage]))
    table = Comparisons.from_rows([{**row, **about} for row in rows])
    write_table(output, table, {"fingerprint": fingerprint, "stage": spec.stage})


def families(
    backbones: Iterable[str], derived: Mapping[str, list[str]]
) -> Iterator[tuple[list[str], str | None]]:
    """The backbones of each family, and the one that all others are compared with; None: all pairs are compared."""
    names = sorted(backbones)
    yield [name for name in names if name not in derived], None
    for parent in names:
        children = [name for name in names if parent in derived.get(name, ())]
        if children:
            yield [parent, *children], parent


class _WhenAsked(Mapping):
    """Predictions of a backbone's seeds, read on access so that not all are in memory.

    Leakage warnings of the predictions read so far are added to `leakage`.
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
