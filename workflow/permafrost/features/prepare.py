"""Turn stored pixels into the input tensor of a backbone, and summarise that tensor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from permafrost.backbones.input.contract import Channel, InputPlan
from permafrost.backbones.input.scaling import POWER_FLOOR
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore
from permafrost.features.reading import SampleReader


class _Part(NamedTuple):
    """The channels of one modality: positions in the input, and normalization."""

    places: list[int]
    center: torch.Tensor
    gain: torch.Tensor
    #: whether stored values are used without normalization
    raw: bool
    #: channels converted from linear power to dB: positions, scale and offset before the logarithm
    power: tuple[list[int], torch.Tensor, torch.Tensor] | None


class Preparer:
    """Normalizes pixels (and clips them if the plan says so), then resizes, then crops.

    Each image is processed separately, so the result does not depend on the batch.

    Parameters
    ----------
    plan : bands, normalization, size and crop.
    device : for computation and result.
    channels_last : memory layout of the result.
    """

    def __init__(
        self, plan: InputPlan, device: torch.device, *, channels_last: bool = False
    ) -> None:
        self.plan, self.device = plan, device
        #: positions of the bands in the card, in the order of the input channels
        self.stored = [channel.index for channel in plan.channels if channel.index is not None]
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        real = [(place, one) for place, one in enumerate(plan.channels) if one.index is not None]
        # modalities in the order of their bands, which is that of reading
        names = dict.fromkeys(
            one.modality for _, one in sorted(real, key=lambda pair: pair[1].index)
        )
        self._parts = [
            self._part([(place, one) for place, one in real if one.modality == name])
            for name in names or [None]
        ]

    def __call__(self, *stored: torch.Tensor) -> torch.Tensor:
        """Prepare a batch of images.

        Parameters
        ----------
        stored : (B, bands, H, W) of any numeric type for each modality; images of one size,
            unpadded.

        Returns
        -------
        (B, C, S, S) float32; (B, C, H, W) without resizing.

        Raises
        ------
        PermafrostError : images keep their native size, and the modalities differ in size.
        """
        if len(self._parts) == 1:
            (part,), (pixels,) = self._parts, stored
            pixels = self._normalised(part, pixels)
            if len(part.places) < len(self.plan):
                pixels = self._filled([(part, pixels)])
            return self._crop(self._resize(pixels))
        parts = zip(self._parts, stored, strict=True)
        resized = [(part, self._resize(self._normalised(part, pixels))) for part, pixels in parts]
        sizes = {tuple(pixels.shape[2:]) for _, pixels in resized}
        if len(sizes) > 1:
            shown = " and ".join(f"{height} x {width}" for height, width in sorted(sizes))
            raise PermafrostError(
                f"images keep their native size, and those of its modalities differ: {shown} pixels",
                where="input",
                remedy="set input.size of the backbone, or extraction.size, to which all are resized",
            )
        return self._crop(self._filled(resized))

    def _normalised(self, part: _Part, stored: torch.Tensor) -> torch.Tensor:
        pixels = stored.to(self.device, non_blocking=True)
        pixels = pixels.to(torch.float32, memory_format=self._format, copy=True)
        if part.power is not None:
            at, scale, offset = part.power
            power = pixels[:, at].mul_(scale).add_(offset)
            pixels[:, at] = power.clamp_(min=POWER_FLOOR).log10_().mul_(10)
        if not part.raw:
            pixels = pixels.sub_(part.center).mul_(part.gain)
        return pixels.clamp_(0, 1) if self.plan.clip else pixels

    def _filled(self, parts: list[tuple[_Part, torch.Tensor]]) -> torch.Tensor:
        """All input channels in order; channels without a band are filled with their constant."""
        first = parts[0][1]
        values = self._constant([channel.value for channel in self.plan.channels])
        whole = values.repeat(len(first), 1, *first.shape[2:])
        for part, pixels in parts:
            whole[:, part.places] = pixels
        return whole.contiguous(memory_format=self._format)

    def _part(self, channels: list[tuple[int, Channel]]) -> _Part:
        return _Part(
            [place for place, _ in channels],
            self._constant([channel.center for _, channel in channels]),
            self._constant([channel.gain for _, channel in channels]),
            all(channel.center == 0 and channel.gain == 1 for _, channel in channels),
            self._power([channel.power for _, channel in channels]),
        )

    def _power(self, units: list[tuple[float, float] | None]):
        at = [position for position, one in enumerate(units) if one is not None]
        if not at:
            return None
        scales, offsets = zip(*(one for one in units if one is not None), strict=True)
        return at, self._constant(list(scales)), self._constant(list(offsets))

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
    """Prepared input images of a store, by the position of their sample.

    A sample of a time series gives one date: the first sample its first, the second its second, and
    so on cyclically. The last chunk is cached, so access in ascending order is fastest.
    """

    def __init__(self, store: ImageStore, prepare: Preparer) -> None:
        self._prepare, self._count = prepare, len(store)
        self._reader = SampleReader(store, prepare.stored)
        self._rows = store.store.chunk_rows("images")
        self._chunk: tuple[int, list[np.ndarray]] | None = None

    def __call__(self, position: int) -> torch.Tensor:
        """(C, H, W) float32, on the preparer's device."""
        start = position // self._rows * self._rows
        if self._chunk is None or self._chunk[0] != start:
            stop = min(start + self._rows, self._count)
            self._chunk = (start, self._reader.stored(start, stop))
        here = [torch.from_numpy(one[position - start][None]) for one in self._chunk[1]]
        batch = self._reader.batch(position, np.array([position]), here)
        date = position % self._reader.counts[position]
        ((_, parts),) = batch.same_sizes()
        return self._prepare(*(part[date : date + 1] for part in parts))[0]


def tensor_fingerprint(train: ImageStore, prepare: Preparer) -> dict[str, list[float]]:
    """Mean, std, min and max of each input channel over the first 32 train images.

    They do not depend on the batch size, since each image is prepared separately.
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
