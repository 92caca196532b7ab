"""Geometric augmentation of training images: flips, rotations, crops. Pixel values are not changed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch.nn import functional

from permafrost.features.reading import Batch
from permafrost.features.running import Run, fed_images
from permafrost.probes.fine_tune.options import AugmentationOptions

# range of width / height of crops, as in Szegedy et al. 2015
RATIOS = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class Augmentation:
    """The enabled augmentations.

    Attributes
    ----------
    flip : mirror left and right, and top and bottom, each with probability 1/2.
    rotate : rotate by 0, 90, 180 or 270 degrees; images that are not square by 0 or 180.
    crop : smallest and largest share of an image's area that is cropped and enlarged; None: the whole image.
    """

    flip: bool
    rotate: bool
    crop: tuple[float, float] | None

    @classmethod
    def of(cls, options: AugmentationOptions, *, masked: bool) -> Augmentation | None:
        """From a probe's options; None without any augmentation. Images with masks are not cropped."""
        crop = (
            None
            if masked or options.crop is None
            else cast(tuple[float, float], tuple(options.crop))
        )
        found = cls(options.flip, options.rotate, crop)
        return found if found != cls(False, False, None) else None

    @property
    def described(self) -> dict:
        crop = None if self.crop is None else list(self.crop)
        return {"flip": self.flip, "rotate": self.rotate, "crop": crop}

    def drawn(self, generator: np.random.Generator, count: int) -> Change:
        """Draw changes for `count` images; always consumes the same random numbers, so options do not shift them."""
        numbers = generator.random((count, 7))
        flips = (numbers[:, :2] < 0.5) & self.flip
        turns = (numbers[:, 2] * 4).astype(np.int64) * self.rotate
        return Change(flips, turns, numbers[:, 3:] if self.crop else None, self.crop)


@dataclass(frozen=True)
class Change:
    """The changes of the images of a batch.

    Attributes
    ----------
    flips : (n, 2) whether columns, and rows, are mirrored.
    turns : (n,) number of quarter turns.
    places : (n, 4) numbers in [0, 1) that define a crop: area, ratio, top, left; None: no crop.
    areas : smallest and largest share of the area of a crop.
    """

    flips: np.ndarray
    turns: np.ndarray
    places: np.ndarray | None
    areas: tuple[float, float] | None

    def cropped(self, stored: Batch, run: Run) -> torch.Tensor:
        """Crops of stored images, prepared like whole images: (n, C, H, W)."""
        if self.places is None:
            return fed_images(run, stored)
        parts = []
        for number, place in enumerate(self.places):
            height, width = int(stored.heights[number]), int(stored.widths[number])
            top, left, rows, columns = crop_box(height, width, place, self.areas)
            pixels = stored.pixels[number : number + 1, :, top : top + rows, left : left + columns]
            image = run.prepare(pixels)
            if run.prepare.plan.size is None and image.shape[2:] != (height, width):
                image = functional.interpolate(
                    image, (height, width), mode="bilinear", align_corners=False
                )
            parts.append(image)
        layout = torch.channels_last if run.channels_last else torch.contiguous_format
        return torch.cat(parts).contiguous(memory_format=layout)

    def told(self, stored: Batch) -> Batch:
        """The stored images with the metadata of their crops: same location, smaller ground sampling distance."""
        if self.places is None or "ground_distance_m" not in stored.told:
            return stored
        sizes = zip(stored.heights.tolist(), stored.widths.tolist(), self.places, strict=True)
        shares = [
            math.prod(crop_box(height, width, place, self.areas)[2:]) / (height * width)
            for height, width, place in sizes
        ]
        closer = stored.told["ground_distance_m"] * np.sqrt(shares, dtype=np.float32)
        return replace(stored, told={**stored.told, "ground_distance_m": closer})

    def turned(self, images: torch.Tensor, masks: torch.Tensor | None, target: torch.Tensor):
        """Images (n, C, H, W), flipped and rotated in place, and the target: masks likewise, others unchanged."""
        self._turn(images)
        if masks is None:
            return images, target
        masks = masks.clone()
        self._turn(masks)
        return images, masks

    def _turn(self, x: torch.Tensor) -> None:
        for axis, column in ((-1, 0), (-2, 1)):
            rows = _rows(self.flips[:, column], x)
            x[rows] = x[rows].flip(axis)
        square = x.shape[-1] == x.shape[-2]
        turns = self.turns if square else 2 * (self.turns % 2)
        for quarter in (1, 2, 3):
            rows = _rows(turns == quarter, x)
            if len(rows):
                x[rows] = torch.rot90(x[rows], quarter, (-2, -1))


def crop_box(height: int, width: int, place, areas) -> tuple[int, int, int, int]:
    """(top, left, height, width) of a crop in pixels, reduced to fit into the image."""
    area = (areas[0] + place[0] * (areas[1] - areas[0])) * height * width
    low, high = (math.log(ratio) for ratio in RATIOS)
    ratio = math.exp(low + place[1] * (high - low))
    rows = min(max(round(math.sqrt(area / ratio)), 1), height)
    columns = min(max(round(math.sqrt(area * ratio)), 1), width)
    return int(place[2] * (height - rows + 1)), int(place[3] * (width - columns + 1)), rows, columns


def _rows(chosen: np.ndarray, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.flatnonzero(chosen)).to(x.device)
