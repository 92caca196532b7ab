"""A dataset of which there is only the card, toy backbones, and what `permafrost profile` is told of them."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.identity import fingerprint
from permafrost.core.tables import read_table
from permafrost.data.store.card import write_card

from helpers.stages.specifications import extraction_of, specification
from helpers.stores.images import IMAGES, card_of, rgb_bands

#: few repeats, since no test asks how long anything took
OPTIONS = {
    "batch_size": 4,
    "repeats": 3,
    "latency_repeats": 4,
    "warm_up": 1,
    "most_seconds": 60,
    "threads": 1,
}
SIDE = 20
MADE = fingerprint("profile")

CONVOLUTION = """
from torch import nn


class Toy(nn.Module):
    layers = ("convolution",)

    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(channels, 4, 3, bias=False)
        self.linear = nn.Linear(4, 5)

    def forward(self, images):
        return self.linear(self.convolution(images).relu().mean((2, 3)))


def build(plan):
    return Toy(len(plan))
"""


def toy(folder: Path, source: str = CONVOLUTION, **entry) -> dict:
    """An entry whose backbone is made by `source`."""
    path = folder / "toy.py"
    path.write_text(source)
    return {"kind": "entrypoint", "entrypoint": f"{path}:build", **entry}


def card_in(folder: Path, *, size=(SIDE, SIDE), smallest=None, **fields) -> Path:
    splits = {name: {"count": 6} for name in ("train", "val", "test")}
    sizes = {"min": list(smallest or size), "max": list(size)}
    write_card(
        folder / "card.json", card_of(rgb_bands(), splits=splits, image_size=sizes, **fields)
    )
    return folder / "card.json"


def spec_of(entry: dict, *, extraction=None, files=None, **options) -> dict:
    return {
        "stage": "profile",
        "dataset": "tiny",
        "backbone": "tried",
        "entry": entry,
        "extraction": extraction_of(size=None) | (extraction or {}),
        "files": files or {},
        "options": OPTIONS | options,
        "inputs": {"images": IMAGES},
    }


def no_images() -> dict:
    raise AssertionError("a profile needs no images")


def profile(folder: Path, entry: dict, *, card=None, images=no_images, device="cpu", **spec):
    """The profile of the entry's backbone."""
    from permafrost.features.profiling.profile import profile_backbone

    return profile_backbone(
        specification(spec_of(entry, **spec)),
        card=card or card_in(folder),
        images=images,
        device=device,
    )


def profile_rows(folder: Path, found, entry: dict | None = None, **spec) -> list[dict]:
    """The rows of the table of a profile."""
    from permafrost.statistics.scores.profile_table import write_profile

    path = folder / "profile.parquet"
    write_profile(found, path, spec=specification(spec_of(entry or {}, **spec)), made=MADE)
    return read_table(path, expect=MADE)[0].to_pylist()


def plan_of_bands(positions: list[int]):
    """A plan that feeds the stored bands at `positions` as they are."""
    from permafrost.backbones.input.contract import Channel, InputPlan

    channels = tuple(Channel(f"band {position}", position) for position in positions)
    return InputPlan(channels, None, None, "bilinear", False, "none")
