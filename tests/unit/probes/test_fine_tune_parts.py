"""Parts of fine-tuning: augmentation, schedule, batch normalisation, the order of samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stages.fine_tune import Scenes, options
from permafrost.features.devices import exact_numerics
from permafrost.features.extract import open_backbone
from permafrost.features.reading import Batch
from permafrost.probes.fine_tune.augmentation import Augmentation, Change, crop_box
from permafrost.probes.fine_tune.depth import layers_of
from permafrost.probes.fine_tune.image_splits import open_images
from permafrost.probes.fine_tune.models import Tuned
from permafrost.probes.fine_tune.options import AugmentationOptions
from permafrost.probes.fine_tune.probe import extraction_of
from permafrost.probes.fine_tune.streams import ImageStream
from permafrost.probes.fine_tune.trainer import RateSchedule
from torch import nn


def opened(scenes: Scenes, entry=None, **changes):
    """What a job works with: the opened backbone, and its splits."""
    job = scenes.job(entry, **changes)
    with exact_numerics():
        found = open_backbone(
            extraction_of(job),
            images=job.stores,
            card=job.card,
            device="cpu",
            batch_size=8,
        )
    return found, open_images(job, found.attributes, resized=True)


def test_masks_turn_with_their_images_and_values_stay():
    generator = torch.Generator().manual_seed(0)
    masks = torch.randint(0, 3, (64, 6, 6), generator=generator)
    images = masks[:, None].float()
    change = Augmentation(True, True, None).drawn(np.random.default_rng(1), 64)
    before = images.clone(), masks.clone()
    turned, target = change.turned(images, masks, masks)
    assert torch.equal(turned[:, 0].long(), target)
    assert torch.equal(masks, before[1]), "the masks of a kept split were changed in place"
    same = (turned == before[0]).flatten(1).all(dim=1)
    assert 2 <= int(same.sum()) < 32
    for one, other in zip(turned, before[0], strict=True):
        assert torch.equal(one.flatten().sort().values, other.flatten().sort().values)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_images_that_are_not_square_turn_by_halves(turns):
    images = torch.arange(24.0).reshape(1, 1, 4, 6)
    change = Change(np.zeros((1, 2), bool), np.array([turns]), None, None)
    turned, _ = change.turned(images.clone(), None, torch.zeros(1))
    halves = 2 * (turns % 2)
    assert torch.equal(turned, torch.rot90(images, halves, (-2, -1)))


def test_what_is_switched_off_is_never_drawn():
    images = torch.rand(32, 3, 8, 8)
    for augmentation, changed in (
        (Augmentation(False, False, (1.0, 1.0)), False),
        (Augmentation(True, False, None), True),
    ):
        change = augmentation.drawn(np.random.default_rng(0), 32)
        turned, _ = change.turned(images.clone(), None, torch.zeros(32))
        assert torch.equal(turned, images) != changed
    assert Augmentation.of(AugmentationOptions(flip=False, rotate=False), masked=False) is None
    assert (
        Augmentation.of(AugmentationOptions(flip=False, rotate=False, crop=[0.5, 1]), masked=True)
        is None
    )


def test_crops_lie_in_the_image_and_have_the_area_drawn():
    rng = np.random.default_rng(0)
    shares = []
    for place in rng.random((400, 4)):
        top, left, rows, columns = crop_box(40, 40, place, (0.2, 0.5))
        assert min(top, left) >= 0 and top + rows <= 40 and left + columns <= 40
        shares.append(rows * columns / 1600)
    assert 0.17 < min(shares) < 0.24 and 0.46 < max(shares) < 0.53


def test_a_crop_is_prepared_as_an_image_of_that_size_would_be(tmp_path):
    scenes = Scenes(tmp_path, sides=(16, 24))
    found, splits = opened(scenes)
    stream = ImageStream(splits["train"], found.run, batch_size=24, device=torch.device("cpu"))
    stored = stream.stored_images(0, 24)
    change = Augmentation(False, False, (0.3, 0.6)).drawn(np.random.default_rng(3), 24)
    images = change.cropped(stored, found.run)
    assert images.shape == (24, 3, 16, 16)
    for row in (0, 7):
        height, width = stored.heights[row], stored.widths[row]
        top, left, rows, columns = crop_box(height, width, change.places[row], change.areas)
        cut = stored.pixels[row, :, top : top + rows, left : left + columns][None]
        alone = Batch(0, cut, np.array([rows]), np.array([columns]))
        ((_, parts),) = alone.same_sizes()
        assert torch.equal(images[row], found.run.prepare(*parts)[0])


def test_every_epoch_shows_every_sample_once_in_an_order_of_its_own(tmp_path):
    found, splits = opened(Scenes(tmp_path))
    stream = ImageStream(splits["train"], found.run, batch_size=7, device=torch.device("cpu"))
    orders = []
    for epoch in (0, 1):
        batches = list(stream.shuffled(0, epoch))
        orders.append(np.concatenate([batch.rows for batch in batches]).tolist())
        for batch in batches:
            assert batch.target.tolist() == splits["train"].labels[batch.rows].tolist()
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == list(range(24))


def test_the_learning_rate_rises_and_falls():
    cosine = RateSchedule("cosine", 4, 1.0)
    found = [cosine.share(step, 5) for step in range(20)]
    assert found[:5] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6])
    rest = [(1 + np.cos(np.pi * k / 15)) / 2 for k in range(15)]
    assert found[5:] == pytest.approx(rest)
    assert [RateSchedule("constant", 2, 0.0).share(step, 3) for step in range(6)] == [1.0] * 6
    assert RateSchedule("cosine", 2, 2.0).share(5, 3) == pytest.approx(6 / 7)


@pytest.mark.parametrize("batch_norm", ["frozen", "trained"])
def test_statistics_of_batch_normalisation_move_only_where_they_are_trained(tmp_path, batch_norm):
    scenes = Scenes(tmp_path)
    found, splits = opened(scenes, scenes.entry(options={"norm": True}))
    backbone = found.run.backbone
    model = Tuned(
        found.run,
        nn.Identity(),
        layers_of(backbone.module, backbone.learnable),
        batch_norm=batch_norm,
        decay=1.0,
    )
    backbone.unfreeze()
    before = backbone.module.norm.running_mean.clone()
    stream = ImageStream(splits["train"], found.run, batch_size=8, device=torch.device("cpu"))

    class Sum(nn.Module):
        def forward(self, features, maps, size):
            return features.sum()

    model.head = Sum()
    model.train()
    model(*next(stream.shuffled(0, 0)).fed).backward()
    moved = not torch.equal(backbone.module.norm.running_mean, before)
    assert moved == (batch_norm == "trained")
    assert backbone.module.norm.weight.grad is not None
    assert backbone.module.fixed.grad is None
    model.eval()
    assert not backbone.module.norm.training


def test_defaults_are_those_that_the_schema_names():
    found = options()
    assert (found["learning_rate"], found["layer_decay"], found["select"]) == (1e-4, 1.0, "best")
    assert found["augmentation"] == {"flip": True, "rotate": True, "crop": None}
