"""Input for profiling: noise in the shape of the dataset's images, and metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from permafrost.backbones.backbone import METADATA, Backbone
from permafrost.backbones.input.contract import InputPlan
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore
from permafrost.features.metadata import Telling, decide
from permafrost.features.prepare import FedImages, Preparer
from permafrost.features.reading import Batch, SampleReader
from permafrost.features.running import Run, told_of

if TYPE_CHECKING:
    from permafrost.data.store.card import Card


def stored_images(plan: InputPlan, card: Card, count: int) -> list[torch.Tensor]:
    """Noise for each input modality: (count, bands, H, W) float32, uniform in each band's train range.

    H and W are those of the dataset's largest image (see `several_sizes`). The seed is fixed. Noise
    is enough, since time and memory do not depend on the content of images.
    """
    sizes = {one["name"]: one["largest_size"] for one in card.modalities or []}
    fed = [card.bands[one.index] for one in plan.channels if one.index is not None]
    order = [band.get("modality") for band in card.bands]
    generator = torch.Generator().manual_seed(0)
    stored = []
    for name in sorted({band.get("modality") for band in fed}, key=order.index) or [None]:
        bands = [band for band in fed if band.get("modality") == name]
        low, high = (
            torch.tensor([float(band[end]) for band in bands]).view(1, -1, 1, 1)
            for end in ("min", "max")
        )
        size = sizes.get(name, card.image_size["max"])
        noise = torch.rand(count, len(bands), *size, generator=generator)
        stored.append(noise.mul_(high - low).add_(low))
    return stored


def told_sample(
    backbone: Backbone, stores: Callable[[], dict[str, Path]], card: Card, expect: str
) -> tuple[Telling, dict[str, np.ndarray]]:
    """Metadata as in extraction, and its values (1, …) for the train sample with most dates.

    `stores` is called only if the backbone accepts metadata.
    """
    if not backbone.takes & set(METADATA):
        return decide(backbone, (), card)[0], {}
    fed = [one.index for one in backbone.plan.channels if one.index is not None]
    readers = {
        split: SampleReader(ImageStore(path, expect=expect, split=split), fed)
        for split, path in stores().items()
    }
    telling, _ = decide(backbone, readers.values(), card)
    row = int(readers["train"].counts.argmax())
    told = telling.of(readers["train"])
    return telling, {name: values[row : row + 1] for name, values in told.items()}


def repeated_told(run: Run, sample: dict[str, np.ndarray], count: int) -> dict[str, torch.Tensor]:
    """The metadata of one sample repeated `count` times, on the device of the run."""
    told = {name: values.repeat(count, axis=0) for name, values in sample.items()}
    nothing = np.zeros(count, np.int64)
    return told_of(run, Batch(0, torch.empty(0), nothing, nothing, told=told))


def several_sizes(card: Card) -> bool:
    """Whether the dataset's images differ in size."""
    return card.image_size["min"] != card.image_size["max"]


class TrainImages:
    """Prepared train images; their store is opened at the first access.

    Few kinds of backbones need images to be built, so the image store may have been deleted.

    Parameters
    ----------
    stores : returns the paths of the image stores by split; recreates them if they were deleted.
    plan : of the input.
    expect : fingerprint of the image stores.
    count : expected number of train images.
    """

    def __init__(
        self, stores: Callable[[], dict[str, Path]], plan: InputPlan, expect: str, count: int
    ) -> None:
        self._stores, self._plan, self._expect, self._count = stores, plan, expect, count
        self._fed: FedImages | None = None

    def __call__(self, position: int) -> torch.Tensor:
        """(C, H, W) float32 on the CPU; raises `PermafrostError` if store and card do not match."""
        if self._fed is None:
            path = self._stores()["train"]
            store = ImageStore(path, expect=self._expect, split="train")
            if len(store) != self._count:
                raise PermafrostError(
                    f"the store has {len(store)} images, the card says {self._count}",
                    where=path,
                    remedy="delete the folder and run snakemake again",
                )
            self._fed = FedImages(store, Preparer(self._plan, torch.device("cpu")))
        return self._fed(position)
