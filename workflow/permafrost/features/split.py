"""Run a backbone over one split, or a part of it, and write the arrays of its feature store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.progress import progress
from permafrost.core.stores import StoreWriter
from permafrost.features.depths import DepthWriter
from permafrost.features.maps import MapWriter
from permafrost.features.reading import Batch, SampleReader, read_batches
from permafrost.features.running import Outputs, batch_outputs, fetch, moved
from permafrost.features.specification import Running
from permafrost.features.writing import FeatureWriter, by_sample, worth_compressing

if TYPE_CHECKING:
    import torch

    from permafrost.backbones.outputs.projected import Projection
    from permafrost.features.extract import Opened


@dataclass(frozen=True)
class Shapes:
    """Number of features, and (C, H, W) of each map, (C,) of each block; 0 and empty before the first split."""

    dimension: int = 0
    maps: tuple = ()


@dataclass(frozen=True)
class Made:
    """Result of a run: ``attributes`` of the store, and ``gate``, the state of the `CollapseGate`."""

    attributes: dict
    gate: dict
    shapes: Shapes


class SplitRun:
    """Runs a backbone over a split.

    Parameters
    ----------
    opened : the backbone and its dataset.
    split : its name.
    running : how to run the backbone.
    span : [first, stop) of a part's samples, which begins with a batch; see `writing.Rows`. None:
        all.
    """

    def __init__(
        self, opened: Opened, split: str, running: Running, span: tuple[int, int] | None = None
    ) -> None:
        self.opened, self.split, self.running, self.span = opened, split, running, span
        self.store = opened.stores[split]
        self.reader = SampleReader(self.store, opened.run.prepare.stored)
        dataset = opened.attributes["dataset"]
        self.label = f"{opened.attributes['backbone']} on {dataset}/{split}"
        self.where = f"{opened.run.backbone.where} on {dataset} ({split})"
        each_date = self.reader.dates and opened.run.dates is None
        self._most = self.reader.most_dates if each_date else None

    def write(self, writer: StoreWriter, before: Shapes) -> Made:
        """Write the feature arrays; raises if their shapes differ from those of splits `before`."""
        extraction, names = self.opened.extraction, self.store.samples["sample_id"]
        features_shrink, maps_shrink = self._compressed()
        layers = self.opened.run.backbone.layers
        maps = self._layer_writer(writer, before, names, maps_shrink) if layers else None
        sink = FeatureWriter(
            writer,
            names,
            extraction.dtype,
            self.where,
            maps,
            dimension=before.dimension,
            dates=self._most,
            span=self.span,
            compress=features_shrink,
        )
        try:
            self._feed(sink)
            gates = sink.finish()
        finally:
            sink.close()
        attributes = {
            **self.opened.attributes,
            "split": self.split,
            "feature_dim": sink.dimension,
            "gates": sorted({*self.opened.attributes["gates"], *gates}),
        }
        if self._most is not None:
            attributes["dates"] = {"kind": self.opened.card.dates, "column": self.reader.dates}
        if extraction.depths is not None:
            attributes["depths"] = [] if maps is None else maps.described()
        elif maps is not None:
            maps.copy_native(self.store)
            projections = self.opened.run.backbone.projections
            attributes["layers"] = [
                {**one, **_projected(projections.get(one["name"]))} for one in maps.described()
            ]
        shapes = Shapes(sink.dimension, maps.shapes if maps is not None else ())
        return Made(attributes, sink.gate.state(), shapes)

    def _compressed(self) -> tuple[bool | None, list[bool] | None]:
        """Whether to compress the features, and each map or block; None: the writers decide.

        All parts of a split decide by its first batch.
        """
        if self.span is None or self.span[0] == 0:
            return None, None
        first = self._outputs(next(self._batches(0)))()
        arrays = [first.features.astype(self.opened.extraction.dtype, copy=False), *first.maps]
        if self._most is not None:
            arrays = [by_sample(one, first.dates, self._most) for one in arrays]
        features, *maps = map(worth_compressing, arrays)
        return features, maps

    def _layer_writer(self, writer: StoreWriter, before: Shapes, names, compress) -> MapWriter:
        backbone, extraction = self.opened.run.backbone, self.opened.extraction
        given = writer, backbone.layers, before.maps
        about = {"span": self.span, "compress": compress}
        if backbone.blocks:
            dtype = np.dtype(extraction.dtype)
            return DepthWriter(*given, dtype, names, self.where, **about, blocks=backbone.blocks)
        about["left_out"] = dict(backbone.left_out.values())
        return MapWriter(*given, np.dtype(extraction.maps_dtype), names, self.where, **about)

    def _feed(self, sink: FeatureWriter) -> None:
        first, last = self.span or (0, len(self.store))
        with progress(total=last - first, label=self.label, unit="image") as bar:
            for batch in self._batches(first):
                if batch.start >= last and sink.complete:
                    break
                sink.put(self._outputs(batch))
                bar.update(max(min(len(batch), last - batch.start), 0))

    def _outputs(self, batch: Batch) -> Callable[[], Outputs]:
        dates = None if self._most is None else batch.dates
        return fetch(
            *cast(
                "tuple[torch.Tensor, list[torch.Tensor]]",
                batch_outputs(self.opened.run, batch, where=self.where),
            ),
            dates,
        )

    def _batches(self, first: int) -> Iterator[Batch]:
        """Batches from sample `first` to the last; ``start`` is relative to the split."""
        run = self.opened.run
        read = read_batches(
            self.store,
            run.prepare.stored,
            batch_size=self.running.batch_size,
            workers=self.running.workers,
            rows=np.arange(first, len(self.store)),
            telling=run.telling,
        )
        for batch in moved(read, run.device):
            yield replace(batch, start=first + batch.start)


def _projected(projection: Projection | None) -> dict:
    if projection is None:
        return {}
    return {"projected_from": projection.matrix.shape[1], "share_kept": round(projection.share, 4)}
