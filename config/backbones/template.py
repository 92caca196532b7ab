"""A backbone of your own, to be copied. This file works as it is, and is tested.

The contract
------------
1. An entry names a function: ``{kind: entrypoint, entrypoint: path/to/file.py:build}`` (the path is
   relative to the project's folder) or ``entrypoint: package.module:build``.
2. It is called once, ``build(inputs, **options)``; ``options`` come from the entry, and ``weights`` is
   among them, as a path, where the entry has ``weights: {source: file, path: …}``.
3. ``inputs`` says what will be fed: ``len(inputs)`` channels, ``inputs.names``, ``inputs.wavelengths_nm``
   (None where unknown), ``inputs.side`` in pixels (None: native sizes).
4. It returns a ``torch.nn.Module`` that takes float32 ``(B, C, H, W)``, already normalised and resized as
   the entry's ``input`` says, and is used in evaluation mode without gradients, on any device.
5. The module returns ``(B, K)``; or tokens ``(B, T, K)`` with the attribute ``num_prefix_tokens`` (class token
   first, then registers); or maps ``(B, C, H, W)``, or ``(B, H, W, C)`` with ``layout = "NHWC"``; or a mapping
   with one of these under ``norm``, ``global_pool`` or ``head.global_pool``. The entry's ``pooling`` applies.
6. For segmentation, maps are taken from layers while they are called: from those in the attribute ``layers``,
   names of submodules from coarse to fine, or from ``layers`` of the entry. Each returns ``(B, C)``, tokens
   ``(B, T, C)`` or maps as in 5, once per forward pass. Tokens need the attribute ``grid``: their (rows, columns),
   or a function of the height and width fed; they come row by row after ``num_prefix_tokens`` others.
   ``layer_layouts`` maps layers to NCHW, NHWC or tokens if not in ``layout``. ``depths`` counts from the last layer.
7. With ``input: {dates: all}`` it takes all dates of a sample, ``(B, T, C, H, W)``, see docs/dates-and-change.md.
   A ``forward`` with keywords of these names is told, of images whose dataset knows it for all of them:
   ``place`` float32 ``(B, 2)`` longitude and latitude in degrees, ``dates`` int64 ``(B, 2)`` year and day of the year
   from 1 (of all dates ``(B, T, 2)``), ``ground_distance_m`` float32 ``(B,)`` between pixels as fed. Give them the
   default None, or the datasets that lack them are refused. ``input: {metadata: withheld}`` keeps them away.
8. Random weights drawn inside ``build`` follow the entry's ``seed``. The file, the modules of your own that it
   imports, the weights file and every other file that it opens identify the backbone: a change of their content
   runs its jobs again. List under ``files`` only what a library in C opens (rasterio, HDF5, safetensors).
"""

from __future__ import annotations

import torch
from torch import nn


class PatchTokens(nn.Module):
    """Non-overlapping patches, projected, with their mean in front as a class token."""

    num_prefix_tokens = 1
    layers = ("mix", "project")

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.patch = patch
        self.project = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)
        self.mix = nn.Linear(width, width)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the patch tokens of an image of this size."""
        return height // self.patch, width // self.patch

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, 1 + patches, width)."""
        tokens = self.project(images).relu().flatten(2).transpose(1, 2)
        return self.mix(torch.cat([tokens.mean(dim=1, keepdim=True), tokens], dim=1))


def build(inputs, *, patch: int = 16, width: int = 64, weights: str | None = None) -> nn.Module:
    """The backbone; `patch` and `width` are options of the entry, `weights` a state dict of this module."""
    model = PatchTokens(len(inputs), patch, width)
    if weights is not None:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return model
