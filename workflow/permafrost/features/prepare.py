"""From stored pixels to the tensor that a backbone is fed, on the device it runs on."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from permafrost.backbones.contract import InputPlan


class Preparer:
    """Normalise, then resize, then crop: all of it linear, so the order changes only rounding.

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
