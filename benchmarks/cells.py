"""How many cells of backbones x the GEO-Bench entries of the catalogue can be fed, and how well they fit.

Of typical backbones, or of those of the public table of GEO-Bench-2. Asks the planner's own functions; nothing is read
but entries.

    envs/run python -m benchmarks.cells [--fit strict|authors|geobench2] [--table typical|geobench2] [--list] \
        [--backbones NAME ...] [--datasets NAME ...]
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.operate.offers import Offers, planned_input, read_offers

ROOT = Path(__file__).resolve().parents[1]

#: one backbone of each kind of input that the catalogue has, and the usual ones of its kind
_BACKBONES = """
    imagestats-all rcf resnet50-imagenet vit-base-dinov2
    resnet50-s2-all-moco resnet50-s2-all-dino resnet50-s2-all-decur vit-base14-s2-all-softcon
    resnet50-s2-rgb-moco resnet50-s2-rgb-seco resnet50-fmow-rgb-gassl scalemae-large
    swin-v2-base-s2-mi-ms-satlas swin-v2-base-s2-mi-rgb-satlas swin-v2-base-landsat-mi-satlas
    resnet18-landsat-oli-sr-moco resnet50-s1-moco croma-base-s1
    croma-base dofa-base panopticon-base copernicusfm-base presto tessera
    prithvi-eo-2-300m-tl terramind-base terramind-base-s2l1c clay-1-5
    galileo-base olmoearth-v1-2-base deo-base
"""
#: all of GEO-Bench 1, and one entry for each dataset of GEO-Bench 2
_DATASETS = """
    m-bigearthnet m-so2sat m-brick-kiln m-forestnet m-eurosat m-pv4ger m-pv4ger-seg m-chesapeake m-cashew-plant
    m-sa-crop-type m-nz-cattle m-neontree
    geobench2-benv2 geobench2-treesatai geobench2-so2sat-s2 geobench2-forestnet geobench2-burn-scars geobench2-caffe
    geobench2-cloudsen12 geobench2-dynamic-earthnet-planet geobench2-flair2 geobench2-fotw geobench2-kuro-siwo
    geobench2-pastis-s2 geobench2-spacenet2 geobench2-spacenet7 geobench2-biomassters-s2 geobench2-everwatch
    geobench2-nzcattle geobench2-substation geobench2-spacenet8
"""
BACKBONES, DATASETS = _BACKBONES.split(), _DATASETS.split()
#: the 18 backbones and 19 datasets of the first submission to the public table (February 2026), in its order
_PUBLIC_BACKBONES = """
    prithvi-eo-2-300m-tl swin-v2-base-s2-si-ms-satlas convnext-large-imagenet22k terramind-large
    convnext-xlarge-imagenet22k resnet50-imagenet convnext-large-dinov3 swin-v2-base-naip-rgb-si-satlas
    terramind-base vit-large-dinov3-sat resnet50-s2-all-decur clay-1-5 dofa-large prithvi-eo-2-600m-tl
    resnet50-s2-si-ms-satlas resnet50-s2-all-moco resnet50-s2-all-dino dofa-base
"""
_PUBLIC_DATASETS = """
    geobench2-benv2 geobench2-biomassters-s2 geobench2-burn-scars geobench2-caffe geobench2-cloudsen12
    geobench2-dynamic-earthnet-planet geobench2-everwatch geobench2-flair2 geobench2-forestnet geobench2-fotw
    geobench2-kuro-siwo geobench2-nzcattle geobench2-pastis-s2 geobench2-pastis-r-s2 geobench2-so2sat-s2
    geobench2-spacenet2 geobench2-spacenet7 geobench2-substation geobench2-treesatai
"""
TABLES = {
    "typical": (BACKBONES, DATASETS),
    "geobench2": (_PUBLIC_BACKBONES.split(), _PUBLIC_DATASETS.split()),
}


def cells(
    offers: Offers, backbones: list[str] = BACKBONES, datasets: list[str] = DATASETS
) -> dict[tuple[str, str], tuple[str, str]]:
    """(dataset, backbone) -> kind of fit and the reason; ``out`` with the planner's message of what cannot be fed."""
    found = {}
    for dataset in datasets:
        for backbone in backbones:
            try:
                plan = planned_input(offers, dataset, backbone)
            except PermafrostError as error:
                found[dataset, backbone] = ("out", error.problem)
            else:
                found[dataset, backbone] = (plan.fit, f"{plan.bands_real} of {plan.bands_wanted}")
    return found


def counts(found: dict[tuple[str, str], tuple[str, str]]) -> dict[str, int]:
    """Number of cells of each kind of fit, and of all."""
    return {"cells": len(found), **dict(sorted(Counter(fit for fit, _ in found.values()).items()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fit", choices=("strict", "authors", "geobench2"), default="strict")
    parser.add_argument("--table", choices=tuple(TABLES), default="typical")
    parser.add_argument("--backbones", nargs="+", help="instead of those of the table")
    parser.add_argument("--datasets", nargs="+", help="instead of those of the table")
    parser.add_argument("--list", action="store_true", help="also every cell with its reason")
    arguments = parser.parse_args()
    offers = read_offers(ROOT)
    offers = replace(offers, config={**offers.config, "fit": arguments.fit})
    backbones, datasets = TABLES[arguments.table]
    found = cells(offers, arguments.backbones or backbones, arguments.datasets or datasets)
    if arguments.list:
        for (dataset, backbone), (fit, reason) in found.items():
            print(f"{dataset}\t{backbone}\t{fit}\t{reason}")
    for name, number in counts(found).items():
        print(f"{name:10}{number:5}")


if __name__ == "__main__":
    main()
