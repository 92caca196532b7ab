"""Images that two datasets share, by the bands that both have."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from helpers.datasets.images import photo
from permafrost.data.store.between import common_bands, hashes_of, shared_images, spread_of_all


class Images:
    """What `hashes_of` reads of an image store of single images or series."""

    modalities = [None]

    def __init__(self, images: np.ndarray, dates: int | None = None) -> None:
        self.images, self.dates = images, dates
        self.heights, self.widths = ([images.shape[axis]] * len(images) for axis in (-2, -1))
        self.store = SimpleNamespace(read=lambda name, start, stop: images[start:stop])

    def __len__(self) -> int:
        return len(self.images)

    def date_counts(self, modality) -> list:
        return [self.dates] * len(self.images)


def card(*names: str) -> SimpleNamespace:
    return SimpleNamespace(
        bands=[{"name": name, "common_name": name.partition("-")[0]} for name in names]
    )


def found(one, other) -> list[tuple]:
    spreads = (spread_of_all({"test": each}) for each in (one, other))
    return [
        (match.row, match.other, match.kind)
        for match in shared_images(one, {"train": other}, *spreads)
    ]


def test_planted_copies_are_found_whatever_units_and_order_bands_have():
    photos = np.stack([np.moveaxis(np.atleast_3d(photo(row, (40, 40))), 2, 0) for row in range(30)])
    photos = np.repeat(photos[:, :1], 3, axis=1) + np.uint8([[[0]], [[3]], [[6]]])
    own, theirs = common_bands(
        card("red", "green", "blue"), card("blue-2", "red-2", "nir", "green-2")
    )
    assert (own, theirs) == ([0, 1, 2], [1, 3, 0])
    test = hashes_of(Images(photos[:20]), own)
    # another type and unit, and images 15 to 19 of the test split among others
    scaled = photos[15:, [2, 0, 0, 1]].astype(np.float32) * 1e-4 + 0.1
    train = hashes_of(Images(scaled), theirs)
    assert found(test, train) == [(15 + row, row, "near") for row in range(5)]
    twice = hashes_of(Images(np.concatenate([scaled, scaled])), theirs)
    assert found(test, twice) == found(test, train)
    assert found(test, hashes_of(Images(photos[18:]), own)) == [(18, 0, "exact"), (19, 1, "exact")]
    assert found(test, hashes_of(Images(photos[20:]), own)) == []


def test_flat_images_are_no_copies_and_padded_dates_are_left_out():
    flat = hashes_of(Images(np.zeros((4, 1, 16, 16), np.uint8)), [0])
    assert found(flat, flat) == []
    series = np.random.default_rng(0).integers(0, 255, (3, 2, 1, 16, 16)).astype(np.uint8)
    longer = np.concatenate([series, np.zeros_like(series[:, :1])], axis=1)
    one, other = hashes_of(Images(series, 2), [0]), hashes_of(Images(longer, 2), [0])
    assert [match[2] for match in found(one, other)] == ["exact"] * 3
