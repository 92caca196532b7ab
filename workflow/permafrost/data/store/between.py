"""Images that two datasets share: equal pixels, or similar ones by the rule of the leakage audit.

The images of the first modality are compared by the bands that both datasets have. Contrast is relative to the dataset
of an image, since datasets may have values in other units. An image with one value everywhere is never a copy. Parts of
larger images, other scales and other dates of a place are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.data.store.card import Card
from permafrost.data.store.image_hashes import (
    ImageHashes,
    exact_matches,
    hash_images,
    near_matches,
    spread_of,
)
from permafrost.data.store.image_store import ImageStore

_ROWS_TOGETHER = 256


@dataclass(frozen=True)
class Match:
    """A test image, and the first image of a split of another dataset that is equal or similar.

    Attributes
    ----------
    row, other : of the test image, and of the other one in its `split`. kind : ``exact`` or ``near``.
    """

    row: int
    split: str
    other: int
    kind: str


def common_bands(card: Card, other: Card) -> tuple[list[int], list[int]]:
    """Positions of the bands of the first modality that both datasets have, in each; by common name, else by name."""
    own, theirs = (_bands(one) for one in (card, other))
    shared = [name for name in own if name in theirs]
    return [own[name] for name in shared], [theirs[name] for name in shared]


def _bands(card: Card) -> dict[str, int]:
    """Name -> position in the first modality; a name that stands twice is left out."""
    first = [band for band in card.bands if band.get("modality") == card.bands[0].get("modality")]
    names = [str(band.get("common_name") or band["name"]).lower() for band in first]
    return {name: place for place, name in enumerate(names) if names.count(name) == 1}


def hashes_of(
    store: ImageStore, bands: Sequence[int], done: Callable[[int], object] = lambda _: None
) -> ImageHashes:
    """Hashes of all images of a store by some bands of the first modality; of series by all dates.

    Parameters
    ----------
    done : called with numbers of images that are hashed.
    """
    made, dates = ImageHashes.empty(len(store)), store.date_counts(store.modalities[0])
    for start in range(0, len(store), _ROWS_TOGETHER):
        samples = []
        stop = min(start + _ROWS_TOGETHER, len(store))
        for row, image in enumerate(store.store.read("images", start, stop), start):
            image = image[..., bands, : store.heights[row], : store.widths[row]]
            samples.append([image if image.ndim == 3 else image[: dates[row]]])
        made.put(start, hash_images(samples))
        done(len(samples))
    return made


def shared_images(
    test: ImageHashes, others: Mapping[str, ImageHashes], spread: float, spread_of_others: float
) -> list[Match]:
    """Test images of a dataset that are in the splits of another one, by hashes of the same bands.

    Parameters
    ----------
    others : split -> hashes.
    spread, spread_of_others : of all images of each dataset, see `image_hashes.spread_of`.
    """
    test = _scaled(test, spread)
    found = []
    for split, hashes in others.items():
        hashes = _scaled(hashes, spread_of_others)
        # later entries replace earlier ones: the first similar image, and an equal one before all similar ones
        near = sorted(near_matches(test, hashes, spread=1.0), reverse=True)
        matches = {row: (other, "near") for row, other in near}
        varied = np.ptp(test.thumbs, axis=1) > 0
        matches |= {
            row: (other, "exact") for row, other in exact_matches(test, hashes) if varied[row]
        }
        found += [Match(row, split, other, kind) for row, (other, kind) in sorted(matches.items())]
    return found


def spread_of_all(hashes: Mapping[str, ImageHashes]) -> float:
    """The spread of the images of all splits of a dataset."""
    return spread_of(*(one.thumbs for one in hashes.values()))


def _scaled(hashes: ImageHashes, spread: float) -> ImageHashes:
    """With thumbnails in units of the spread."""
    return ImageHashes(hashes.exact, hashes.dhash, hashes.thumbs / max(spread, 1e-12))
