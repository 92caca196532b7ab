"""A head that says exactly what it is taught: cut, taught, decoded and stitched, the truth comes out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stores.windows import windows_of
from permafrost.data.labels.objects import Objects
from permafrost.probes.dense.map_splits import Layer
from permafrost.probes.detection.decode import CANDIDATES, Decoder
from permafrost.probes.detection.model import Output
from permafrost.probes.detection.pyramid import plan_pyramid
from permafrost.probes.detection.shapes import POINTS
from permafrost.probes.detection.stitching import Stitcher, shown_objects
from permafrost.probes.detection.targets import BatchTargets, assign

CLASSES = 3


def scatter(rng, width: int, height: int, most: float, *, points: bool) -> Objects:
    """Objects of up to `most` pixels that keep apart."""
    boxes, gap = [], 25 if points else 3
    for _ in range(300):
        sides = np.zeros(2) if points else rng.uniform(12, most, 2)
        low = rng.uniform(0, np.array([width, height]) - sides)
        box = np.array([*low, *(low + sides)])
        if all(((low - gap >= o[2:]) | (box[2:] + gap <= o[:2])).any() for o in boxes):
            boxes.append(box)
    return Objects.of(boxes, rng.integers(0, CLASSES, len(boxes)))


def said(chosen: BatchTargets, cells: int, *, points: bool) -> Output:
    """The output of a sample that gives exactly the targets."""
    logits = torch.full((1, cells, CLASSES), -9.0)
    logits[0, chosen.cells, chosen.classes] = 4
    places = torch.ones(1, cells, 2 if points else 4)
    places[0, chosen.cells] = torch.from_numpy(chosen.places)
    return Output(logits, places, None if points else torch.full((1, cells), 3.0))


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(
    ("width", "height", "size", "working"),
    [(400, 400, 200, (256, 256)), (500, 180, 220, (192, 192)), (350, 610, 200, (224, 224))],
)
def test_what_is_taught_decoded_and_stitched_is_the_truth(width, height, size, working, points):
    objects = scatter(np.random.default_rng(0), width, height, 0.28 * size, points=points)
    split = windows_of(objects, width, height, {"size": size, "overlap": 0.3}, working)
    layers = [Layer(str(s), f"map{s}", 4, working[0] // s, working[1] // s) for s in (16, 4)]
    pyramid = plan_pyramid(layers, working, 4, sized=split.shape.sized)
    targets = assign(shown_objects(split), pyramid, split.shape)
    decoder = Decoder(pyramid, split.shape, 5.0 if points else 0.5, 300)
    parts = [
        part
        for row in range(len(split))
        for part in decoder.samples(
            said(targets.of(np.array([row])), pyramid.cells, points=points), split.scales[[row]]
        )
    ]
    assert len(split) > 2 and targets.without_cell == 0
    (found,) = Stitcher(split, decoder.threshold, 2.0).images(parts)
    assert len(found) == len(objects) > 15
    # the nearest detection of each object is the object, and of its class
    apart = np.abs(objects.boxes[:, None] - found.boxes[None]).max(axis=2)
    assert apart.min(axis=1).max() < 0.01
    assert found.classes[apart.argmin(axis=1)].tolist() == objects.classes.tolist()


def test_more_may_be_kept_of_a_sample_than_usually_go_into_suppression():
    pyramid = plan_pyramid([Layer("only", "map0", 4, 64, 64)], (512, 512), 8, sized=False)
    output = Output(torch.full((1, pyramid.cells, 1), 2.0), torch.zeros(1, pyramid.cells, 2), None)
    (few,) = Decoder(pyramid, POINTS, 1.0, 300).samples(output, np.ones((1, 2)))
    (many,) = Decoder(pyramid, POINTS, 1.0, 2000).samples(output, np.ones((1, 2)))
    assert len(few) == 300 and len(many) == 2000 > CANDIDATES
