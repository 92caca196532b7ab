"""Measures of augmented views from their definitions: scipy's generalised eigenvalues, and all pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.stages.views import EXTRACTED, make_views, measure_views
from helpers.stores.images import Dataset
from permafrost.core.stores import Store
from permafrost.metrics import representation as ours
from scipy.linalg import eigh

MODEL = {"kind": "timm", "model": "test_resnet", "weights": {"source": "random"}, "seed": 3}


def by_definition(views: np.ndarray, delta: float) -> float:
    """LiDAR, image by image and view by view, from ``Sb v = l (Sw + delta I) v``."""
    views = views.astype(np.float64)
    images, count, dimensions = views.shape
    means = [image.sum(axis=0) / count for image in views]
    grand = sum(means) / images
    between, within = np.zeros((2, dimensions, dimensions))
    for image, mean in zip(views, means, strict=True):
        between += np.outer(mean - grand, mean - grand) / images
        for view in image:
            within += np.outer(view - mean, view - mean) / (images * count)
    values = eigh(between, within + delta * np.eye(dimensions), eigvals_only=True)
    values = np.sort(np.clip(values, 0, None))[::-1][: min(images, dimensions)]
    shares = values / values.sum() + 1e-7
    return float(np.exp(-np.sum(shares * np.log(shares))))


def all_pairs(views: np.ndarray) -> float:
    """Mean over images of the mean squared distance of two different views at length 1."""
    per_image = []
    for image in views.astype(np.float64):
        unit = [view / np.linalg.norm(view) for view in image if np.linalg.norm(view) > 0]
        gaps = [
            np.sum((one - other) ** 2)
            for i, one in enumerate(unit)
            for j, other in enumerate(unit)
            if i != j
        ]
        per_image += [np.mean(gaps)] if gaps else []
    return float(np.mean(per_image))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Stores of features and of views of a network, as the stages write them."""
    dataset = Dataset(tmp_path_factory.mktemp("views"), counts=(30, 4, 4))
    dataset.extract(MODEL, extraction={"size": 32})
    make_views(dataset, MODEL, extraction={"size": 32}, views=5)
    return dataset.folder / "features/train.zarr", dataset.folder / "views.zarr"


@pytest.mark.parametrize("delta", [1e-6, 1e-4, 1e-2])
def test_rows_are_those_of_the_definitions_on_the_stored_views(stored, tmp_path, delta):
    output, options = tmp_path / "m.parquet", {"delta": delta}
    rows = measure_views(*stored, output, made=EXTRACTED, augmentations=options)
    views = Store(stored[1]).read("views")
    assert views.shape == (30, 5, 96)
    assert rows["lidar"]["value"] == pytest.approx(by_definition(views, delta), rel=1e-6)
    assert 1 < rows["lidar"]["value"] < 29
    assert rows["alignment_augmentations"]["value"] == pytest.approx(all_pairs(views), rel=1e-9)
    for name in ours.VIEW_MEASURES:
        row = rows[name]
        assert row["lower"] < row["value"] < row["upper"] and row["n_units"] == 30
        notes = json.loads(row["settings"])
        assert (notes["rows"], notes["views"], notes["split"]) == (30, 5, "train")
    assert json.loads(rows["lidar"]["settings"])["delta"] == delta


@pytest.mark.parametrize("shape", [(40, 3, 12), (12, 6, 40), (2, 2, 3), (60, 2, 60)])
def test_lidar_of_any_shape(shape):
    generator = np.random.default_rng(1)
    scales = np.arange(1, shape[2] + 1) ** -0.5
    views = generator.normal(size=(shape[0], 1, shape[2])) * scales
    views = views + 0.2 * generator.normal(size=shape)
    assert ours.lidar(views).value == pytest.approx(by_definition(views, 1e-4), rel=1e-6)


def test_alignment_of_views_with_and_without_directions():
    generator = np.random.default_rng(2)
    views = generator.normal(size=(50, 6, 9)) + generator.normal(size=(50, 1, 9))
    assert ours.view_alignment(views).value == pytest.approx(all_pairs(views), rel=1e-12)
    assert ours.view_alignment(views * 1e150).value == pytest.approx(all_pairs(views), rel=1e-12)
    views[generator.random((50, 6)) < 0.4] = 0.0
    views[7, 1:] = views[31] = 0.0
    found = ours.view_alignment(views)
    zero = ~views.any(axis=2)
    assert found.value == pytest.approx(all_pairs(views), rel=1e-12)
    assert found.notes["zero_views"] == zero.sum()
    assert found.notes["lone_images"] == (zero.sum(axis=1) > 4).sum() >= 2


@pytest.mark.parametrize("measure", [ours.view_alignment, ours.lidar])
def test_effects_of_images_are_those_of_leaving_them_out(measure):
    generator = np.random.default_rng(3)
    # where all directions were alike, LiDAR would be at its summit, and its slopes zero
    scales = np.arange(1, 11) ** -0.5
    views = generator.normal(size=(400, 1, 10)) * scales + 0.4 * generator.normal(size=(400, 4, 10))
    views[5, 1:] = 0.0
    units = np.arange(400) // 2
    found = measure(views, units=units)
    left_out = np.array([measure(views[units != unit]).value for unit in range(40)])
    effects = found.terms[:40, 0] * (found.value if found.scale == "log" else 1)
    assert found.terms.shape == (200, 1)
    assert np.corrcoef(found.value - left_out, effects)[0, 1] > 0.999
    assert abs(found.terms.sum()) < 1e-6
    np.testing.assert_allclose(found.replicates(np.ones((200, 2), int)), found.value)


def test_intervals_of_resampled_groups_cover_the_value_of_endless_images():
    """Alignment of views is a mean of independent images, whose expectation can be had."""
    generator = np.random.default_rng(4)

    def draw(images):
        views = generator.normal(size=(images, 1, 6)) + 0.5 * generator.normal(size=(images, 3, 6))
        return ours.view_alignment(views)

    truth = draw(60_000).value
    # the infinitesimal jackknife's variance is the sum of the squared terms
    inside = [
        abs(found.value - truth) < 1.96 * np.sqrt(np.sum(found.terms**2) * 100 / 99)
        for found in (draw(100) for _ in range(300))
    ]
    assert 0.91 < np.mean(inside) < 0.985
