"""Images of two sensors in which each shows objects that the other does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers.datasets.images import geotiff
from helpers.datasets.tortilla import box_table, hdf5, item, sample, tortilla, written

#: pixels of the side of optical images; those of radar are half as many
SIDE = 48
CLASSES = ["field", "ship"]
DAYS = [20200105, 20200301, 20200617]


class Scenes:
    """Samples with boxes: ships that only radar shows, and fields that only optical images of the first date show.

    Attributes
    ----------
    optical : (N, T, 3, SIDE, SIDE) uint8. radar : (N, T, 2, SIDE / 2, SIDE / 2) float32 decibels.
    boxes, labels : of each sample, in pixels of the optical images.
    """

    def __init__(self, counts=(40, 12, 16), *, dates: int = 1, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        number = sum(counts)
        self.splits = np.repeat(["train", "validation", "test"], counts).tolist()
        self.dates = dates
        self.optical = draw.normal(60, 6, (number, dates, 3, SIDE, SIDE)).astype(np.uint8)
        self.radar = draw.normal(-16, 1, (number, dates, 2, SIDE // 2, SIDE // 2)).astype("f4")
        self.boxes: list[list[tuple[int, ...]]] = []
        self.labels: list[list[str]] = []
        for optical, radar in zip(self.optical, self.radar, strict=True):
            # one of each class, left and right, between pixels of both sensors
            sides, tops = 2 * draw.integers(4, 8, 2), 2 * draw.integers(0, SIDE // 4, 2)
            lefts = 2 * draw.integers(0, 4, 2) + [0, SIDE // 2]
            right, low = lefts + sides, tops + sides
            boxes = np.stack([lefts, tops, right, low], axis=1)
            (x, y, x2, y2), ship = boxes[0], boxes[1] // 2
            optical[0, :, y:y2, x:x2] += 90
            radar[..., ship[1] : ship[3], ship[0] : ship[2]] += 12
            self.boxes.append([tuple(map(int, box)) for box in boxes])
            self.labels.append(CLASSES)

    def write(self, folder: Path) -> str:
        """The path of a tortilla file with all samples."""
        samples = []
        for number, split in enumerate(self.splits):
            table = box_table(self.boxes[number], self.labels[number])
            parts = [
                self._part("s2", self.optical[number]),
                self._part("s1", self.radar[number]),
                item("boxes", table, "GeoParquet"),
            ]
            samples.append(sample(f"s{number}", parts, split))
        return str(written(folder, tortilla(samples)))

    def _part(self, name: str, images: np.ndarray) -> dict:
        if self.dates == 1:
            return item(name, geotiff(images[0]))
        return item(name, hdf5(images), "HDF5", dates=DAYS[: self.dates])

    def entry(self, path: str, **more) -> dict:
        """The entry of a dataset of both sensors."""
        # radar stands first here: which sensor boxes are of, modalities say
        images = {"s1": "s1", "s2": "s2"}
        return {
            "task": "detection",
            "dates": "one" if self.dates == 1 else "series",
            "modalities": {
                "s2": {
                    "bands": [{"name": name} for name in ("red", "green", "blue")],
                    "units": {"unit": "uint8"},
                },
                "s1": {"bands": [{"name": "VV"}, {"name": "VH"}], "units": {"unit": "db"}},
            },
            "classes": CLASSES,
            "source": {"kind": "tortilla", "path": path, "image": images, "boxes": "boxes"},
            **more,
        }
