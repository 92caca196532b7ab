"""The objective of logistic regression, evaluated span by span of rows, and its labels.

Softmax:  f(W, b) = mean_i log sum_k exp(t_ik - t_i,y) + lam/2 ||W||^2,          lam = 1 / (n C)
Sigmoid:  f(W, b) = mean_il log(1 + exp(-s_il t_il))   + lam/2 ||W||^2,  s = +-1, lam = 1 / (n L C)

with logits t = x W' + b and no penalty on the bias: scikit-learn's objective divided by n C (by n L C).
All terms use margins (t_ik - t_iy, or -s t), because 1 - p has no correct digits in
float32 for well classified samples, and exactly those decide the fit at large C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from permafrost.core.targets import ManyLabels, OneClass, by_targets
from permafrost.core.tasks import targets_of
from permafrost.probes.embeddings.arithmetic import score_on_validation
from permafrost.probes.linear.table import Span, StoredMargins, Table, spans_of

if TYPE_CHECKING:
    from permafrost.core.targets import Labels

# exp(-60) = 1e-26 does not change a sum that includes 1; smaller values become denormal numbers in
# later products, which are a hundred times slower
LEAST = -60.0
KEPT_BYTES = 64 * 2**20  # largest float32 array of all rows and classes in memory


@dataclass
class Softmax:
    """Intermediate results of an evaluation for slopes, residual and curvature; (blocks, [K,] rows).

    ``wrong`` exp(margin - peak), 0 at the true class; ``rest`` its sum over classes;
    ``share`` row weight / S and ``inverse`` 1 / S with S the sum of all exponentials;
    ``right`` exp(-peak).
    """

    loss: float
    wrong: Any
    rest: Any
    share: Any
    inverse: Any
    right: Any


@dataclass
class Sigmoid:
    """Intermediate results: ``wrong`` probability of the opposite label, ``spread`` p (1 - p)."""

    loss: float
    wrong: Any
    spread: Any


class Labelled:
    """Rows of a span with weights, which are 0 for padding.

    Parameters
    ----------
    backend : array operations.
    span : the rows.
    """

    def __init__(self, backend, span: Span) -> None:
        self.backend, self.span = backend, span
        real = backend.zeros((span.padded,))
        real[: span.stop - span.start] = 1.0
        self.real = real.reshape(span.blocks, span.rows)

    def blocked(self, table):
        """(n, K) -> (blocks, K, rows), padded with zeros."""
        span = self.span
        blocks = span.fill(self.backend, table).reshape(span.blocks, span.rows, -1)
        return self.backend.real(blocks.swapaxes(1, 2))


class SoftmaxSpan(Labelled):
    """Cross-entropy of a span, as its share of the mean over n rows; ``labels`` in 0..K-1."""

    def __init__(self, backend, span: Span, labels, columns: int, n: int) -> None:
        super().__init__(backend, span)
        padded = backend.integer([0] * span.padded)
        padded[: len(labels)] = labels
        position = backend.integer(range(span.padded))
        block, row = position // span.rows, position % span.rows
        flat = (block * columns + padded) * span.rows + row
        self.true = flat.reshape(span.blocks, span.rows)
        self.weight = self.real / n

    def margins(self, logits):
        return logits - self.backend.take(logits, self.true)[:, None, :]

    def evaluate(self, margins) -> Softmax:
        b = self.backend
        peak = b.amax(margins, 1)  # at least 0, the true class's margin
        wrong = b.maximum(margins - peak[:, None, :], LEAST)
        b.exp_(wrong)
        b.put_(wrong, self.true, 0.0)
        rest = wrong.sum(axis=1)
        below = b.expm1(-peak)
        excess = rest + below  # S - 1, exact if the peak is the true class
        loss = b.total((peak + b.log1p(excess)) * self.weight)
        inverse = 1.0 / (1.0 + excess)
        return Softmax(loss, wrong, rest, self.weight * inverse, inverse, below + 1.0)

    def slopes(self, at: Softmax, step) -> tuple[float, float]:
        """First and second derivative of the loss along ``step``, the margins of a direction."""
        b = self.backend
        moved = at.wrong * step
        first = moved.sum(axis=1)
        moved *= step
        second = b.dot(moved.sum(axis=1), at.share)
        drift = first * at.share
        return b.total(drift), second - b.dot(drift, first * at.inverse)

    def residual(self, at: Softmax):
        """Derivative of the loss by the logits."""
        result = at.wrong * at.share[:, None, :]
        self.backend.put_(result, self.true, -(at.rest * at.share))
        return result

    def spread(self, at: Softmax):
        """Diagonal of the second derivative by the logits, weight times p (1 - p)."""
        result = at.wrong * at.inverse[:, None, :]
        result *= 1.0 - result
        result *= self.weight[:, None, :]
        self.backend.put_(result, self.true, at.rest * at.share * at.right * at.inverse)
        return result


class SigmoidSpan(Labelled):
    """Binary cross-entropy of a span, as its share of the mean; ``labels`` (rows, K), 0 or 1.

    ``share`` is 1 / (n L): constant columns are omitted from the fit, but not from the mean.
    ``keeps``: signs of all labels stay in memory.
    """

    def __init__(self, backend, span: Span, labels, share: float, keeps: bool) -> None:
        super().__init__(backend, span)
        self.labels, self.signs = labels, None
        if keeps:
            self.signs = self.sign
        self.weight = self.real[:, None, :] * share

    @property
    def sign(self):
        """(blocks, K, rows) of 1 and -1."""
        if self.signs is not None:
            return self.signs
        return 1.0 - 2.0 * self.blocked(self.backend.real(self.labels))

    def margins(self, logits):
        return logits * self.sign

    def evaluate(self, margins) -> Sigmoid:
        b = self.backend
        small = b.maximum(-abs(margins), LEAST)
        b.exp_(small)
        loss = b.total((b.maximum(margins, 0.0) + b.log1p(small)) * self.weight)
        inverse = 1.0 / (1.0 + small)
        minor = small * inverse
        return Sigmoid(loss, b.where(margins >= 0, inverse, minor), minor * inverse)

    def slopes(self, at: Sigmoid, step) -> tuple[float, float]:
        weighted = step * self.weight
        return self.backend.dot(weighted, at.wrong), self.backend.dot(weighted * step, at.spread)

    def residual(self, at: Sigmoid):
        return at.wrong * self.sign * self.weight

    def spread(self, at: Sigmoid):
        return at.spread * self.weight


@dataclass
class Evaluation:
    """The loss of margins; ``states`` are the intermediate results of each span, if kept."""

    loss: float
    margins: Iterable
    states: list | None


@dataclass(frozen=True)
class Moved:
    """Margins at ``length`` along ``step``, computed span by span at each iteration."""

    margins: Iterable
    step: Iterable
    length: float

    def __iter__(self) -> Iterator:
        for margins, step in zip(self.margins, self.step, strict=True):
            yield margins + self.length * step


class Objective:
    """The loss over a table of rows, span after span.

    Arrays of rows × classes (margins, and intermediate results of an evaluation) stay in memory up to
    `KEPT_BYTES` each. Larger evaluations are recomputed when needed, and larger
    margins are in a file if the table is.

    Attributes
    ----------
    couples_columns : the gradients of all classes sum to zero (softmax).
    penalty_share : lam C.
    """

    def __init__(self, backend, table: Table, targets: FitLabels) -> None:
        self.backend, self.table = backend, table
        self.n, self.q = table.shape
        self.columns = len(targets.columns)
        spans = spans_of(backend, self.n, self.columns, self.q)
        self.keeps = 4 * self.n * self.columns <= KEPT_BYTES
        self.parts = targets.parts(backend, spans, self.keeps)
        self.couples_columns = targets.couples_columns
        self.penalty_share = targets.share
        self._tail: Any = None
        self._held = list(self._read()) if table.file is None else None

    def _features(self) -> Iterable:
        """Spans and their features, flat (blocks * rows, q) and tall (blocks, rows, q).

        Features from a file are valid until the next span.
        """
        return self._read() if self._held is None else self._held

    def _read(self) -> Iterator:
        for part in self.parts:
            span = part.span
            if span.stop - span.start == span.padded:
                flat = self.table.read(span.start, span.stop)
            else:
                if self._tail is None:
                    self._tail = span.fill(self.backend, self.table.read(span.start, span.stop))
                flat = self._tail
            yield part, flat, flat.reshape(span.blocks, span.rows, self.q)

    def margins(self, theta) -> Iterable:
        """(K, q) -> margins (blocks, K, rows) of each span."""
        return self._stored(
            part.margins(theta @ tall.swapaxes(1, 2)) for part, _, tall in self._features()
        )

    def _stored(self, margins: Iterable) -> Iterable:
        if self.keeps or self.table.file is None:
            return list(margins)
        spans = [part.span for part in self.parts]
        return StoredMargins(self.backend, self.table.file, spans, margins)

    def evaluate(self, margins: Iterable) -> Evaluation:
        loss, states = 0.0, []
        for part, one in zip(self.parts, margins, strict=True):
            state = part.evaluate(one)
            loss += state.loss
            if self.keeps:
                states.append(state)
        return Evaluation(loss, margins, states if self.keeps else None)

    def loss(self, margins: Iterable) -> float:
        """The loss alone, of margins computed span by span."""
        return sum(p.evaluate(one).loss for p, one in zip(self.parts, margins, strict=True))

    def along(self, margins: Iterable, step: Iterable, length: float):
        """The evaluation at ``length`` along ``step``, and the loss's first two derivatives there."""
        moved: Iterable
        moved, first, second, loss, states = Moved(margins, step, length), 0.0, 0.0, 0.0, []
        if self.keeps:
            moved = list(moved)
        for part, one, direction in zip(self.parts, moved, step, strict=True):
            state = part.evaluate(one)
            slope, curvature = part.slopes(state, direction)
            loss, first, second = loss + state.loss, first + slope, second + curvature
            if self.keeps:
                states.append(state)
        return Evaluation(loss, moved, states if self.keeps else None), first, second

    def settled(self, at: Evaluation) -> Evaluation:
        """The same, with margins that no longer depend on those they were computed from."""
        if isinstance(at.margins, Moved):
            return replace(at, margins=self._stored(at.margins))
        return at

    def losses(self, thetas: list) -> list[float]:
        """The loss at each of several (K, q); features are read once."""
        found = [0.0] * len(thetas)
        for part, _, tall in self._features():
            wide = tall.swapaxes(1, 2)
            for i, theta in enumerate(thetas):
                found[i] += part.evaluate(part.margins(theta @ wide)).loss
        return found

    def _states(self, at: Evaluation) -> Iterable:
        if at.states is not None:
            return at.states
        return (part.evaluate(one) for part, one in zip(self.parts, at.margins, strict=True))

    def gradient(self, at: Evaluation):
        """(K, q): the sum over rows of the derivative by the logits times features."""
        total = None
        for (part, _, tall), state in zip(self._features(), self._states(at), strict=True):
            one = (part.residual(state) @ tall).sum(axis=0)
            total = one if total is None else total + one
        return total

    def curvature(self, at: Evaluation):
        """(K,) sums over rows of the second derivative by the class's logit."""
        states = zip(self.parts, self._states(at), strict=True)
        return sum(part.spread(state).sum(axis=2).sum(axis=0) for part, state in states)

    def spreads(self, at: Evaluation) -> Iterator:
        """Yield for each span features (rows, q) and second derivatives by each class's logit (blocks, K, rows)."""
        for (part, flat, _), state in zip(self._features(), self._states(at), strict=True):
            yield flat, part.spread(state)

    def moments(self):
        """(q,) mean squares of the features."""
        return sum((flat * flat).sum(axis=0) for _, flat, _ in self._features()) / self.n


@dataclass
class FitLabels:
    """Labels of one fit.

    Attributes
    ----------
    task, n_classes : task, and number of classes.
    labels : (n,) ids, or (n, n_classes) of 0 and 1.
    columns : ids of the fitted classes. Single-label: classes that occur. Multi-label: labels with
        both values; a constant label has its infimum at an infinite bias and is not fitted.
    """

    task: str
    n_classes: int
    labels: np.ndarray
    columns: np.ndarray

    if TYPE_CHECKING:
        couples_columns: ClassVar[bool]
        fewest: ClassVar[int]

        @staticmethod
        def fitted(labels: np.ndarray, n_classes: int) -> np.ndarray:
            """Ids of the classes that can be fitted."""

        @property
        def always(self) -> np.ndarray:
            """Ids of the labels that every sample has."""

        @property
        def share(self) -> float:
            """Weight of one entry in the mean loss."""

        def parts(self, backend, spans: list[Span], keeps: bool) -> list:
            """The labels of each span."""

        def score(self, labels: np.ndarray, logits: Iterable[np.ndarray]) -> float:
            """Validation score of blocks of logits (m, K)."""

    @staticmethod
    def of(labels: np.ndarray, n_classes: int, task: str) -> FitLabels:
        kind = by_targets({OneClass: SoftmaxLabels, ManyLabels: SigmoidLabels}, targets_of(task))
        return kind(task, n_classes, labels, kind.fitted(labels, n_classes))

    def subset(self, rows: np.ndarray) -> FitLabels:
        """The same columns over some of the rows."""
        return type(self)(self.task, self.n_classes, self.labels[rows], self.columns)

    def objective(self, backend, table: Table) -> Objective:
        """The objective of these labels over (n, q) rows with a leading 1."""
        return Objective(backend, table, self)

    def carry(self, backend, theta, columns: np.ndarray):
        """The start for `self.columns` from ``theta``, whose rows are those of ``columns``."""
        start = backend.zeros((len(self.columns), theta.shape[1]))
        for new, column in enumerate(self.columns):
            old = np.flatnonzero(columns == column)
            if len(old):
                start[new] = theta[int(old[0])]
        return start

    def whole(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of all classes; those not fitted get weights 0 and bias -inf or inf."""
        all_coef = np.zeros((self.n_classes, coef.shape[1]))
        all_intercept = np.full(self.n_classes, -np.inf)
        all_intercept[self.always] = np.inf
        all_coef[self.columns], all_intercept[self.columns] = coef, intercept
        return all_coef, all_intercept

    def spread_logits(self, logits: np.ndarray) -> np.ndarray:
        """(n, fitted) logits -> (n, n_classes)."""
        _, constants = self.whole(np.zeros((len(self.columns), 1)), np.zeros(len(self.columns)))
        full = np.tile(constants, (len(logits), 1))
        full[:, self.columns] = logits
        return full


class SoftmaxLabels(FitLabels):
    """One class per sample; the classes that occur are fitted."""

    couples_columns, fewest = True, 2
    always = np.zeros(0, np.intp)

    @staticmethod
    def fitted(labels: np.ndarray, n_classes: int) -> np.ndarray:
        """Ids of the classes that can be fitted."""
        return np.flatnonzero(np.bincount(labels, minlength=n_classes))

    @property
    def share(self) -> float:
        """Weight of one entry in the mean loss."""
        return 1.0 / len(self.labels)

    def parts(self, backend, spans: list[Span], keeps: bool) -> list:
        """The labels of each span."""
        compact, n = np.searchsorted(self.columns, self.labels), len(self.labels)
        return [
            SoftmaxSpan(
                backend, s, backend.integer(compact[s.start : s.stop]), len(self.columns), n
            )
            for s in spans
        ]

    def score(self, labels: np.ndarray, logits: Iterable[np.ndarray]) -> float:
        """Validation score of blocks of logits (m, K)."""
        prediction = np.concatenate([some.argmax(axis=1) for some in logits])
        return score_on_validation(labels, None, prediction, self.task)


class SigmoidLabels(FitLabels):
    """Any number of labels per sample; labels with both values are fitted."""

    couples_columns, fewest = False, 1

    @staticmethod
    def fitted(labels: np.ndarray, n_classes: int) -> np.ndarray:
        counts = labels.sum(axis=0)
        return np.flatnonzero((counts > 0) & (counts < len(labels)))

    @property
    def always(self) -> np.ndarray:
        """Ids of the labels that every sample has."""
        return np.flatnonzero(self.labels.all(axis=0))

    @property
    def share(self) -> float:
        return 1.0 / (len(self.labels) * self.n_classes)

    def parts(self, backend, spans: list[Span], keeps: bool) -> list:
        active = self.labels[:, self.columns]
        return [SigmoidSpan(backend, s, active[s.start : s.stop], self.share, keeps) for s in spans]

    def score(self, labels: np.ndarray, logits: Iterable[np.ndarray]) -> float:
        scores = np.concatenate(
            [cast("Labels", targets_of(self.task)).probabilities(some) for some in logits]
        )
        return score_on_validation(labels, scores, None, self.task)
