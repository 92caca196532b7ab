"""Formulas of harder images against loops, closed forms, Pillow and SciPy."""

from __future__ import annotations

import io

import numpy as np
import pytest
from permafrost.data.resplit.degradations import FORMULAS, jpeg, perlin_noise, rotation, stripes
from PIL import Image
from scipy.ndimage import map_coordinates

IMAGE = np.random.default_rng(0).random((3, 60, 80)).astype(np.float32)
# smooth, so that compression and averaging lose little at first
SMOOTH = np.stack(
    [np.outer(np.sin(np.arange(60) / k), np.cos(np.arange(80) / 9)) for k in (5, 6, 7)]
)
SMOOTH = ((SMOOTH + 1) / 2).astype(np.float32)


def made(kind: str, severity: int, image=IMAGE, seed: int = 1) -> np.ndarray:
    given = image.copy()
    found = FORMULAS[kind](given, severity, np.random.default_rng(seed))
    assert found.shape == image.shape and found.dtype == np.float32
    np.testing.assert_array_equal(given, image)
    return found


def mirrored(place: int, size: int) -> int:
    """The pixel that stands at a place outside, for pixels repeated as d c b a | a b c d | d c b a."""
    place %= 2 * size
    return place if place < size else 2 * size - 1 - place


@pytest.mark.parametrize("kind", ["noise", "haze", "clouds", "jpeg", "resolution"])
def test_images_are_the_worse_the_higher_the_severity(kind):
    errors = [np.mean((made(kind, severity, SMOOTH) - SMOOTH) ** 2) for severity in range(1, 6)]
    psnr = -10 * np.log10(errors)
    assert (np.diff(psnr) < 0).all() and np.isfinite(psnr).all(), psnr


def test_noise_has_the_published_deviation_and_one_pattern():
    large = np.zeros((2, 400, 400), np.float32)
    added = [made("noise", severity, large) for severity in range(1, 6)]
    for one, wanted in zip(added, (0.04, 0.05, 0.06, 0.07, 0.08), strict=True):
        assert one.std() == pytest.approx(wanted, rel=0.01) and abs(one.mean()) < 1e-3
    np.testing.assert_allclose(added[4], 2 * added[0], rtol=1e-5)


def test_haze_mixes_with_white():
    for severity, share in enumerate((0.2, 0.3, 0.4, 0.5, 0.6), 1):
        np.testing.assert_allclose(made("haze", severity), IMAGE + share * (1 - IMAGE), atol=1e-6)


def test_perlin_noise_is_that_of_loops():
    cell, sides = 7.0, (15, 20)
    angles = 2 * np.pi * np.random.default_rng(3).random((4, 4))
    expected = np.empty(sides)
    for i, j in np.ndindex(sides):
        y, x = i / cell, j / cell
        total = 0.0
        for a in (int(y), int(y) + 1):
            for b in (int(x), int(x) + 1):
                slope = np.sin(angles[a, b]) * (y - a) + np.cos(angles[a, b]) * (x - b)
                # the weight falls from 1 at the corner to 0 at the next ones
                fall = [1 - t**3 * (10 - 15 * t + 6 * t**2) for t in (abs(y - a), abs(x - b))]
                total += slope * fall[0] * fall[1]
        expected[i, j] = total
    expected = (expected - expected.min()) / np.ptp(expected)
    found = perlin_noise(sides, cell, np.random.default_rng(3), octaves=1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_clouds_are_grey_where_the_noise_is_high():
    image = np.random.default_rng(5).random((2, 200, 160)).astype(np.float32)
    field = perlin_noise((200, 160), 50, np.random.default_rng(1))
    steps = np.arange(-1, 2)
    weights = np.exp(-(steps**2) / (2 * 1.25**2))
    weights /= weights.sum()
    covered = np.pad((field > 0.8).astype(float), 1, mode="symmetric")
    # 200 of 800 px: a deviation of 1.25 px, a window of 3 px
    mask = sum(
        weights[i] * weights[j] * covered[i : i + 200, j : j + 160]
        for i in range(3)
        for j in range(3)
    )
    assert 0.01 < mask.mean() < 0.5
    expected = image * (1 - mask) + 0.9 * mask
    np.testing.assert_allclose(made("clouds", 3, image), expected, atol=1e-5)


@pytest.mark.parametrize(("severity", "count", "wide"), [(1, 2, 3), (5, 6, 7)])
def test_stripes_are_those_of_loops(severity, count, wide):
    image = np.ones((1, 20, 800), np.float32)
    angle = np.random.default_rng(4).random() * np.pi
    spacing = int(np.hypot(20, 800)) / count
    expected = np.ones((20, 800))
    for y, x in np.ndindex(20, 800):
        if (x * np.cos(angle) + y * np.sin(angle)) % spacing < wide:
            expected[y, x] = 0
    found = stripes(image, severity, np.random.default_rng(4))
    np.testing.assert_array_equal(found[0], expected)
    # of small images, one pixel wide
    assert 0 < (made("stripes", 5, image[:, :40, :40]) == 0).mean() < 0.25


@pytest.mark.parametrize("bands", [3, 4])
def test_jpeg_is_that_of_pillow(bands):
    pixels = np.random.default_rng(0).integers(0, 256, (bands, 40, 50)).astype(np.uint8)

    def stored(array):
        stream = io.BytesIO()
        Image.fromarray(array).save(stream, format="JPEG", quality=20)
        return np.asarray(Image.open(stream))

    expected = np.moveaxis(stored(np.moveaxis(pixels, 0, -1)), -1, 0) if bands == 3 else None
    expected = np.stack([stored(band) for band in pixels]) if bands == 4 else expected
    found = jpeg(pixels.astype(np.float32) / 255, 3, np.random.default_rng(0))
    np.testing.assert_allclose(255 * found, expected, atol=1e-3)
    # what exceeds the range of 8 bits stays above it
    bright = jpeg(np.full((1, 8, 8), 1.5, np.float32), 1, np.random.default_rng(0))
    np.testing.assert_allclose(bright, 1.5, atol=0.02)


def test_half_the_resolution_is_the_mean_of_blocks():
    blocks = IMAGE.reshape(3, 30, 2, 40, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(
        made("resolution", 2), blocks.repeat(2, axis=1).repeat(2, axis=2), atol=1e-6
    )


@pytest.mark.parametrize(("severity", "by"), [(1, 2), (5, 4)])
def test_a_shift_moves_pixels_and_mirrors_edges(severity, by):
    found = set()
    for seed in range(12):
        moved = made("shift", severity, seed=seed)
        for down, right in ((by, by), (by, -by), (-by, by), (-by, -by)):
            rows = [mirrored(i - down, 60) for i in range(60)]
            columns = [mirrored(j - right, 80) for j in range(80)]
            if np.array_equal(moved, IMAGE[:, rows][:, :, columns]):
                found.add((down, right))
                break
        else:
            raise AssertionError("no shift of this size")
    assert len(found) == 4


def test_a_rotation_is_bilinear_about_the_centre():
    square = IMAGE[:, :60, :60]
    np.testing.assert_allclose(
        made("rotation", 5, square), np.rot90(square, axes=(1, 2)), atol=1e-4
    )
    turn = np.deg2rad(30)
    y, x = np.mgrid[:60, :80]
    y, x = y - 29.5, x - 39.5
    from_y, from_x = np.cos(turn) * y + np.sin(turn) * x, np.cos(turn) * x - np.sin(turn) * y
    for band, turned in zip(IMAGE, rotation(IMAGE, 1, np.random.default_rng()), strict=True):
        expected = map_coordinates(band, [from_y + 29.5, from_x + 39.5], order=1, mode="reflect")
        np.testing.assert_allclose(turned, expected, atol=1e-4)
