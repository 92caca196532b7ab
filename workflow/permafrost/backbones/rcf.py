"""Random convolutional features (MOSAIKS: Rolf et al. 2021, doi:10.1038/s41467-021-24638-z).

Gives the same numbers as ``torchgeo.models.RCF`` with the same seed. Differences: a seed of 0 is
applied (torchgeo ignores it), and memory does not grow with the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from annotated_types import Ge, MultipleOf
from torch import nn

from permafrost.backbones.backbone import Backbone, Resources
from permafrost.backbones.entry import Seeded
from permafrost.backbones.input.contract import InputPlan, check_kernel
from permafrost.backbones.outputs.windows import (
    WindowMeans,
    window_counts,
    window_dense,
    window_sums,
)
from permafrost.core.errors import PermafrostError
from permafrost.core.options import Positive

# (images, positions) filtered at a time: fits into a core's cache, or fills a GPU
_AT_ONCE = {"cpu": (1, 4096), "cuda": (16, 65536)}
# window sizes of the feature maps in pixels; with finer ones, maps of 512 features would be huge
_STRIDES = (64, 32, 16, 8)


@dataclass(frozen=True, kw_only=True)
class RcfOptions(Seeded):
    """Random convolutions."""

    features: Annotated[int, Ge(2), MultipleOf(2)] = 512
    """Number of features, which is twice the number of filters."""
    kernel_size: Positive = 3
    """Height and width of the filters in pixels."""
    bias: float = -1.0
    """Added to every response before the ReLU."""
    mode: Literal["gaussian", "empirical"] = "gaussian"
    """Gaussian random filters, or whitened patches of train images (empirical)."""


class RandomConvolutions(nn.Module):
    """Spatial means of ``relu(w * x + b)`` and ``relu(-(w * x + b))`` for F/2 filters w.

    To save memory, responses are computed and averaged in strips. The second half follows from
    ``relu(-y) = relu(y) - y`` and the mean of y, which is the filters' response to the mean patch.

    If feature maps are needed, layers that average the responses over windows are added. There,
    pixels at the edge, without a complete patch, get the response of the nearest pixel with one.

    Parameters
    ----------
    filters : (F/2, C, k, k).
    bias : b of all filters.
    """

    def __init__(self, filters: torch.Tensor, bias: float) -> None:
        super().__init__()
        self.kernel_size = filters.shape[-1]
        self.register_buffer("filters", filters.flatten(1))
        self.register_buffer("biases", torch.full((len(filters), 1), float(bias)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, F)."""
        together, places = _AT_ONCE[images.device.type]
        windows = list(self.children())
        if windows:
            cell = math.gcd(*(one.size for one in windows))
            sums = torch.cat([self._cells(part, cell, places) for part in images.split(together)])
            counts = window_counts(*cast(tuple[int, int], images.shape[2:]), cell, images)
            for one in windows:
                one(sums, counts, cell)
        return torch.cat([self._means(part, places) for part in images.split(together)])

    def _means(self, images: torch.Tensor, places: int) -> torch.Tensor:
        patches = F.unfold(images, self.kernel_size)  # (b, C k k, places)
        filters = self.filters.expand(len(images), -1, -1)
        total = images.new_zeros(len(images), len(self.biases), dtype=torch.float64)
        for strip in patches.split(places, dim=2):
            total += torch.baddbmm(self.biases, filters, strip).relu_().sum(dim=2)
        positive = total / patches.shape[2]
        mean = torch.baddbmm(self.biases, filters, patches.mean(dim=2, keepdim=True)).squeeze(2)
        # rounding can give values just below zero
        negative = (positive - mean).clamp_min(0)
        return torch.cat([positive, negative], dim=1).float()

    def _cells(self, images: torch.Tensor, cell: int, places: int) -> torch.Tensor:
        """Sums of the responses (both halves) over windows of `cell` pixels: (b, F, rows, columns)."""
        height, width = images.shape[2:]
        before, after = (self.kernel_size - 1) // 2, self.kernel_size // 2
        filters = self.filters.unflatten(
            1, (images.shape[1], self.kernel_size, self.kernel_size)
        ).contiguous()
        step = cell * max(1, places // (cell * width))
        strips = []
        for top in range(0, height, step):
            # responses exist for rows from `before` to `height - after`, exclusive
            bottom = min(top + step, height)
            first = min(max(top, before), height - after - 1)
            last = max(min(bottom, height - after), first + 1)
            strip = images[:, :, first - before : last + after]
            responses = F.conv2d(strip, filters, self.biases[:, 0])
            responses = F.pad(
                responses,
                (before, after, max(0, first - top), max(0, bottom - last)),
                mode="replicate",
            )[:, :, max(0, top - first) : max(0, top - first) + bottom - top]
            strips.append(
                torch.cat(
                    [window_sums(responses.relu(), cell), window_sums((-responses).relu(), cell)], 1
                )
            )
        return torch.cat(strips, dim=2)


def build(options: RcfOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build random filters from the seed; raises `PermafrostError` if images are too small for them."""
    features, kernel = options.features, options.kernel_size
    check_kernel(kernel, plan.side, resources.where)
    generator = torch.Generator().manual_seed(options.seed)
    filters = torch.randn(features // 2, len(plan), kernel, kernel, generator=generator)
    if options.mode == "empirical":
        patches = train_patches(len(filters), kernel, generator, resources)
        filters = torch.from_numpy(whiten(patches))
    module, where = RandomConvolutions(filters, options.bias), resources.where
    return Backbone(
        module, plan, where, dense=lambda: window_dense(module, _STRIDES, WindowMeans, where)
    )


def train_patches(
    count: int, kernel: int, generator: torch.Generator, resources: Resources
) -> np.ndarray:
    """Random patches (count, C, kernel, kernel) float32 of prepared train images.

    Random numbers are drawn in the order of ``torchgeo.models.RCF``: all images, all rows, all
    columns. If image sizes differ, positions are drawn for the first train image and clipped to the
    others.

    Raises
    ------
    PermafrostError : an image is smaller than the kernel.
    """
    first = resources.train_image(0)
    height, width = first.shape[1:]
    if min(height, width) <= kernel:
        raise PermafrostError(
            f"train images of {height} x {width} pixels have no room for kernel_size {kernel}",
            where=resources.where,
        )
    images = torch.randint(0, resources.train_count, (count,), generator=generator).tolist()
    rows = torch.randint(0, height - kernel, (count,), generator=generator).tolist()
    columns = torch.randint(0, width - kernel, (count,), generator=generator).tolist()
    patches = np.empty((count, first.shape[0], kernel, kernel), np.float32)
    for i in sorted(range(count), key=images.__getitem__):
        pixels = resources.train_image(images[i])
        row = min(rows[i], pixels.shape[1] - kernel)
        column = min(columns[i], pixels.shape[2] - kernel)
        if min(row, column) < 0:
            raise PermafrostError(
                f"train image {images[i]} is smaller than kernel_size {kernel}",
                where=resources.where,
                remedy="set input.size",
            )
        patches[i] = pixels[:, row : row + kernel, column : column + kernel].numpy()
    return patches


def whiten(patches: np.ndarray, bias: float = 0.001, smallest: float = 1e-8) -> np.ndarray:
    """ZCA-whiten patches, twice as in MOSAIKS, so that filtering whitens both image and filter.

    Each patch is centred and scaled to unit norm. With the covariance ``V diag(e) V'`` of all
    patches and ``Z = V diag((e + bias)^-1/2) V'``, the result is ``patches Z Z'``.

    Parameters
    ----------
    patches : (n, C, k, k) float32.
    bias : regularisation of the eigenvalues.
    smallest : patches with a smaller norm (constant ones) are not scaled.
    """
    flat = patches.reshape(len(patches), -1).astype(np.float64)
    flat -= flat.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    flat /= np.where(norms < smallest, 1.0, norms)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    # Z Z' = V diag(1 / (e + bias)) V'
    whitening = (vectors / (np.maximum(values, 0.0) + bias)) @ vectors.T
    return (flat @ whitening).reshape(patches.shape).astype(np.float32)
