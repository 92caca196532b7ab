"""The work of each job, in units proportional to its time, and the rates (seconds per unit).

The rates were measured on one core of the machine that `rates.json` names. They are rough; finished
jobs correct them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from permafrost.operate.estimate.sizes import DatasetSize, FeatureSize
from permafrost.plan.grid import Grid
from permafrost.plan.resources import device_of
from permafrost.probes.dense.choice import rates_of
from permafrost.probes.kinds import KINDS

RATES = Path(__file__).with_name("rates.json")
_GIGA = 1e9
# multiply-adds of a search that take as long as a pixel of a mask: its patch's class, or its prediction
_PIXEL = 3500
# time of a pixel value that is read, relative to a value of a map that is written (benchmarks/README.md, *Maps*)
_PER_PIXEL = 0.7
# a split of more bytes is assumed not to fit into a quarter of the free memory, so that heads copy it to the disk;
# time of writing and of reading a value of the copy, relative to reading it from the store
_KEPT_BYTES = 8e9
_COPY, _COPIED = 0.65, 0.08
# images to which projections are fitted, as in features.projection, which imports torch
_TO_FIT = 256
# time of segmentation heads relative to a linear head, see benchmarks/estimates.py
_HEADS = {"linear": 1.0, "conv_block": 1.05, "fpn": 1.7, "dpt": 5.3}


@dataclass(frozen=True)
class Rate:
    """Seconds of a job: `start` for the start-up, and `each` per unit of work."""

    start: float
    each: float


@dataclass(frozen=True)
class Rates:
    """Rates of all jobs.

    Attributes
    ----------
    stages : stage, or type of work of a probe, to its rate on one core.
    reading : seconds per 10⁶ values of maps that a probe reads, also on a GPU.
    forward, gpu_forward : seconds per 10⁹ multiply-accumulate operations of a backbone, on one core
        and on a GPU.
    gpu_speed : speed-up of other jobs on a GPU over one core.
    machine : where the rates were measured.
    """

    stages: dict[str, Rate]
    reading: float
    forward: float
    gpu_forward: float
    gpu_speed: float
    machine: str


def default_rates() -> Rates:
    """The rates in `RATES`."""
    known = json.loads(RATES.read_text())
    stages = {name: Rate(*known["stages"][name]) for name in known["stages"]}
    others = ("reading", "forward", "gpu_forward", "gpu_speed", "machine")
    return Rates(stages, *(known[key] for key in others))


@dataclass(frozen=True)
class Context:
    """The sizes that determine the work of jobs: by dataset, and by (dataset, backbone)."""

    grid: Grid
    datasets: dict[str, DatasetSize]
    features: dict[tuple[str, str], FeatureSize]


def work_of(context: Context, stage: str, names: tuple) -> float:
    """The work of a job in the units of its rate, without forward passes of the backbone and `read_values`."""
    if stage == "probe":
        return _of_probe(_OF_PROBES, context, names)
    if stage in _OF_STAGES:
        return _OF_STAGES[stage](context, *names)
    # aggregate and report: proportional to the number of evaluations
    return sum(1 for _ in context.grid.evaluations())


def read_values(context: Context, stage: str, names: tuple) -> float:
    """Values of maps that a job reads, in 10⁶; 0: none, or its own work counts them."""
    return _of_probe(_READ, context, names) if stage == "probe" else 0.0


def _of_probe(laws: dict[str, Callable], context: Context, names: tuple) -> float:
    dataset, backbone, probe, _ = names
    options = context.grid.probes[probe]
    law, size = laws.get(KINDS[options["kind"]].work), context.datasets[dataset]
    if law is None:
        return 0.0
    return size.folds * law(size.of_a_fold, context.features[dataset, backbone], options)


def forward_macs(context: Context, stage: str, names: tuple) -> float:
    """Multiply-accumulate operations of the backbone in a job, in 10⁹; 0: it reads features."""
    if stage not in ("extract", "extract_harder", "views", "probe", "profile"):
        return 0.0
    dataset, backbone = names[:2]
    size, macs = context.datasets[dataset], context.features[dataset, backbone].macs
    if stage == "extract":
        return (size.count + _fitted(context, dataset)) * size.dates * macs / _GIGA
    if stage == "extract_harder":
        return size.images["test"] * size.dates * macs / _GIGA
    if stage == "views":
        options = context.grid.config["measures"]["augmentations"]
        return options["images"] * options["views"] * macs / _GIGA
    if stage == "profile":
        return 200 * macs / _GIGA
    options = context.grid.probes[names[2]]
    if KINDS[options["kind"]].reads != "images":
        return 0.0
    # a backward pass costs two forward passes
    trained = 3 * options["epochs"] * size.images["train"]
    return (trained + size.images["val"] + size.images["test"]) * macs / _GIGA


def _fitted(context: Context, dataset: str) -> int:
    """Images to which a projection of maps is fitted."""
    grid = context.grid
    if "maps_channels" not in grid.config["extraction"] or not grid.has_maps(dataset):
        return 0
    return min(_TO_FIT, context.datasets[dataset].images["train"])


def uses_gpu(grid: Grid, stage: str, names: tuple) -> bool:
    """Whether a job runs on a GPU if there is one."""
    if stage == "probe":
        kind, device = grid.probes[names[2]]["kind"], grid.config["runtime"]["device"]
        return device_of(kind, device) != "cpu"
    return stage in ("extract", "extract_harder", "views", "profile")


# --- units of work ---------------------------------------------------------------------------------


def _prepared(context: Context, dataset: str) -> float:
    return context.datasets[dataset].values / 1e6


def _fed(context: Context, dataset: str, backbone: str) -> float:
    """Millions of values: those written as maps, and `_PER_PIXEL` of the pixel values read."""
    size, features = context.datasets[dataset], context.features[dataset, backbone]
    return (_PER_PIXEL * size.values + size.count * features.maps) / 1e6


def _degraded(context: Context, dataset: str, backbone: str) -> float:
    """As `_fed`, of the test images, whose values are all changed."""
    size, features = context.datasets[dataset], context.features[dataset, backbone]
    share = size.images["test"] / size.count
    return share * (size.values + size.count * features.maps) / 1e6


def _resplit(context: Context, dataset: str) -> float:
    """Millions of pixel values that are read: none of harder images, which are not divided anew."""
    if dataset in context.grid.harder:
        return 0.0
    return sum(context.datasets[one].values for one in context.grid.origins[dataset]) / 1e6


def _selected(context: Context, dataset: str, backbone: str) -> float:
    return context.datasets[dataset].count / 1e6


def _derived(context: Context, dataset: str, backbone: str) -> float:
    """Millions of features that are read."""
    size, parents = context.datasets[dataset], context.grid.parents[backbone]
    return (
        size.count * size.dates * sum(context.features[dataset, one].width for one in parents) / 1e6
    )


def _viewed(context: Context, dataset: str, backbone: str) -> float:
    options, size = (
        context.grid.config["measures"]["augmentations"],
        context.datasets[dataset],
    )
    return options["images"] * options["views"] * size.channels * size.side**2 / 1e6


def _measured(context: Context, dataset: str, backbone: str) -> float:
    options = context.grid.config["measures"]
    rows = min(context.datasets[dataset].images["train"], options.get("max_rows") or 10_000)
    return rows**2 * context.features[dataset, backbone].width / _GIGA


def _paired(context: Context, dataset: str) -> float:
    return sum(_measured(context, dataset, one) for one in context.grid.backbones_on(dataset))


def _scored(context: Context, dataset: str, *_) -> float:
    """Thousands of test images × classes; of masks, the probe has already counted the pixels."""
    size = context.datasets[dataset]
    return size.images["test"] * size.classes / 1e3


def _compared(context: Context, dataset: str, probe: str) -> float:
    backbones = len(context.grid.backbones_on(dataset, probe))
    return _scored(context, dataset) * backbones


_OF_STAGES: dict[str, Callable] = {
    "prepare": _prepared,
    "extract": _fed,
    "extract_harder": _degraded,
    "resplit": _resplit,
    "select": _selected,
    "derive": _derived,
    "views": _viewed,
    "profile": lambda context, dataset, backbone: 1.0,
    "measure": _measured,
    "similarity": _paired,
    "bootstrap": _scored,
    "compare": _compared,
}


def _neighbours(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    asked = size.images["val"] + size.images["test"]
    return size.images["train"] * asked * features.width / _GIGA


def _classified(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ rows × features × classes × settings of a sweep."""
    rows = (size.images["train"] + size.images["val"]) * features.width * size.classes
    return rows * options.get("c_count", options.get("alpha_count", 1)) / _GIGA


def _learned(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ rows × features × outputs of the first layer × epochs."""
    rates = options.get("learning_rate")
    outputs = options.get("hidden", size.classes * (len(rates) if isinstance(rates, list) else 1))
    rows = size.images["train"] * size.dates * features.width
    return rows * outputs * options.get("epochs", 100) / _GIGA


def _grown(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ values that the trees of a forest sort: rows × √features × trees."""
    return size.images["train"] * features.width**0.5 * options.get("trees", 500) / _GIGA


def _boosted(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ values that the trees of boosting count: rows × features × classes × rounds."""
    rows = size.images["train"] * features.width * max(1, size.classes)
    return rows * options.get("rounds", 100) / _GIGA


def _supported(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ multiply-adds of the kernels of pairs of rows, for each C."""
    rows = min(size.images["train"], options.get("max_samples", 20_000))
    return rows**2 * features.width * len(options.get("c", range(4))) / _GIGA


def _drawn(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    return size.count * features.width * options.get("draws", 10) / 1e6


def _headed(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ pixels predicted in all epochs of all learning rates × the head's time relative to a linear one."""
    trained = options["epochs"] * len(rates_of(options["learning_rate"]))
    once = size.images["train"] * trained + size.images["val"] + size.images["test"]
    return once * size.side**2 * _HEADS.get(options.get("head"), 1.0) / _GIGA


def _patched(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ multiply-adds of the search, and as many as pixels take time."""
    known = min(size.images["train"] * features.patches, options["max_patches"])
    values = features.patches * features.channels
    return (known * size.images["test"] * values + _PIXEL * size.count * size.side**2) / _GIGA


def _averaged(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ values of maps, of which every one is compared with each class, and pixels of masks."""
    values = features.patches * features.channels
    return size.count * (size.side**2 + values * size.classes) / _GIGA


def _solved(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """10⁹ multiply-adds of the products of all channels, and of their decomposition."""
    width = features.every_channel
    return (size.images["train"] * features.patches * width**2 + 10 * width**3) / _GIGA


def _read_by_heads(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """Millions of values: every split once, and a copy of what does not fit into memory in every epoch."""
    passes = {"train": 1.0, "val": 1.0, "test": 1.0}
    for split in ("train", "val"):
        # as stored, and the masks
        if size.images[split] * (2 * features.maps + size.side**2) > _KEPT_BYTES:
            passes[split] += _COPY + _COPIED * options["epochs"]
    return sum(size.images[split] * passes[split] for split in passes) * features.maps / 1e6


def _read_by_ridge(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """Millions of values: validation is read to choose alpha, and again to fit it, too."""
    return (size.count + size.images["val"]) * features.maps / 1e6


def _read_by_search(size: DatasetSize, features: FeatureSize, options: dict) -> float:
    """Millions of values of one layer."""
    return size.count * features.patches * features.channels / 1e6


#: `work` of a kind of probe -> its amount of work
_OF_PROBES: dict[str, Callable[[DatasetSize, FeatureSize, dict], float]] = {
    "neighbours": _neighbours,
    "sweep": _classified,
    "solving": lambda size, features, _: size.images["train"] * features.width**2 / _GIGA,
    "draws": _drawn,
    "epochs": _learned,
    "trees": _grown,
    "rounds": _boosted,
    "pairs": _supported,
    "heads": _headed,
    "objects": _headed,
    "patches": _patched,
    "patch_means": _averaged,
    "patch_solving": _solved,
    "tuning": lambda size, features, options: size.images["train"] * options["epochs"] / 1e3,
}
#: the same -> values of maps that it reads; the others count them in their work, or read none
_READ: dict[str, Callable[[DatasetSize, FeatureSize, dict], float]] = {
    "heads": _read_by_heads,
    "objects": _read_by_heads,
    "patches": _read_by_search,
    "patch_solving": _read_by_ridge,
}
