"""Image stores of series whose classes differ only in when they are green."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import write_store
from permafrost.data.store.card import write_card
from permafrost.data.store.image_store import StoredModality

from helpers.stores.images import IMAGES, SPLITS, Dataset, card_of, rgb_bands

GREEN, BROWN = np.array([60, 140, 60]), np.array([120, 90, 60])


class Seasons(Dataset):
    """Series of 4 to 6 dates, two of them green: in spring of class 0, in autumn of class 1.

    So the mean over dates tells nothing, nor do dates whose days are not known.

    Parameters
    ----------
    masks : the task is segmentation, and each quarter of an image has a class of its own.
    dated : whether the dates are known.
    ragged : whether sizes differ between series.
    """

    def __init__(
        self,
        folder: Path,
        *,
        samples=(200, 60, 100),
        side: int = 8,
        masks: bool = False,
        dated: bool = True,
        ragged: bool = False,
    ) -> None:
        self.folder, self.masks, self.bands = folder, {}, rgb_bands()
        self.pixels, self.days, self.labels, self.sizes = {}, {}, {}, {}
        draw = np.random.default_rng(5)
        for split, count in zip(SPLITS, samples, strict=True):
            if masks:
                quarters = draw.integers(0, 2, (count, 2, 2))
                classes = quarters.repeat(side // 2, axis=1).repeat(side // 2, axis=2)
                self.masks[split] = classes.astype(np.uint8)
            else:
                self.labels[split] = draw.integers(0, 2, count)
                classes = np.broadcast_to(self.labels[split][:, None, None], (count, side, side))
            self.days[split] = [self._some_days(draw) for _ in range(count)]
            self.pixels[split] = np.zeros((count, 6, 3, side, side), np.uint8)
            for image, of, days in zip(self.pixels[split], classes, self.days[split], strict=True):
                for place, day in enumerate(days):
                    green = (of == 0) if 70 <= day < 130 else (of == 1) & (220 <= day < 280)
                    colour = np.where(green[..., None], GREEN, BROWN)
                    noisy = colour + draw.normal(0, 12, 3) + draw.normal(0, 12, colour.shape)
                    image[place] = noisy.clip(0, 255).transpose(2, 0, 1)
            self.sizes[split] = draw.integers(side // 2 if ragged else side, side + 1, (count, 2))
            self._write_series(split, dated)
        dense = {"task": "segmentation", "ignore_index": 255} if masks else {}
        card = card_of(self.bands, dates="series", classes=["early", "late"], **dense)
        write_card(folder / "card.json", card)

    def _some_days(self, draw: np.random.Generator) -> list[int]:
        """Two days of spring, two of autumn, and up to two in which nothing is green."""
        between = draw.choice([*range(10, 60), *range(140, 210), *range(290, 365)], 2)
        days = [*draw.integers(70, 130, 2), *draw.integers(220, 280, 2)]
        return sorted(map(int, [*days, *between[: draw.integers(0, 3)]]))

    def _write_series(self, split: str, dated: bool) -> None:
        pixels, days = self.pixels[split], self.days[split]
        with write_store(self.folder / f"{split}.zarr", fingerprint=IMAGES) as writer:
            writer.array("images", pixels.shape, pixels.dtype, rows_per_chunk=16)[:] = pixels
            if self.masks:
                masks = self.masks[split]
                writer.array("masks", masks.shape, masks.dtype, rows_per_chunk=16)[:] = masks
            else:
                labels = self.labels[split]
                writer.array("labels", labels.shape, np.int64, rows_per_chunk=512)[:] = labels
            first = date(2019, 1, 1)
            texts = [[str(first + timedelta(day - 1)) for day in one] for one in days]
            names = [f"{split}-{i}" for i in range(len(pixels))]
            height, width = self.sizes[split].T.astype(np.int32)
            columns = {"sample_id": names, "group_id": names, "height": height, "width": width}
            unknown = [[None] * len(one) for one in texts]
            dates = pa.array(texts if dated else unknown, pa.list_(pa.string()))
            writer.samples(pa.table({**columns, "dates": dates}))
            series = StoredModality.of(None, True, range(3), series=True)
            writer.attributes["modalities"] = [series.as_json()]
