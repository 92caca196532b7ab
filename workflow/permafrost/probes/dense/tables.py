"""What the tables of probes of maps share: their rows, image by image, and what identifies them; no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from permafrost.core.tables import write_table
from permafrost.probes.dense.map_splits import Layer, MapSplit
from permafrost.probes.dense.raster_writer import raster_writer
from permafrost.probes.dense.shown import Shown
from permafrost.probes.job import ProbeJob
from permafrost.probes.metadata import prediction_metadata


@dataclass(frozen=True)
class Outcome:
    """What a probe found besides its answers: settings (JSON-able), gates, layers used."""

    layers: list[Layer]
    settings: dict
    gates: list[str]


class ImageRows[Split: MapSplit]:
    """The rows of a table with an answer per pixel, gathered image by image in store order.

    Parameters
    ----------
    test : the split that is scored.
    job : with the options ``resolution`` and ``pictures``.
    put : ``put(row, raster)``, which keeps what was predicted; see `raster_writer`.
    """

    #: the column of pictures, and how they are encoded
    picture: str
    encode: Callable[[np.ndarray], bytes]

    def __init__(self, test: Split, job: ProbeJob, put: Callable) -> None:
        self.test, self.options, self.put = test, job.options, put
        self.shown = Shown(len(test), job.options.pictures, job.dataset, type(self).encode)
        self._sizes = test.scored_sizes(job.options.resolution)

    def size(self, row: int) -> tuple[int, int]:
        """Height and width at which an image is scored."""
        height, width = self._sizes[row]
        return int(height), int(width)

    def truths(self, start: int, stop: int) -> list[np.ndarray]:
        """What is scored: truth as it is, or as resized to the working size."""
        return self.test.truths(start, stop, self.options.resolution)

    def columns(self, count: int, scores: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Samples, `scores` of `count` images, and pictures."""
        if count != len(self.test):
            raise RuntimeError(f"{count} of {len(self.test)} test images came")
        labels, pictures = self.shown.columns(count)
        names = ("sample_id", "group_id")
        return {
            **{name: self.test.samples[name].cast(pa.string()) for name in names},
            **scores,
            "shown": pa.array(labels, pa.string()),
            self.picture: pa.array(pictures, pa.binary()),
        }


@contextlib.contextmanager
def rows_to_fill[Rows: ImageRows](
    kind: type[Rows], job: ProbeJob, test: MapSplit
) -> Iterator[Rows]:
    """Rows to fill; predicted rasters are kept, if the options ask for them, once the block has ended well."""
    with raster_writer(job, test) as put:
        yield kind(test, job, put)


def write_dense_table(
    job: ProbeJob, splits: dict[str, MapSplit], table: pa.Table, outcome: Outcome, **further
) -> None:
    """Write a table with what identifies and explains it; `further` goes into the metadata."""
    test = splits["test"]
    metadata = prediction_metadata(
        job,
        test.attributes,
        counts={name: len(split) for name, split in splits.items()},
        feature_dim=sum(layer.channels for layer in outcome.layers),
        settings=outcome.settings,
        gates=outcome.gates,
    )
    layers = [layer.name for layer in outcome.layers]
    working = test.attributes["working_size"]
    write_table(
        job.output, table, {**metadata, "working_size": working, "layers": layers, **further}
    )
