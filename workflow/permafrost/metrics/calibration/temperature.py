"""Temperature scaling: one parameter that calibrates probabilities.

Logits z are divided by T > 0, so predictions do not change. T maximises the likelihood of the targets. In
b = 1 / T the mean negative log-likelihood is convex, with the derivatives

    mean (sum_k p_k z_k - z_y)   and   mean (sum_k p_k z_k^2 - (sum_k p_k z_k)^2),   p = softmax(b z)

so Newton's method finds the root of the first within a bracket, with bisection where a step fails.
Probes store probabilities. Their logarithms are the logits up to a constant per item, which has no
effect. But a probability that was rounded to 0, or a class without votes of neighbours, has no
finite logit. It stays at 0 at every temperature.
If it is the *true* class, the likelihood is 0 at every temperature and has no maximum:
T is then undefined, unless the caller gives a `floor` to which probabilities are raised.

T must be fitted on items that the probe was not trained on. If the probe was refitted on train and
validation, only the test split remains: `cross_fit` scales each fold of its units with the T of
the other folds.
Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.row_file import RowFile, row_blocks
from permafrost.core.targets import ManyLabels, OneClass, by_targets
from permafrost.core.tasks import targets_of
from permafrost.metrics.calibration.confidence import check, check_shapes

if TYPE_CHECKING:
    from permafrost.core.targets import Labels

BOUNDS = (0.01, 100.0)
KINDS = ("probabilities", "logits")
_STEPS = 200
_TOLERANCE = 1e-8
# if every item is right, steps towards a bound do not shrink: after this many the bound is evaluated
_PATIENCE = 8
# logits of more bytes are not kept, but recomputed from the scores at each use
HELD_BYTES = 96 << 20


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature.

    Attributes
    ----------
    value : T; above 1 if the probe was overconfident; NaN if undefined.
    nll_before, nll_after : mean negative log-likelihood in nats per item (per entry for
        multi-label) at 1 and at T; infinite if a true class has probability 0.
    notes : ``undefined`` with the reason, ``flag`` (``at_bound``; ``flat``: T makes no difference), and the
        counts ``impossible`` (entries whose true class has probability 0) and ``raised`` (to the
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
    answers : the targets and scores.
    fold : (N,) fold of each item.
    temperatures : one for each fold, fitted on all other folds.
    """

    answers: _Answers
    fold: np.ndarray
    temperatures: list[Temperature]

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their (n, K) probabilities; NaN if the temperature of the item's fold is undefined."""
        for block in row_blocks(self.answers.scores):
            _, logits, _ = self.answers.of(block)
            scaled, fold = np.full(logits.shape, np.nan), self.fold[block]
            for number, found in enumerate(self.temperatures):
                if not np.isnan(found.value):
                    inside = fold == number
                    inverse = 1.0 / found.value
                    scaled[inside] = _probabilities(logits[inside], inverse, self.answers.task)
            yield block, scaled

    @cached_property
    def scores(self) -> np.ndarray:
        """(N, K) probabilities of all items."""
        return np.concatenate([scaled for _, scaled in self.blocks()])


def fit_temperature(
    target,
    scores,
    *,
    task: str,
    kind: str = "probabilities",
    floor: float | None = None,
    bounds: tuple[float, float] = BOUNDS,
) -> Temperature:
    """Fit the temperature that maximises the likelihood of the targets.

    Parameters
    ----------
    target : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel`` (one T for all labels).
    scores : (N, K) or (N, L), of items that the probe was not trained on.
    kind : ``probabilities`` or ``logits``.
    floor : probabilities are first clipped to at least this (for ``multilabel`` also to at most 1 - floor).
        For a vote of k neighbours, 1 / (2 k) is half a vote.
    bounds : least and largest T. If the likelihood still rises at one of them (as it does when every
        item is right), that bound is returned with a flag.
    """
    return _fit(_Answers.of_arrays(target, scores, task, kind, floor), bounds)


def _fit(answers: _Answers, bounds: tuple[float, float]) -> Temperature:
    low, high = bounds
    if not 0 < low < high < np.inf:
        raise PermafrostError(f"temperatures from {low} to {high}", remedy="give 0 < low < high")
    likelihood = _likelihood(answers)
    notes: dict[str, int | str] = {"raised": likelihood.raised} if likelihood.raised else {}
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
    """(N, K) float64 probabilities at a temperature above 0; other arguments as `fit_temperature`."""
    if not 0 < temperature < np.inf:
        raise PermafrostError(
            f"the temperature {temperature} is not a number above 0",
            remedy="scale by a temperature that is defined",
        )
    scores = np.asarray(scores)
    blank = np.zeros(cast("Labels", targets_of(task)).shape(*scores.shape), np.int64)
    _, logits, _ = _Answers.of_arrays(blank, scores, task, kind, floor).of(slice(None))
    return _probabilities(logits, 1.0 / temperature, task)


def item_slopes(
    target, scores, inverses, *, task: str, kind: str = "probabilities", floor: float | None = None
) -> np.ndarray:
    """(G, N) derivative of each item's negative log-likelihood in 1 / T, at each of G values of 1 / T.

    Their weighted sum over items rises in 1 / T for any non-negative weights, and is 0 at the temperature of these
    weights. So one table serves all resamples. Arguments as `fit_temperature`; the derivatives are meaningless for
    an item whose true class has probability 0.
    """
    likelihood = _likelihood(_Answers.of_arrays(target, scores, task, kind, floor))
    return np.stack([likelihood.item_slopes(inverse) for inverse in inverses])


def cross_fit(
    target,
    scores,
    *,
    task: str,
    units=None,
    folds: int = 5,
    seed: int,
    kind: str = "probabilities",
    floor: float | None = None,
    bounds: tuple[float, float] = BOUNDS,
) -> CrossFit:
    """Scale the scores of each fold of units by the temperature fitted on the other folds.

    Parameters
    ----------
    units : (N,) unit of each item; all items of a unit are in one fold. None: each item is a unit.
    folds : at least 2, and at most the number of units.
    kind, floor, bounds : as `fit_temperature`.
    """
    answers = _Answers.of_arrays(target, scores, task, kind, floor)
    units = np.arange(len(answers)) if units is None else np.asarray(units)
    if units.shape != (len(answers),):
        raise PermafrostError(f"{len(units)} units for {len(answers)} items")
    names, index = np.unique(units, return_inverse=True)
    if not 2 <= folds <= len(names):
        raise PermafrostError(
            f"{folds} folds of {len(names)} units", remedy=f"choose from 2 to {len(names)} folds"
        )
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(names))
    fold_of_unit = np.empty(len(names), np.intp)
    fold_of_unit[order] = np.arange(len(names)) % folds
    fold = fold_of_unit[index]
    fitted = [_fit(answers.where(fold != number), bounds) for number in range(folds)]
    return CrossFit(answers, fold, fitted)


@dataclass(frozen=True)
class _Answers:
    """Checked targets and scores, which become float64 logits block by block.

    Attributes
    ----------
    scores : (N, K), an array or a `RowFile`.
    chosen : (N,) bool, the items in use; None: all.
    """

    target: np.ndarray
    scores: np.ndarray | RowFile
    task: str
    kind: str
    floor: float | None
    chosen: np.ndarray | None = None

    @classmethod
    def of_arrays(cls, target, scores, task: str, kind: str, floor: float | None) -> _Answers:
        look_up(KINDS, kind, "no scores are")
        if kind == "logits" and floor is not None:
            raise PermafrostError("logits have no floor", remedy="leave the floor out")
        checked = check_shapes if kind == "logits" else check
        target, scores = checked(target, scores, task)
        if floor is not None and not 0 < floor < 0.5:
            raise PermafrostError(f"a floor of {floor}", remedy="give one between 0 and 0.5")
        return cls(target, scores, task, kind, floor)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def items(self) -> int:
        """Number of items in use."""
        return len(self) if self.chosen is None else int(np.count_nonzero(self.chosen))

    def where(self, chosen: np.ndarray) -> _Answers:
        return _Answers(self.target, self.scores, self.task, self.kind, self.floor, chosen)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """The result of `of` for all items in use, block by block in order."""
        return (self.of(block) for block in row_blocks(self.scores))

    def of(self, block: slice) -> tuple[np.ndarray, np.ndarray, int]:
        """Targets, float64 logits, and the number of entries clipped to the floor, of some rows."""
        target, scores = self.target[block], self.scores[block]
        if self.chosen is not None:
            target, scores = target[self.chosen[block]], scores[self.chosen[block]]
        scores, raised = scores.astype(np.float64), 0
        if self.kind == "logits":
            return target, scores, 0
        if self.floor is not None:
            ceiling = 1.0 - self.floor if targets_of(self.task).several else 1.0
            moved = np.clip(scores, self.floor, ceiling)
            scores, raised = moved, int(np.count_nonzero(moved != scores))
        with np.errstate(divide="ignore"):
            logits = np.log(scores)
            if targets_of(self.task).several:
                logits -= np.log1p(-scores)
        return target, logits, raised


class _Likelihood:
    """Base of the likelihoods: blocks of the answers, kept in memory if they are small."""

    if TYPE_CHECKING:
        impossible: int
        flat: bool

        def _part(self, target: np.ndarray, logits: np.ndarray) -> tuple:
            """The intermediate results for some items."""

        def _look(self, part: tuple) -> None:
            """Update `impossible` and `flat` with a new part."""

        def value(self, inverse: float) -> float:
            """Mean negative log-likelihood in nats at 1 / T."""

        def slopes(self, inverse: float) -> tuple[float, float]:
            """First and second derivative of `value` in 1 / T."""

        @staticmethod
        def probabilities(logits: np.ndarray, inverse: float) -> np.ndarray:
            """(N, K) float64 at 1 / T."""

        def item_slopes(self, inverse: float) -> np.ndarray:
            """(N,) first derivative of each item's negative log-likelihood in 1 / T."""

    def __init__(self, answers: _Answers) -> None:
        self.answers, self.raised = answers, 0
        self._held: list | None = []
        size = 8 * answers.items * answers.scores.shape[1]
        keep = size <= HELD_BYTES
        for target, logits, raised in answers.blocks():
            part = self._part(target, logits)
            self.raised += raised
            self._look(part)
            if keep:
                self._held.append(part)
        if not keep:
            self._held = None

    def parts(self) -> Iterator[tuple]:
        """The result of `_part` for each block."""
        if self._held is not None:
            return iter(self._held)
        return (self._part(target, logits) for target, logits, _ in self.answers.blocks())


class _Softmax(_Likelihood):
    """Mean negative log-likelihood of (N,) classes as a function of 1 / T."""

    def __init__(self, answers: _Answers) -> None:
        self.impossible, self.flat = 0, True
        super().__init__(answers)

    def _part(self, target: np.ndarray, logits: np.ndarray) -> tuple:
        logits -= logits.max(axis=1, keepdims=True)
        right = np.take_along_axis(logits, target[:, None], axis=1)[:, 0]
        # a class with probability 0 adds nothing: 0 times its logit, which is minus infinity
        finite = logits if np.isfinite(logits).all() else np.where(np.isfinite(logits), logits, 0.0)
        return logits, right, finite

    def _look(self, part: tuple) -> None:
        _, right, finite = part
        self.impossible += int(np.count_nonzero(np.isneginf(right)))
        self.flat = self.flat and not finite.any()

    def value(self, inverse: float) -> float:
        each = [
            np.log(np.exp(inverse * logits).sum(axis=1)) - inverse * right
            for logits, right, _ in self.parts()
        ]
        return float(np.mean(np.concatenate(each)))

    def slopes(self, inverse: float) -> tuple[float, float]:
        first, second = [], []
        for logits, right, finite in self.parts():
            shares = np.exp(inverse * logits)
            shares /= shares.sum(axis=1, keepdims=True)
            mean = np.einsum("ij,ij->i", shares, finite)
            square = np.einsum("ij,ij,ij->i", shares, finite, finite)
            first.append(mean - right)
            second.append(square - mean**2)
        return cast(
            tuple[float, float],
            tuple(float(np.mean(np.concatenate(each))) for each in (first, second)),
        )

    @staticmethod
    def probabilities(logits: np.ndarray, inverse: float) -> np.ndarray:
        shares = np.exp(inverse * (logits - logits.max(axis=1, keepdims=True)))
        return shares / shares.sum(axis=1, keepdims=True)

    def item_slopes(self, inverse: float) -> np.ndarray:
        each = []
        for logits, right, finite in self.parts():
            shares = np.exp(inverse * logits)
            mean = np.einsum("ij,ij->i", shares, finite) / shares.sum(axis=1)
            each.append(mean - np.where(np.isfinite(right), right, 0.0))
        return np.concatenate(each)


class _Binary(_Likelihood):
    """Mean negative log-likelihood of (N, L) labels as a function of 1 / T."""

    def __init__(self, answers: _Answers) -> None:
        self.impossible, self.flat, self.entries = 0, True, 0
        super().__init__(answers)

    def _part(self, target: np.ndarray, logits: np.ndarray) -> tuple:
        sure = np.isinf(logits)
        impossible = int(np.count_nonzero(sure & ((logits > 0) != (target == 1))))
        # a probability of exactly 1 for the truth adds nothing at any temperature
        signs = np.where(target == 1, 1.0, -1.0)
        margins = (signs * np.where(sure, 0.0, logits))[~sure]
        return margins, np.count_nonzero(~sure, axis=1), impossible, logits.size

    def _look(self, part: tuple) -> None:
        margins, _, impossible, entries = part
        self.impossible += impossible
        self.flat = self.flat and not margins.any()
        self.entries += entries

    def value(self, inverse: float) -> float:
        sums = [np.logaddexp(0.0, -inverse * margins).sum() for margins, *_ in self.parts()]
        return float(sum(sums) / self.entries)

    def slopes(self, inverse: float) -> tuple[float, float]:
        first = second = 0.0
        for margins, *_ in self.parts():
            wrong = np.exp(-np.logaddexp(0.0, inverse * margins))
            first -= (wrong * margins).sum()
            second += (wrong * (1 - wrong) * margins**2).sum()
        return float(first / self.entries), float(second / self.entries)

    @staticmethod
    def probabilities(logits: np.ndarray, inverse: float) -> np.ndarray:
        return np.exp(-np.logaddexp(0.0, -inverse * logits))

    def item_slopes(self, inverse: float) -> np.ndarray:
        each = []
        for margins, lengths, *_ in self.parts():
            wrong = np.exp(-np.logaddexp(0.0, inverse * margins))
            rows = np.repeat(np.arange(len(lengths)), lengths)
            each.append(-np.bincount(rows, wrong * margins, len(lengths)))
        return np.concatenate(each)


def _minimise(likelihood: _Likelihood, low: float, high: float) -> tuple[float, bool]:
    """The root of the rising derivative in [low, high], and whether it is a bound instead."""
    ends = {low: 1, high: -1}  # bounds not evaluated yet, and the sign of the derivative there
    point = min(max(1.0, low), high)
    for number in range(_STEPS):
        first, second = likelihood.slopes(point)
        if first == 0:
            # the root; or the derivative is rounded to 0 from here to the bound
            flat = [end for end, sign in ends.items() if sign * likelihood.slopes(end)[0] >= 0]
            return (flat[0], True) if flat else (float(point), False)
        low, high = (low, point) if first > 0 else (point, high)
        new = point - first / second if second > 0 else np.nan
        # each step doubles the number of correct digits: after one this small, more gain nothing
        if abs(new - point) <= _TOLERANCE * point:
            return float(min(max(new, low), high)), False
        inside = low < new < high
        if not inside or number == _PATIENCE:
            end = low if first > 0 else high
            if end in ends and ends.pop(end) * likelihood.slopes(end)[0] >= 0:
                return end, True
        point = new if inside else np.sqrt(low * high)
    return float(point), False


def _kind(task: str) -> type[_Likelihood]:
    return by_targets({OneClass: _Softmax, ManyLabels: _Binary}, targets_of(task))


def _likelihood(answers: _Answers) -> _Likelihood:
    return _kind(answers.task)(answers)


def _probabilities(logits: np.ndarray, inverse: float, task: str) -> np.ndarray:
    return _kind(task).probabilities(logits, inverse)
