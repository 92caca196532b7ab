"""The detection probe: feature stores with maps and objects in, detections of a trained head out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.core.memory import keep_freed_memory
from permafrost.core.options import AtLeast0, Natural, Positive
from permafrost.features.devices import choose_device, exact_numerics
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.dense.choice import Layers, Pictured, TrainingOptions
from permafrost.probes.dense.head_trainer import FittedHead, all_finite, autocast
from permafrost.probes.dense.ltae import head_over_dates
from permafrost.probes.dense.map_splits import Layer, date_positions, open_splits
from permafrost.probes.dense.map_stream import MapStream
from permafrost.probes.dense.shown import Ranked
from permafrost.probes.dense.tables import Outcome, write_dense_table
from permafrost.probes.detection.coco_json import coco_folder
from permafrost.probes.detection.decode import Decoder
from permafrost.probes.detection.detection_trainer import DetectionTrainer
from permafrost.probes.detection.model import DetectionHead
from permafrost.probes.detection.object_splits import ObjectSplit, check_objects, missing_classes
from permafrost.probes.detection.pyramid import Pyramid, plan_pyramid
from permafrost.probes.detection.scoring import check_choosable, choose_threshold
from permafrost.probes.detection.stitching import Stitcher, shown_objects
from permafrost.probes.detection.table import detection_table
from permafrost.probes.detection.targets import Targets, assign
from permafrost.probes.job import ProbeJob

# if at least this share of train objects has no cell, a warning says that the head is too coarse
MANY = 0.1
HEAD = "fcos"


@dataclass(frozen=True, kw_only=True)
class DetectionOptions(Pictured, TrainingOptions):
    """A one-stage head without anchors (FCOS) trained on the maps of the frozen layers. It detects boxes, or
    points or oriented boxes if these are the dataset's objects.
    """

    layers: Layers = None
    """Extracted layers to use, coarse to fine; null uses all of them."""
    hidden: Positive = 128
    """Channels of the head."""
    depth: Natural = 2
    """Convolutions before each of the outputs."""
    finest_stride: Positive = 8
    """Coarser maps are enlarged in steps of two until a cell is this many working pixels."""
    epochs: Positive = 20
    batch_size: Positive = 16
    weight_decay: AtLeast0 = 1e-4
    box_loss: Literal["giou", "iou"] = "giou"
    """Loss of upright boxes; without effect for other shapes."""
    # the bound is the smallest score of a detection (LEAST_SCORE in probes/detection/decode.py)
    score_threshold: Annotated[float, Interval(ge=0.05, le=1)] | None = None
    """Smallest score of detections that count for box_* and point_* metrics; null uses the value with the best F1
    on validation."""
    nms_threshold: Annotated[float, Interval(ge=0, le=1)] = 0.5
    """If two boxes of a class have a larger IoU, or two points are nearer than this share of match_distance, only
    the one with the higher score is kept."""
    max_per_image: Positive = 300
    """Largest number of detections of a sample."""


def run_detection(job: ProbeJob[DetectionOptions]) -> None:
    """Train the head on train, choose on validation, and write the detections of test.

    The second output is a folder with the same in COCO's format; None: not written.

    Raises
    ------
    PermafrostError : anything that the user can fix; no partial output remains.
    """
    keep_freed_memory()
    splits = open_splits(ObjectSplit, job)
    test, run = splits["test"], _Run.of(job, splits)
    with exact_numerics():
        fitted, targets = run.fit()
        threshold, gates = run.threshold(fitted)
        found = run.images(fitted, "test")
    settings = {
        "head": HEAD,
        "layers": [layer.name for layer in run.layers],
        "working_size": list(splits["train"].working_size),
        "strides": [level.step for level in run.pyramid.levels],
        "score_threshold": threshold,
        "objects": {"learned": targets.objects, "without_cell": targets.without_cell},
        **fitted.settings,
        **run.meaning,
    }
    gates += [*run.gates, *fitted.gates, *_object_gates(targets, found)]
    ranked = Ranked(len(found), job.options.pictures, job.dataset)
    table = detection_table(test, found, ranked, threshold)
    names = ("fingerprint", "dataset", "backbone", "probe", "seed")
    info = {name: getattr(job, name) for name in names}
    folder = coco_folder(job.second_output, test, found, info=info)
    with folder as files:
        write_dense_table(
            job,
            splits,
            table,
            Outcome(run.layers, settings, gates),
            detection=test.detection,
            head=HEAD,
            files=files,
        )


def _object_gates(targets: Targets, found: list[Detected]) -> list[str]:
    coarse = targets.without_cell > MANY * targets.objects
    empty = not any(len(each) for each in found)
    return ["objects_without_cell"] * coarse + ["no_detections"] * empty


@dataclass(frozen=True)
class _Run:
    """Data that training and testing share."""

    job: ProbeJob[DetectionOptions]
    splits: dict[str, ObjectSplit]
    layers: list[Layer]
    pyramid: Pyramid
    device: torch.device
    # if the head gets all dates: their positions (N, T) in each split, and the record of them
    positions: dict[str, np.ndarray]
    meaning: dict

    @classmethod
    def of(cls, job: ProbeJob[DetectionOptions], splits: dict[str, ObjectSplit]) -> _Run:
        """Check all that is possible without reading maps."""
        options, train = job.options, splits["train"]
        layers = train.choose_layers(options.layers, where=job.where)
        check_objects(train)
        if options.score_threshold is None:
            check_choosable(splits["val"], job.where)
        pyramid = plan_pyramid(
            layers, train.working_size, options.finest_stride, sized=train.shape.sized
        )
        return cls(job, splits, layers, pyramid, choose_device(job.device), *date_positions(splits))

    @property
    def options(self) -> DetectionOptions:
        return self.job.options

    @property
    def gates(self) -> list[str]:
        """Warnings about classes in train, and about windows."""
        touching = any(
            not self.stitcher(split).overlapping and len(split.images) < len(split)
            for split in self.splits.values()
        )
        return [*missing_classes(self.splits["train"]), *(["windows_touch"] if touching else [])]

    def decoder(self, split: ObjectSplit) -> Decoder:
        return Decoder(
            self.pyramid, split.shape, self._suppressed(split), self.options.max_per_image
        )

    def stitcher(self, split: ObjectSplit) -> Stitcher:
        # half a cell, the precision of the sides of boxes
        step = self.pyramid.levels[-1].step / 2
        touch = float((step / split.scales).max()) if len(split) else step
        return Stitcher(split, self._suppressed(split), max(1.0, touch))

    def _suppressed(self, split: ObjectSplit) -> float:
        return split.shape.limit(self.options.nms_threshold, split.detection)

    def fit(self) -> tuple[FittedHead, Targets]:
        """The trained head, and the targets of train.

        Raises
        ------
        PermafrostError : no object of train has a cell; or as `HeadTrainer.fit`.
        """
        splits = {name: self.splits[name] for name in ("train", "val")}
        targets = {
            name: assign(
                shown_objects(split),
                self.pyramid,
                split.shape,
                split.shape.drawings(split, self.pyramid),
            )
            for name, split in splits.items()
        }
        if not len(targets["train"].keys):
            raise PermafrostError(
                "no training object covers the centre of a cell, so there is nothing to learn",
                where=self.job.where,
                remedy="use a smaller finest_stride, or a larger input size",
            )
        trainer = DetectionTrainer(
            self._build,
            *(self._stream(name, budget=self.job.memory) for name in splits),
            targets=targets,
            decoder=self.decoder(splits["val"]),
            stitcher=self.stitcher(splits["val"]),
            options=self.options,
            where=self.job.where,
            seed=self.job.derived_seed,
            device=self.device,
        )
        return trainer.fit(), targets["train"]

    def _build(self) -> nn.Module:
        ltae = self.job.over_dates.ltae if self.positions else None
        return head_over_dates(self._head, [layer.channels for layer in self.layers], ltae)

    def _head(self, channels: list[int]) -> DetectionHead:
        train = self.splits["train"]
        return DetectionHead(
            channels,
            len(train.classes),
            pyramid=self.pyramid,
            hidden=self.options.hidden,
            depth=self.options.depth,
            shape=train.shape,
        )

    def threshold(self, fitted: FittedHead) -> tuple[float, list[str]]:
        """The smallest score of detections that count, and warnings about its choice."""
        given = self.options.score_threshold
        if given is not None:
            return float(given), []
        chosen, value = choose_threshold(self.splits["val"], self.images(fitted, "val"))
        return chosen, [] if value > 0 else ["nothing_found_on_validation"]

    @torch.no_grad()
    def images(self, fitted: FittedHead, name: str) -> list[Detected]:
        """The detections of every whole image of a split."""
        split = self.splits[name]
        decoder, windows = self.decoder(split), []
        for batch in self._stream(name, keep=False).in_order():
            with autocast(self.device, fitted.settings["precision"]):
                output = fitted.head(batch.fed())
            if not all_finite(output):
                raise _not_finite(split, batch.rows)
            windows += decoder.samples(output, split.scales[batch.rows])
        return self.stitcher(split).images(windows)

    def _stream(self, name: str, **how) -> MapStream:
        return MapStream(
            self.splits[name],
            self.layers,
            positions=self.positions.get(name),
            batch_size=self.options.batch_size,
            device=self.device,
            masks=False,
            **how,
        )


def _not_finite(split: ObjectSplit, rows) -> PermafrostError:
    first = split.samples["sample_id"][int(rows[0])].as_py()
    return PermafrostError(
        f"the head gives NaN or infinity for images from {first!r} on",
        where=split.path,
        remedy="check that the maps are finite (extract with maps_dtype float32), use precision fp32,"
        " or a smaller learning_rate",
    )
