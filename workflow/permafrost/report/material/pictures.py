"""Convert a dataset's pixels to pictures for display."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of

if TYPE_CHECKING:
    from permafrost.data.store.card import Card

LOW, HIGH = 2.0, 98.0  # percentiles of the stretch
GAMMA = 1.6  # brightens forest and water, which a linear stretch leaves nearly black


def picture_bands(card: Card, stretched_by: str = "these images") -> tuple[list[int], str]:
    """The bands to show as red, green, blue, and a sentence that names them and whose percentiles they span.

    The bands named red, green and blue if the card has all three (once each), else the first three
    bands, else the first one in grey. Returns indices into the store's band axis.
    """
    # pictures use the first modality
    shown = [band for band in card.bands if band.get("modality") == card.bands[0].get("modality")]
    names = [band["name"] for band in shown]
    common = [band.get("common_name") for band in shown]
    if all(common.count(colour) == 1 for colour in ("red", "green", "blue")):
        chosen = [common.index(colour) for colour in ("red", "green", "blue")]
        kind = "true colour"
    elif len(names) >= 3:
        chosen, kind = [0, 1, 2], "false colour"
    else:
        chosen, kind = [0], "grey"
    used = ", ".join(names[index] for index in chosen)
    last = ""
    if card.dates != "one" and card.modalities[0]["dates"] is not None:
        last = {"series": ", the last date of each", "pair": ", after"}[card.dates]
    if targets_of(card.task).of_pairs:
        # both are shown
        last = ""
    return (
        chosen,
        f"{kind} ({used}){last}, stretched from the 2nd to the 98th percentile of {stretched_by}, gamma {GAMMA}",
    )


def stretch_limits(images: list[np.ndarray]) -> np.ndarray:
    """Per-band (low, high) percentiles over all images together, so that pictures are comparable.

    Parameters
    ----------
    images : arrays (C, h, w); NaN and infinite pixels are excluded from the percentiles.

    Returns
    -------
    (C, 2) float64.
    """
    limits = []
    for band in range(images[0].shape[0]):
        pixels = np.concatenate([image[band].ravel().astype(np.float64) for image in images])
        pixels = pixels[np.isfinite(pixels)]
        limits.append(np.percentile(pixels, [LOW, HIGH]) if pixels.size else (0.0, 1.0))
    return np.array(limits)


def to_picture(image: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """(C, h, w) pixels to (h, w, 3) or, for one band, (h, w) in [0, 1]; NaN becomes black."""
    low, high = limits[:, 0, None, None], limits[:, 1, None, None]
    span = np.where(high > low, high - low, 1.0)
    stretched = np.clip((image.astype(np.float64) - low) / span, 0, 1)
    stretched = np.nan_to_num(stretched, nan=0.0) ** (1 / GAMMA)
    return stretched[0] if len(stretched) == 1 else np.moveaxis(stretched, 0, -1)


def places_of(store) -> dict[str, int]:
    """Sample id -> its index in a store."""
    names = store.samples(columns=["sample_id"])["sample_id"].to_pylist()
    return {name: place for place, name in enumerate(names)}


def read_masks(store, indices: list[int]) -> dict[int, np.ndarray]:
    """True masks (h, w) of a few images of an image store, without padding."""
    return read_native(store, "masks", indices)


def read_native(store, name: str, indices: list[int]) -> dict[int, np.ndarray]:
    """The array `name` of an image store for a few images, (h, w) each, without padding."""
    samples = store.samples(columns=["height", "width"])
    heights, widths = samples["height"].to_pylist(), samples["width"].to_pylist()
    return {
        index: store.read(name, index, index + 1)[0, : heights[index], : widths[index]]
        for index in indices
    }


def read_wholes(
    store, names: list[str], bands: list[int], longest: int
) -> dict[str, tuple[np.ndarray, tuple[int, int]]]:
    """Whole images, assembled from their windows in a store.

    Parameters
    ----------
    store : `core.stores.Store` of images with the columns of `data.labels.objects.WINDOW`.
    names : ids of whole images; bands : which bands, in the order red, green, blue.
    longest : an image with a longer side is subsampled to every n-th pixel, which bounds the memory
        of a picture regardless of the size of the image.

    Returns
    -------
    image id -> stretched picture (black without a window), and the image's width and height.

    Raises
    ------
    PermafrostError : the store has no window of an image.
    """
    columns = ["image_id", "x_offset", "y_offset", "image_height", "image_width", "height", "width"]
    samples = store.samples(columns=columns)
    rows: dict[str, list[dict]] = {name: [] for name in names}
    wanted = pa.compute.is_in(samples["image_id"], pa.array(names, pa.string()))
    places = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
    for place, row in zip(places.tolist(), samples.take(places).to_pylist(), strict=True):
        rows[row["image_id"]].append(row | {"place": place})
    if lacking := [name for name, own in rows.items() if not own]:
        raise PermafrostError(
            f"the store has no window of the image {lacking[0]!r}",
            where=store.path,
            remedy="delete the table of predictions and run snakemake again",
        )
    if not rows:
        return {}
    cut = {name: _whole(store, own, bands, longest) for name, own in rows.items()}
    limits = stretch_limits(list(cut.values()))
    sizes = {name: (rows[name][0]["image_width"], rows[name][0]["image_height"]) for name in cut}
    return {name: (to_picture(image, limits), sizes[name]) for name, image in cut.items()}


def _whole(store, windows: list[dict], bands: list[int], longest: int) -> np.ndarray:
    """(C, h, w) float32 of every n-th pixel of one image; NaN without a window."""
    height, width = windows[0]["image_height"], windows[0]["image_width"]
    step = max(1, math.ceil(max(height, width) / longest))
    whole = np.full((len(bands), -(-height // step), -(-width // step)), np.nan, np.float32)
    for window in windows:
        place, x, y = window["place"], window["x_offset"], window["y_offset"]
        pixels = _image(store, place)[bands]
        # the first row and column of the window that the subsampled image includes
        top, left = -y % step, -x % step
        part = pixels[:, top : window["height"] : step, left : window["width"] : step]
        down, right = (y + top) // step, (x + left) // step
        whole[:, down : down + part.shape[1], right : right + part.shape[2]] = part
    return whole


def _image(store, index: int) -> np.ndarray:
    """(C, H, W) of one sample, from its first modality; for a series, from its last date."""
    return _dates(store, index)[-1]


def _dates(store, index: int) -> np.ndarray:
    """(T, C, H, W) of all dates of a sample, from its first modality; T = 1 for one image."""
    images = store.read("images", index, index + 1)[0]
    if images.ndim == 3:
        return images[None]
    return images[: len(store.samples(columns=["dates"])["dates"][index])]


def read_pictures(store, indices: list[int], bands: list[int]) -> dict[int, np.ndarray]:
    """Read and stretch a few images of an image store; for series, those of the last date.

    Parameters
    ----------
    store : `core.stores.Store` of images; padding beyond an image's true size is cut off.
    indices : which samples; bands : which bands, in the order red, green, blue.
    """
    read = _read(store, indices, bands, slice(-1, None))
    return {index: shown[0] for index, shown in read.items()}


def read_small(
    store, indices: list[int], bands: list[int], side: int, most_chunks: int
) -> dict[int, np.ndarray]:
    """Small pictures of many images, stretched alike: (h, w, 3) or (h, w) with a longest side of at most `side`.

    Parameters
    ----------
    indices : which samples, the most wanted first. Whole chunks of the store are read, at most `most_chunks`; images
        of others are left out.
    """
    rows = store.chunk_rows("images")
    wanted: dict[int, list[int]] = {}
    for index in indices:
        chunk = index // rows
        if chunk in wanted or len(wanted) < most_chunks:
            wanted.setdefault(chunk, []).append(index)
    sizes = store.samples(columns=["height", "width", "dates"]).to_pydict()
    small = {}
    for chunk, own in sorted(wanted.items()):
        start = chunk * rows
        images = store.read("images", start, min(start + rows, len(store)))
        for index in own:
            image = images[index - start]
            if image.ndim == 4:
                image = image[len(sizes["dates"][index]) - 1]
            whole = image[bands, : sizes["height"][index], : sizes["width"][index]]
            small[index] = _shrunk(whole.astype(np.float32), side)
    limits = stretch_limits([*small.values()]) if small else None
    return {index: to_picture(image, limits) for index, image in small.items()}


def _shrunk(image: np.ndarray, side: int) -> np.ndarray:
    """(C, H, W) averaged over areas to a longest side of at most `side`."""
    from PIL import Image

    height, width = image.shape[1:]
    scale = min(1.0, side / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.stack(
        [np.asarray(Image.fromarray(band).resize(size, Image.Resampling.BOX)) for band in image]
    )


def read_pairs(store, indices: list[int], bands: list[int]) -> dict[int, list[np.ndarray]]:
    """Like `read_pictures` for a store of pairs: before and after, all stretched alike."""
    return _read(store, indices, bands, slice(None))


def read_alike(stores: list, index: int, bands: list[int]) -> list[np.ndarray]:
    """The last date of one sample in each of several stores with the same samples, all stretched as the first."""
    cut = [_cut(store, [index], bands, slice(-1, None))[index][0] for store in stores]
    limits = stretch_limits(cut[:1])
    return [to_picture(image, limits) for image in cut]


def _read(store, indices, bands, dates: slice) -> dict[int, list[np.ndarray]]:
    """Pictures of the chosen dates of some samples."""
    if not indices:
        return {}
    cut = _cut(store, indices, bands, dates)
    limits = stretch_limits([image for images in cut.values() for image in images])
    return {index: [to_picture(image, limits) for image in images] for index, images in cut.items()}


def _cut(store, indices, bands, dates: slice) -> dict[int, np.ndarray]:
    """(T, C, h, w) pixels of the chosen dates of some samples, without padding."""
    samples = store.samples(columns=["height", "width"])
    heights, widths = samples["height"].to_pylist(), samples["width"].to_pylist()
    return {
        index: _dates(store, index)[dates, bands, : heights[index], : widths[index]]
        for index in indices
    }
