"""The steps of derived backbones. They compute in float64, so no result depends on how rows are blocked.

A step learns from the train split alone, and without labels. `learned` are its arrays by name, which the
derived store keeps; `apply` maps rows (n, d) to rows (n, d').
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from permafrost.backbones.derived import Step, narrowed
from permafrost.core.blas import numpys_kernels
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed

#: a matrix of covariances of more features would take gigabytes
MOST_FEATURES = 8192
#: rows of train, spread evenly, that quantiles and codewords are learned from; fewer where they would take 512 MB
LEARNED_FROM, LEARNED_VALUES = 50_000, 2**26
#: AlphaEarth's power law: x -> sign(x) |x|^(1/2) 127.5, rounded and cut to ±127 (Brown et al. 2025, arXiv:2507.22291)
POWER, POWER_SCALE, POWER_LEVELS = 2.0, 127.5, 127

Learned = dict[str, np.ndarray]


class Train:
    """Rows of the train split, after the steps before.

    Parameters
    ----------
    blocks : gives float64 blocks (n, d), the same each time.
    count : number of all rows.
    """

    def __init__(self, blocks: Callable[[], Iterator[np.ndarray]], count: int) -> None:
        self.blocks, self.count = blocks, count

    def moments(self, *, together: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(d,) means; and (d,) variances, or with `together` (d, d) covariances. Divided by the number of rows."""
        mean = sum(block.sum(axis=0) for block in self.blocks()) / self.count
        total: Any = 0.0
        for block in self.blocks():
            apart = block - mean
            total = total + (apart.T @ apart if together else (apart**2).sum(axis=0))
        return mean, total / self.count

    def sample(self, width: int) -> np.ndarray:
        """At most `LEARNED_FROM` rows of `width` features, spread evenly."""
        most = min(LEARNED_FROM, max(1, LEARNED_VALUES // width))
        chosen = np.unique(np.linspace(0, self.count - 1, most).round().astype(np.int64))
        parts, start = [], 0
        for block in self.blocks():
            inside = chosen[
                np.searchsorted(chosen, start) : np.searchsorted(chosen, start + len(block))
            ]
            parts.append(block[inside - start])
            start += len(block)
        return np.concatenate(parts)

    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) the smallest and the largest value of each feature."""
        low, high = zip(*((one.min(axis=0), one.max(axis=0)) for one in self.blocks()), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)


@dataclass(frozen=True)
class Kind:
    """How a step learns and what it does.

    Attributes
    ----------
    learn : (value, train, d, where) -> arrays.
    apply : (value, rows, arrays) -> rows.
    bits : (value, d') -> bits of a sample as it would be stored; None: as before the step.
    """

    learn: Callable[[Any, Train, int, str], Learned]
    apply: Callable[[Any, np.ndarray, Learned], np.ndarray]
    bits: Callable[[Any, int], int] | None = None


def bits_of(form: str) -> int:
    """Bits of a number in a form."""
    return (
        1
        if form == "sign"
        else int(form.partition("-")[0].removeprefix("float").removeprefix("int"))
    )


def levels_of(form: str) -> str | None:
    """How the levels of a form are chosen: ``linear``, ``quantiles``, ``power`` or ``sign``; None: floating point."""
    if form.startswith("float"):
        return None
    return form if form == "sign" else form.partition("-")[2] or "linear"


def _nothing(value, train: Train, d: int, where: str) -> Learned:
    return {}


def _projection(value: int, train: Train, d: int, where: str) -> Learned:
    drawn = np.random.default_rng(derive_seed("projection", d, value))
    return {"matrix": drawn.standard_normal((d, value)) / np.sqrt(value)}


def _components(value: int, train: Train, d: int, where: str, *, whiten: bool = False) -> Learned:
    # of fewer features, all components
    value, most = min(value, d), train.count - 1
    if value > most or d > MOST_FEATURES:
        raise PermafrostError(
            f"asks for {value} components of {d} features in {train.count} train samples",
            where=where,
            remedy=f"give a number from 1 to {most}"
            if d <= MOST_FEATURES
            else f"keep at most {MOST_FEATURES} features before, with `first` or `project`",
        )
    mean, covariance = train.moments(together=True)
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(values)[::-1][:value]
    values, vectors = values[order], vectors[:, order]
    # the sign of an eigenvector is arbitrary: its largest coefficient is made positive
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(value)])
    if whiten:
        # float32 features have no more digits: smaller components are rounding
        rank = int((values > 1e-12 * values[0]).sum())
        if rank < value:
            raise PermafrostError(
                f"asks for {value} components, and only {rank} vary over train",
                where=where,
                remedy=f"give a number from 1 to {rank}"
                if rank
                else "leave this backbone out: its features do not vary",
            )
        # as scikit-learn: the variance with n - 1 in the denominator
        spread = np.sqrt(values * train.count / (train.count - 1))
        vectors = vectors / spread
    return {"mean": mean, "matrix": vectors}


def _whitening(value: int, train: Train, d: int, where: str) -> Learned:
    return _components(value, train, d, where, whiten=True)


def _multiplied(value: int, rows: np.ndarray, learned: Learned) -> np.ndarray:
    return (rows - learned["mean"] if "mean" in learned else rows) @ learned["matrix"]


def _spread(value: str, train: Train, d: int, where: str) -> Learned:
    if value == "unit":
        return {}
    mean, variance = train.moments()
    deviation = np.sqrt(variance)
    # a feature that does not vary stays 0
    deviation[deviation == 0] = 1
    return {"mean": mean, "deviation": deviation}


def _scaled(value: str, rows: np.ndarray, learned: Learned) -> np.ndarray:
    if value == "standardise":
        return (rows - learned["mean"]) / learned["deviation"]
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)


def _levels(value: str, train: Train, d: int, where: str) -> Learned:
    bits, by = bits_of(value), levels_of(value)
    if by == "linear":
        low, high = train.range()
        return {"low": low, "step": (high - low) / (2**bits - 1)}
    if by == "power":
        low, high = train.range()
        return {"most": np.array(max(1.0, -low.min(), high.max()))}
    if by == "quantiles":
        rows = np.sort(train.sample(d), axis=0)
        bounds = np.quantile(rows, np.arange(1, 2**bits) / 2**bits, axis=0)
        return {"bounds": bounds, "values": _means_between(rows, bounds)}
    return {}


def _means_between(rows: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """(levels, d) means of the values of sorted `rows` in each interval; of an empty one, its bound."""
    values = np.empty((len(bounds) + 1, rows.shape[1]))
    for feature, (column, ends) in enumerate(zip(rows.T, bounds.T, strict=True)):
        cuts = np.concatenate([[0], np.searchsorted(column, ends, side="right"), [len(column)]])
        sums = np.concatenate([[0.0], np.cumsum(column)])
        counts = np.diff(cuts)
        empty = np.append(ends, ends[-1])
        means = (sums[cuts[1:]] - sums[cuts[:-1]]) / np.maximum(counts, 1)
        values[:, feature] = np.where(counts > 0, means, empty)
    return values


def _quantised(value: str, rows: np.ndarray, learned: Learned) -> np.ndarray:
    bits, by = bits_of(value), levels_of(value)
    if by is None:
        # the job that makes the store refuses infinity
        with np.errstate(over="ignore"):
            return rows.astype({32: np.float32, 16: np.float16}[bits]).astype(np.float64)
    if by == "sign":
        return np.where(rows > 0, 1.0, -1.0)
    if by == "power":
        most = learned["most"]
        codes = np.sign(rows) * np.sqrt(np.abs(rows / most)) * POWER_SCALE
        codes = np.rint(codes).clip(-POWER_LEVELS, POWER_LEVELS)
        return np.sign(codes) * (np.abs(codes) / POWER_SCALE) ** POWER * most
    if by == "linear":
        step = np.where(learned["step"] > 0, learned["step"], 1)
        codes = np.rint((rows - learned["low"]) / step).clip(0, 2**bits - 1)
        return learned["low"] + codes * learned["step"]
    read = np.empty_like(rows)
    for feature, ends in enumerate(learned["bounds"].T):
        codes = np.searchsorted(ends, rows[:, feature], side="left")
        read[:, feature] = learned["values"][codes, feature]
    return read


def _codewords(value, train: Train, d: int, where: str) -> Learned:
    with numpys_kernels():
        import faiss

    rows, count = train.sample(d), 2**value.bits
    if d % value.parts:
        raise PermafrostError(
            f"{d} features cannot be divided into {value.parts} equal parts",
            where=where,
            remedy=f"give a number of parts that divides {d}",
        )
    if len(rows) < count:
        raise PermafrostError(
            f"{count} codewords need as many train samples, and there are {len(rows)}",
            where=where,
            remedy="give fewer bits",
        )
    quantiser = faiss.ProductQuantizer(d, value.parts, value.bits)
    # k-means may warn of few points; FAISS then still finds the same codewords each time
    quantiser.cp.min_points_per_centroid = 1
    quantiser.train(np.ascontiguousarray(rows, np.float32))
    words = faiss.vector_to_array(quantiser.centroids).reshape(value.parts, count, -1)
    return {"words": words.astype(np.float64)}


def _nearest_words(value, rows: np.ndarray, learned: Learned) -> np.ndarray:
    words = learned["words"]
    parts = np.split(rows, len(words), axis=1)
    # |x - w|² without |x|², which is the same for all words
    codes = [
        ((own**2).sum(axis=1) - 2 * part @ own.T).argmin(axis=1)
        for part, own in zip(parts, words, strict=True)
    ]
    return np.concatenate([own[code] for own, code in zip(words, codes, strict=True)], axis=1)


def _as_float(value: int, d: int) -> int:
    return 32 * d


KINDS = {
    "first": Kind(_nothing, lambda value, rows, _: rows[:, :value]),
    "project": Kind(_projection, _multiplied, _as_float),
    "pca": Kind(_components, _multiplied, _as_float),
    "whiten": Kind(_whitening, _multiplied, _as_float),
    "scale": Kind(_spread, _scaled),
    "quantise": Kind(_levels, _quantised, bits=lambda value, d: bits_of(value) * d),
    "product": Kind(_codewords, _nearest_words, bits=lambda value, d: value.bits * value.parts),
}


def learn(
    steps: list[Step], train: Train, width: int, where: str, *, bits: int | None = None
) -> tuple[list[Learned], int, int]:
    """What each step learns; the number of features after all of them, and their bits per sample.

    Parameters
    ----------
    train : the rows before the first step, of `width` features.
    bits : of a sample before the first step; None: 32 per feature.

    Raises
    ------
    PermafrostError : a step that these features do not allow.
    """
    learned: list[Learned] = []
    bits = 32 * width if bits is None else bits
    for place, step in enumerate(steps):
        name, value = step.chosen
        kind, done = KINDS[name], steps[:place]

        def before(done=done) -> Iterator[np.ndarray]:
            return (apply(done, block, learned) for block in train.blocks())

        learned.append(
            kind.learn(value, Train(before, train.count), width, f"{where}, step {name}")
        )
        narrower = narrowed(name, value, width)
        if name == "first" and not bits % width:
            bits = bits // width * narrower
        width = narrower
        bits = bits if kind.bits is None else kind.bits(value, width)
    return learned, width, bits


def apply(steps: list[Step], rows: np.ndarray, learned: list[Learned]) -> np.ndarray:
    """(n, d') float64 rows after the steps."""
    for step, own in zip(steps, learned, strict=False):
        name, value = step.chosen
        rows = KINDS[name].apply(value, rows, own)
    return rows
