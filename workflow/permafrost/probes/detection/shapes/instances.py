"""Masks by conditional convolutions (CondInst, Tian et al. 2020), on cells that also predict upright boxes.

All objects of an image share one map, the canvas. Each cell predicts the weights of three 1x1 convolutions,
which draw the mask of its object from the canvas and from the distance of each place to the cell's centre. The
canvas has the resolution of the finest level, enlarged in steps of two until a place is about `STRIDE` working
pixels. In training, the masks are compared at this resolution by the Dice loss.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import torch
from torch import nn
from torch.nn import functional

from permafrost.data.labels.objects import Objects
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects.detected import MASKS, Detected, masks_column
from permafrost.metrics.objects.masks import (
    masks_of_objects,
    masks_of_rasters,
    moved,
    rasters_of,
    ring_of,
    texts_of,
    united,
)
from permafrost.metrics.objects.shapes import MaskShape
from permafrost.probes.detection.layers import enlarger, rows_of, tower
from permafrost.probes.detection.pyramid import REACH, Pyramid
from permafrost.probes.detection.shapes.shape import HeadShape
from permafrost.probes.detection.shapes.upright import UprightHead

STRIDE = 4
# channels of the canvas, and of the filters between it and the mask
CHANNELS = 8
# parameters of a cell's three filters; two channels are distances
SIZES = ((CHANNELS + 2) * CHANNELS, CHANNELS, CHANNELS * CHANNELS, CHANNELS, CHANNELS, 1)
# places of masks that are drawn at once; in training, further cells of a batch have no loss of masks
MOST_PLACES = 1 << 20
# least samples per side of a place, when masks are brought to the canvas
FINE = 4


def canvas_size(pyramid: Pyramid) -> tuple[int, int]:
    """Height and width of the canvas."""
    height, width = pyramid.levels[-1].size
    return height << _doublings(pyramid), width << _doublings(pyramid)


def _doublings(pyramid: Pyramid) -> int:
    return max(0, round(math.log2(pyramid.levels[-1].step / STRIDE)))


class Branch(nn.Module):
    """The canvas, and the filters of every cell with its centre and reach, in places of the canvas."""

    def __init__(self, hidden: int, depth: int, pyramid: Pyramid) -> None:
        super().__init__()
        self.tower = tower(hidden, depth)
        self.enlarge = nn.Sequential(*(enlarger(hidden) for _ in range(_doublings(pyramid))))
        self.canvas = nn.Conv2d(hidden, CHANNELS, 1)
        self.filters = nn.Conv2d(hidden, sum(SIZES), 1)
        nn.init.normal_(self.filters.weight, std=0.01)
        nn.init.zeros_(self.filters.bias)
        height, width = canvas_size(pyramid)
        step = np.array(pyramid.working_size[::-1]) / (width, height)
        about = np.hstack([pyramid.centres / step, REACH * pyramid.strides[:, :1] / step[:1]])
        self.register_buffer("about", torch.from_numpy(about.astype(np.float32)), persistent=False)

    def forward(
        self, finest: torch.Tensor, towers: list[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        canvas = self.canvas(self.enlarge(self.tower(finest))).float()
        filters = torch.cat([rows_of(self.filters(x)) for x in towers], dim=1)
        return torch.cat([filters, self.about.expand(len(filters), -1, -1)], dim=2), canvas


def drawn_logits(filters: torch.Tensor, canvas: torch.Tensor) -> torch.Tensor:
    """(n, H, W) logits of the masks of n cells, from their filters (n, F) and canvases (n, C, H, W)."""
    *parts, middle, reach = filters.split([*SIZES, 2, 1], dim=1)
    height, width = canvas.shape[-2:]
    along = [
        torch.arange(side, device=canvas.device, dtype=canvas.dtype) + 0.5
        for side in (width, height)
    ]
    x, y = ((middle[:, i, None] - along[i]) / reach for i in (0, 1))
    distances = torch.stack(
        [x[:, None].expand(-1, height, -1), y[:, :, None].expand(-1, -1, width)], dim=1
    )
    out = torch.cat([canvas, distances], dim=1).flatten(2)
    for i in (0, 2, 4):
        weights = parts[i].reshape(len(out), -1, out.shape[1])
        out = torch.baddbmm(parts[i + 1][:, :, None], weights, out)
        out = functional.relu(out) if i < 4 else out
    return out.reshape(-1, height, width)


def dice_loss(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """(n,) 1 - 2 sum(p t) / (sum(p^2) + sum(t^2)) of masks (n, H, W) (Milletari et al. 2016)."""
    share, truth = torch.sigmoid(logits).flatten(1), truth.flatten(1)
    both = (share * truth).sum(dim=1)
    return 1 - 2 * both / ((share * share).sum(dim=1) + (truth * truth).sum(dim=1) + 1e-5)


class InstanceHead(UprightHead):
    """Masks of objects, with upright boxes."""

    compared = MaskShape()

    def branch(self, hidden: int, depth: int, pyramid: Pyramid) -> nn.Module:
        return Branch(hidden, depth, pyramid)

    def mask_losses(self, output, chosen) -> tuple[torch.Tensor, ...]:
        """Mean Dice loss of the cells, or of evenly spaced ones of them if they exceed `MOST_PLACES`."""
        assert output.filters is not None and output.canvas is not None
        places = output.canvas.shape[-2] * output.canvas.shape[-1]
        step = max(1, math.ceil(len(chosen.cells) * places / MOST_PLACES))
        rows = np.arange(0, len(chosen.cells), step)
        if not len(rows):
            # no object: the filters still need a gradient
            return ((output.filters.sum() + output.canvas.sum()) * 0,)
        truth = np.stack([chosen.masks.dense(row) for row in rows.tolist()])
        cells = torch.from_numpy(chosen.cells[rows]).to(output.canvas.device)
        samples = cells // output.filters.shape[1]
        logits = drawn_logits(output.filters.flatten(0, 1)[cells], output.canvas[samples])
        return (dice_loss(logits, torch.from_numpy(truth).to(logits)).mean(),)

    def drawings(self, split, pyramid: Pyramid) -> Masks:
        """The visible pixels of objects on the canvas: places of which at least half belongs to the object; for an
        object that fills half of no place, those of which it fills most."""
        size = canvas_size(pyramid)
        parts = [
            self._on_canvas(objects, split, row, size) for row, objects in enumerate(split.objects)
        ]
        return Masks.joined([Masks.empty([], []), *parts])

    def _on_canvas(self, objects: Objects, split, row: int, size: tuple[int, int]) -> Masks:
        window = tuple(int(side) for side in split.sizes[row])
        image = [int(split.samples[name][row].as_py()) for name in ("image_height", "image_width")]
        seen = moved(masks_of_objects([objects], [image]), -split.origins[row], *window)
        rasters, corners = rasters_of(seen)
        drawn = [
            _resampled(raster, corner, window, size)
            for raster, corner in zip(rasters, corners, strict=True)
        ]
        placed = np.array([corner for _, corner in drawn], np.int64).reshape(-1, 2)
        sides = (np.full(len(drawn), side) for side in size)
        return masks_of_rasters([raster for raster, _ in drawn], placed, *sides)

    def with_masks(self, found, cells, output, row, size) -> Detected:
        """Pixels of the sample where the mask's logit, interpolated between places, is above 0, in the detection's
        box; without such a pixel, the whole box."""
        assert output.filters is not None and output.canvas is not None
        canvas, filters = output.canvas[row].detach(), output.filters[row].detach()
        most = max(1, MOST_PLACES // canvas[0].numel())
        rasters, corners = [], []
        for start in range(0, len(found), most):
            block = slice(start, start + most)
            own = filters[torch.from_numpy(cells[block]).to(filters.device)]
            logits = drawn_logits(own, canvas.expand(len(own), -1, -1, -1)).cpu().numpy()
            for logit, box in zip(logits, found.boxes[block], strict=True):
                raster, corner = _in_box(logit, box, size)
                rasters.append(raster)
                corners.append(corner)
        sides = (np.full(len(found), side) for side in size)
        masks = masks_of_rasters(rasters, np.reshape(corners, (-1, 2)), *sides)
        return Detected(found.boxes, found.classes, found.scores, masks=masks)

    def suppress(self, found: Detected, threshold: float) -> Detected:
        """By the IoU of masks; `rest` is by that of boxes, since masks are drawn only of what it keeps."""
        return found.take(HeadShape.rest(self, found, threshold))

    def joined(self, found: Detected, groups: list[list[int]]) -> Detected:
        assert found.masks is not None
        boxed = super().joined(found, groups)
        masks = united(found.masks, [np.array(group) for group in groups])
        return Detected(boxed.boxes, boxed.classes, boxed.scores, masks=masks)

    def coco_truth(self, objects: Objects, size: tuple[int, int]) -> list[dict]:
        return [
            {"segmentation": polygon or [ring_of(box)] if mask is None else _code(mask, size)}
            for polygon, box, mask in zip(
                objects.polygons, objects.boxes, objects.masks, strict=True
            )
        ]

    def coco_found(self, found: Detected) -> list[dict]:
        masks = found.masks
        assert masks is not None
        sizes = np.stack([masks.heights, masks.widths], axis=1).tolist()
        return [
            {"segmentation": _code(text, size)}
            for text, size in zip(texts_of(masks), sizes, strict=True)
        ]

    def columns(self, found: list[Detected]) -> dict[str, pa.Array]:
        return {MASKS: masks_column(found)}


def _code(text: str, size) -> dict:
    """COCO's compressed run lengths."""
    return {"size": list(size), "counts": text}


def _resampled(raster: np.ndarray, corner: np.ndarray, window, size) -> tuple[np.ndarray, tuple]:
    """A cut-out (h, w) of a window of (height, width) pixels as a cut-out of its canvas, and the corner there.

    The share of a place is that of `FINE` x `FINE` points in it, or of more, so that each pixel has one.
    """
    if not raster.size:
        return np.zeros((0, 0), bool), (0, 0)
    picked, first, fine = [], [], []
    for axis in (0, 1):
        ratio = window[axis] / size[axis]
        fine.append(max(FINE, math.ceil(ratio)))
        begin, end = corner[1 - axis], corner[1 - axis] + raster.shape[axis]
        places = np.arange(int(begin / ratio), min(size[axis], math.ceil(end / ratio)))
        points = (places[:, None] + (np.arange(fine[axis]) + 0.5) / fine[axis]).ravel() * ratio
        picked.append(np.floor(points).astype(np.int64) - begin)
        first.append(int(places[0]))
    inside = [(at >= 0) & (at < side) for at, side in zip(picked, raster.shape, strict=True)]
    values = raster[
        np.ix_(*(at.clip(0, side - 1) for at, side in zip(picked, raster.shape, strict=True)))
    ]
    values = values & inside[0][:, None] & inside[1]
    blocks = values.reshape(-1, fine[0], values.shape[1] // fine[1], fine[1])
    share = blocks.mean(axis=(1, 3))
    return (share >= min(0.5, share.max())) & (share > 0), (first[1], first[0])


def _in_box(logit: np.ndarray, box: np.ndarray, size) -> tuple[np.ndarray, tuple[int, int]]:
    """Pixels of a box in a sample of (height, width) pixels where the logits (H, W) of the canvas are above 0."""
    left, top = (max(0, math.floor(edge)) for edge in box[:2])
    right, bottom = (
        min(side, math.ceil(edge)) for side, edge in zip(size[::-1], box[2:], strict=True)
    )
    rows, low, part = _between(top, bottom, logit.shape[0] / size[0], logit.shape[0])
    columns, near, share = _between(left, right, logit.shape[1] / size[1], logit.shape[1])
    lines = logit[rows] * (1 - part[:, None]) + logit[low] * part[:, None]
    values = lines[:, columns] * (1 - share) + lines[:, near] * share
    raster = values > 0
    return (raster if raster.any() else np.ones_like(raster)), (left, top)


def _between(begin: int, end: int, ratio: float, count: int):
    """The two places nearest to each pixel, and the weight of the second."""
    at = ((np.arange(begin, end) + 0.5) * ratio - 0.5).clip(0, count - 1)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, count - 1), (at - low).astype(np.float32)
