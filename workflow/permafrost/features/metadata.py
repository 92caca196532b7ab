"""What a backbone is told of images beside their pixels: for all samples of all splits, or for none.

A batch in which one image's place is unknown makes some models treat all of it as unknown, so that features would
depend on an image's neighbours; and a classifier would see who has a place. So it is decided once per dataset.
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
    """What a backbone is told, see `METADATA`.

    Attributes
    ----------
    names : of what is known of all samples, and not withheld.
    gsd_m : of a pixel of the dataset's images as they are stored, those of the first modality.
    size : side in pixels that images are resized to; None where they keep theirs. A crop after it changes no distance.
    """

    names: tuple[str, ...] = ()
    gsd_m: float | None = None
    size: int | None = None

    def of(self, reader: SampleReader) -> dict[str, np.ndarray]:
        """What is told of the samples of a store: ``place`` (N, 2), ``dates`` (N, T, 2), ``ground_distance_m`` (N,).

        Dates that a sample does not have are zeros. The images of a sample show the same ground, of whatever modality
        they are. Its distance is the root of the ground that a pixel covers: images that are not square become so.
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
    """What a backbone is told, and what a feature store records of that; nothing of backbones that take nothing.

    Parameters
    ----------
    readers : of every split.

    Returns
    -------
    The record is ``metadata`` with ``fed``, ``unknown`` or ``withheld`` of all that the backbone takes, and ``reasons``
    of what is unknown.

    Raises
    ------
    PermafrostError : the backbone cannot do without what is not known, or has nothing that could be withheld.
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
    """(N, 2) float32 longitude and latitude in degrees, NaN where they are not known or on no map."""
    lon, lat = (
        samples[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in ("lon", "lat")
    )
    real = (np.abs(lon) <= 180) & (np.abs(lat) <= 90)
    return np.where(real[:, None], np.stack([lon, lat], axis=1), np.nan).astype(np.float32)


def _why_unknown(name: str, readers: list[SampleReader], card: Card) -> str | None:
    """Why something cannot be told of all samples; None where it can."""
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
