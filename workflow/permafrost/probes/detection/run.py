"""The detection probe: feature stores with maps and objects in, detections of a trained head out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from permafrost.core.allocator import keep_freed_memory
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.features.devices import choose_device
from permafrost.features.numerics import exact_numerics
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.dense.shown import Ranked
from permafrost.probes.dense.splits import Layer
from permafrost.probes.dense.stream import MapStream
from permafrost.probes.dense.training import Fitted, all_finite, autocast
from permafrost.probes.detection.coco_json import coco_folder
from permafrost.probes.detection.decode import Decoder
from permafrost.probes.detection.model import DetectionHead
from permafrost.probes.detection.pyramid import Pyramid, plan_pyramid
from permafrost.probes.detection.splits import ObjectSplit, object_gates, open_splits
from permafrost.probes.detection.stitching import Stitcher
from permafrost.probes.detection.table import HEAD, detection_table, write_detections
from permafrost.probes.detection.targets import Targets, assign
from permafrost.probes.detection.threshold import check_choosable, choose_threshold
from permafrost.probes.detection.training import Trainer
from permafrost.probes.detection.windows import shown_objects

# share of train objects without a cell from which on the head is said to be too coarse
MANY = 0.1


def run_detection(
    stores: dict[str, Path],
    output: Path,
    *,
    spec: dict,
    fingerprint: str,
    device: str = "auto",
    second_output: Path | None = None,
    memory: int | None = None,
) -> None:
    """Train the head of `spec` on train, choose on validation, and write the detections of test.

    Parameters
    ----------
    stores : feature stores by split: train, val, test.
    output : table of predictions to write.
    spec : ``dataset``, ``backbone``, ``probe``, ``seed``, ``stage``, ``options`` with all keys of the
        kind, ``inputs.features`` (fingerprint of the stores).
    device : how to run; like `memory`, no part of the identity of the result.
    second_output : folder for the same in COCO's form; None: not written.
    memory : bytes that train and validation may each fill; None: a share of what is free. What does
        not fit is streamed.

    Raises
    ------
    PermafrostError : anything the user can put right; nothing half-written is left.
    """
    keep_freed_memory()
    splits = open_splits(stores, expect=spec["inputs"]["features"])
    run = _Run.of(splits, spec, choose_device(device), memory)
    seed = derive_seed(spec["dataset"], spec["backbone"], spec["probe"], spec["seed"])
    with exact_numerics():
        fitted, targets = run.fit(seed)
        threshold, gates = run.threshold(fitted)
        found = run.images(fitted, splits["test"])
    settings = {
        "head": HEAD,
        "layers": [layer.name for layer in run.layers],
        "working_size": list(splits["train"].working_size),
        "strides": [level.step for level in run.pyramid.levels],
        "score_threshold": threshold,
        "objects": {"learned": targets.objects, "without_cell": targets.without_cell},
        **fitted.settings,
    }
    gates += [*run.gates, *fitted.gates, *_object_gates(targets, found)]
    ranked = Ranked(len(found), spec["options"]["pictures"], spec["dataset"])
    table = detection_table(splits["test"], found, ranked, threshold)
    info = {
        "fingerprint": fingerprint,
        **{key: spec[key] for key in ("dataset", "backbone", "probe", "seed")},
    }
    classes = splits["test"].classes
    images = splits["test"].images
    with coco_folder(second_output, images, found, classes=classes, info=info) as files:
        write_detections(
            output,
            table,
            splits=splits,
            layers=run.layers,
            settings=settings,
            gates=gates,
            spec=spec,
            fingerprint=fingerprint,
            files=files,
        )


def _object_gates(targets: Targets, found: list[Detected]) -> list[str]:
    coarse = targets.without_cell > MANY * targets.objects
    empty = not any(len(each) for each in found)
    return ["objects_without_cell"] * coarse + ["no_detections"] * empty


@dataclass(frozen=True)
class _Run:
    """What training and testing share."""

    splits: dict[str, ObjectSplit]
    layers: list[Layer]
    pyramid: Pyramid
    options: dict
    where: str
    device: torch.device
    memory: int | None
    gates: list[str]

    @classmethod
    def of(cls, splits: dict[str, ObjectSplit], spec: dict, device, memory) -> _Run:
        """Checked as far as can be without reading maps."""
        options, train = spec["options"], splits["train"]
        where = f"{spec['probe']} on {spec['dataset']}, backbone {spec['backbone']}"
        layers = train.choose_layers(options["layers"], where=where)
        gates = object_gates(train)
        check_choosable(splits["val"], options, where)
        pyramid = plan_pyramid(
            layers, train.working_size, options["finest_stride"], points=train.points
        )
        run = cls(splits, layers, pyramid, options, where, device, memory, gates)
        touching = any(
            not run.stitcher(split).overlapping and len(split.images) < len(split)
            for split in splits.values()
        )
        return (
            run
            if not touching
            else cls(
                splits, layers, pyramid, options, where, device, memory, [*gates, "windows_touch"]
            )
        )

    def decoder(self, split: ObjectSplit) -> Decoder:
        options = self.options
        return Decoder(
            self.pyramid, split.points, self._suppressed(split), options["max_per_image"]
        )

    def stitcher(self, split: ObjectSplit) -> Stitcher:
        # half a cell: the sides of boxes are not found more precisely than that
        step = self.pyramid.levels[-1].step / 2
        touch = float((step / split.scales).max()) if len(split) else step
        return Stitcher(split, self._suppressed(split), max(1.0, touch))

    def _suppressed(self, split: ObjectSplit) -> float:
        """IoU, or of points a share of the distance within which one is found."""
        share = self.options["nms_threshold"]
        return share * split.detection["match_distance"] if split.points else share

    def fit(self, seed: int) -> tuple[Fitted, Targets]:
        """The trained head, and what train taught it.

        Raises
        ------
        PermafrostError : no object of train has a cell; see `Trainer`.
        """
        splits = {name: self.splits[name] for name in ("train", "val")}
        train, val = splits.values()
        targets = {
            name: assign(shown_objects(split), self.pyramid, points=split.points)
            for name, split in splits.items()
        }
        if not len(targets["train"].keys):
            raise PermafrostError(
                "no object of train covers the centre of a cell, so there is nothing to learn",
                where=self.where,
                remedy="use a smaller finest_stride, or a larger input size",
            )

        def build():
            return DetectionHead(
                [layer.channels for layer in self.layers],
                len(train.classes),
                pyramid=self.pyramid,
                hidden=self.options["hidden"],
                depth=self.options["depth"],
                points=train.points,
            )

        streams = [self._stream(split, budget=self.memory) for split in splits.values()]
        trainer = Trainer(
            build,
            *streams,
            targets=targets,
            decoder=self.decoder(val),
            stitcher=self.stitcher(val),
            options=self.options,
            where=self.where,
            seed=seed,
            device=self.device,
        )
        return trainer.fit(), targets["train"]

    def threshold(self, fitted: Fitted) -> tuple[float, list[str]]:
        """The score from which on detections count, and gates of how it was chosen."""
        given = self.options["score_threshold"]
        if given is not None:
            return float(given), []
        val = self.splits["val"]
        chosen, value = choose_threshold(val, self.images(fitted, val))
        return chosen, [] if value > 0 else ["nothing_found_on_validation"]

    @torch.no_grad()
    def images(self, fitted: Fitted, split: ObjectSplit) -> list[Detected]:
        """The detections of every whole image of a split."""
        decoder, windows = self.decoder(split), []
        for batch in self._stream(split, keep=False).in_order():
            with autocast(self.device, fitted.settings["precision"]):
                output = fitted.head(batch.maps)
            if not all_finite(output):
                raise _not_finite(split, batch.rows)
            windows += decoder.samples(output, split.scales[batch.rows])
        return self.stitcher(split).images(windows)

    def _stream(self, split: ObjectSplit, **how) -> MapStream:
        return MapStream(
            split,
            self.layers,
            batch_size=self.options["batch_size"],
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
