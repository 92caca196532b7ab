"""Every entry of config/backbones/terratorch.yaml with random weights, fed images of its own bands and size.

Runs in the environment `terratorch`. Prints a line of JSON for each entry, with what is wrong with it. Of large ones
one image is fed, as one for each of their bands would take minutes; the meta device does not take TerraMind and Clay.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.simplefilter("ignore")

from helpers.catalogue import catalogue, check_promises  # noqa: E402

#: parameters; of more, one image is fed
MOST = 95_000_000
#: without training the same network, with the same input, as the entry of several images (mi)
ALIKE = {f"terratorch-satlas-swin-{size}-si-{bands}" for size in "tb" for bands in ("ms", "rgb")}


def main(chosen: list[str]) -> None:
    known = catalogue()
    for name in chosen or [name for name in known.names(["all"]) if name not in ALIKE]:
        entry = known.entry(name)
        if entry.get("environment") == "terratorch":
            found = {"name": name, "wrong": None}
            try:
                parameters, dimension = check_promises(name, entry, most=MOST)
                found |= {"parameters": parameters, "dimension": dimension}
                found |= {"every_band": parameters <= MOST}
            except Exception as error:
                found["wrong"] = f"{type(error).__name__}: {error}"
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
