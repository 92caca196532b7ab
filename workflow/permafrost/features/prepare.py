"""From stored pixels to the tensor that a backbone is fed, on its device, and what identifies that tensor."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from permafrost.backbones.contract import InputPlan
from permafrost.data.image_store import ImageStore


class Preparer:
    """Normalise (and clip, where that is wanted), then resize, then crop.

    Each image is treated by itself, so the result does not depend on how images are batched.

    Parameters
    ----------
    plan : what is to be made of the stored bands.
    device : where the work is done.
    channels_last : memory layout of the result.
    """

    def __init__(
        self, plan: InputPlan, device: torch.device, *, channels_last: bool = False
    ) -> None:
        self.plan, self.device = plan, device
        #: rows of the image store that are read, in the order fed
        self.stored = [channel.index for channel in plan.channels if channel.index is not None]
        self._filled = [i for i, channel in enumerate(plan.channels) if channel.index is not None]
        real = [channel for channel in plan.channels if channel.index is not None]
        self._center = self._constant([channel.center for channel in real])
        self._gain = self._constant([channel.gain for channel in real])
        self._raw = all(channel.center == 0 and channel.gain == 1 for channel in real)
        self._format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, stored: torch.Tensor) -> torch.Tensor:
        """(B, stored bands, H, W) of any numeric type, all of one true size -> (B, C, S, S) float32."""
        pixels = stored.to(self.device, non_blocking=True)
        pixels = pixels.to(torch.float32, memory_format=self._format, copy=True)
        if not self._raw:
            pixels = pixels.sub_(self._center).mul_(self._gain)
        if self.plan.clip:
            pixels = pixels.clamp_(0, 1)
        if len(self._filled) < len(self.plan):
            whole = pixels.new_zeros(len(pixels), len(self.plan), *pixels.shape[2:])
            whole[:, self._filled] = pixels
            pixels = whole.contiguous(memory_format=self._format)
        return self._crop(self._resize(pixels))

    def _resize(self, pixels: torch.Tensor) -> torch.Tensor:
        size = self.plan.size
        if size is None or pixels.shape[2:] == (size, size):
            return pixels
        smooth = self.plan.interpolation in ("bilinear", "bicubic")
        return F.interpolate(
            pixels,
            size=(size, size),
            mode=self.plan.interpolation,
            align_corners=False if smooth else None,
            antialias=self.plan.antialias and smooth,
        )

    def _crop(self, pixels: torch.Tensor) -> torch.Tensor:
        crop = self.plan.crop
        if crop is None or pixels.shape[2:] == (crop, crop):
            return pixels
        top, left = ((side - crop) // 2 for side in pixels.shape[2:])
        return pixels[:, :, top : top + crop, left : left + crop].contiguous(
            memory_format=self._format
        )

    def _constant(self, values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device).view(1, -1, 1, 1)


IMAGES = 32


class FedImages:
    """Single images of a store as a backbone is fed them, by position.

    The stored chunk read last is kept, so positions are best asked for in rising order.
    """

    def __init__(self, store: ImageStore, prepare: Preparer) -> None:
        self._store, self._prepare = store, prepare
        self._heights, self._widths = store.heights, store.widths
        self._rows = store.store.chunk_rows("images")
        self._chunk: tuple[int, np.ndarray] | None = None

    def __call__(self, position: int) -> torch.Tensor:
        """(C, H, W) float32, on the preparer's device."""
        start = position // self._rows * self._rows
        if self._chunk is None or self._chunk[0] != start:
            stop = min(start + self._rows, len(self._store))
            self._chunk = (start, self._store.store.read("images", start, stop))
        height, width = self._heights[position], self._widths[position]
        pixels = self._chunk[1][position - start][self._prepare.stored, :height, :width]
        return self._prepare(torch.from_numpy(pixels[None]))[0]


def tensor_fingerprint(train: ImageStore, prepare: Preparer) -> dict[str, list[float]]:
    """Mean, std, min and max per channel of the tensor made of the first 32 train images.

    It does not depend on the batch size: every image is prepared by itself.
    """
    fed = FedImages(train, prepare)
    images = [fed(position).cpu().double().numpy() for position in range(min(IMAGES, len(train)))]
    pixels = np.concatenate([image.reshape(len(image), -1) for image in images], axis=1)
    return {
        "mean": pixels.mean(axis=1).tolist(),
        "std": pixels.std(axis=1).tolist(),
        "min": pixels.min(axis=1).tolist(),
        "max": pixels.max(axis=1).tolist(),
    }
