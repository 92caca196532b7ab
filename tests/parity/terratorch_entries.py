"""Every entry of config/backbones/terratorch.yaml with random weights, fed images of its own bands and size.

Runs in the environment `terratorch`. Prints a line of JSON for each entry, with what is wrong with it. Of large ones
one image is fed, as one for each of their bands would take minutes; on the meta device, which does not feed TerraMind
and Clay, where it can.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.simplefilter("ignore")

from helpers.catalogue import build_untrained, catalogue, check_promises  # noqa: E402
from permafrost.backbones.terratorch import models  # noqa: E402

#: parameters; of more, one image is fed
MOST = 95_000_000
#: without training the same network, with the same input, as the entry of several images (mi)
ALIKE = {f"terratorch-satlas-swin-{size}-si-{bands}" for size in "tb" for bands in ("ms", "rgb")}
#: fed in a smaller size, because another entry of their size is fed
SMALLER: dict[str, dict] = {
    **{
        f"clay-1-5-{bands}": {"options": {"dim": 192, "depth": 4, "heads": 3}}
        for bands in ("sentinel-1-rtc", "naip", "linz")
    },
    **{
        f"terramind-base-{bands}": {"model": "terramind_v1_tiny"}
        for bands in ("s2l1c", "s1rtc", "s1grd", "rgb", "s2-s1-dem")
    },
    "terratorch-satlas-swin-b-mi-rgb": {"model": "satlas_swin_t_sentinel2_mi_rgb"},
}


def checked(name: str, entry: dict) -> dict:
    """The number of features, whether every band was checked, and whether in a smaller size."""
    # values do not exist on the meta device
    without_values = mock.patch.object(models, "check_finite")
    if name in SMALLER:
        # TerraMind's layers are made of values
        device = "cpu" if name.startswith("terramind") else "meta"
        with without_values:
            parameters = build_untrained(name, entry, device=device).parameters
        assert parameters == entry["parameters"]
        smaller = {key: value for key, value in entry.items() if key != "parameters"}
        _, dimension = check_promises(name, smaller | SMALLER[name])
        return {"dimension": dimension, "every_band": True, "smaller": True}
    if entry["parameters"] > MOST and entry["model"].startswith("prithvi_"):
        with without_values:
            _, dimension = check_promises(name, entry, device="meta")
    else:
        _, dimension = check_promises(name, entry, most=MOST)
    return {"dimension": dimension, "every_band": entry["parameters"] <= MOST, "smaller": False}


def main(chosen: list[str]) -> None:
    known = catalogue()
    for name in chosen or [name for name in known.names(["all"]) if name not in ALIKE]:
        entry = known.entry(name)
        if entry.get("environment") == "terratorch":
            found = {"name": name, "wrong": None}
            try:
                found |= checked(name, entry)
            except Exception as error:
                found["wrong"] = f"{type(error).__name__}: {error}"
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
