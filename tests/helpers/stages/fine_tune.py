"""Image stores with something to learn, a backbone of two convolutions, and the probe run over both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import write_store
from permafrost.core.tables import read_table
from permafrost.data.store.card import write_card

from helpers.backbones import validated
from helpers.stages.probe_jobs import configured, job_of, run_probe
from helpers.stages.specifications import extraction_of, specification
from helpers.stores.images import IMAGES, SPLITS, card_of, rgb_bands

BACKBONE = """
import torch
from torch import nn


class Toy(nn.Module):
    layers = ("second", "first")

    def __init__(self, channels, norm, fixed):
        super().__init__()
        self.first = nn.Conv2d(channels, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8) if norm else nn.Identity()
        self.second = nn.Conv2d(8, 12, 3, stride=2, padding=1)
        self.fixed = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, images):
        return self.second(self.norm(self.first(images)).relu()).relu() * self.fixed


def build(inputs, *, norm=False, fixed=False):
    return Toy(len(inputs), norm, fixed)
"""


def options(**changes) -> dict:
    """All options of the probe, filled by the schema; small ones unless `changes` says otherwise."""
    small = {"epochs": 3, "head_epochs": 3, "head_learning_rate": 1e-3, "batch_size": 8}
    small |= {"hidden": 8, "pictures": 2}
    return configured("fine_tune", **{**small, **changes})


class Scenes:
    """Stores of images with stripes: which way they run is the class, or differs from place to place.

    Parameters
    ----------
    task : classification, multilabel, regression or segmentation.
    counts : images of train, val, test.
    classes : that occur, of three; only in `classification`.
    sides : of the images, one drawn for each.
    known : place and date of every image, another for each, and the ground distance of a pixel.
    """

    def __init__(
        self,
        folder: Path,
        task="classification",
        *,
        counts=(24, 12, 12),
        classes=3,
        sides=(16,),
        known=False,
    ) -> None:
        self.folder, self.task, self.known = folder, task, known
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "toy.py").write_text(BACKBONE)
        rng = np.random.default_rng(0)
        for split, count in zip(SPLITS, counts, strict=True):
            self._write(split, count, classes, sides, rng)
        dense = task == "segmentation"
        more = {"ignore_index": 255, "dead_classes": []} if dense else {}
        if task == "regression":
            more = {"classes": [], "target": {"name": "height", "unit": "m"}}
        more |= {"gsd_m": 10.0} if known else {}
        write_card(folder / "card.json", card_of(rgb_bands(), task=task, **more))

    def _write(self, split: str, count: int, classes: int, sides, rng) -> None:
        side = max(sides)
        kinds = rng.permutation(np.arange(count) % classes)
        chosen = rng.choice(sides, count)
        sizes = np.stack([chosen, chosen], axis=1).astype(np.int32)
        cells = np.broadcast_to(kinds[:, None, None], (count, side, side)).copy()
        if self.task == "segmentation":
            halves = np.arange(side) < side // 2
            cells = np.where(halves, kinds[:, None, None], (kinds[:, None, None] + 1) % 3)
            cells = np.broadcast_to(cells, (count, side, side)).astype(np.uint8)
        place = np.arange(side)
        looks = np.stack(
            [
                np.broadcast_to(place[None, :] % 4 < 2, (side, side)),
                np.broadcast_to(place[:, None] % 4 < 2, (side, side)),
                (place[None, :] + place[:, None]) % 4 < 2,
            ]
        )
        pattern = np.take_along_axis(looks[None], cells[:, None].astype(np.int64), axis=1)
        pixels = 60 + 120 * pattern + rng.integers(0, 30, (count, 3, side, side))
        with write_store(self.folder / f"{split}.zarr", fingerprint=IMAGES) as writer:
            stored = writer.array("images", pixels.shape, np.uint8, rows_per_chunk=5)
            if count:
                stored[:] = pixels
            self._targets(writer, kinds, cells)
            names = [f"{split}-{i:02}" for i in range(count)]
            groups = pa.array([f"g{i // 3}" for i in range(count)], pa.string())
            heights, widths = (pa.array(sizes[:, axis], pa.int32()) for axis in (0, 1))
            writer.samples(
                pa.table(
                    {
                        "sample_id": pa.array(names, pa.string()),
                        "group_id": groups,
                        "height": heights,
                        "width": widths,
                        **self._known(SPLITS.index(split), count),
                    }
                )
            )

    def _known(self, split: int, count: int) -> dict:
        """Columns with place and date, where they are known."""
        if not self.known:
            return {}
        rows = np.arange(count)
        days = np.datetime64(f"{2019 + split}-01-01") + 7 * rows
        return {"lon": split + rows / 2, "lat": 45 + split + rows / 4, "date": days.astype(str)}

    def _targets(self, writer, kinds, cells) -> None:
        values = {
            "classification": kinds.astype(np.int64),
            "multilabel": np.eye(3, dtype=np.uint8)[kinds],
            "regression": kinds.astype(np.float64) * 10,
            "segmentation": cells,
        }[self.task]
        name = "masks" if self.task == "segmentation" else "labels"
        array = writer.array(name, values.shape, values.dtype, rows_per_chunk=5)
        if len(values):
            array[:] = values

    def entry(self, **changes) -> dict:
        return {"kind": "entrypoint", "entrypoint": f"{self.folder / 'toy.py'}:build", **changes}

    def spec(self, entry=None, *, seed=0, size=16, **changes) -> dict:
        maps = {"maps": True} if self.task == "segmentation" else {}
        return {
            "stage": "fine_tune",
            "dataset": "tiny",
            "backbone": "toy",
            "probe": "tune",
            "seed": seed,
            "entry": validated(entry or self.entry()),
            "extraction": {"size": size, "interpolation": "bilinear", "antialias": False, **maps},
            "files": {},
            "options": options(**changes),
            "inputs": {"images": IMAGES, "backbone": "b" * 32},
        }

    @property
    def stores(self) -> dict[str, Path]:
        return {split: self.folder / f"{split}.zarr" for split in SPLITS}

    def job(self, entry=None, **changes):
        """What the probe's command makes of the spec."""
        return job_of(self.spec(entry, **changes), self.stores, card=self.folder / "card.json")

    def tune(self, entry=None, *, out="tuned", memory=None, device="cpu", **changes):
        """(table, metadata) of the probe's predictions."""
        return self.tune_as(self.spec(entry, **changes), out=out, memory=memory, device=device)

    def tune_as(self, spec: dict, *, out="tuned", memory=None, device="cpu"):
        path = self.folder / f"{out}.parquet"
        run_probe(
            spec,
            self.stores,
            path,
            card=self.folder / "card.json",
            fingerprint="f" * 32,
            device=device,
            threads=1,
            memory=memory,
        )
        return read_table(path, expect="f" * 32)

    def extract(self, entry=None, **extraction) -> dict:
        """Embeddings by split, as the stage `extract` writes them."""
        from permafrost.core.stores import Store
        from permafrost.features.extract import extract
        from permafrost.features.specification import Running

        outputs = {split: self.folder / "features" / f"{split}.zarr" for split in SPLITS}
        spec = {
            "stage": "extract",
            "dataset": "tiny",
            "backbone": "toy",
            "entry": entry or self.entry(),
            "extraction": extraction_of(size=16) | extraction,
            "inputs": {"images": IMAGES},
        }
        extract(
            specification(spec),
            images=self.stores,
            card=self.folder / "card.json",
            outputs=outputs,
            fingerprint="e" * 32,
            running=Running(device="cpu", threads=1),
        )
        return {split: Store(path).read("embeddings") for split, path in outputs.items()}


def accuracy(table, setting: int | None = None) -> float:
    """Of what is ranked, or of a setting: 0 fine-tuned, 1 frozen."""
    target = table["target"].to_numpy()
    if setting is None:
        return float((table["prediction"].to_numpy() == target).mean())
    answers = np.stack(table["setting_predictions"].to_pylist())
    return float((answers[:, setting] == target).mean())
