"""Write feature maps of layers into a feature store, with the masks or targets of the images."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from permafrost.backbones.input.contract import InputPlan
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import StoreWriter
from permafrost.core.tasks import targets_of
from permafrost.data.store.image_store import ImageStore
from permafrost.features.health import check_finite
from permafrost.features.writing import Rows, worth_compressing

if TYPE_CHECKING:
    from permafrost.data.store.card import Card

#: arrays of the image store with a value for every pixel
NATIVE = ("masks", "targets")
#: target sizes of a chunk and of a shard, summed over all maps
CHUNK_BYTES, SHARD_BYTES = 8_000_000, 64_000_000
#: limit for small samples, since head training shuffles chunks
MOST_ROWS_PER_CHUNK = 16


def whole_image(plan: InputPlan) -> tuple[InputPlan, str | None]:
    """Replace the plan's crop by a resize, since maps must cover the whole image.

    Returns
    -------
    (plan, note on the change or None).
    """
    if plan.crop is None:
        return plan, None
    before = f"resizing to {plan.size}" if plan.size else "no resizing"
    note = (
        f"the whole image is resized to {plan.crop} x {plan.crop}, for its maps, instead of a centre crop"
        f" of {plan.crop} after {before}"
    )
    return dataclasses.replace(plan, size=plan.crop, crop=None), note


def dense_attributes(
    plan: InputPlan, stores: dict[str, ImageStore], card: Card, *, where: str
) -> dict:
    """Attributes of a feature store with maps, except its layers.

    Raises
    ------
    PermafrostError : the images have neither masks nor objects, or several native sizes.
    """
    about = {"working_size": working_size(plan, stores, where=where)}
    if targets_of(card.task).objects:
        detection = {name: value for name, value in card.detection.items() if name != "splits"}
        return {**about, "detection": detection}
    for store in stores.values():
        if not any(name in store.store for name in NATIVE):
            raise PermafrostError(
                f"maps were requested, but images of task {card.task} have neither masks nor objects",
                where=store.path,
                remedy="use maps for segmentation, pixel_regression and detection only",
            )
    if targets_of(card.task).numbers:
        edges, test = card.target["edges"], card.target["splits"]["test"]
        # sums are taken relative to the centre, for precision; the range is that of all targets
        return {**about, "target_centre": test["mean"], "target_range": [edges[0], edges[-1]]}
    return {
        **about,
        "ignore_index": card.ignore_index,
        "dead_classes": card.dead_classes,
    }


def working_size(plan: InputPlan, stores: dict[str, ImageStore], *, where: str) -> list[int]:
    """[height, width] in pixels of every input tensor.

    Raises
    ------
    PermafrostError : images keep native sizes that differ, but maps are one array.
    """
    if plan.size is not None:
        return [plan.size, plan.size]
    sizes = {
        size
        for store in stores.values()
        for size in zip(store.heights.tolist(), store.widths.tolist(), strict=True)
    }
    if len(sizes) > 1:
        shown = ", ".join(f"{height} x {width}" for height, width in sorted(sizes)[:6])
        raise PermafrostError(
            f"images keep their native size, and there are {len(sizes)} sizes ({shown}"
            f"{', …' if len(sizes) > 6 else ''}); the maps of a dataset have one",
            where=where,
            remedy="set input.size of the backbone, or extraction.size",
        )
    return list(sizes.pop())


def rows_together(bytes_per_sample: int) -> tuple[int, int]:
    """Samples per (chunk, shard), the same for all maps, which are read together."""
    chunk = min(max(1, CHUNK_BYTES // bytes_per_sample), MOST_ROWS_PER_CHUNK)
    return chunk, rows_per_shard(chunk, bytes_per_sample)


def rows_per_shard(chunk: int, bytes_per_sample: int) -> int:
    """Samples per shard: a multiple of `chunk`, at least one chunk."""
    return chunk * max(1, SHARD_BYTES // (chunk * bytes_per_sample))


class MapWriter:
    """Collects the maps of batches in order and writes them shard by shard.

    Parameters
    ----------
    writer : of the open store.
    layers : names, coarse to fine; their arrays are named map0, map1, …, by their places among all layers.
    shapes : (C, H, W) of each map, (T, C, H, W) for time series; empty before the first split.
    dtype : of the arrays.
    sample_ids : names of all samples.
    where : the backbone's name in errors.
    span : [first, stop) of the samples of a part, see `writing.Rows`; None: all samples.
    compress : whether to compress each map; None: decided by the first batch.
    left_out : place of a layer that is not stored, to (C, H, W) of its map. Chunks have as many samples as with it,
        on which the order of training depends.
    """

    #: option of extraction that sets the type of the arrays
    OPTION = "extraction.maps_dtype"

    def __init__(
        self,
        writer: StoreWriter,
        layers: Sequence[str],
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype,
        sample_ids,
        where: str,
        *,
        span: tuple[int, int] | None = None,
        compress: Sequence[bool] | None = None,
        left_out: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        places = set(range(len(layers) + len(left_out))).difference(left_out)
        self._names, self._left_out = [f"map{place}" for place in sorted(places)], left_out
        self._writer, self._count, self._layers = writer, len(sample_ids), tuple(layers)
        self._dtype, self._sample_ids, self._where = dtype, sample_ids, where
        self._span, self._compress = span, compress
        self.arrays: list[Rows] = []
        self.shapes = tuple(shapes)

    def put(self, first: int, maps: Sequence[np.ndarray], finite: Sequence[bool]) -> None:
        """Add the maps of samples ``first``, ``first + 1``, …

        Parameters
        ----------
        maps : (n, C, H, W) per layer; (n, T, C, H, W) for time series.
        finite : whether all values are finite, per layer.

        Raises
        ------
        PermafrostError : a value is not finite, or the layers are not ordered coarse to fine.
        """
        for layer, values, good in zip(self._layers, maps, finite, strict=True):
            if not good:
                self._refuse(layer, values, first)
        if not self.arrays:
            self._begin(
                [values.shape[1:] for values in maps],
                self._compress or list(map(worth_compressing, maps)),
            )
        for rows, values in zip(self.arrays, maps, strict=True):
            rows.put(values)

    def finish(self) -> None:
        """Write the remaining rows."""
        if not self.arrays:
            self._begin(self.shapes, [False] * len(self.shapes))
        for rows in self.arrays:
            rows.finish()

    def described(self) -> list[dict]:
        """Attribute ``layers`` of the store."""
        return [
            {
                "name": name,
                "array": array,
                "channels": channels,
                "height": height,
                "width": width,
            }
            for array, name, (*_, channels, height, width) in zip(
                self._names, self._layers, self.shapes, strict=True
            )
        ]

    def copy_native(self, store: ImageStore) -> None:
        """Copy ``masks`` or ``targets`` from the image store, if it has any, shard by shard.

        They have the same samples per chunk as the maps, since both are read together, but their
        own shards, since a mask of native size may be larger than all maps of its image.
        """
        for name in NATIVE:
            if name in store.store:
                self._copy(store, name)

    def _copy(self, store: ImageStore, name: str) -> None:
        shape, dtype = store.store.shape(name), store.store.attributes["arrays"][name][1]
        chunk, _ = self._rows()
        shard = rows_per_shard(chunk, int(np.prod(shape[1:])) * np.dtype(dtype).itemsize)
        copied = self._writer.array(name, shape, dtype, rows_per_chunk=chunk, rows_per_shard=shard)
        first, last = (0, len(store)) if self._span is None else self._span
        for start in range(-(-first // shard) * shard, last, shard):
            stop = min(start + shard, len(store))
            copied[start:stop] = store.store.read(name, start, stop)

    def _begin(self, shapes: Sequence[tuple[int, ...]], compress: Sequence[bool]) -> None:
        self.shapes = tuple(tuple(map(int, shape)) for shape in shapes)
        self._check_order()
        chunk, shard = self._rows()
        for name, shape, shrinks in zip(self._names, self.shapes, compress, strict=True):
            array = self._writer.array(
                name,
                (self._count, *shape),
                self._dtype,
                rows_per_chunk=chunk,
                rows_per_shard=shard,
                compress=shrinks,
            )
            self.arrays.append(Rows(array, min(shard, max(1, self._count)), self._span))

    def _rows(self) -> tuple[int, int]:
        # of time series, shapes have an axis of dates
        dates = math.prod(self.shapes[0][:-3])
        values = sum(map(math.prod, self.shapes))
        values += dates * sum(map(math.prod, self._left_out.values()))
        return rows_together(values * self._dtype.itemsize)

    def _check_order(self) -> None:
        sizes = [shape[-2] * shape[-1] for shape in self.shapes]
        if sizes != sorted(sizes):
            order = sorted(range(len(sizes)), key=sizes.__getitem__)
            raise PermafrostError(
                "the layers are not listed coarse to fine: their maps have "
                + ", ".join(
                    f"{height} x {width} ({name})"
                    for name, (*_, height, width) in zip(self._layers, self.shapes, strict=True)
                ),
                where=f"{self._where}: layers",
                remedy=f"write layers: [{', '.join(self._layers[i] for i in order)}]",
            )

    def _refuse(self, layer: str, values: np.ndarray, first: int) -> None:
        """Raise an error that names the sample; infinity without NaN means overflow of float16."""
        overflow = self._dtype == np.float16 and not np.isnan(values).any()
        check_finite(
            values.reshape(len(values), -1),
            first,
            self._sample_ids,
            where=f"{self._where}: layer {layer}" + (" as float16" if overflow else ""),
            remedy=f"use {self.OPTION}: float32, these features exceed what float16 can hold"
            if overflow
            else "look for NaN or infinity in the dataset's pixels, for a normalisation that the weights"
            " were not made for, and at precision: fp16, which overflows early",
        )
