"""Tiny image stores with their card, for tests of backbones and extraction."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import Store, write_store
from permafrost.data.bands.sensors import SENSORS
from permafrost.data.store.card import Card, write_card
from permafrost.data.store.image_store import StoredModality

from helpers.stages.specifications import extraction_of, specification

SPLITS = ("train", "val", "test")
_ABOUT = {"lon": pa.float64(), "lat": pa.float64(), "date": pa.string()}
IMAGES = "fingerprint-of-images"
FEATURES = "fingerprint-of-features"


def rgb_bands(**more) -> list[dict]:
    """Red, green and blue of 8 bits; `more` such as ``white``."""
    return [
        band(name, common_name=name, unit="uint8", scale=1 / 255, **more)
        for name in ("red", "green", "blue")
    ]


def sentinel2_bands(names=tuple(SENSORS["sentinel2"])) -> list[dict]:
    known = SENSORS["sentinel2"]
    return [
        band(
            name,
            common_name=known[name].common_name,
            wavelength_nm=known[name].wavelength_nm,
            sensor="sentinel2-l2a",
            unit="digital_number",
            scale=1e-4,
        )
        for name in names
    ]


def band(
    name, *, mean=100.0, std=50.0, min=0.0, max=255.0, p2=5.0, p98=250.0, offset=0.0, **fields
) -> dict:
    empty = dict.fromkeys(("common_name", "wavelength_nm", "sensor"))
    statistics = {"mean": mean, "std": std, "min": min, "max": max, "p2": p2, "p98": p98}
    return {"name": name, **empty, "offset": offset, **statistics, **fields}


def card_of(bands: list[dict], **fields) -> Card:
    card = dict.fromkeys(field.name for field in dataclasses.fields(Card))
    card.update(
        dataset="tiny",
        task="classification",
        fingerprint=IMAGES,
        bands=bands,
        selected=[b["name"] for b in bands],
        classes=["a", "b", "c"],
        dead_classes=[],
        split_method="given",
        spatially_random=False,
        dates="one",
    )
    return Card(**{**card, **fields})


class Dataset:
    """Stores of noise in a folder; `extract` runs the stage over them.

    Parameters
    ----------
    counts : images of train, val, test.
    ragged : sizes differ between images, which are then padded with zeros.
    masks : the task is segmentation; `extract` then asks for maps.
    metadata : places and dates of samples, all of them over Europe in 2020; with a name of a column, that of the
        first test sample is not known.
    card : further fields of the card.
    """

    def __init__(
        self,
        folder: Path,
        *,
        bands=None,
        counts=(20, 5, 7),
        side=32,
        dtype=np.uint8,
        ragged=False,
        masks=False,
        metadata: bool | str = False,
        card: dict | None = None,
    ) -> None:
        self.metadata = metadata
        self.folder = folder
        self.bands = rgb_bands() if bands is None else bands
        self.images, self.sizes, self.masks = {}, {}, {}
        generator = np.random.default_rng(0)
        for split, count in zip(SPLITS, counts, strict=True):
            pixels = generator.integers(0, 256, (count, len(self.bands), side, side)).astype(dtype)
            sizes = (
                generator.integers(side // 2, side + 1, (count, 2))
                if ragged
                else np.full((count, 2), side)
            )
            for image, (height, width) in zip(pixels, sizes, strict=True):
                image[:, height:] = 0
                image[:, :, width:] = 0
            self.images[split], self.sizes[split] = pixels, sizes
            if masks:
                self.masks[split] = generator.integers(0, 3, (count, side, side)).astype(np.uint8)
            self._write(split, generator.integers(0, 3, count))
        dense = {"task": "segmentation", "ignore_index": 255, "dead_classes": [2]} if masks else {}
        write_card(folder / "card.json", card_of(self.bands, **dense, **(card or {})))

    def about(self, split: str) -> dict[str, list]:
        """Columns with the place and the date of each sample, see `metadata`."""
        rows = range(len(self.images[split]))
        if not self.metadata:
            return {name: pa.nulls(len(rows), kind) for name, kind in _ABOUT.items()}
        first = SPLITS.index(split)
        known = {
            "lon": [first + 0.5 * row for row in rows],
            "lat": [45 + first + 0.25 * row for row in rows],
            "date": [f"2020-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in rows],
        }
        if split == "test" and self.metadata in known:
            known[self.metadata][0] = None
        return {name: pa.array(values, _ABOUT[name]) for name, values in known.items()}

    def _write(self, split: str, labels: np.ndarray) -> None:
        pixels, sizes = self.images[split], self.sizes[split].astype(np.int32)
        with write_store(self.folder / f"{split}.zarr", fingerprint=IMAGES) as writer:
            writer.array("images", pixels.shape, pixels.dtype, rows_per_chunk=6)[:] = pixels
            if self.masks:
                masks = self.masks[split]
                writer.array("masks", masks.shape, masks.dtype, rows_per_chunk=6)[:] = masks
            else:
                writer.array("labels", labels.shape, np.int64, rows_per_chunk=64)[:] = labels
            names = [f"{split}-{i}" for i in range(len(pixels))]
            columns = {
                "sample_id": names,
                "group_id": names,
                "height": sizes[:, 0],
                "width": sizes[:, 1],
                **self.about(split),
            }
            writer.samples(pa.table(columns))

    def extract(
        self, entry: dict, *, out="features", extraction=None, files=None, parts=None, **options
    ) -> dict[str, Store]:
        """Feature stores by split; in `parts` parts where a number is given."""
        from permafrost.features.extract import extract
        from permafrost.features.specification import Running

        # tests that run on a GPU name it
        options.setdefault("device", "cpu")
        spec = specification(
            {
                "stage": "extract",
                "backbone": "tried",
                "dataset": "tiny",
                "entry": entry,
                "extraction": extraction_of(maps=bool(self.masks)) | (extraction or {}),
                "files": files or {},
                "inputs": {"images": IMAGES},
            }
        )
        outputs = {split: self.folder / out / f"{split}.zarr" for split in SPLITS}
        images = {split: self.folder / f"{split}.zarr" for split in SPLITS}
        if parts is not None:
            folders = [self.folder / out / f"{part}-of-{parts}" for part in range(parts)]
            for folder in folders:
                self.extract_part(spec, folder, **options)
            self.join(folders, outputs)
        else:
            extract(
                spec,
                images=images,
                card=self.folder / "card.json",
                outputs=outputs,
                fingerprint=FEATURES,
                running=Running(**options),
            )
        return {split: Store(path, expect=FEATURES) for split, path in outputs.items()}

    def extract_part(self, spec, folder: Path, **options) -> None:
        """One part, by the name of its folder."""
        from permafrost.features.parts import Part, extract_part
        from permafrost.features.specification import Running

        extract_part(
            spec,
            images={split: self.folder / f"{split}.zarr" for split in SPLITS},
            card=self.folder / "card.json",
            output=folder,
            part=Part.of(folder.name),
            fingerprint=FEATURES,
            running=Running(**options),
        )

    def join(self, folders: list[Path], outputs: dict[str, Path]) -> None:
        """Parts in folders to feature stores."""
        from permafrost.features.parts import join_parts

        join_parts(
            folders,
            images={split: self.folder / f"{split}.zarr" for split in SPLITS},
            expect_images=IMAGES,
            outputs=outputs,
            fingerprint=FEATURES,
        )


class SeveralDataset(Dataset):
    """Stores of noise, of two modalities: optical images of up to `dates` dates, and radar of half the size.

    Of each split, `pixels` has (N, T, 3, side, side) with zeros after the last of `counts` dates, `radar` its images:
    one of each sample, or with ``radar_dates`` as many as the optical ones.
    """

    def __init__(
        self, folder: Path, *, samples=(9, 3, 4), side=16, dates=4, kind="series", radar_dates=False
    ) -> None:
        self.folder, self.masks = folder, {}
        self.bands = [{**one, "modality": "optical"} for one in rgb_bands()]
        self.bands += [band(name, unit="db", modality="radar") for name in ("VV", "VH")]
        self.pixels, self.radar, self.counts = {}, {}, {}
        generator = np.random.default_rng(1)
        for split, number in zip(SPLITS, samples, strict=True):
            fewest = dates if kind == "pair" else 1
            counts = generator.integers(fewest, dates + 1, number)
            # at least one has all of them
            counts[0] = dates
            there = (np.arange(dates) < counts[:, None])[:, :, None, None, None]
            pixels = generator.integers(0, 256, (number, dates, 3, side, side)).astype(np.uint8)
            half = (number, *[dates] * radar_dates, 2, side // 2, side // 2)
            radar = generator.normal(size=half).astype(np.float32)
            self.pixels[split], self.counts[split] = pixels * there, counts
            self.radar[split] = radar * there if radar_dates else radar
            self._write_several(split, kind, radar_dates)
        names = ("optical", "radar")
        modalities = [
            {"name": name, "largest_size": [size, size], "bands": [], "dates": None}
            for name, size in zip(names, (side, side // 2), strict=True)
        ]
        write_card(folder / "card.json", card_of(self.bands, dates=kind, modalities=modalities))

    def _write_several(self, split: str, kind: str, radar_dates: bool) -> None:
        pixels, radar, counts = self.pixels[split], self.radar[split], self.counts[split]
        optical = StoredModality.of("optical", True, range(3), series=True)
        other = StoredModality.of("radar", False, range(3, 5), series=radar_dates)
        with write_store(self.folder / f"{split}.zarr", fingerprint=IMAGES) as writer:
            for one, array in ((optical, pixels), (other, radar)):
                writer.array(one.array, array.shape, array.dtype, rows_per_chunk=4)[:] = array
            labels = np.arange(len(pixels)) % 3
            writer.array("labels", labels.shape, np.int64, rows_per_chunk=64)[:] = labels
            days = [[f"2020-{month + 1:02d}-15" for month in range(count)] for count in counts]
            names = [f"{split}-{i}" for i in range(len(pixels))]
            size = np.full(len(pixels), pixels.shape[-1], np.int32)
            columns = {"sample_id": names, "group_id": names, "height": size, "width": size}
            columns |= {one.dates: days for one in (optical, other) if one.dates}
            writer.samples(pa.table(columns))
            writer.attributes["modalities"] = [optical.as_json(), other.as_json()]
