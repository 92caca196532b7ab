"""Harder images: a derived dataset whose test images are degraded whenever they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.outputs import together
from permafrost.core.rows_store import HARDER, Parent, Selection, write_rows
from permafrost.core.stores import StoreWriter, write_store
from permafrost.data.derived import ONLY_RGB, RGB, is_optical
from permafrost.data.resplit.degradations import FORMULAS
from permafrost.data.store.card import Card, write_card
from permafrost.data.store.image_store import ImageStore

if TYPE_CHECKING:
    from permafrost.core.rows_store import RowsStore

#: degradations that are the same for all dates and sensors of a sample
_OF_THE_PLACE = ("shift", "rotation")
#: those of the atmosphere, which change optical bands alone
_OF_THE_ATMOSPHERE = ("haze", "clouds")
_KEPT = "kept_"


def write_harder(
    degradation: tuple[str, int],
    seed: int,
    *,
    stores: list[tuple[Parent, ImageStore]],
    card: Card,
    outputs: Mapping[str, Path],
    card_path,
    fingerprint: str,
) -> None:
    """Write stores with all rows of the parent's, the test images degraded, and the card.

    Samples, labels and splits are those of the parent, so its groups and its leakage audit hold here, too.

    Parameters
    ----------
    degradation : its kind, and its severity (0: images stay as they are).
    seed : of the random numbers, with the names of the samples.
    stores : of train, val and test. card : already with the derived dataset's name.

    Raises
    ------
    PermafrostError : the dataset has no band that the degradation changes.
    """
    kind, severity = degradation
    with together() as group:
        for parent, store in stores:
            path = outputs[parent.split]
            rows = Selection(np.zeros(len(store), np.int64), np.arange(len(store)))
            with write_store(path, fingerprint=fingerprint, group=group) as writer:
                write_rows(writer, rows, [parent], [store.store], store.labels())
                kept = ("task", "modalities")
                known = {key: one for key, one in store.store.attributes.items() if key in kept}
                writer.attributes.update(known, dataset=card.dataset, split=parent.split)
                samples = store.samples
                if parent.split == "test" and severity:
                    about = {"kind": kind, "severity": severity, "seed": seed}
                    bands = changed_bands(card, kind, severity, seed)
                    writer.attributes[HARDER] = {**about, "bands": bands}
                    if kind == "dates_dropped":
                        samples = _without_dates(writer, store, severity, seed)
                writer.samples(samples)
        write_card(card_path, card, group=group)


def changed_bands(card: Card, kind: str, severity: int, seed: int) -> list[dict | None]:
    """Of each band of the card ``low``, ``high`` (the values that 0 and 1 of a formula stand for), ``fill`` if the
    band is left out, and None if it stays as it is.

    8-bit bands range from 0 to 255, others from the 2nd to the 98th percentile of train.
    """
    selected = [place for place, band in enumerate(card.bands) if band["name"] in card.selected]
    left_out: set[int] = set()
    if kind == ONLY_RGB:
        left_out = {one for one in selected if card.bands[one].get("common_name") not in RGB}
    elif kind == "bands_left_out":
        names = [card.bands[place]["name"] for place in selected]
        rng = np.random.default_rng(derive_seed(HARDER, kind, *names, seed))
        count = min(math.ceil(severity / 6 * len(selected)), len(selected) - 1)
        left_out = {selected[one] for one in rng.permutation(len(selected))[:count]}
    found: list[dict | None] = []
    for place, band in enumerate(card.bands):
        low, high = (0.0, 255.0) if band["unit"] == "uint8" else (band["p2"], band["p98"])
        changes = place in left_out if kind in (ONLY_RGB, "bands_left_out") else True
        changes = changes and (is_optical(band) or kind not in _OF_THE_ATMOSPHERE)
        fill = {"fill": band["mean"]} if place in left_out else {}
        found.append({"low": low, "high": high, **fill} if changes else None)
    if not any(found):
        raise PermafrostError(
            f"{kind} changes no band of the dataset",
            where=f"derived dataset {card.dataset}",
            remedy="leave this degradation out",
        )
    return found


def _without_dates(writer: StoreWriter, store: ImageStore, severity: int, seed: int) -> pa.Table:
    """The samples without dropped dates; which dates are kept is written for each modality."""
    table = store.samples
    names = table["sample_id"].to_pylist()
    for one in store.modalities:
        if one.dates is None:
            continue
        most, dates = store.store.shape(one.array)[1], table[one.dates].to_pylist()
        kept = np.zeros((len(store), most), np.uint8)
        for row, (name, listed) in enumerate(zip(names, dates, strict=True)):
            rng = _generator("dates_dropped", seed, name)
            kept[row, kept_dates(len(listed), severity, rng)] = 1
        array = writer.array(f"{_KEPT}{one.array}", kept.shape, kept.dtype, rows_per_chunk=65_536)
        array[:] = kept
        left = [
            [date for date, there in zip(listed, row, strict=False) if there]
            for listed, row in zip(dates, kept, strict=True)
        ]
        place = table.column_names.index(one.dates)
        table = table.set_column(place, one.dates, pa.array(left, table[one.dates].type))
    return table


def kept_dates(count: int, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Ascending numbers of the dates that stay: without a share of 0.1, 0.3, 0.5, 0.7, 0.9, but one at least.

    The shares are Permafrost's own. Dates that a lower severity drops are dropped at a higher one, too.
    """
    dropped = min(math.ceil((0.1, 0.3, 0.5, 0.7, 0.9)[severity - 1] * count), count - 1)
    return np.sort(rng.permutation(count)[dropped:])


class Harder:
    """Degrades images as they are read; the result depends on the sample, and neither on batches nor on a backbone.

    Parameters
    ----------
    store : with the attribute ``harder``, written by `write_harder`.
    """

    def __init__(self, store: RowsStore) -> None:
        about = store.attributes[HARDER]
        self.kind, self.severity, self.seed = (about[key] for key in ("kind", "severity", "seed"))
        self._store, self._bands = store, about["bands"]
        samples = store.samples(["sample_id", "height", "width"])
        self._names = samples["sample_id"].to_pylist()
        self._sides = np.stack([samples[key].to_numpy() for key in ("height", "width")], axis=1)
        listed = store.attributes.get("modalities")
        self._spans = (
            {one["array"]: one["bands"] for one in listed}
            if listed
            else {"images": [0, len(self._bands)]}
        )

    def __call__(self, name: str, start: int, stored: np.ndarray) -> np.ndarray:
        """Rows of an array, from `start`, as they are to be read: changed if they are images."""
        if name not in self._spans:
            return stored
        if self.kind == "dates_dropped":
            return self._of_kept_dates(name, start, stored)
        bands = self._bands[slice(*self._spans[name])]
        for row, pixels in enumerate(stored, start):
            sides = self._sides[row] if name == "images" else pixels.shape[-2:]
            inside = pixels[..., : sides[0], : sides[1]]
            # of a series, each date by itself
            for date, image in enumerate(inside if inside.ndim == 4 else [inside]):
                place = () if self.kind in _OF_THE_PLACE else (name, date)
                rng = _generator(self.kind, self.seed, self._names[row], *place)
                degrade(image, bands, self.kind, self.severity, rng)
        return stored

    def _of_kept_dates(self, name: str, start: int, stored: np.ndarray) -> np.ndarray:
        if f"{_KEPT}{name}" not in self._store:
            return stored
        kept = self._store.read(f"{_KEPT}{name}", start, start + len(stored)).astype(bool)
        found = np.zeros_like(stored)
        for own, every, there in zip(found, stored, kept, strict=True):
            own[: there.sum()] = every[there]
        return found


def degrade(
    image: np.ndarray,
    bands: list[dict | None],
    kind: str,
    severity: int,
    rng: np.random.Generator,
) -> None:
    """Degrade an image (C, H, W) in place; integers are rounded and kept within their type's range.

    Parameters
    ----------
    bands : of each band, as from `changed_bands`.
    """
    places = [place for place, band in enumerate(bands) if band is not None]
    own = [band for band in bands if band is not None]
    if not own:
        return
    if kind in FORMULAS:
        low, high = (
            np.array([band[key] for band in own], np.float32)[:, None, None]
            for key in ("low", "high")
        )
        # a constant band has no range
        span = np.where(high > low, high - low, np.float32(1))
        made = FORMULAS[kind]((image[places] - low) / span, severity, rng) * span + low
    else:
        fill = np.array([band["fill"] for band in own], np.float32)
        made = np.broadcast_to(fill[:, None, None], (len(own), *image.shape[1:]))
    if np.issubdtype(image.dtype, np.integer):
        limits = np.iinfo(image.dtype)
        made = np.clip(np.rint(made), limits.min, limits.max)
    image[places] = made


def _generator(kind: str, seed: int, *sample) -> np.random.Generator:
    return np.random.default_rng(derive_seed(HARDER, kind, seed, *sample))
