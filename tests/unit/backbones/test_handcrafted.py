"""Handcrafted features against plain NumPy, one map and one pixel at a time, and MOSAIKS against its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.backbones import build
from permafrost.backbones.backbone import Resources
from permafrost.backbones.handcrafted import ADDS, Handcrafted, index_pairs
from permafrost.backbones.input.contract import Channel, InputPlan
from permafrost.backbones.rcf import RandomConvolutions


def entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / max(counts.sum(), 1e-6)
    return float(-(shares * np.log(shares)).sum() / math.log(len(counts)))


def gradients(m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gy, gx = (np.gradient(m, axis=a) if m.shape[a] > 1 else np.zeros_like(m) for a in (0, 1))
    return gx, gy


def texture(m: np.ndarray) -> list[float]:
    gx, gy = gradients(m)
    length = np.hypot(gx, gy)
    flat = np.stack([gx.ravel(), gy.ravel()]) / max(length.max(), 1e-6)
    small, large = np.linalg.eigvalsh(flat @ flat.T / flat.shape[1])
    bins = np.minimum((np.arctan2(flat[1], flat[0]) % np.pi * 8 / np.pi).astype(int), 7)
    histogram = np.bincount(bins, np.hypot(*flat), 8)
    return [
        length.mean(),
        length.std(),
        (large - small) / max(large + small, 1e-6),
        entropy(histogram),
    ]


def shrunk(m: np.ndarray, scale: int) -> np.ndarray:
    rows, columns = (range(0, side, min(scale, side)) for side in m.shape)
    return np.array([[m[r : r + scale, c : c + scale].mean() for c in columns] for r in rows])


def spread(weights: np.ndarray) -> list[float]:
    y, x = np.meshgrid(
        *(np.linspace(-1, 1, side) if side > 1 else [0.0] for side in weights.shape), indexing="ij"
    )
    if not weights.any():
        return [0.0, 0.0]
    covariance = np.cov(np.stack([x.ravel(), y.ravel()]), aweights=weights.ravel(), ddof=0)
    small, large = np.linalg.eigvalsh(covariance)
    return [(large - small) / max(large + small, 1e-6), math.sqrt(max(large + small, 0))]


def patterns(m: np.ndarray) -> list[float]:
    codes, uniform = [], []
    for row in range(1, m.shape[0] - 1):
        for column in range(1, m.shape[1] - 1):
            around = m[row - 1 : row + 2, column - 1 : column + 2] > m[row, column]
            ring = [*around[0], around[1, 2], *around[2, ::-1], around[1, 0]]
            codes.append(sum(2**place for place, bit in enumerate(ring) if bit))
            uniform.append(
                sum(a != b for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)) <= 2
            )
    return [entropy(np.bincount(codes, minlength=256)), np.mean(uniform)] if codes else [0.0, 0.0]


def corners(m: np.ndarray) -> list[float]:
    def around(values, reduce):
        return np.array(
            [
                [
                    reduce(values[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2])
                    for c in range(m.shape[1])
                ]
                for r in range(m.shape[0])
            ]
        )

    gx, gy = gradients(m)
    xx, yy, xy = (around(one, np.mean) for one in (gx * gx, gy * gy, gx * gy))
    response = np.maximum(xx * yy - xy**2 - 0.04 * (xx + yy) ** 2, 0)
    peaks = (response > 0.01 * response.max()) & (response == around(response, np.max))
    return [peaks.mean(), response.mean()]


def expected(m: np.ndarray) -> list[list[float]]:
    q = np.quantile(m, [0.1, 0.25, 0.5, 0.75, 0.9])
    row, column = ((side + 1) // 2 for side in m.shape)
    parts = [m[:row, :column], m[:row, column:], m[row:, :column], m[row:, column:]]
    quarters = [
        one for part in parts for one in ((part.mean(), part.std()) if part.size else (0, 0))
    ]
    span = max(np.ptp(m), 1e-6)
    tails = [np.maximum(q[1] - m, 0) / span, np.maximum(m - q[3], 0) / span]
    return [
        [m.mean(), m.std(), m.min(), m.max(), *q],
        [one for scale in (1, 2, 4) for one in texture(shrunk(m, scale))],
        [
            *patterns(m),
            *corners((m - m.min()) / span),
            *quarters,
            *spread(tails[0]),
            *spread(tails[1]),
        ],
    ]


@pytest.mark.parametrize("size", [(12, 17), (5, 4), (2, 9), (1, 1)])
@pytest.mark.parametrize("values", ["normal", "steps", "constant"])
def test_features_of_all_levels(size, values):
    random = np.random.default_rng(0)
    images = random.normal(100, 30, (2, 3, *size))
    images = {"normal": images, "steps": images // 20, "constant": images * 0 + 7}[values]
    index = (images[:, 0] - images[:, 2]) / (images[:, 0] + images[:, 2])
    maps = np.concatenate([images, index[:, None]], axis=1)
    wanted = [
        np.concatenate([np.ravel([expected(m)[part] for m in image]) for part in range(3)])
        for image in maps
    ]
    given = torch.from_numpy(images)
    found = {level: Handcrafted(level, [(0, 2)])(given) for level in (1, 2, 3)}
    np.testing.assert_allclose(found[3], np.stack(wanted), rtol=1e-6, atol=1e-7)
    for level in (1, 2):
        width = 4 * sum(ADDS[:level])
        assert found[level].shape == (2, width)
        assert torch.equal(found[level], found[3][:, :width])
    single = Handcrafted(3, [(0, 2)])(given.float())
    assert single.isfinite().all() and single.dtype == torch.float32


def test_an_index_of_opposite_or_no_values_is_zero():
    images = torch.tensor([[[[0.0, 3.0]], [[0.0, -3.0]]]])
    assert Handcrafted(1, [(0, 1)])(images)[0, 18:].tolist() == [0.0] * 9


def test_indices_stay_within_a_sensor_and_use_the_narrow_infrared_if_there_is_no_other():
    def bands(sensor, *names):
        return [Channel(f"{sensor}-{one}", 0, common_name=one, sensor=sensor) for one in names]

    channels = [
        *bands("a", "red", "nir08", "swir22"),
        *bands("b", "green", "nir"),
        *bands("c", "vv"),
    ]
    assert index_pairs(channels) == [(1, 0), (1, 2), (3, 4)]
    # a band that the dataset lacks is a constant
    absent = Channel("nir", None, common_name="nir", sensor="d")
    assert index_pairs([*bands("d", "red"), absent]) == []


def test_an_entry_with_a_level_is_built_and_without_one_it_is_as_before():
    names = ("red", "nir")
    plan = InputPlan(
        tuple(Channel(one, place, common_name=one) for place, one in enumerate(names)),
        None, None, "bilinear", False, "none",
    )  # fmt: skip
    images = torch.rand(2, 2, 9, 9)
    for entry, width in (({"level": 2}, 3 * 21), ({}, 8)):
        backbone = build(
            {"kind": "imagestats", **entry}, plan, Resources("backbone x", {}, 0, None)
        )
        assert backbone.features(images).shape == (2, width)


def test_without_a_bias_random_convolutions_are_those_of_mosaiks():
    """BasicCoatesNgNet of the authors' code: ``relu(w x - b)`` and ``relu(-w x - b)``, averaged."""
    random = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 20, 20, generator=random)
    filters = torch.randn(6, 3, 3, 3, generator=random)
    maps = F.conv2d(images, filters)
    wanted = torch.cat([maps.relu().mean((2, 3)), (-maps).relu().mean((2, 3))], 1)
    torch.testing.assert_close(RandomConvolutions(filters, 0)(images), wanted)
