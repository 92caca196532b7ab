"""Base class of the shapes that a detection head can learn, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from permafrost.data.labels.objects import Objects
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.overlaps import suppress as suppress_shapes
from permafrost.metrics.objects.shapes import ObjectShape
from permafrost.probes.detection.pyramid import Level, Pyramid

if TYPE_CHECKING:
    from permafrost.probes.detection.model import Output
    from permafrost.probes.detection.object_splits import ObjectSplit
    from permafrost.probes.detection.targets import BatchTargets


@dataclass(frozen=True)
class ShownObjects:
    """The visible objects of all samples of a split, flat, in working pixels.

    Attributes
    ----------
    sample : (M,) row of the split, ascending.
    boxes : (M, 4) corners, clipped to the window; both equal for points.
    classes : (M,) class ids.
    learned : (M,) bool; False for crowds and for objects that are hardly visible: the loss ignores
        their cells.
    outlines : (M, 4, 2) corners of oriented boxes, not clipped; else None.
    """

    sample: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray
    learned: np.ndarray
    outlines: np.ndarray | None = None


@dataclass(frozen=True)
class Candidates:
    """Pairs of an object and a candidate cell of a level; the object of lowest rank gets the cell.

    Attributes
    ----------
    owner : (P,) positions of the objects among those compared.
    cell : (P,) cells of the level.
    rank : (P,) numbers.
    places : (P, `HeadShape.width`) targets of the cell.
    """

    owner: np.ndarray
    cell: np.ndarray
    rank: np.ndarray
    places: np.ndarray


class HeadShape:
    """What of a head and of its answers depends on the shape of the objects.

    Attributes
    ----------
    compared : how objects of the shape are compared with each other.
    channels : outputs of a head per cell, apart from the classes.
    width : numbers in `Output.places`, and targets, per cell.
    sized : objects have a size, by which they are predicted on the levels of the pyramid; else they are
        predicted on the finest.
    margin : cells within so many strides of a region without a loss have no loss either.
    cut : the edge of a window can cut an object.
    """

    compared: ClassVar[ObjectShape]
    channels: ClassVar[int]
    width: ClassVar[int]
    sized: ClassVar[bool] = True
    margin: ClassVar[int] = 0
    cut: ClassVar[bool] = True

    # of the head

    def outputs(
        self, placed: list[torch.Tensor], scales: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """`Output.places` and `Output.centred`, from (B, L, channels) of each level and the scale of each level."""
        raise NotImplementedError

    def losses(
        self, found: torch.Tensor, places: torch.Tensor, centred: torch.Tensor | None, kind: str
    ) -> tuple[torch.Tensor, ...]:
        """Terms of the loss of P cells with objects, apart from that of their classes; each is a mean over cells.

        Parameters
        ----------
        found, places : (P, width) outputs and targets.
        centred : (P,) logits of centre-ness.
        kind : name of the loss of boxes.
        """
        raise NotImplementedError

    def branch(self, hidden: int, depth: int, pyramid: Pyramid) -> nn.Module | None:
        """The part of a head that masks need: from the finest level (B, hidden, H, W) and the last layer of
        the places of every level to `Output.filters` and `Output.canvas`. None: the shape has no masks."""
        return None

    def mask_losses(self, output: Output, chosen: BatchTargets) -> tuple[torch.Tensor, ...]:
        """Terms of the loss of the masks of objects."""
        return ()

    # of the targets

    def outlines(self, objects: list[Objects]) -> np.ndarray | None:
        """(M, 4, 2) corners of the objects of all windows if the shape has outlines; else None."""
        return None

    def learnable(
        self, shown: ShownObjects, clipped: np.ndarray, bounds: np.ndarray, least: float
    ) -> np.ndarray:
        """(M,) bool: objects of which a window shows enough to learn them.

        Parameters
        ----------
        shown : the objects in pixels of their windows, not clipped.
        clipped, bounds : (M, 4) the same boxes clipped to their windows, and the windows.
        least : share of an object's area that must be exceeded.
        """
        raise NotImplementedError

    def candidates(
        self, shown: ShownObjects, rows: np.ndarray, level: Level, reach: tuple[float, float]
    ) -> Candidates:
        """Cells of a level that could learn the objects `rows`, whose farthest side is in `reach`."""
        raise NotImplementedError

    def drawings(self, split: ObjectSplit, pyramid: Pyramid) -> Masks | None:
        """The masks to learn of the objects of all windows, in the order of `ShownObjects`; None without masks."""
        return None

    # of the detections

    def decode(
        self, places: np.ndarray, cells: np.ndarray, pyramid: Pyramid, scale: np.ndarray
    ) -> dict[str, Any]:
        """Fields of `Detected`, in pixels of the sample, from `places` (n, width) of `cells`.

        Parameters
        ----------
        scale : (2,) working pixels per pixel, in x and in y.
        """
        raise NotImplementedError

    def with_masks(
        self, found: Detected, cells: np.ndarray, output: Output, row: int, size: tuple[int, int]
    ) -> Detected:
        """The detections of a sample with their masks, if the shape has masks.

        Parameters
        ----------
        cells : (M,) cell of each detection.
        row : of the sample in the batch.
        size : height and width of the sample in pixels.
        """
        return found

    def real(self, found: Detected) -> np.ndarray:
        """(M,) bool, False for detections without area."""
        return np.ones(len(found), bool)

    def drawn(self, found: Detected) -> tuple[str, np.ndarray]:
        """Kind and shapes of detections as `metrics.objects.stitching.agreements` takes them."""
        return self.compared.kind, self.compared.of(found)

    def limit(self, share: float, detection: dict) -> float:
        """Threshold of suppression for the option `nms_threshold` and the dataset's card: an IoU."""
        return share

    def suppress(self, found: Detected, threshold: float) -> Detected:
        """The rest by descending score; see `rest`."""
        return found.take(self.rest(found, threshold))

    def rest(self, found: Detected, threshold: float) -> np.ndarray:
        """Non-maximum suppression within classes: positions of the rest, by descending score.

        Parameters
        ----------
        threshold : a detection is removed if its IoU with a better one is above it; a point, if it is
            nearer (pixels).
        """
        if len(found) < 2:
            return np.arange(len(found))
        kept = []
        for label in np.unique(found.classes):
            own = np.flatnonzero(found.classes == label)
            shapes = self.compared.of(found.take(own))
            rest = suppress_shapes(
                self.compared.kind, shapes, found.scores[own], threshold=threshold
            )
            kept.append(own[rest])
        rows = np.sort(np.concatenate(kept))
        return rows[np.argsort(-found.scores[rows], kind="stable")]

    def joined(self, found: Detected, groups: list[list[int]]) -> Detected:
        """One detection per group, in order: the shape around all of the group's detections, with the class and
        score of its first."""
        boxes = found.boxes[[group[0] for group in groups]]
        for box, group in zip(boxes, groups, strict=True):
            box[:2] = found.boxes[group, :2].min(axis=0)
            box[2:] = found.boxes[group, 2:].max(axis=0)
        first = found.take([group[0] for group in groups])
        return Detected(boxes, first.classes, first.scores)

    # of the files

    def coco_truth(self, objects: Objects, size: tuple[int, int]) -> list[dict]:
        """Keys of COCO's annotations that the shape adds to the box, for each object of an image of (height, width)."""
        return [{}] * len(objects)

    def coco_found(self, found: Detected) -> list[dict]:
        """Keys of COCO's results that the shape adds to the box, for each detection."""
        return [{}] * len(found)

    def columns(self, found: list[Detected]) -> dict[str, pa.Array]:
        """Columns of the table of predictions that the shape adds: a list per image, with an entry per detection."""
        return {}


def near(
    middles: np.ndarray, level: Level, radius: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, m, 2) columns and rows of cells around the middles (n, 2), (n, m, 2) x and y of their centres,
    and (n, m) bool: they exist and are less than `radius` strides away in x and in y."""
    stride = np.array(level.stride)
    span = np.arange(-int(radius + 1), int(radius + 1) + 1)
    around = np.stack(np.meshgrid(span, span), axis=-1).reshape(-1, 2)
    cells = np.floor(middles / stride).astype(np.int64)[:, None] + around
    centres = (cells + 0.5) * stride
    exist = ((cells >= 0) & (cells < np.array(level.size[::-1]))).all(axis=-1)
    close = (np.abs(centres - middles[:, None]) < radius * stride).all(axis=-1)
    return cells, centres, exist & close
