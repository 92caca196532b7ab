"""Samples of several image files: assign files to dates and sensors, and read them as one sample."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.bands.sensors import Band
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import Decoding, UnreadableImage, decode_image, readable
from permafrost.data.labels.masks import MaskCoding
from permafrost.data.labels.rasters import TargetCoding
from permafrost.data.records import Decoded
from permafrost.data.sources.options import Places

_DAY = re.compile(
    r"(\d{4})([-_./]?)(\d{2})\2(\d{2})(?:[T _-]?(\d{2})[:-]?(\d{2})(?:[:-]?(\d{2})(?:\.\d+)?)?)?(?:Z|\+00:00)?"
)
_LESS = re.compile(r"((?:19|20)\d{2})(?:[-_.](0[1-9]|1[0-2]))?")


@dataclass(frozen=True)
class SampleImages:
    """The files of a sample.

    Attributes
    ----------
    files : for each modality, in the order of the entry, its images in the order of their dates.
    dates : for each modality, the dates of its files (ISO 8601, None if unknown); None if the
        modality has a single image instead of a series.
    """

    files: tuple[tuple[str, ...], ...]
    dates: tuple[tuple[str | None, ...] | None, ...]

    @property
    def first(self) -> str:
        return self.files[0][0]


def by_modality(places: Places, order: Iterable[str] | None = None) -> dict[str | None, list[str]]:
    """The texts of each modality; None is the key of the only one.

    Parameters
    ----------
    order : of the entry's modalities; the order of `places` has no meaning.
    """
    named: dict[str | None, str | list[str]] = (
        places if isinstance(places, dict) else {None: places}
    )
    if order is not None:
        named = {name: named[name] for name in order}
    return {name: [one] if isinstance(one, str) else list(one) for name, one in named.items()}


def texts_of(places: Places | None) -> list[str]:
    """The texts of all modalities."""
    if places is None:
        return []
    return [text for texts in by_modality(places).values() for text in texts]


def holds_series(entry: DatasetEntry, texts: Sequence[str]) -> bool:
    """Whether one file or table cell may hold all dates of a sample, as NumPy arrays can."""
    endings = getattr(entry.source, "extensions", [])
    cells = entry.kind == "table" and entry.source.images is None
    return entry.dates != "one" and (
        cells or "npy" in endings or any(t.endswith("npy") for t in texts)
    )


def check_places(
    entry: DatasetEntry, key: str, places: Places, *, series: bool, remedy: str, where: object
) -> None:
    """Raise `PermafrostError` if the images do not match the entry's modalities or dates.

    Parameters
    ----------
    key : the option with their location.
    series : whether it, or another option, assigns dates to samples.
    remedy : how a source of this kind does that.
    """
    given = by_modality(places)
    if set(given) != set(entry.modalities or {None: None}):
        names = ", ".join(entry.modalities or ())
        raise PermafrostError(
            f"{key} in source does not name the modalities of the entry ({names})"
            if names
            else f"{key} in source names modalities, and the entry has none",
            where=where,
            remedy=f"give {key} of each modality by its name: {key}: {{{names}}}"
            if names
            else f"declare modalities with their bands, or give one {key}",
        )
    several = max(map(len, given.values()))
    if entry.dates == "one" and (series or several > 1):
        raise PermafrostError(
            f"{key} in source gives several dates of a sample, and the entry has dates: one",
            where=where,
            remedy="set dates: pair (before and after) or dates: series, or give one image of a sample",
        )
    if entry.dates == "pair" and several > 2:
        raise PermafrostError(
            f"{key} in source lists {several} images of a sample, and a pair has two",
            where=where,
            remedy="list those before and after, or set dates: series",
        )
    if entry.dates != "one" and not series and several == 1:
        raise PermafrostError(
            f"source does not define the images of the {entry.dates} of a sample",
            where=where,
            remedy=remedy,
        )


def iso_date(text: str) -> str | None:
    """ISO 8601 of a date, or of a date and time in UTC, as file names write it; None for other texts.

    Examples: ``20190503``, ``2019-05-03``, ``2019_05_03T103021``, ``2019-05`` and ``2019``.
    """
    if match := _LESS.fullmatch(text):
        return "-".join(filter(None, match.groups()))
    if match := _DAY.fullmatch(text):
        year, _, *others = match.groups()
        with contextlib.suppress(ValueError):
            # at most five numbers, which mypy does not count
            time = datetime(int(year), *(int(one) for one in others if one))  # type: ignore[arg-type]
            return (
                time.date().isoformat()
                if not any((time.hour, time.minute, time.second))
                else time.isoformat()
            )
    return None


def read_dates(texts: Iterable[str], *, what: str, where: object) -> dict[str, tuple]:
    """(sort key, ISO 8601 or None) of each text; either all are dates, or all are numbers.

    Raises
    ------
    PermafrostError : a text is neither, or dates and numbers are mixed.
    """
    texts = dict.fromkeys(texts)
    dates = {text: iso_date(text) for text in texts}
    if None not in dates.values():
        return {text: (date, date) for text, date in dates.items()}
    # numbers only sort the images of a sample; their dates stay unknown
    if all(text.isascii() and text.isdigit() for text in texts):
        return {text: (int(text), None) for text in texts}
    strange = next(text for text, date in dates.items() if date is None)
    raise PermafrostError(
        f"{what} {strange!r} is not a date such as 2019-05-03 or 20190503",
        where=where,
        remedy="write dates so, or number all images of a sample in their order",
    )


def check_several_dates(
    samples: Sequence[tuple[str, SampleImages]], dates: str, *, where: object
) -> None:
    """Raise `PermafrostError` if a pair lacks two images, or if two images have one date; names the samples."""
    wrong = [
        f"{name} has {len(files)}"
        for name, sample in samples
        for files, known in zip(sample.files, sample.dates, strict=True)
        if dates == "pair" and known is not None and len(files) != 2
    ]
    if wrong:
        raise PermafrostError(
            f"{len(wrong)} of {len(samples)} samples do not have two images, before and after:"
            f" {', '.join(wrong[:10])}",
            where=where,
            remedy="complete or remove them, or set dates: series",
        )
    for name, sample in samples:
        for known in filter(None, sample.dates):
            check_once(name, known, where=where)


def check_once(name: str, moments: Iterable[str | int | None], *, where: object) -> None:
    """Raise `PermafrostError` for two images of one date or number; None, an unknown date, may repeat."""
    counts = Counter(moment for moment in moments if moment is not None)
    for moment, count in counts.most_common(1):
        if count > 1:
            raise PermafrostError(
                f"{name} has {count} images of {moment}",
                where=where,
                remedy="keep one image of a date or number, or write the time of each too",
            )


class SampleReader:
    """Reads samples as an entry declares them; thread-safe.

    Parameters
    ----------
    read : bytes of a file by its name; raises `UnreadableImage`.
    coding : of masks or rasters; None without them.
    """

    def __init__(
        self,
        entry: DatasetEntry,
        bands: Sequence[Band],
        read: Callable[[str], bytes],
        coding: MaskCoding | TargetCoding | None = None,
    ) -> None:
        counts = Counter(band.modality for band in bands)
        convert, dense = frozenset(entry.convert), targets_of(entry.task).dense
        self._decodings = [
            Decoding(count, convert, entry.nodata_of(name) is not None, dense)
            for name, count in counts.items()
        ]
        self._read, self._coding = read, coding

    def __call__(self, sample: SampleImages, companion: str | None = None) -> Decoded:
        """Pixels of all images, with the mask or raster `companion`; the georeference is that of the first image."""
        images = [
            self._images(files, dates is not None, decoding)
            for files, dates, decoding in zip(
                sample.files, sample.dates, self._decodings, strict=True
            )
        ]
        dates = sample.dates if any(map(any, filter(None, sample.dates))) else ()
        decoded = replace(
            images[0], further=tuple(one.image for one in images[1:]), dates=tuple(dates)
        )
        if self._coding is None:
            return decoded
        with readable(f"its {self._coding.noun} {companion}"):
            values = self._coding.read(self._read(companion))
        return replace(decoded, **{self._coding.field: values}, mask_name=companion)

    def _images(self, files: Sequence[str], series: bool, decoding: Decoding) -> Decoded:
        several = len(files) > 1 or len(self._decodings) > 1
        decoded = []
        for name in files:
            with readable(f"its image {name}" if several else ""):
                decoded.append(decode_image(self._read(name), decoding))
        if not series:
            return decoded[0]
        kinds = {
            (one.image.shape, str(one.image.dtype)): name
            for one, name in zip(decoded, files, strict=True)
        }
        if len(kinds) > 1:
            found = " and ".join(
                f"{name} {' x '.join(map(str, shape))} {dtype}"
                for (shape, dtype), name in list(kinds.items())[:2]
            )
            raise UnreadableImage(f"its images differ from date to date: {found}")
        return replace(decoded[0], image=np.stack([one.image for one in decoded]))
