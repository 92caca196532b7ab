"""Features of several dates as those of one sample: of a series, or of a pair before and after a change.

Stores keep features of every date, so that another way to reduce them computes none of them again. What is learned
of dates (L-TAE) is learned by probes: they are given all of them.
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Interval

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Options, Positive

# the plan reads options before any job runs, and pays for no NumPy
if TYPE_CHECKING:
    import numpy as np

#: options of jobs
OF_DATES = ("temporal", "pair", "shuffle_dates", "ltae")


@dataclass(frozen=True, kw_only=True)
class LtaeOptions(Options):
    """A lightweight temporal attention encoder (Garnot & Landrieu 2020, arXiv:2007.00586). It takes the day of the
    year of each date, or its place in the series if not every date is known.
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
    """Share of its features that are dropped in training."""


@dataclass(frozen=True, kw_only=True)
class Dates(Options):
    """Options of every job that reads features of several dates."""

    temporal: Literal["mean", "max", "last", "concatenate"] = "mean"
    """Of a series of dates, the features of a sample: their mean or maximum, those of the last date, or all of them
    one after the other, if all samples have as many dates. Maps of layers likewise."""
    pair: Literal["concatenate", "difference", "absolute"] = "concatenate"
    """Of a pair (a, b), before and after, the features of a sample: (a, b, |a - b|), b - a, or |a - b|."""
    shuffle_dates: bool = False
    """Put the dates of each sample into a random order first, as a control: what is then still found does not
    depend on time."""


@dataclass(frozen=True, kw_only=True)
class DatesOfHead(Dates):
    """Options of a probe that trains a head on maps of several dates."""

    temporal: Literal["mean", "max", "last", "concatenate", "ltae"] = "mean"
    """Of a series of dates, the input of a head: the mean or maximum over the maps of its dates, those of the last
    date, all of them one after the other, if all samples have as many, or (ltae) the output of an encoder that is
    trained with the head on all dates at every pixel, with an encoder for each layer."""
    ltae: LtaeOptions = field(default_factory=LtaeOptions)
    """Options of the encoder."""


@dataclass(frozen=True, kw_only=True)
class DatesOfSeries(Options):
    """Options of a probe that reads all dates of a series."""

    temporal: Literal["ltae"] = "ltae"
    """All dates go to the probe."""
    shuffle_dates: bool = False
    """Put the dates of each sample into a random order first, as a control: what is then still found does not
    depend on time."""


def check_heads(heads: int, hidden: int, where: str | None = None) -> None:
    """Refuse hidden channels that heads cannot share equally."""
    if hidden % heads:
        raise PermafrostError(
            f"{hidden} hidden channels cannot be divided equally among {heads} heads",
            where=where,
            remedy="let hidden be a multiple of heads",
        )


@dataclass(frozen=True)
class OverDates:
    """How features of dates become those of a sample.

    Attributes
    ----------
    kind : ``series`` or ``pair``.
    how : of a series the ``mean`` or ``max`` over its dates, those of the ``last`` one, or all of them one after the
        other (``concatenate``, where all have as many); or ``ltae``: all dates are kept, for the probe to learn
        what to make of them. Of a pair (a, b), before and after, ``concatenate`` is (a, b, |a - b|), ``difference``
        b - a and ``absolute`` |a - b|.
    shuffled : whether the dates of each sample are put into a random order first: what a probe then still can tell
        owes nothing to time. Their days stay where they are.
    ltae : options of the encoder that a segmentation head gets; None where there is none.
    """

    kind: str
    how: str
    shuffled: bool = False
    ltae: LtaeOptions | None = None

    def as_options(self) -> dict:
        """The options of a job that say it."""
        key = "temporal" if self.kind == "series" else "pair"
        learned = {} if self.ltae is None else {"ltae": asdict(self.ltae)}
        return {key: self.how, "shuffle_dates": self.shuffled, **learned}

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
        (n, C', …) in the type of `values`; with ``ltae`` (n, T, C, …).

        Raises
        ------
        PermafrostError : ``concatenate`` of samples that have fewer dates than others.
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
    """The options of a job without what says nothing of features with such `dates`."""
    idle = {"one": OF_DATES, "pair": ("temporal", "ltae"), "series": ("pair",)}[dates]
    if options.get("temporal") != "ltae":
        idle = (*idle, "ltae")
    return {key: value for key, value in options.items() if key not in idle}


def over_dates(options: dict) -> OverDates | None:
    """The reduction that the options of a job name; None if samples are single images."""
    for kind, key in (("series", "temporal"), ("pair", "pair")):
        if key in options:
            shuffled = options.get("shuffle_dates", False)
            return OverDates(kind, options[key], shuffled, _learned(options.get("ltae")))
    return None


def _learned(options: dict | None) -> LtaeOptions | None:
    # planning imports this module and reads no options with pydantic
    from permafrost.core.option_models import read

    return None if options is None else read(LtaeOptions, options, where="ltae")


def date_counts(samples, attributes: dict) -> np.ndarray | None:
    """(N,) dates of each sample of a feature store, from its samples; None where they are single images."""
    if "dates" not in attributes:
        return None
    import numpy as np
    from pyarrow.compute import list_value_length

    return list_value_length(samples[attributes["dates"]["column"]]).to_numpy().astype(np.int64)


def calendar(dates, most: int) -> np.ndarray:
    """When the images of samples were taken.

    Parameters
    ----------
    dates : a list for each sample: ISO 8601 text, None or other text for a date that is not known.
    most : T, the most dates of a sample.

    Returns
    -------
    (N, T, 2) int16 year and day of the year (from 1); zeros where a date is not known, or there is none.
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
    """Where each date of a series stands in time, for what is learned from several splits.

    Parameters
    ----------
    stores : samples and attributes of each split's feature store, and T of its arrays.

    Returns
    -------
    (N, T) int64 of each split: days of the year where every date is known, else places in the series, from 1; 0 where
    there is no date. And which of the two it is, in words.
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
            remedy="run snakemake, which plans the job again",
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
