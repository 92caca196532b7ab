"""Metadata input of backbones (location, dates, ground sampling distance).

A field is passed for all samples of all splits, or for none. Otherwise features would depend on the
batch, since some models treat a whole batch as unknown if one location is; and a classifier could
learn which images have a location.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from permafrost.backbones.backbone import METADATA, Backbone
from permafrost.core.errors import PermafrostError
from permafrost.features.dates import calendar

if TYPE_CHECKING:
    from permafrost.data.store.card import Card
    from permafrost.features.reading import SampleReader

_WORDS = {"place": "place", "dates": "date", "ground_distance_m": "ground distance"}


@dataclass(frozen=True)
class Telling:
    """The metadata that a backbone gets, see `METADATA`.

    Attributes
    ----------
    names : fields that are known for all samples and not withheld.
    gsd_m : ground sampling distance of the stored images of the first modality, in metres per
        pixel.
    size : size in pixels that images are resized to, before any crop; None: native size.
    """

    names: tuple[str, ...] = ()
    gsd_m: float | None = None
    size: int | None = None

    def of(self, reader: SampleReader) -> dict[str, np.ndarray]:
        """Metadata of all samples of a store, by field.

        Returns
        -------
        ``place`` (N, 2) float32 longitude and latitude in degrees, ``dates`` (N, T, 2) int64 year
        and day of the year, zeros for missing dates, ``ground_distance_m`` (N,) float32. The latter
        is the square root of the ground area of an input pixel, in metres, since resizing can
        distort the image. All modalities of a sample are assumed to cover the same ground.
        """
        samples, told = reader.samples, {}
        if "place" in self.names:
            told["place"] = places(samples)
        if "dates" in self.names:
            told["dates"] = calendar(_listed(reader), reader.most_dates).astype(np.int64)
        if "ground_distance_m" in self.names:
            pixels = _pixels(samples["height"].to_numpy(), samples["width"].to_numpy())
            fed = _pixels(reader.heights, reader.widths) if self.size is None else self.size**2
            told["ground_distance_m"] = (self.gsd_m * np.sqrt(pixels / fed)).astype(np.float32)
        return told


def decide(
    backbone: Backbone, readers: Iterable[SampleReader], card: Card
) -> tuple[Telling, dict[str, dict]]:
    """Decide which metadata a backbone gets.

    Parameters
    ----------
    readers : one per split.

    Returns
    -------
    The metadata, and an attribute for feature stores: ``metadata`` has ``fed``, ``unknown`` or
    ``withheld`` for each field that the backbone accepts, and ``reasons`` for unknown fields. The
    attribute is missing if the backbone accepts no metadata.

    Raises
    ------
    PermafrostError : the backbone requires a field that is unknown or withheld, or metadata is to
        be withheld from a backbone that accepts none.
    """
    wanted = [name for name in METADATA if name in backbone.takes]
    withheld = backbone.plan.metadata == "withheld"
    if not wanted:
        if withheld:
            raise PermafrostError(
                "metadata cannot be withheld: this backbone takes no location, date or ground sampling distance",
                where=f"{backbone.where}: input.metadata",
                remedy="leave it out",
            )
        return Telling(), {}
    readers, states, reasons = list(readers), {}, {}
    for name in wanted:
        reason = None if withheld else _why_unknown(name, readers, card)
        if not withheld and reason is None and name in backbone.bounds:
            telling = Telling((name,), card.gsd_m, backbone.plan.size)
            reason = _out_of_bounds(name, telling, readers, backbone.bounds[name])
        states[name] = "withheld" if withheld else "unknown" if reason else "fed"
        if reason:
            reasons[name] = reason
        if name in backbone.needs and states[name] != "fed":
            raise PermafrostError(
                f"the backbone needs the {_WORDS[name]} of every image, which is {reason or 'withheld'}",
                where=backbone.where,
                remedy="use a dataset that has it, or leave the backbone out",
            )
    names = tuple(name for name in wanted if states[name] == "fed")
    record = {**states, **({"reasons": reasons} if reasons else {})}
    return Telling(names, card.gsd_m, backbone.plan.size), {"metadata": record}


def places(samples) -> np.ndarray:
    """(N, 2) float32 longitude and latitude in degrees; NaN if unknown or out of range."""
    lon, lat = (
        samples[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in ("lon", "lat")
    )
    real = (np.abs(lon) <= 180) & (np.abs(lat) <= 90)
    return np.where(real[:, None], np.stack([lon, lat], axis=1), np.nan).astype(np.float32)


def _why_unknown(name: str, readers: list[SampleReader], card: Card) -> str | None:
    """Why a field is not known for all samples; None if it is."""
    if name == "ground_distance_m":
        return None if card.gsd_m else "not known: the dataset's entry has no gsd_m"
    if name == "place":
        found = np.concatenate([places(reader.samples) for reader in readers])
        known = np.isfinite(found).all(axis=1)
        if len(found) > 1 and known.all() and (found == found[0]).all():
            return f"not known: all {len(found)} images are said to be at the same one"
        noun = "samples"
    else:
        found = [
            (calendar(_listed(one), one.most_dates)[..., 1] > 0, one.counts) for one in readers
        ]
        known = np.concatenate([days[np.arange(days.shape[1]) < n[:, None]] for days, n in found])
        noun = "images"
    if known.all():
        return None
    if not known.any():
        return "not known"
    return f"known only for {int(known.sum())} of {len(known)} {noun}"


def _out_of_bounds(
    name: str, telling: Telling, readers: list[SampleReader], bounds: tuple[float, float]
) -> str | None:
    found = np.concatenate([telling.of(reader)[name] for reader in readers])
    low, high = float(found.min()), float(found.max())
    if bounds[0] <= low and high <= bounds[1]:
        return None
    return f"beyond what the model can be told: {low:g} to {high:g}, not from {bounds[0]:g} to {bounds[1]:g}"


def _listed(reader: SampleReader) -> list[list[str | None]]:
    """The dates of the images of each sample."""
    samples = reader.samples
    if reader.dates is not None:
        return samples[reader.dates].to_pylist()
    return [[one] for one in samples["date"].to_pylist()]


def _pixels(heights: np.ndarray, widths: np.ndarray) -> np.ndarray:
    return heights.astype(np.float64) * widths
