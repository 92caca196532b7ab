"""Sizes of datasets and features, as far as they are known before a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from permafrost.backbones.derived import narrowed
from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS, substitute
from permafrost.data.derived import origins_of
from permafrost.data.store.card import Card, read_card
from permafrost.features.kept_layers import KeptLayers, closest_to
from permafrost.operate.chosen import HERE, weights_state
from permafrost.operate.offers import Offers, state_of
from permafrost.plan.catalogue import result_fields
from permafrost.plan.grid import Grid

#: assumed if unknown: number of images of all splits, and image size in pixels
ASSUMED_IMAGES, ASSUMED_PIXELS = 10_000, 224
_ASSUMED_SHARES = (0.6, 0.2, 0.2)
_ASSUMED_CHANNELS, _ASSUMED_CLASSES, _ASSUMED_DATES, _ASSUMED_FOLDS = 3, 10, 12, 5
# the form of `published` in entries: 4000 / 1000 / 2000 images of 304 px
_PUBLISHED = re.compile(r"(\d+) / (\d+) / (\d+) images of (\d+) px")
# (largest number of parameters in millions, embedding width and number of blocks of such networks)
_NETWORKS = (
    (4, 192, 12),
    (40, 384, 12),
    (200, 768, 12),
    (450, 1024, 24),
    (float("inf"), 1280, 32),
)
_PATCH = 16  # patch size in pixels
# networks whose stages halve the map and double the channels: about twice the width of a ViT in the last
_PYRAMIDS = re.compile("resne[xt]|convnext|swin|maxvit|hiera|efficientnet|densenet|mobilenet")
_BYTES = {"float32": 4, "float16": 2}


@dataclass(frozen=True)
class DatasetSize:
    """The size of a dataset.

    Attributes
    ----------
    images : split to number of samples.
    side : image size in pixels (the longer side).
    channels : of all sensors together.
    dates : dates of a sample.
    known : origin: ``prepared`` (card), ``published`` (entry), ``generated``, ``counted`` (data) or
        ``assumed``.
    test_groups : number of groups (sampling units) of test images; None: no groups, or unknown.
    folds : times that a probe is trained, each time on these images of train, to test all of test.
    """

    images: dict[str, int]
    side: int
    channels: int
    classes: int
    dates: int
    known: str
    test_groups: int | None = None
    folds: int = 1

    @property
    def of_a_fold(self) -> DatasetSize:
        """The size that a probe has to do with at once."""
        return replace(self, images={**self.images, "test": self.images["test"] // self.folds})

    @property
    def count(self) -> int:
        return sum(self.images.values())

    @property
    def values(self) -> float:
        """Number of pixel values in the image stores."""
        return self.count * self.dates * self.channels * self.side**2


def dataset_size(
    entry: dict, card: Path, assumed: int = ASSUMED_IMAGES, data: Path | None = None
) -> DatasetSize:
    """The size of a dataset from its card, else its entry, else the files in `data`, else assumed.

    Parameters
    ----------
    entry : the dataset's entry.
    card : path of its card, which may not exist.
    assumed : number of images, if unknown.
    data : replaces {data} in the entry's paths; None: files, which may take seconds, are not read.
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


def derived_size(entry: dict, sizes: Mapping[str, DatasetSize]) -> DatasetSize:
    """The size of a derived dataset from those that it is derived from, by name."""
    derived = entry["derived"]
    train, *others = (sizes[name] for name in origins_of(entry))
    if "folds" in derived:
        options, count = derived["folds"], train.count
        # the number of seasons, years, bands or groups is not known before
        k = options["k"] if isinstance(options.get("k"), int) else _ASSUMED_FOLDS
        left = count - count // k
        val = round(left * options["val"])
        images = {"train": left - val, "val": val, "test": count * options["repeats"]}
        return replace(train, images=images, folds=k * options["repeats"])
    share = derived.get("share", 1)
    images = {
        split: max(1, round(number * share)) if split != "test" else number
        for split, number in train.images.items()
    }
    for other in others:
        images["test"] = other.images["test"]
    return replace(train, images=images)


def _counted(entry: dict) -> DatasetSize | None:
    """The size from the data's files and one decoded image; None: data missing or invalid."""
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
    """Cost and size of a backbone's features of one image.

    Attributes
    ----------
    macs : multiply-accumulate operations of a forward pass.
    width : of the embedding.
    maps : number of values in all stored feature maps; 0: none.
    patches : number of positions of the map with patches closest to 16 pixels, which most probes read.
    blocks : number of values of all stored features of blocks.
    channels : of that map; 0: none. every_channel : of all stored maps together.
    """

    macs: float
    width: int
    maps: int
    patches: int
    blocks: int = 0
    channels: int = 0
    every_channel: int = 0


def feature_size(
    entry: dict,
    dataset: DatasetSize,
    extraction: dict,
    maps: bool,
    store: Path,
    kept: KeptLayers | None = None,
) -> FeatureSize:
    """The size of features: exact if `store` exists, else from the number of parameters.

    The cost is estimated as one multiply-accumulate per parameter and patch of 16 × 16 pixels. That
    holds for ViTs; ResNet-50 (25.6 M parameters, 4.1 G at 224 px) and MobileNetV2 (2.2 M, 0.3 G)
    are within a factor of 1.5.

    Parameters
    ----------
    entry : the backbone's entry.
    extraction : its options.
    maps : feature maps are stored.
    store : path of a feature store, which may not exist.
    kept : layers whose maps are stored; None: all.
    """
    side = entry["input"].get("size") or extraction["size"] or dataset.side
    places = max(side // _PATCH, 1) ** 2
    parameters = entry.get("parameters") or 0
    macs = parameters * places
    width, count = next(one for most, *one in _NETWORKS if parameters <= most * 1e6)
    count = 0 if maps else _kept_blocks(entry, extraction, count)
    if "kernel_size" in entry:
        # random convolutions: every pixel of three bands, half as many filters as features
        width = entry["features"]
        macs = width // 2 * 3 * entry["kernel_size"] ** 2 * side**2
    shapes = _shapes(store)
    if shapes:
        found, blocks = (
            [shape for name, shape in shapes.items() if name.startswith(word)]
            for word in ("map", "block")
        )
        width = shapes.get("embeddings", [0, width])[-1]
        # a store that was written without them says nothing about blocks
        sizes = sum(shape[-1] for shape in blocks) or width * count
        about: dict[str, int] = {}
        if found:
            shape = found[closest_to(_PATCH, [shape[-2] for shape in found], side)]
            places = shape[-1] * shape[-2]
            about = {"channels": shape[-3], "every_channel": sum(shape[-3] for shape in found)}
        values = sum(map(_product, found))
        return FeatureSize(macs, width, values, places, sizes if count else 0, **about)
    if not maps:
        return FeatureSize(macs, width, 0, places, width * count)
    layers = _layers(entry, width, side, extraction.get("maps_channels"))
    read = closest_to(_PATCH, [height for _, height in layers], side)
    if kept is not None:
        # which ones are named is not known: the finest, so that the estimate is not too small
        named = [*range(len(layers))][max(0, len(layers) - len(kept.names)) :]
        chosen = {*named, *([read] if kept.strides else [])}
        layers = [layers[place] for place in sorted(chosen)]
        read = closest_to(_PATCH, [height for _, height in layers], side)
    channels, height = layers[read]
    values = sum(each * rows**2 for each, rows in layers)
    every = sum(each for each, _ in layers)
    return FeatureSize(macs, width, values, height**2, 0, channels, every)


def _layers(entry: dict, width: int, side: int, most: int | None) -> list[tuple[int, int]]:
    """(channels, height) of the maps of the default layers, coarse to fine."""
    if _PYRAMIDS.search(str(entry.get("model", ""))):
        sizes = [(2 * width >> step, max(1, (side << step) // 32)) for step in range(4)]
    else:
        # one entry for each, though they are alike
        sizes = [(width, max(side // _PATCH, 1))] * 4
    return [(min(channels, most or channels), height) for channels, height in sizes]


def _kept_blocks(entry: dict, extraction: dict, count: int) -> int:
    """Number of blocks whose features are stored, of a backbone with `count`."""
    depths = extraction.get("depths")
    if depths is None or not kind_of(entry).deep:
        return 0
    return count if depths == "all" else min(count, len(depths))


def size_of_features(
    grid: Grid, size: DatasetSize, dataset: str, backbone: str, results: Path
) -> FeatureSize:
    """The size of a backbone's features of a dataset, which has this size; `results`: their folder."""
    # features of derived datasets are those of others
    dataset = grid.origins.get(dataset, [dataset])[0]
    if backbone in grid.parents:
        read = [
            size_of_features(grid, size, dataset, one, results) for one in grid.parents[backbone]
        ]
        width = sum(one.width for one in read)
        for step in grid.backbones[backbone]["steps"]:
            ((name, value),) = step.items()
            width = narrowed(name, value, width)
        return FeatureSize(0, width, 0, 1)
    return feature_size(
        grid.backbones[backbone],
        size,
        grid.config["extraction"],
        grid.has_maps(dataset),
        results / "features" / dataset / backbone / f"{SPLITS[0]}.zarr",
        grid.kept_layers(dataset, backbone),
    )


def store_bytes(
    size: DatasetSize, features: FeatureSize, extraction: dict, *, test_alone: bool = False
) -> float:
    """Bytes of the feature stores of a pair, which compression hardly reduces.

    Parameters
    ----------
    extraction : the options, with the types of embeddings and maps.
    test_alone : the features of train and val are read from another store.
    """
    values = (features.width + features.blocks) * _BYTES[extraction["dtype"]]
    values += features.maps * _BYTES[extraction["maps_dtype"]]
    # a store with maps has the masks or targets, too
    native = size.side**2 if features.maps else 0
    count = size.images["test"] if test_alone else size.count
    return count * (size.dates * values + native)


def _product(shape: list[int]) -> int:
    product = 1
    for one in shape[1:]:
        product *= one
    return product


def _shapes(store: Path) -> dict[str, list[int]]:
    """Name -> shape of a store's arrays; empty if it does not exist."""
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
    """Kind, name and bytes (None: unknown) of the data and weights that are not on this machine.

    Weights are assumed to have four bytes per parameter.
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
