"""Temperature scaling: one number that makes probabilities as sure as they are right.

Logits z are divided by T > 0, so predictions stay. T maximises the likelihood of the targets. In
b = 1 / T the mean negative log-likelihood is convex, with the derivatives

    mean (sum_k p_k z_k - z_y)   and   mean (sum_k p_k z_k^2 - (sum_k p_k z_k)^2),   p = softmax(b z)

so the root of the first is found by Newton's steps within a bracket that halves where they fail.
Probes store probabilities. Their logarithms are the logits up to a constant of each item, which
changes nothing, so nothing is lost by starting from them; but a probability that was rounded to 0,
or a class that no neighbour voted for, has no logit. Such a class stays at 0 at every temperature.
Where it is the *right* class the likelihood is 0 at every temperature, and there is no best one:
T is then undefined unless the caller names a `floor` to which probabilities are raised.

T must be fitted on items that the probe was not trained on. A probe refitted on train and
validation leaves only the test split for that: `cross_fit` fits T on other units of it than those
whose probabilities it changes.
Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.metrics.calibration.confidence import check, check_shapes

BOUNDS = (0.01, 100.0)
KINDS = ("probabilities", "logits")
_STEPS = 200
_TOLERANCE = 1e-8
# steps towards a bound where every item is right do not shrink: after so many of them it is looked at
_PATIENCE = 8


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature.

    Attributes
    ----------
    value : T; above 1 where the probe was too sure. NaN where it is undefined.
    nll_before, nll_after : mean negative log-likelihood in nats per item (per entry for
        multi-label) at 1 and at T; infinite where a right class has probability 0.
    notes : ``undefined`` and why, ``flag`` (``at_bound``, ``flat``: T makes no difference), and the
        counts ``impossible`` (entries whose right answer has probability 0) and ``raised`` (to the
        floor).
    """

    value: float
    nll_before: float
    nll_after: float
    notes: dict = field(default_factory=dict)


@dataclass(frozen=True)
class CrossFit:
    """Scores scaled by temperatures that were fitted on other units.

    Attributes
    ----------
    scores : (N, K) probabilities; NaN where the temperature of the item's fold is undefined.
    fold : (N,) fold of each item.
    temperatures : one for each fold, fitted on all the others.
    """

    scores: np.ndarray
    fold: np.ndarray
    temperatures: list[Temperature]


def fit_temperature(
    target,
    scores,
    *,
    task: str,
    kind: str = "probabilities",
    floor: float | None = None,
    bounds: tuple[float, float] = BOUNDS,
) -> Temperature:
    """The temperature that makes the targets most likely.

    Parameters
    ----------
    target : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel`` (one T for all labels).
    scores : (N, K) or (N, L), of items that the probe was not trained on.
    kind : ``probabilities`` or ``logits``.
    floor : probabilities below it (and for ``multilabel`` above 1 - floor) are moved to it first.
        For a vote of k neighbours, 1 / (2 k) is half a vote.
    bounds : least and largest T; one of them is returned, flagged, where the likelihood still
        rises there (as where every item is right).
    """
    low, high = bounds
    if not 0 < low < high < np.inf:
        raise PermafrostError(f"temperatures from {low} to {high}", remedy="give 0 < low < high")
    likelihood, raised = _likelihood(target, scores, task, kind, floor)
    notes = {"raised": raised} if raised else {}
    if likelihood.impossible:
        notes["impossible"] = likelihood.impossible
        notes["undefined"] = "right answers have probability 0, at every temperature"
        return Temperature(float("nan"), np.inf, np.inf, notes)
    before = likelihood.value(1.0)
    if likelihood.flat:
        return Temperature(1.0, before, before, {**notes, "flag": "flat"})
    inverse, at_bound = _minimise(likelihood, 1.0 / high, 1.0 / low)
    if at_bound:
        notes["flag"] = "at_bound"
    return Temperature(1.0 / inverse, before, likelihood.value(inverse), notes)


def scale(
    scores, temperature: float, *, task: str, kind: str = "probabilities", floor=None
) -> np.ndarray:
    """(N, K) float64 probabilities at a temperature; arguments as `fit_temperature`."""
    if not 0 < temperature < np.inf:
        raise PermafrostError(
            f"the temperature {temperature} is not a number above 0",
            remedy="scale by a temperature whose notes do not say that it is undefined",
        )
    scores = np.asarray(scores)
    blank = np.zeros(scores.shape if task == "multilabel" else len(scores), np.int64)
    _, logits, _ = _logits(blank, scores, task, kind, floor)
    return _probabilities(logits, 1.0 / temperature, task)


def item_slopes(
    target, scores, inverses, *, task: str, kind: str = "probabilities", floor: float | None = None
) -> np.ndarray:
    """(G, N) derivative of each item's negative log-likelihood in 1 / T, at each of G values of 1 / T.

    Their sum over items rises in 1 / T, whatever the (non-negative) weights of the items, and is 0 at
    the temperature of these weights: so they serve every resample. Arguments as `fit_temperature`;
    for an item whose right answer has probability 0 they mean nothing.
    """
    likelihood, _ = _likelihood(target, scores, task, kind, floor)
    return np.stack([likelihood.item_slopes(inverse) for inverse in inverses])


def cross_fit(
    target, scores, *, task: str, units=None, folds: int = 5, seed: int, **options
) -> CrossFit:
    """Scale the scores of each fold of units by the temperature that the other folds give.

    Parameters
    ----------
    units : (N,) unit of each item; all items of a unit are in one fold. Without it each item is one.
    folds : at least 2, and at most the number of units.
    options : ``kind``, ``floor`` and ``bounds`` of `fit_temperature`.
    """
    target, scores = check_shapes(target, scores, task)
    units = np.arange(len(scores)) if units is None else np.asarray(units)
    if units.shape != (len(scores),):
        raise PermafrostError(f"{len(units)} units for {len(scores)} items")
    names, index = np.unique(units, return_inverse=True)
    if not 2 <= folds <= len(names):
        raise PermafrostError(
            f"{folds} folds of {len(names)} units", remedy=f"choose from 2 to {len(names)} folds"
        )
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(names))
    fold_of_unit = np.empty(len(names), np.intp)
    fold_of_unit[order] = np.arange(len(names)) % folds
    fold, scaled, fitted = fold_of_unit[index], np.full(scores.shape, np.nan), []
    shown = {name: options[name] for name in ("kind", "floor") if name in options}
    for number in range(folds):
        inside = fold == number
        found = fit_temperature(target[~inside], scores[~inside], task=task, **options)
        if not np.isnan(found.value):
            scaled[inside] = scale(scores[inside], found.value, task=task, **shown)
        fitted.append(found)
    return CrossFit(scaled, fold, fitted)


class _Softmax:
    """Mean negative log-likelihood of (N,) classes as a function of 1 / T."""

    def __init__(self, target: np.ndarray, logits: np.ndarray) -> None:
        self.logits = logits - logits.max(axis=1, keepdims=True)
        self.right = np.take_along_axis(self.logits, target[:, None], axis=1)[:, 0]
        # a class with probability 0 adds nothing: 0 times its logit, which is minus infinity
        self.finite = np.where(np.isfinite(self.logits), self.logits, 0.0)
        self.impossible = int(np.count_nonzero(np.isneginf(self.right)))
        self.flat = not self.finite.any()

    def value(self, inverse: float) -> float:
        return float(
            np.mean(np.log(np.exp(inverse * self.logits).sum(axis=1)) - inverse * self.right)
        )

    def slopes(self, inverse: float) -> tuple[float, float]:
        shares = np.exp(inverse * self.logits)
        shares /= shares.sum(axis=1, keepdims=True)
        mean = np.einsum("ij,ij->i", shares, self.finite)
        square = np.einsum("ij,ij,ij->i", shares, self.finite, self.finite)
        return float(np.mean(mean - self.right)), float(np.mean(square - mean**2))

    def item_slopes(self, inverse: float) -> np.ndarray:
        shares = np.exp(inverse * self.logits)
        mean = np.einsum("ij,ij->i", shares, self.finite) / shares.sum(axis=1)
        return mean - np.where(np.isfinite(self.right), self.right, 0.0)


class _Binary:
    """Mean negative log-likelihood of (N, L) labels as a function of 1 / T."""

    def __init__(self, target: np.ndarray, logits: np.ndarray) -> None:
        sure = np.isinf(logits)
        self.impossible = int(np.count_nonzero(sure & ((logits > 0) != (target == 1))))
        # what is sure and right adds nothing at any temperature
        self.entries = logits.size
        signs = np.where(target == 1, 1.0, -1.0)
        self.margins = (signs * np.where(sure, 0.0, logits))[~sure]
        self.items, self.rows = len(logits), np.nonzero(~sure)[0]
        self.flat = not self.margins.any()

    def value(self, inverse: float) -> float:
        return float(np.logaddexp(0.0, -inverse * self.margins).sum() / self.entries)

    def slopes(self, inverse: float) -> tuple[float, float]:
        wrong = np.exp(-np.logaddexp(0.0, inverse * self.margins))
        first = -(wrong * self.margins).sum() / self.entries
        return float(first), float((wrong * (1 - wrong) * self.margins**2).sum() / self.entries)

    def item_slopes(self, inverse: float) -> np.ndarray:
        wrong = np.exp(-np.logaddexp(0.0, inverse * self.margins))
        return -np.bincount(self.rows, wrong * self.margins, self.items)


def _minimise(likelihood, low: float, high: float) -> tuple[float, bool]:
    """Where the derivative, which rises, crosses zero in [low, high]; else the bound it is at."""
    ends = {low: 1, high: -1}  # bounds not looked at yet, and the sign of the derivative there
    point = min(max(1.0, low), high)
    for number in range(_STEPS):
        first, second = likelihood.slopes(point)
        if first == 0:
            # the crossing; or so far out that the derivative is rounded to 0 up to the bound
            flat = [end for end, sign in ends.items() if sign * likelihood.slopes(end)[0] >= 0]
            return (flat[0], True) if flat else (float(point), False)
        low, high = (low, point) if first > 0 else (point, high)
        new = point - first / second if second > 0 else np.nan
        # a step doubles the digits, so that after one this small nothing is left to gain
        if abs(new - point) <= _TOLERANCE * point:
            return float(min(max(new, low), high)), False
        inside = low < new < high
        if not inside or number == _PATIENCE:
            end = low if first > 0 else high
            if end in ends and ends.pop(end) * likelihood.slopes(end)[0] >= 0:
                return end, True
        point = new if inside else np.sqrt(low * high)
    return float(point), False


def _likelihood(target, scores, task: str, kind: str, floor: float | None):
    """The likelihood of the targets, and the number of entries that the floor moved."""
    target, logits, raised = _logits(target, scores, task, kind, floor)
    return (_Binary if task == "multilabel" else _Softmax)(target, logits), raised


def _logits(target, scores, task: str, kind: str, floor: float | None):
    """Checked targets, float64 logits, and the number of entries that the floor moved."""
    if kind not in KINDS:
        raise PermafrostError(f"no scores are {kind!r}", remedy=near_names(kind, KINDS))
    if kind == "logits":
        if floor is not None:
            raise PermafrostError("logits have no floor", remedy="leave the floor out")
        target, scores = check_shapes(target, scores, task)
        return target, scores.astype(np.float64), 0
    target, scores = check(target, scores, task)
    scores, raised = scores.astype(np.float64), 0
    if floor is not None:
        ceiling = 1.0 - floor if task == "multilabel" else 1.0
        if not 0 < floor < 0.5:
            raise PermafrostError(f"a floor of {floor}", remedy="give one between 0 and 0.5")
        moved = np.clip(scores, floor, ceiling)
        scores, raised = moved, int(np.count_nonzero(moved != scores))
    with np.errstate(divide="ignore"):
        logits = np.log(scores)
        return target, logits - np.log1p(-scores) if task == "multilabel" else logits, raised


def _probabilities(logits: np.ndarray, inverse: float, task: str) -> np.ndarray:
    if task == "multilabel":
        return np.exp(-np.logaddexp(0.0, -inverse * logits))
    shares = np.exp(inverse * (logits - logits.max(axis=1, keepdims=True)))
    return shares / shares.sum(axis=1, keepdims=True)
