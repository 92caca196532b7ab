"""What a backbone is told of images while it is fine-tuned: what `extract` tells it of the same images."""

from __future__ import annotations

import json

import pytest
from helpers.stages.fine_tune import Scenes

# writes down what it is told of which images; without defaults, so that not being told is an error
TOLD = """
import json

import torch
from torch import nn


class Told(nn.Module):
    layers = ("first",)

    def __init__(self, channels, heard):
        super().__init__()
        self.first = nn.Conv2d(channels, 8, 3, stride=2, padding=1)
        self.heard = heard

    def forward(self, images, place, dates, ground_distance_m):
        learning = torch.is_grad_enabled()
        places = torch.linspace(0, 1, images[0].numel()).reshape(images[0].shape).double()
        with open(self.heard, "a") as file:
            for image, *told in zip(images, place, dates, ground_distance_m, strict=True):
                key = round(float((image.detach() * places).mean()), 7)
                file.write(json.dumps([learning, key, *(one.tolist() for one in told)]) + "\\n")
        return self.first(images).relu() * ground_distance_m[:, None, None, None] / 10


def build(inputs, *, heard):
    return Told(len(inputs), heard)
"""


@pytest.fixture(scope="module", params=["classification", "segmentation"])
def scenes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("told") / request.param
    # images of two sizes, fed as one: two ground distances; masks are of images of one size
    sides = (16,) if request.param == "segmentation" else (12, 16)
    made = Scenes(folder, request.param, sides=sides, known=True)
    (folder / "told.py").write_text(TOLD)
    return made


def telling(scenes: Scenes, heard: str) -> tuple[dict, callable]:
    """An entry that writes to the file `heard`, and a function: (learning, image) -> all that it was told of it."""
    path = scenes.folder / heard
    entry = {
        "kind": "entrypoint",
        "entrypoint": f"{scenes.folder / 'told.py'}:build",
        "options": {"heard": str(path)},
    }

    def read() -> dict:
        found: dict = {}
        for line in path.read_text().splitlines():
            learning, image, *told = json.loads(line)
            found.setdefault((learning, image), set()).add(json.dumps(told))
        return found

    return entry, read


@pytest.mark.parametrize("memory", [None, 0], ids=["kept", "streamed"])
def test_what_is_told_of_an_image_is_what_extract_tells(scenes, memory):
    entry, heard = telling(scenes, f"extract-{memory}.jsonl")
    scenes.extract(entry)
    extracted = {image: told for (_, image), told in heard().items()}
    assert len(extracted) == 48 and all(len(told) == 1 for told in extracted.values())
    # each another place and date
    assert len(set.union(*extracted.values())) == 48
    entry, heard = telling(scenes, f"tune-{memory}.jsonl")
    still = {"flip": False, "rotate": False}
    _, metadata = scenes.tune(entry, augmentation=still, memory=memory)
    tuned = heard()
    assert {image for learning, image in tuned if not learning} == set(extracted)
    # all images of the train split, in whatever order
    assert sum(learning for learning, _ in tuned) == 24
    assert all(told == extracted[image] for (_, image), told in tuned.items())
    assert metadata["settings"]["epochs_log"]


def test_nothing_is_told_that_is_withheld(scenes, tmp_path):
    source = TOLD.replace("place, dates, ground_distance_m):", "place=None):")
    source = source.replace("place, dates, ground_distance_m,", "[place] * len(images),")
    source = source.replace("one.tolist()", "one")
    source = source.replace(" * ground_distance_m[:, None, None, None] / 10", "")
    (scenes.folder / "untold.py").write_text(source)
    entry, heard = telling(scenes, "withheld.jsonl")
    entry["entrypoint"] = entry["entrypoint"].replace("told.py", "untold.py")
    scenes.tune({**entry, "input": {"metadata": "withheld"}})
    assert {one for told in heard().values() for one in told} == {"[null]"}
