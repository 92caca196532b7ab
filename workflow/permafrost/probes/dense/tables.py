"""Tables of predicted masks and numbers per pixel, for statistics and reports; no torch.

For rasters of numbers they have sums, from which R², RMSE and MAE of any set of images follow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from permafrost.core.columns import Column
from permafrost.core.leakage import sample_columns
from permafrost.core.tables import write_table
from permafrost.metrics.segmentation.boundary import boundary_counts
from permafrost.probes.dense.interpolate import bilinear_matrix
from permafrost.probes.dense.map_splits import Layer, MapSplit, MaskSplit, TargetSplit
from permafrost.probes.dense.raster_writer import raster_writer
from permafrost.probes.dense.shown import Shown, encode_mask, encode_raster
from permafrost.probes.job import ProbeJob
from permafrost.probes.metadata import PredictionColumns, prediction_metadata


class ShownPredictions(PredictionColumns):
    """Predictions, some of which are kept for pictures.

    Columns
    -------
    shown : Why the prediction is kept for pictures: drawn at random (the same images for all backbones, probes
        and seeds), or among those with the best or worst score; null if it is not kept.
    """

    columns = PredictionColumns.changed(
        Column("shown", nullable=True, values=("drawn", "best", "worst"))
    )


class MaskPredictions(ShownPredictions):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet of a dataset with masks: one
    test image. The metadata of the file name the classes, the ignored mask value, dead classes, the scored
    resolution, layers, head, the settings with the results of every epoch, and everything that identifies
    the evaluation.

    Columns
    -------
    confusion : Pixels of the image by true class (rows) and predicted class (columns), row after row, K times K
        numbers for the K classes in the metadata, without pixels whose true class is ignored.
    mask : The predicted class ids as a PNG of 8 or 16 bits, at the scored resolution; null if shown is.
    boundary_intersection : Pixels of each class in the boundary bands of both truth and prediction.
    boundary_union : Pixels of each class in the boundary band of truth, prediction or both.
    setting_confusions : fine_tune only: a confusion matrix for each of scored_settings in the metadata.
    """

    columns = (
        *PredictionColumns.columns,
        Column("confusion", "fixed_size_list<int64>"),
        *ShownPredictions.but("shown"),
        Column("mask", "binary"),
        *(
            Column(name, "fixed_size_list<int64>", optional=True)
            for name in ("boundary_intersection", "boundary_union", "setting_confusions")
        ),
    )


@dataclass(frozen=True)
class Outcome:
    """The results of a probe besides its predictions: settings (JSON-able), gates, layers."""

    layers: list[Layer]
    settings: dict
    gates: list[str]


class ImageRows[Split: MapSplit]:
    """The rows of a table of predictions per pixel, added image by image in store order.

    Parameters
    ----------
    test : the scored split.
    job : has the options ``resolution`` and ``pictures``.
    put : ``put(row, raster)``, which writes a prediction; see `raster_writer`.
    """

    #: the column of pictures, and their encoder
    picture: str
    encode: ClassVar[Callable[[np.ndarray], bytes]]

    def __init__(self, test: Split, job: ProbeJob, put: Callable) -> None:
        self.test, self.options, self.put = test, job.options, put
        self.shown = Shown(len(test), job.options.pictures, job.dataset, type(self).encode)
        self._sizes = test.scored_sizes(job.options.resolution)

    def size(self, row: int) -> tuple[int, int]:
        """Height and width in pixels at which an image is scored."""
        height, width = self._sizes[row]
        return int(height), int(width)

    def truths(self, start: int, stop: int) -> list[np.ndarray]:
        """The true values of the scored pixels, at native or working resolution."""
        return self.test.truths(start, stop, self.options.resolution)

    def columns(self, count: int, scores: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Columns of the samples, `scores` of `count` images, and pictures."""
        if count != len(self.test):
            raise RuntimeError(f"{count} of {len(self.test)} test images were predicted")
        labels, pictures = self.shown.columns(count)
        return {
            **sample_columns(self.test.samples),
            **scores,
            "shown": pa.array(labels, pa.string()),
            self.picture: pa.array(pictures, pa.binary()),
        }


@contextlib.contextmanager
def rows_to_fill[Rows: ImageRows](
    kind: type[Rows], job: ProbeJob, test: MaskSplit | TargetSplit
) -> Iterator[Rows]:
    """Context with the rows to fill; if the options request rasters, they are kept if the block succeeds."""
    with raster_writer(job, test) as put:
        yield kind(test, job, put)


def write_dense_table(
    job: ProbeJob, splits: Mapping[str, MapSplit], table: pa.Table, outcome: Outcome, **further
) -> None:
    """Write a table with the metadata that identifies and explains it, and `further`."""
    test = splits["test"]
    metadata = prediction_metadata(
        job,
        test.attributes,
        counts={name: len(split) for name, split in splits.items()},
        feature_dim=sum(layer.channels for layer in outcome.layers),
        settings=outcome.settings,
        gates=[*outcome.gates, *_projected(test.attributes, outcome.layers)],
    )
    layers = [layer.name for layer in outcome.layers]
    working = test.attributes["working_size"]
    write_table(
        job.output, table, {**metadata, "working_size": working, "layers": layers, **further}
    )


def _projected(attributes: dict, layers: list[Layer]) -> set[str]:
    """``projected_maps:CHANNELS`` if a layer's maps were stored in fewer channels than they have."""
    names = {layer.name for layer in layers}
    return {
        f"projected_maps:{one['channels']}"
        for one in attributes.get("layers", ())
        if one["name"] in names and "projected_from" in one
    }


class MaskRows(ImageRows[MaskSplit]):
    """The rows of the table; images with scored pixels are rated by pixel accuracy."""

    picture, encode = "mask", encode_mask

    def __init__(self, test: MaskSplit, job: ProbeJob, put) -> None:
        super().__init__(test, job, put)
        self.confusion: list[np.ndarray] = []
        self.boundary: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, truth: np.ndarray, prediction: np.ndarray, confusion: np.ndarray) -> None:
        """Add the next image: truth and prediction (h, w), and their (K, K) confusion matrix."""
        row, scored = len(self.confusion), confusion.sum()
        self.confusion.append(confusion)
        ratio = self.options.boundary
        if ratio is not None:
            classes, ignored = len(self.test.classes), self.test.ignore_index
            self.boundary.append(boundary_counts(truth, prediction, classes, ratio, ignored))
        accuracy = float(np.trace(confusion) / scored) if scored else None
        self.shown.offer(row, accuracy, prediction)
        self.put(row, prediction)

    def table(self) -> pa.Table:
        """One row per test image."""
        classes = len(self.test.classes)
        confusion = {"confusion": _fixed(self.confusion, classes * classes)}
        columns = self.columns(len(self.confusion), confusion)
        if self.options.boundary is not None:
            for i, name in enumerate(("boundary_intersection", "boundary_union")):
                columns[name] = _fixed([counts[i] for counts in self.boundary], classes)
        return pa.table(columns)

    def write(
        self,
        job: ProbeJob,
        splits: dict[str, MaskSplit],
        outcome: Outcome,
        *,
        head: str | None = None,
    ) -> None:
        """Write the table; `head` is the name of a trained probe's head."""
        write_masks(job, splits, self.table(), outcome, head=head)


def _fixed(rows: list[np.ndarray], width: int) -> pa.Array:
    flat = np.stack(rows).reshape(-1) if rows else np.empty(0)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.astype(np.int64)), width)


def write_masks(
    job: ProbeJob,
    splits: Mapping[str, MaskSplit],
    table: pa.Table,
    outcome: Outcome,
    *,
    head: str | None,
    **further,
) -> None:
    """Write the table; `head` is the name of a trained probe's head, `further` goes into the metadata."""
    test = splits["test"]
    write_dense_table(
        job,
        splits,
        table,
        outcome,
        ignore_index=test.ignore_index,
        dead_classes=test.dead_classes,
        resolution=job.options.resolution,
        head=head,
        **further,
    )


_RANGES = ("truth_min", "truth_max", "prediction_min", "prediction_max")


class RasterPredictions(ShownPredictions):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet of a dataset with rasters of
    numbers: one test image. Sums are over its pixels with data, at the scored resolution; R², RMSE and
    MAE of any set of images follow from them. The metadata of the file name the number (target), the centre,
    layers, resolution, a histogram of pixels by true and predicted number, the fitted settings, and
    everything that identifies the evaluation.

    Columns
    -------
    pixels : Number of pixels with data; images with 0 do not count.
    squared_error : Sum of squared differences of predicted and true number.
    absolute_error : Sum of absolute differences of predicted and true number.
    truth : Sum of the true numbers, each minus the centre in the metadata, for precision.
    truth_squares : Sum of the squares of the true numbers, each minus the centre.
    raster : The predicted numbers as npy of 32-bit floats, for every n-th pixel if a side is longer than 512; null
        if shown is.
    truth_min, truth_max : Smallest and largest true number; null if no pixel has data.
    prediction_min, prediction_max : Smallest and largest predicted number of pixels with data; null if there are
        none.
    """

    sums = (
        Column("pixels", "int64", least=0),
        Column("squared_error", "double", least=0),
        Column("absolute_error", "double", least=0),
        Column("truth", "double"),
        Column("truth_squares", "double", least=0),
        *(Column(name, "double", nullable=True) for name in _RANGES),
    )
    columns = (
        *PredictionColumns.columns,
        *sums,
        *ShownPredictions.but("shown"),
        Column("raster", "binary"),
    )


BINS = 48


class TargetRows(ImageRows[TargetSplit]):
    """The rows of the table; images with scored pixels are rated by their RMSE."""

    picture, encode = "raster", encode_raster

    def __init__(self, test: TargetSplit, job: ProbeJob, put) -> None:
        super().__init__(test, job, put)
        self.sums: list[dict] = []
        self.histogram = np.zeros((BINS, BINS), np.int64)

    def add(self, first: int, grids: np.ndarray) -> None:
        """Add the next images, from row `first` on: predictions of their patches, (n, gh, gw)."""
        truths = self.truths(first, first + len(grids))
        for row, (truth, grid) in enumerate(zip(truths, grids, strict=True), start=first):
            prediction = enlarged(grid, self.size(row))
            sums = image_sums(truth, prediction, self.test.centre)
            self.sums.append(sums)
            self.histogram += joint_histogram(truth, prediction, self.test.range)
            pixels = sums["pixels"]
            rmse = np.sqrt(sums["squared_error"] / pixels) if pixels else None
            self.shown.offer(row, None if rmse is None else -rmse, prediction)
            self.put(row, prediction.astype(np.float32))

    def write(self, job: ProbeJob, splits: dict[str, TargetSplit], outcome: Outcome) -> None:
        """Write the table, one row per test image."""
        scores = {
            column.name: pa.array([sums[column.name] for sums in self.sums], column.type)
            for column in RasterPredictions.sums
        }
        write_dense_table(
            job,
            splits,
            pa.table(self.columns(len(self.sums), scores)),
            outcome,
            centre=self.test.centre,
            resolution=self.options.resolution,
            # pixels by true (rows) and predicted number, in equal bins over the range of the targets
            histogram={"range": list(self.test.range), "counts": self.histogram.tolist()},
        )


def enlarged(grid: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(gh, gw) predictions of patches -> (h, w) float64, bilinear as `dense.interpolate.resize_bilinear`."""
    rows, columns = (bilinear_matrix(*pair) for pair in zip(grid.shape, size, strict=True))
    return rows @ np.asarray(grid, np.float64) @ columns.T


def image_sums(truth: np.ndarray, prediction: np.ndarray, centre: float) -> dict[str, float]:
    """Sums over the pixels of an image with data; `centre` is subtracted from the truth.

    ``pixels``, ``squared_error``, ``absolute_error``, ``truth``, ``truth_squares``; and the ranges
    ``truth_min``, ``truth_max``, ``prediction_min``, ``prediction_max`` (None without such a pixel).
    """
    known = ~np.isnan(truth)
    true = truth[known].astype(np.float64)
    said = prediction[known]
    error, true_from = said - true, true - centre
    ranges = {"truth": true, "prediction": said}
    return {
        "pixels": len(true),
        "squared_error": float(np.sum(error**2)),
        "absolute_error": float(np.sum(np.abs(error))),
        "truth": float(np.sum(true_from)),
        "truth_squares": float(np.sum(true_from**2)),
        **{f"{name}_min": float(v.min()) if len(v) else None for name, v in ranges.items()},
        **{f"{name}_max": float(v.max()) if len(v) else None for name, v in ranges.items()},
    }


def joint_histogram(
    truth: np.ndarray, prediction: np.ndarray, limits: tuple[float, float]
) -> np.ndarray:
    """(BINS, BINS) int64 pixels by true (rows) and predicted number; values beyond `limits` are in the outer bins."""
    known = ~np.isnan(truth)
    low, high = limits
    places = [
        np.clip((values[known] - low) / (high - low) * BINS, 0, BINS - 1).astype(np.int64)
        for values in (truth.astype(np.float64), prediction)
    ]
    return np.bincount(places[0] * BINS + places[1], minlength=BINS**2).reshape(BINS, BINS)
