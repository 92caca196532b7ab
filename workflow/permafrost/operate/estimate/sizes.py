"""How much a dataset holds and how large a backbone is, as far as that is known before anything runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS, substitute
from permafrost.data.store.card import Card, read_card
from permafrost.operate.chosen import HERE, weights_state
from permafrost.operate.offers import Offers, state_of
from permafrost.plan.catalogue import result_fields

#: what is taken where nothing is known: images of all splits, and pixels of a side
ASSUMED_IMAGES, ASSUMED_PIXELS = 10_000, 224
_ASSUMED_SHARES = (0.6, 0.2, 0.2)
_ASSUMED_CHANNELS, _ASSUMED_CLASSES, _ASSUMED_DATES = 3, 10, 12
# the form of `published` in entries: 4000 / 1000 / 2000 images of 304 px
_PUBLISHED = re.compile(r"(\d+) / (\d+) / (\d+) images of (\d+) px")
# parameters, in millions, and the width of the embeddings of networks of about that size
_WIDTHS = ((4, 192), (40, 384), (200, 768), (450, 1024), (float("inf"), 1280))
_PATCH = 16  # pixels of a side


@dataclass(frozen=True)
class DatasetSize:
    """What a dataset holds.

    Attributes
    ----------
    images : by split. side : pixels of an image's side. channels : of all sensors.
    dates : images of a sample.
    test_groups : number of groups of test images that belong together; None where there are none, or nobody knows.
    known : ``prepared``, ``published`` (the entry says it), ``generated``, ``counted`` (in the data), or ``assumed``.
    """

    images: dict[str, int]
    side: int
    channels: int
    classes: int
    dates: int
    known: str
    test_groups: int | None = None

    @property
    def count(self) -> int:
        return sum(self.images.values())

    @property
    def values(self) -> float:
        """Numbers in the stores of images."""
        return self.count * self.dates * self.channels * self.side**2


def dataset_size(
    entry: dict, card: Path, assumed: int = ASSUMED_IMAGES, data: Path | None = None
) -> DatasetSize:
    """The size of a prepared dataset by its card, else by its entry, else by the files in `data`.

    Parameters
    ----------
    data : replaces {data} in the entry's paths; None: no files are looked at, which may take seconds.
    assumed : images, where nothing says how many there are.
    """
    prepared = _card(card)
    parts = list((entry.get("modalities") or {}).values()) or [entry]
    source = entry["source"]
    channels = sum(len(part.get("bands") or source.get("bands") or ()) for part in parts)
    dates = {"one": 1, "pair": 2}.get(entry["dates"], entry.get("most_dates") or _ASSUMED_DATES)
    classes = len(entry.get("classes") or ()) or _ASSUMED_CLASSES
    known = {"channels": channels or _ASSUMED_CHANNELS, "classes": classes, "dates": dates}
    if prepared is not None:
        return DatasetSize(
            {split: one["count"] for split, one in prepared.splits.items()},
            max(prepared.image_size["max"]),
            len(prepared.bands),
            len(prepared.classes) or 1,
            dates,
            "prepared",
            prepared.splits["test"]["groups"],
        )
    published = _PUBLISHED.match(entry.get("published") or "")
    if published:
        *counts, side = map(int, published.groups())
        return DatasetSize(dict(zip(SPLITS, counts, strict=True)), side, **known, known="published")
    if "chips" in source:
        return DatasetSize(source["chips"], source["chip_size"], **known, known="generated")
    counted = None if data is None else _counted(substitute(entry, str(data)))
    if counted is not None:
        return counted
    counts = [round(assumed * share) for share in _ASSUMED_SHARES]
    return DatasetSize(
        dict(zip(SPLITS, counts, strict=True)), ASSUMED_PIXELS, **known, known="assumed"
    )


def _counted(entry: dict) -> DatasetSize | None:
    """What `prepare` would find, by one image; None where the data are not here or wrong, which `prepare` says."""
    if state_of(entry) != "here":
        return None
    from permafrost.data.files.decode import UnreadableImage
    from permafrost.data.store.job import plan_dataset
    from permafrost.data.store.prepare import PrepareSpec

    try:
        spec = PrepareSpec(dataset="counted", entry=result_fields(entry))
        job = plan_dataset("counted", spec.read_entry())
        image = job.source.decode(int(job.plan.indices[SPLITS[0]][0]))
    except (PermafrostError, UnreadableImage):
        return None
    groups = {job.records[place].group_id for place in job.plan.indices["test"]} - {None}
    return DatasetSize(
        {split: len(rows) for split, rows in job.plan.indices.items()},
        max(image.image.shape[-2:]),
        len(job.source.bands),
        len(job.source.classes) or 1,
        max(len(one) if one.ndim == 4 else 1 for one in image.arrays),
        "counted",
        len(groups) or None,
    )


def _card(path: Path) -> Card | None:
    try:
        return read_card(path)
    except PermafrostError:
        return None


@dataclass(frozen=True)
class FeatureSize:
    """What a backbone makes of an image.

    Attributes
    ----------
    macs : multiply-accumulate operations of a forward pass.
    width : of the embedding. maps : numbers in all maps of layers that are kept, 0 where none are.
    patches : places of the first map.
    """

    macs: float
    width: int
    maps: int
    patches: int


def feature_size(
    entry: dict, dataset: DatasetSize, extraction: dict, maps: bool, store: Path
) -> FeatureSize:
    """The size of features: exact where `store` is there, else by the number of parameters.

    A network applies about its number of parameters once per patch of 16 pixels: ViTs do, and ResNet-50 (25.6 M at
    224 px: 4.1 G) and MobileNetV2 (2.2 M: 0.3 G) are within a factor of 1.5 of it.

    Parameters
    ----------
    maps : whether maps of layers are kept.
    """
    side = entry["input"].get("size") or extraction["size"] or dataset.side
    places = max(side // _PATCH, 1) ** 2
    parameters = entry.get("parameters") or 0
    macs, width = parameters * places, next(w for most, w in _WIDTHS if parameters <= most * 1e6)
    if "kernel_size" in entry:
        # random convolutions over every pixel of three bands; half as many filters as features
        width = entry["features"]
        macs = width // 2 * 3 * entry["kernel_size"] ** 2 * side**2
    shapes = _shapes(store)
    if shapes:
        kept = [shape for name, shape in shapes.items() if name.startswith("map")]
        width = shapes.get("embeddings", [0, width])[-1]
        first = kept[0][-1] * kept[0][-2] if kept else places
        return FeatureSize(macs, width, sum(map(_product, kept)), first)
    return FeatureSize(macs, width, 4 * width * places if maps else 0, places)


def _product(shape: list[int]) -> int:
    product = 1
    for one in shape[1:]:
        product *= one
    return product


def _shapes(store: Path) -> dict[str, list[int]]:
    """Name to shape of the arrays of a store; empty where it is not there."""
    found = {}
    for path in sorted(store.glob("*/zarr.json")):
        try:
            found[path.parent.name] = json.loads(path.read_bytes())["shape"]
        except (OSError, ValueError, KeyError):
            continue
    return found


def downloads_of(
    offers: Offers, datasets: dict, backbones: dict
) -> list[tuple[str, str, float | None]]:
    """Kind, name and bytes of the data and weights that are not here; None where nobody knows how much it is.

    Weights are taken for four bytes a parameter.
    """
    found: list[tuple[str, str, float | None]] = []
    for name, entry in datasets.items():
        located = substitute(entry, str(offers.data))
        if state_of(located) not in ("here", "generated"):
            found.append(("dataset", name, entry.get("size_bytes")))
    for name, entry in backbones.items():
        if weights_state(offers, entry) not in HERE:
            parameters = entry.get("parameters")
            found.append(("weights", name, 4.0 * parameters if parameters else None))
    return found
