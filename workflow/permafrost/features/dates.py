"""Features of several dates as those of one sample: of a series, or of a pair before and after a change.

Stores keep features of every date, so that another way to reduce them computes none of them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError

# the plan reads options before any job runs, and pays for no NumPy
if TYPE_CHECKING:
    import numpy as np

#: options of jobs
OF_DATES = ("temporal", "pair", "shuffle_dates")


@dataclass(frozen=True)
class OverDates:
    """How features of dates become those of a sample.

    Attributes
    ----------
    kind : ``series`` or ``pair``.
    how : of a series the ``mean`` or ``max`` over its dates, those of the ``last`` one, or all of them one after the
        other (``concatenate``, where all have as many). Of a pair (a, b), before and after, ``concatenate`` is
        (a, b, |a - b|), ``difference`` b - a and ``absolute`` |a - b|.
    shuffled : whether the dates of each sample are put into a random order first: what a probe then still can tell
        owes nothing to time.
    """

    kind: str
    how: str
    shuffled: bool = False

    def as_options(self) -> dict:
        """The options of a job that say it."""
        key = "temporal" if self.kind == "series" else "pair"
        return {key: self.how, "shuffle_dates": self.shuffled}

    def channels(self, channels: int, most: int) -> int:
        """Number of features of a sample, whose dates have `channels` each and are `most`."""
        if self.how != "concatenate":
            return channels
        return channels * (3 if self.kind == "pair" else most)

    def __call__(self, values: np.ndarray, counts: np.ndarray, *, first: int = 0) -> np.ndarray:
        """The features of samples.

        Parameters
        ----------
        values : (n, T, C, …) of T dates; what follows after a sample's last date does not count.
        counts : (n,) dates of each sample.
        first : position of the first of these samples in its split; the random order follows from it.

        Returns
        -------
        (n, C', …) in the type of `values`.

        Raises
        ------
        PermafrostError : ``concatenate`` of samples that have fewer dates than others.
        """
        import numpy as np

        if self.shuffled:
            values = _shuffled(values, counts, first)
        if self.kind == "pair":
            before, after = values[:, 0], values[:, 1]
            change = after - before
            if self.how == "difference":
                return change
            apart = np.abs(change, out=change)
            return (
                apart if self.how == "absolute" else np.concatenate([before, after, apart], axis=1)
            )
        if self.how == "last":
            return values[np.arange(len(values)), counts - 1]
        if self.how == "concatenate":
            short = int((counts < values.shape[1]).sum())
            if short:
                raise PermafrostError(
                    f"{short} of {len(values)} samples have fewer dates than the others"
                    f" ({values.shape[1]}), and features of missing dates cannot be concatenated",
                    remedy="use temporal: mean, max or last, or keep as many dates of all with most_dates",
                )
            return values.reshape(len(values), -1, *values.shape[3:])
        there = _there(values, counts)
        if self.how == "max":
            return np.where(there, values, -np.inf).max(axis=1).astype(values.dtype)
        total = np.where(there, values, 0).sum(axis=1, dtype=np.float32)
        return (total / counts.reshape(-1, *[1] * (total.ndim - 1))).astype(values.dtype)


def without_dates(options: dict, dates: str) -> dict:
    """The options of a job without what says nothing of a dataset with such `dates`."""
    idle = {"one": OF_DATES, "pair": ("temporal",), "series": ("pair",)}[dates]
    return {key: value for key, value in options.items() if key not in idle}


def over_dates(options: dict) -> OverDates | None:
    """How the options of a job say it, see the schema of the configuration; None where samples are single images."""
    for kind, key in (("series", "temporal"), ("pair", "pair")):
        if key in options:
            return OverDates(kind, options[key], options.get("shuffle_dates", False))
    return None


def date_counts(samples, attributes: dict) -> np.ndarray | None:
    """(N,) dates of each sample of a feature store, from its samples; None where they are single images."""
    if "dates" not in attributes:
        return None
    import numpy as np
    from pyarrow.compute import list_value_length

    return list_value_length(samples[attributes["dates"]["column"]]).to_numpy().astype(np.int64)


def reduction_of(over: OverDates | None, attributes: dict, *, where: object) -> OverDates | None:
    """How the dates of a store are reduced, as a job says it.

    None of single images, also where the backbone is fed those of a dataset whose other modalities are series.

    Raises
    ------
    PermafrostError : the job does not say it, or says it of another kind.
    """
    if "dates" not in attributes:
        return None
    stored = attributes["dates"]["kind"]
    if over is None or over.kind != stored:
        raise PermafrostError(
            f"the store has features of a {stored}, the job is about a {over.kind if over else 'single date'}",
            where=where,
            remedy="run snakemake, which plans the job anew",
        )
    return over



def _there(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(n, T, 1, …) whether a date is one of its sample's."""
    import numpy as np

    there = np.arange(values.shape[1]) < counts[:, None]
    return there.reshape(*there.shape, *[1] * (values.ndim - 2))


def _shuffled(values: np.ndarray, counts: np.ndarray, first: int) -> np.ndarray:
    import numpy as np

    mixed = values.copy()
    for row, count in enumerate(counts):
        order = np.random.default_rng([first + row]).permutation(count)
        mixed[row, :count] = values[row, order]
    return mixed
