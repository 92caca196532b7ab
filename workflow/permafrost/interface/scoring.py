"""Scores with intervals, paired differences and feature metrics of arrays, as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from permafrost.core.errors import look_up
from permafrost.core.identity import derive_seed
from permafrost.interface.fitting import InputError, as_value_errors
from permafrost.interface.frames import Figures
from permafrost.interface.given import Samples, as_list, check_numbers, is_number
from permafrost.interface.predicted import Given, named_predictions, row_names
from permafrost.metrics.representation import measures as measure_all
from permafrost.metrics.representation.points import draw_rows
from permafrost.statistics.across_datasets.neuco_bench import (
    mean_of_folds,
    q_statistic,
    weighted_ranks,
)
from permafrost.statistics.measures.measured import measured
from permafrost.statistics.options import Bootstrap, Comparison
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare as compare_all
from permafrost.statistics.scores.gates import score_gates

if TYPE_CHECKING:
    import pandas as pd

# metrics that rank scores, so they do not exist for predicted classes or labels alone
_OF_SCORES = ("top5_accuracy", "micro_ap", "macro_ap", "average_precision")
_SCORE_COLUMNS = (
    "metric", "class", "value", "lower", "upper", "confidence", "method", "unit", "n_units", "n_carriers",
    "largest_share", "n_test", "primary", "higher_is_better", "gates",
)  # fmt: skip
_DIFFERENCE_COLUMNS = (
    "metric", "a", "b", "difference", "lower", "upper", "p_value", "p_adjusted", "better", "detectable",
    "confidence", "unit", "n_units", "n_test", "gates",
)  # fmt: skip


def evaluate(
    y,
    p,
    metrics: Sequence[str] | None = None,
    *,
    groups=None,
    classes: Sequence | None = None,
    task: str | None = None,
    confidence: float = Bootstrap.confidence,
    method: str = Bootstrap.method,
    resamples: int = Bootstrap.resamples,
    seed: int = 0,
) -> pd.DataFrame:
    """Every metric of a task with its interval, one row each.

    Parameters
    ----------
    y : targets: (N,) classes of any type, (N, L) labels of 0 and 1, or (N,) floats.
    p : predictions in the form of `y`; or probabilities, (N, K) of `classes` or (N, L) of labels. A
        data frame with columns named by class or label may have them in any order.
    metrics : name or names of metrics; by default all. Ranking metrics need probabilities.
    groups : (N,) names of independent sampling units, such as scenes; by default each sample.
    classes : (K,) all classes in the order of the columns of `p`; by default the names of these
        columns, else the sorted classes of `y` and `p`.
    task : ``classification``, ``multilabel`` or ``regression``; by default from the type of `y`.
    confidence, method, resamples, seed : of the intervals, see
        `statistics.scores.bootstrap.bootstrap_scores`.

    Returns
    -------
    Data frame with the columns ``metric, class, value, lower, upper, confidence, method, unit,
    n_units, n_carriers, largest_share, n_test, primary, higher_is_better, gates``; ``class`` is
    missing for metrics over all classes. It prints ``value [lower, upper]``.

    Raises
    ------
    ValueError : shapes, types, indexes or column names do not fit; unknown classes or metrics; NaN
        or None in an argument.

    Notes
    -----
    Arguments with a pandas index are aligned to the first one that has an index.

    Examples
    --------
    >>> import permafrost as pf
    >>> y, p = ["sea", "sea", "land", "land"] * 10, ["sea", "land", "land", "land"] * 10
    >>> found = pf.evaluate(y, p, ["accuracy"])
    >>> [round(float(number), 2) for number in found.loc[0, ["value", "lower", "upper"]]]
    [0.75, 0.6, 0.86]
    """
    check_numbers(confidence=confidence, resamples=resamples)
    given = Given(y, classes, task, groups, {"p": p})
    with as_value_errors():
        predictions = given.predictions("p")
        options: dict[str, Any] = {
            "resamples": resamples,
            "confidence": confidence,
            "method": method,
        }
        rows = bootstrap_scores(predictions, **options, seed=seed)
        met = score_gates(predictions, rows)
    known = [
        row["metric"] for row in rows if given.has_scores("p") or row["metric"] not in _OF_SCORES
    ]
    wanted = _wanted(as_list(metrics), known)
    return _frame(
        [
            {**row, "gates": ";".join(sorted({*met, *row.get("flags", ())}))}
            for row in rows
            if row["metric"] in wanted
        ],
        _SCORE_COLUMNS,
    )


def compare(
    y,
    predictions: Mapping[str, object],
    metric: str | None = None,
    *,
    groups=None,
    classes: Sequence | None = None,
    task: str | None = None,
    confidence: float = Comparison.confidence,
    resamples: int = Comparison.resamples,
    seed: int = 0,
) -> pd.DataFrame:
    """Paired differences of a metric between all pairs of predictions, with intervals and p-values.

    Parameters
    ----------
    predictions : name to prediction, or a data frame with a column of predicted classes or numbers
        for each name.
    metric : name of the metric; by default the task's primary one.
    y, groups, classes, task, confidence, resamples, seed : as in `evaluate`.

    Returns
    -------
    Data frame with the columns ``metric, a, b, difference`` (a minus b), ``lower, upper, p_value,
    p_adjusted`` (for all pairs of this call), ``better`` (the better name if the adjusted p-value
    is significant, else missing), ``detectable`` (the smallest difference detected with a power of
    80 %), ``confidence, unit, n_units, n_test, gates``.

    Raises
    ------
    ValueError : as in `evaluate`, or fewer than two predictions.

    Examples
    --------
    >>> import permafrost as pf
    >>> y = ["sea", "land"] * 20
    >>> found = pf.compare(y, {"right": y, "constant": ["sea"] * 40})
    >>> found.loc[0, "better"], float(found.loc[0, "difference"])
    ('right', -0.5)
    """
    check_numbers(confidence=confidence, resamples=resamples)
    predictions = named_predictions(predictions)
    if len(predictions) < 2:
        raise InputError(
            f"{len(predictions)} predictions cannot be compared", remedy="give two or more names"
        )
    given = Given(y, classes, task, groups, predictions)
    metrics = as_list(metric) or [None]
    if len(metrics) > 1:
        raise InputError(f"{len(metrics)} metrics cannot be compared", remedy="call once for each")
    with as_value_errors():
        rows = compare_all(
            {name: given.predictions(name) for name in predictions},
            metric=metrics[0],
            resamples=resamples,
            confidence=confidence,
            seed=seed,
        )
    bare = [name for name in predictions if not given.has_scores(name)]
    if rows[0]["metric"] in _OF_SCORES and bare:
        raise InputError(
            f"{rows[0]['metric']} needs probabilities, which {bare[0]!r} does not have",
            remedy="give them, or another metric",
        )
    return _frame([_difference(row) for row in rows], _DIFFERENCE_COLUMNS)


def measures(
    features,
    y=None,
    names: Sequence[str] | None = None,
    *,
    groups=None,
    max_rows: int = 10_000,
    confidence: float = Bootstrap.confidence,
    resamples: int = Bootstrap.resamples,
    seed: int = 0,
    dataset: str = "",
) -> pd.DataFrame:
    """Feature metrics, such as effective rank, with intervals; they need no probe.

    Parameters
    ----------
    features : (N, d).
    y : (N,) classes or (N, L) labels, for metrics that use them.
    names : name or names of `metrics.representation.MEASURES`; by default all.
    groups : (N,) names of independent sampling units, as in `evaluate`.
    max_rows : largest number of samples; from more, this many are sampled.
    confidence, resamples : of the intervals.
    seed, dataset : seed of the sampling and the resamples; with the name of a run's dataset, they
        are those of the run.

    Returns
    -------
    Data frame with the columns ``measure, value, lower, upper, confidence, unit, n_units, rows,
    note``.

    Raises
    ------
    ValueError : NaN, wrong shapes, unknown names, or a metric that needs `y` without it.

    Examples
    --------
    >>> import numpy as np, permafrost as pf
    >>> features = np.kron(np.eye(4), np.ones((25, 1)))  # four points, each 25 times
    >>> found = pf.measures(features, names=["rankme"])
    >>> found.loc[0, "measure"], round(float(found.loc[0, "value"]), 2)
    ('rankme', 4.0)
    """
    check_numbers(confidence=confidence, resamples=resamples)
    samples = Samples()
    features = samples.take(features, "features")
    if features.ndim != 2 or not is_number(features):
        raise InputError(f"features have the shape {features.shape}, not (samples, dimensions)")
    targets = None if y is None else samples.take(y, "y")
    groups = samples.take_groups(groups)
    with as_value_errors():
        drawn = draw_rows(len(features), max_rows, derive_seed("measures", dataset, seed))
        taken = None if groups is None else groups[drawn]
        labels = None if targets is None else targets[drawn]
        if labels is not None and labels.ndim == 1:
            labels = np.unique(labels, return_inverse=True)[1]
        units = find_units(len(drawn), sample_ids=row_names(len(drawn)), groups=taken)
        options = {
            "seed": seed,
            "max_rows": len(drawn),
            "units": units.index,
            "names": as_list(names),
        }
        found = measure_all(features[drawn], labels, **options)
        bootstrap = {"resamples": resamples, "confidence": confidence, "seed": seed}
        rows = measured(found, units, bootstrap, dataset=dataset)
    lines = [
        {**row, "measure": name, "rows": len(drawn), "note": row["notes"].get("undefined", "")}
        for name, row in rows.items()
    ]
    columns = (
        "measure",
        "value",
        "lower",
        "upper",
        "confidence",
        "unit",
        "n_units",
        "rows",
        "note",
    )
    return _frame(lines, columns)


def neuco_bench(folds: pd.DataFrame) -> pd.DataFrame:
    """NeuCo-Bench's score of backbones, from scores over folds.

    Parameters
    ----------
    folds : one row per backbone, dataset and fold, with the columns ``backbone``, ``dataset`` and ``value`` (F1, R², …;
        higher is better). NaN is a fold without a value.

    Returns
    -------
    Data frame with one row per backbone, best first: ``backbone, rank, weighted_score`` (mean rank over datasets,
    weighted by the spread of Q over the backbones; lower is better), ``mean_q, mean_value``, and ``q:DATASET`` for each
    dataset: 2 · mean / (0.02 + standard deviation) over the folds. Backbones that lack a dataset come last without
    rank. ``attrs["weights"]`` has the weights of the datasets. Ranks and weights depend on which backbones are
    compared.

    Raises
    ------
    ValueError : a missing column, name or row, infinite values, one fold alone, or pairs with different numbers of
        folds.

    Examples
    --------
    >>> import pandas as pd, permafrost as pf
    >>> rows = [("a", "sea", 0.5), ("a", "sea", 0.7), ("b", "sea", 0.4), ("b", "sea", 0.4)]
    >>> found = pf.neuco_bench(pd.DataFrame(rows, columns=["backbone", "dataset", "value"]))
    >>> found[["backbone", "rank", "q:sea"]].round(6).to_numpy().tolist()
    [['b', 1.0, 40.0], ['a', 2.0, 10.0]]
    """
    import pandas as pd

    columns = ["backbone", "dataset", "value"]
    absent = [name for name in columns if name not in getattr(folds, "columns", ())]
    if absent:
        raise InputError(
            f"the table has no column {absent[0]!r}", remedy=f"give {', '.join(columns)}"
        )
    names = folds[columns[:2]]
    values = pd.to_numeric(folds["value"], errors="coerce").to_numpy(np.float64)
    texts = int((np.isnan(values) & folds["value"].notna().to_numpy()).sum())
    if not len(folds) or names.isna().any(axis=None) or texts or np.isinf(values).any():
        raise InputError(
            "the table has no rows, rows without backbone or dataset, or values that are not finite numbers",
            remedy="correct the rows; leave `value` empty, or NaN, where a fold has none",
        )
    # in one order, so that equal folds in other rows give equal sums, and ties stay ties
    scores = {
        key: np.sort(values[rows]) for key, rows in names.groupby(columns[:2]).indices.items()
    }
    counts = {len(one) for one in scores.values()}
    if len(counts) > 1 or counts == {1}:
        raise InputError(
            f"pairs of backbone and dataset have {', '.join(map(str, sorted(counts)))} folds",
            remedy="give as many folds of every pair, two or more; of one probe and one metric",
        )
    backbones, datasets = (sorted(names[one].unique()) for one in columns[:2])
    empty = np.full(counts.pop(), np.nan)
    table = np.array([[scores.get((one, other), empty) for other in datasets] for one in backbones])
    q = q_statistic(table)
    ranked = weighted_ranks(q)
    frame = pd.DataFrame(
        {
            "backbone": backbones,
            "rank": ranked.rank,
            "weighted_score": ranked.score,
            "mean_q": q.mean(axis=1),
            "mean_value": mean_of_folds(table).mean(axis=1),
            **{f"q:{name}": q[:, place] for place, name in enumerate(datasets)},
        }
    )
    frame.attrs["weights"] = dict(zip(datasets, ranked.weights.tolist(), strict=True))
    return frame.sort_values(["weighted_score", "backbone"], ignore_index=True)


def _difference(row: dict) -> dict:
    apart = row["p_adjusted"] is not None and row["p_adjusted"] <= 1 - row["confidence"]
    first_better = (row["difference"] > 0) == row["higher_is_better"]
    named = {"a": row["backbone_a"], "b": row["backbone_b"]}
    better = named["a" if first_better else "b"] if apart and row["difference"] != 0 else None
    return {**row, **named, "better": better}


def _wanted(names, known: list[str]) -> set[str]:
    with as_value_errors():
        for name in names or ():
            look_up(set(known), name, "these predictions have no metric")
    return set(known if names is None else names)


def _frame(rows: list[dict], columns: Sequence[str]) -> pd.DataFrame:
    return Figures([{name: row[name] for name in columns} for row in rows], columns=columns)
