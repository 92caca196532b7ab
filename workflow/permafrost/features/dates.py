"""Reduce the features of several dates to features of a sample: of a time series, or of an image pair.

Feature stores keep the features of every date, so another reduction does not repeat the extraction.
Probes that learn the reduction (L-TAE) get all dates.
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Interval

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Options, Positive

# planning imports this module for its options, so NumPy is imported inside functions
if TYPE_CHECKING:
    import numpy as np

#: keys of the options on dates
OF_DATES = ("temporal", "pair", "shuffle_dates", "ltae")


@dataclass(frozen=True, kw_only=True)
class LtaeOptions(Options):
    """A lightweight temporal attention encoder (Garnot & Landrieu 2020, arXiv:2007.00586). Its positions are days
    of the year, or places in the series if any date is unknown.
    """

    heads: Positive = 16
    """Groups of hidden channels, each with one learned query."""
    key: Positive = 8
    """Length of keys and queries."""
    hidden: Positive = 256
    """Channels that features are projected to; a multiple of heads."""
    width: Positive = 128
    """Features of a series that the encoder returns."""
    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.2
    """Dropout rate of these features in training."""


@dataclass(frozen=True, kw_only=True)
class Dates(Options):
    """Options of every job that reads features of several dates."""

    temporal: Literal["mean", "max", "last", "concatenate"] = "mean"
    """How the features of a time series are reduced: mean or maximum over dates, the last date, or all dates
    concatenated, if all samples have equally many. Feature maps are reduced likewise."""
    pair: Literal["concatenate", "difference", "absolute"] = "concatenate"
    """How the features of a pair (a, b), before and after, are combined: (a, b, |a - b|), b - a, or |a - b|."""
    shuffle_dates: bool = False
    """Shuffle the dates of each sample first, as a control: a score that stays the same does not depend on time."""


@dataclass(frozen=True, kw_only=True)
class DatesOfHead(Dates):
    """Options of a probe that trains a head on feature maps of several dates."""

    temporal: Literal["mean", "max", "last", "concatenate", "ltae"] = "mean"  # type: ignore[assignment]  # wider type than the base
    """How the maps of a time series become the input of the head: mean or maximum over dates, the last date, all
    dates concatenated, if all samples have equally many, or the output of temporal attention encoders (ltae), one
    for each layer, that are trained with the head and applied at every pixel."""
    ltae: LtaeOptions = field(default_factory=LtaeOptions)
    """Options of the encoder."""


@dataclass(frozen=True, kw_only=True)
class DatesOfSeries(Options):
    """Options of a probe that reads all dates of a time series."""

    temporal: Literal["ltae"] = "ltae"
    """The probe gets the features of all dates."""
    shuffle_dates: bool = False
    """Shuffle the dates of each sample first, as a control: a score that stays the same does not depend on time."""


def check_heads(heads: int, hidden: int, where: str | None = None) -> None:
    """Raise `PermafrostError` unless `hidden` is a multiple of `heads`."""
    if hidden % heads:
        raise PermafrostError(
            f"{hidden} hidden channels cannot be divided equally among {heads} heads",
            where=where,
            remedy="let hidden be a multiple of heads",
        )


@dataclass(frozen=True)
class OverDates:
    """A reduction of the features of several dates to features of a sample.

    Attributes
    ----------
    kind : ``series`` or ``pair``.
    how : for a series, ``mean`` or ``max`` over dates, the ``last`` date, ``concatenate`` (all
        samples need equally many dates), or ``ltae`` (keep all dates for the probe). For a pair (a,
        b), before and after: ``concatenate`` (a, b, |a - b|), ``difference`` b - a, ``absolute`` |a
        - b|.
    shuffled : whether the features of each sample's dates are shuffled first; the days are not.
    ltae : options of the encoder of a segmentation head; None without one.
    """

    kind: str
    how: str
    shuffled: bool = False
    ltae: LtaeOptions | None = None

    def as_options(self) -> dict:
        """The options of a job for this reduction; the inverse of `over_dates`."""
        key = "temporal" if self.kind == "series" else "pair"
        learned = {} if self.ltae is None else {"ltae": asdict(self.ltae)}
        return {key: self.how, "shuffle_dates": self.shuffled, **learned}

    def channels(self, channels: int, most: int) -> int:
        """Number of features of a sample with `most` dates of `channels` features each."""
        if self.how != "concatenate":
            return channels
        return channels * (3 if self.kind == "pair" else most)

    def __call__(self, values: np.ndarray, counts: np.ndarray, *, first: int = 0) -> np.ndarray:
        """Reduce the features of samples.

        Parameters
        ----------
        values : (n, T, C, …) features of up to T dates; values after a sample's last date are
            ignored.
        counts : (n,) number of dates of each sample.
        first : position of the first sample in its split, which seeds the shuffling.

        Returns
        -------
        (n, C', …) in the type of `values`; with ``ltae`` (n, T, C, …).

        Raises
        ------
        PermafrostError : ``concatenate``, and the samples differ in their number of dates.
        """
        import numpy as np

        if self.shuffled:
            values = _shuffled(values, counts, first)
        if self.how == "ltae":
            return values
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
    """The options that apply to features with `dates` (``one``, ``pair`` or ``series``)."""
    idle = {"one": OF_DATES, "pair": ("temporal", "ltae"), "series": ("pair",)}[dates]
    if options.get("temporal") != "ltae":
        idle = (*idle, "ltae")
    return {key: value for key, value in options.items() if key not in idle}


def over_dates(options: dict) -> OverDates | None:
    """The reduction that the options of a job define; None if samples are single images."""
    for kind, key in (("series", "temporal"), ("pair", "pair")):
        if key in options:
            shuffled = options.get("shuffle_dates", False)
            return OverDates(kind, options[key], shuffled, _learned(options.get("ltae")))
    return None


def _learned(options: dict | None) -> LtaeOptions | None:
    # imported here, since planning imports this module and does not need pydantic
    from permafrost.core.option_models import read

    return None if options is None else read(LtaeOptions, options, where="ltae")


def date_counts(samples, attributes: dict) -> np.ndarray | None:
    """(N,) number of dates of each sample of a feature store; None for single images.

    Parameters
    ----------
    samples : sample table of the store.
    attributes : of the store.
    """
    if "dates" not in attributes:
        return None
    import numpy as np
    from pyarrow.compute import list_value_length

    return list_value_length(samples[attributes["dates"]["column"]]).to_numpy().astype(np.int64)


def calendar(dates, most: int) -> np.ndarray:
    """Years and days of the year of the dates of samples.

    Parameters
    ----------
    dates : a list per sample of ISO 8601 texts; None or any other text is an unknown date.
    most : T, the largest number of dates of a sample.

    Returns
    -------
    (N, T, 2) int16 year and day of the year (from 1); zeros for unknown or missing dates.
    """
    import numpy as np

    found = np.zeros((len(dates), most, 2), np.int16)
    for row, listed in zip(found, dates, strict=True):
        for place, text in enumerate(listed):
            row[place] = _day(text)
    return found


@functools.lru_cache(maxsize=4096)
def _day(text: str | None) -> tuple[int, int]:
    try:
        day = datetime.fromisoformat(text or "")
    except ValueError:
        return 0, 0
    return day.year, day.timetuple().tm_yday


def positions_of(stores: dict[str, tuple]) -> tuple[dict[str, np.ndarray], str]:
    """Temporal positions of the dates of time series, in the same unit for all splits.

    Parameters
    ----------
    stores : split to (samples, attributes) of its feature store and T of its arrays.

    Returns
    -------
    Split to (N, T) int64: days of the year if every date is known, else places in the series, both
    from 1; 0 without a date. And a text that says which of the two.
    """
    import numpy as np

    days, there = {}, {}
    for split, (samples, attributes, most) in stores.items():
        listed = samples[attributes["dates"]["column"]].to_pylist()
        days[split] = calendar(listed, most)[..., 1].astype(np.int64)
        there[split] = np.arange(most) < date_counts(samples, attributes)[:, None]
    known = all((days[split] > 0)[there[split]].all() for split in stores)
    if known:
        return days, "days of the year"
    places = {split: one * np.arange(1, one.shape[1] + 1) for split, one in there.items()}
    return places, "places in the series, since not every date is known"


def reduction_of(over: OverDates | None, attributes: dict, *, where: object) -> OverDates | None:
    """Check that the reduction of a job fits a feature store.

    Returns
    -------
    `over`; None if the store has single images. That can be so in a dataset of time series, if the
    backbone uses only a modality without dates.

    Raises
    ------
    PermafrostError : the job has no reduction, or one for another kind of dates.
    """
    if "dates" not in attributes:
        return None
    stored = attributes["dates"]["kind"]
    if over is None or over.kind != stored:
        raise PermafrostError(
            f"the store has features of a {stored}, the job is about a {over.kind if over else 'single date'}",
            where=where,
            remedy="run snakemake, which plans the job again",
        )
    return over


def _there(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(n, T, 1, …) bool: whether the sample has this date."""
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
