"""Scores with intervals, paired differences and measures of features, from arrays, as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from permafrost.interface.fitting import InputError, as_value_errors

if TYPE_CHECKING:
    import pandas as pd

# metrics of class ids and labels that read what the scores order, which bare answers do not have
_OF_SCORES = ("top5_accuracy", "micro_ap", "macro_ap", "average_precision")
_SCORE_COLUMNS = (
    "metric", "class", "value", "lower", "upper", "confidence", "method", "unit", "n_units", "n_test",
    "primary", "higher_is_better", "gates",
)  # fmt: skip
_DIFFERENCE_COLUMNS = (
    "metric", "a", "b", "difference", "lower", "upper", "p_value", "p_adjusted", "better", "confidence",
    "unit", "n_units", "n_test", "gates",
)  # fmt: skip


def evaluate(
    y,
    p,
    metrics: Sequence[str] | None = None,
    *,
    groups=None,
    classes: Sequence | None = None,
    task: str | None = None,
    confidence: float = 0.95,
    method: str = "auto",
    resamples: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Every metric of a task with its interval, one row each.

    Parameters
    ----------
    y : what is true: (N,) classes of any kind, (N, L) of 0 and 1, or (N,) floating-point numbers.
    p : what was predicted, in the form of `y`; or probabilities, (N, K) of `classes` or (N, L) of labels.
    metrics : names of those wanted; all by default. Answers without probabilities have none of their order.
    groups : (N,) names of what is independent, such as scenes; the samples themselves without it.
    classes : (K,) all classes in the order of the columns of `p`; by default those of `y` and `p`, sorted.
    task : ``classification``, ``multilabel`` or ``regression``; by default what `y` looks like.
    confidence, method, resamples, seed : of the intervals, see `statistics.scores.bootstrap.bootstrap_scores`.

    Returns
    -------
    Columns ``metric, class, value, lower, upper, confidence, method, unit, n_units, n_test, primary,
    higher_is_better, gates``; ``class`` is missing for a metric over all classes.

    Raises
    ------
    ValueError : shapes that do not fit, unknown classes or metrics, NaN.

    Examples
    --------
    >>> import permafrost as pf
    >>> y, p = ["sea", "sea", "land", "land"] * 10, ["sea", "land", "land", "land"] * 10
    >>> found = pf.evaluate(y, p, ["accuracy"])
    >>> [round(float(number), 2) for number in found.loc[0, ["value", "lower", "upper"]]]
    [0.75, 0.6, 0.86]
    """
    from permafrost.statistics.scores.bootstrap import bootstrap_scores
    from permafrost.statistics.scores.gates import score_gates

    given = _Given.of(y, classes, task, groups, [p])
    with as_value_errors():
        predictions = given.predictions(p)
        options = {"resamples": resamples, "confidence": confidence, "method": method}
        rows = bootstrap_scores(predictions, **options, seed=seed)
        gates = ";".join(sorted(score_gates(predictions, rows)))
    known = [
        row["metric"] for row in rows if given.has_scores(p) or row["metric"] not in _OF_SCORES
    ]
    wanted = _wanted(metrics, known)
    return _frame(
        [{**row, "gates": gates} for row in rows if row["metric"] in wanted], _SCORE_COLUMNS
    )


def compare(
    y,
    predictions: Mapping[str, object],
    metric: str | None = None,
    *,
    groups=None,
    classes: Sequence | None = None,
    task: str | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Differences of a metric between all pairs on the same samples, with intervals and p-values.

    Parameters
    ----------
    predictions : name to what was predicted; for the others see `evaluate`.
    metric : the task's primary one by default.

    Returns
    -------
    Columns ``metric, a, b, difference`` (a less b), ``lower, upper, p_value, p_adjusted`` (for all pairs of
    this call), ``better`` (the name of the better one where the adjusted p-value tells them apart, else missing),
    ``confidence, unit, n_units, n_test, gates``.

    Raises
    ------
    ValueError : as `evaluate`; fewer than two names.

    Examples
    --------
    >>> import permafrost as pf
    >>> y = ["sea", "land"] * 20
    >>> found = pf.compare(y, {"right": y, "constant": ["sea"] * 40})
    >>> found.loc[0, "better"], float(found.loc[0, "difference"])
    ('right', -0.5)
    """
    from permafrost.statistics.scores.compare import compare as compare_all

    if len(predictions) < 2:
        raise InputError(
            f"{len(predictions)} predictions cannot be compared", remedy="give two or more names"
        )
    given = _Given.of(y, classes, task, groups, list(predictions.values()))
    with as_value_errors():
        rows = compare_all(
            {name: given.predictions(p) for name, p in predictions.items()},
            metric=metric,
            resamples=resamples,
            confidence=confidence,
            seed=seed,
        )
    bare = [name for name, p in predictions.items() if not given.has_scores(p)]
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
    confidence: float = 0.95,
    resamples: int = 200,
    seed: int = 0,
    dataset: str = "",
) -> pd.DataFrame:
    """Measures of (N, d) features themselves, such as their effective rank, with intervals.

    Parameters
    ----------
    y : (N,) classes or (N, L) labels, for the measures that ask how classes lie in the features.
    names : the measures wanted, of `metrics.representation.MEASURES`; all by default.
    groups : (N,) names of what is independent, None where unknown.
    max_rows : of more samples so many are drawn.
    seed, dataset : fix the draw and the resamples. The name of a run's dataset gives those of the run.

    Returns
    -------
    Columns ``measure, value, lower, upper, confidence, unit, n_units, rows, note``.

    Raises
    ------
    ValueError : NaN, wrong shapes, unknown names, a measure of classes without `y`.

    Examples
    --------
    >>> import numpy as np, permafrost as pf
    >>> features = np.kron(np.eye(4), np.ones((25, 1)))  # four points, each 25 times
    >>> found = pf.measures(features, names=["rankme"])
    >>> found.loc[0, "measure"], round(float(found.loc[0, "value"]), 2)
    ('rankme', 4.0)
    """
    from permafrost.core.identity import derive_seed
    from permafrost.metrics.representation import measures as measure_all
    from permafrost.metrics.representation.points import draw_rows
    from permafrost.statistics.measures.measured import measured
    from permafrost.statistics.resampling.units import find_units

    features = np.asarray(features)
    with as_value_errors():
        if features.ndim != 2 or not len(features):
            raise InputError(f"features have the shape {features.shape}, not (samples, dimensions)")
        for what, given in (("targets", y), ("groups", groups)):
            if given is not None and len(given) != len(features):
                raise InputError(f"{len(given)} {what} for {len(features)} samples")
        drawn = draw_rows(len(features), max_rows, derive_seed("measures", dataset, seed))
        taken = None if groups is None else np.asarray(groups, object)[drawn]
        labels = None if y is None else np.asarray(y)[drawn]
        if labels is not None and labels.ndim == 1:
            labels = np.unique(labels, return_inverse=True)[1]
        units = find_units(len(drawn), sample_ids=_row_names(len(drawn)), groups=taken)
        options = {"seed": seed, "max_rows": len(drawn), "units": units.index, "names": names}
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


class _Given:
    """Targets as the statistics take them, and predictions beside them."""

    def __init__(self, task: str, target: np.ndarray, classes: list, groups) -> None:
        self.task, self.target, self.classes, self.groups = task, target, classes, groups
        self.samples = _row_names(len(target))

    @classmethod
    def of(cls, y, classes, task: str | None, groups, predictions: list) -> _Given:
        y = np.asarray(y)
        if not y.size or y.ndim > 2:
            raise InputError(f"y has the shape {y.shape}", remedy="give one target per sample")
        if groups is not None and len(groups) != len(y):
            raise InputError(f"{len(groups)} groups for {len(y)} samples")
        if y.dtype.kind == "f" and np.isnan(y).any():
            raise InputError("y holds NaN", remedy="leave these samples out")
        looks = "regression" if y.dtype.kind == "f" else "classification"
        task = task or ("multilabel" if y.ndim == 2 else looks)
        if task == "regression":
            return cls(task, y.astype(np.float64), [], groups)
        if task == "multilabel":
            names = list(range(y.shape[1])) if classes is None else list(classes)
            return cls(task, (y != 0).astype(np.uint8), names, groups)
        if task != "classification":
            raise InputError(
                f"the task {task!r} is not evaluated from arrays",
                remedy="use classification, multilabel or regression; pf.detection has its own evaluate",
            )
        if classes is None:
            answered = [np.asarray(p) for p in predictions if np.ndim(p) == 1]
            classes = np.unique(np.concatenate([y, *answered])).tolist()
        given = cls(task, y, list(classes), groups)
        given.target = given._ids(y, "y")
        return given

    def has_scores(self, p) -> bool:
        """Whether `p` holds probabilities or other scores, not bare answers."""
        p = np.asarray(p)
        return self.task != "regression" and p.ndim == 2 and p.dtype.kind == "f"

    def predictions(self, p):
        p = np.asarray(p)
        if len(p) != len(self.target):
            raise InputError(f"{len(p)} predictions for {len(self.target)} samples")
        if p.dtype.kind == "f" and np.isnan(p).any():
            raise InputError("predictions hold NaN")
        if self.task == "regression":
            return self._numbers(p)
        from permafrost.probes.embeddings.arithmetic import answers
        from permafrost.statistics.predictions.labelled import LabelledSamples

        if self.has_scores(p) and p.shape[1] != len(self.classes):
            raise InputError(
                f"probabilities have {p.shape[1]} columns for {len(self.classes)} classes",
                remedy="give classes=[…], one name per column",
            )
        if self.has_scores(p):
            scores, found = p.astype(np.float32), answers(p, self.task)
        elif self.task == "multilabel":
            found = (p != 0).astype(np.uint8)
            scores = found.astype(np.float32)
        else:
            found = self._ids(p, "p")
            scores = np.eye(len(self.classes), dtype=np.float32)[found]
        if found.shape != self.target.shape:
            raise InputError(f"p has the shape {p.shape}, y {self.target.shape}")
        about = {"task": self.task, "classes": self.classes, "groups": self.groups}
        return LabelledSamples.from_arrays(self.samples, self.target, found, scores, **about)

    def _numbers(self, p: np.ndarray):
        from permafrost.statistics.predictions.numbers import PredictedNumbers

        if p.shape != self.target.shape:
            raise InputError(f"p has the shape {p.shape}, y {self.target.shape}")
        if not np.isfinite(self.target).all() or not np.isfinite(p).all():
            raise InputError("targets or predictions hold NaN or infinity")
        return PredictedNumbers.from_arrays(self.samples, self.target, p, groups=self.groups)

    def _ids(self, names: np.ndarray, what: str) -> np.ndarray:
        if names.ndim != 1:
            raise InputError(f"{what} has the shape {names.shape}, not one class per sample")
        places = {name: place for place, name in enumerate(self.classes)}
        listed = names.tolist()
        unknown = [name for name in listed if name not in places]
        if unknown:
            raise InputError(
                f"{what} holds {unknown[0]!r}, which is none of the classes",
                remedy="give classes=[…] with all of them",
            )
        return np.array([places[name] for name in listed], np.int64)


def _row_names(count: int) -> list[str]:
    """Names of rows that sort in the order of the rows."""
    width = len(str(count))
    return [f"{row:0{width}}" for row in range(count)]


def _difference(row: dict) -> dict:
    apart = row["p_adjusted"] is not None and row["p_adjusted"] <= 1 - row["confidence"]
    first_better = (row["difference"] > 0) == row["higher_is_better"]
    named = {"a": row["backbone_a"], "b": row["backbone_b"]}
    better = named["a" if first_better else "b"] if apart and row["difference"] != 0 else None
    return {**row, **named, "better": better}


def _wanted(names, known: list[str]) -> set[str]:
    from permafrost.core.errors import near_names

    for name in names or ():
        if name not in known:
            raise InputError(
                f"no metric {name!r} of these predictions", remedy=near_names(name, set(known))
            )
    return set(known if names is None else names)


def _frame(rows: list[dict], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([{name: row[name] for name in columns} for row in rows], columns=columns)
