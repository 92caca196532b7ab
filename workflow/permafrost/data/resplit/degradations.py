"""Harder images: formulas of degradations, on values that are scaled so that a band ranges from 0 to 1.

Settings are those of REOBench (Li et al. 2025, arXiv 2505.16793, "Corrupt Image Generation" of its code at 0417584)
where it has the degradation, else of ImageNet-C (Hendrycks and Dietterich 2019, arXiv 1903.12261, code
imagecorruptions). Lengths in pixels are REOBench's, of images of 800 px, and scale with the longer side of an image.

A formula gets an image (C, H, W) float32, the severity (1 to 5) and a random generator, and returns a new image of the
same shape. The generator does not depend on the severity, so a higher one has the same pattern, only stronger.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
from PIL import Image

_SIDE = 800  # pixels of REOBench's images (DIOR)


def noise(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Add normal noise with standard deviation 0.04, 0.05, 0.06, 0.07, 0.08 (REOBench, Gaussian noise)."""
    deviation = (0.04, 0.05, 0.06, 0.07, 0.08)[severity - 1]
    return image + np.float32(deviation) * rng.standard_normal(image.shape, np.float32)


def haze(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Mix with white: ``(1 - a) x + a``, a = 0.2, 0.3, 0.4, 0.5, 0.6 (REOBench, haze)."""
    share = np.float32((0.2, 0.3, 0.4, 0.5, 0.6)[severity - 1])
    return image * (1 - share) + share


def clouds(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Mix with 0.9 where Perlin noise exceeds a threshold: ``(1 - m) x + 0.9 m`` (REOBench, clouds).

    m is 1 where the noise, scaled to [0, 1], exceeds 1 - d, with d = 0.1, 0.15, 0.2, 0.25, 0.3, and is then blurred
    (standard deviation 5 px, window 11 px). The noise has 6 octaves, persistence 0.5, lacunarity 2 and cells of 200 px.
    """
    density = (0.1, 0.15, 0.2, 0.25, 0.3)[severity - 1]
    sides = image.shape[1:]
    scale = max(sides) / _SIDE
    field = perlin_noise(sides, 200 * scale, rng)
    covered = (field > 1 - density).astype(np.float32)
    mask = _blurred(covered, 5 * scale)
    return image * (1 - mask) + np.float32(0.9) * mask


def _blurred(mask: np.ndarray, deviation: float) -> np.ndarray:
    """(H, W) blurred by normal weights up to one deviation; edges are mirrored."""
    reach = int(deviation + 0.5)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    weights /= weights.sum()
    for _ in range(2):
        # rows, and after transposing, columns
        padded = np.pad(mask, ((reach, reach), (0, 0)), mode="symmetric")
        shifted = (padded[i : i + len(mask)] * weight for i, weight in enumerate(weights))
        mask = sum(shifted).T.astype(np.float32)  # type: ignore[union-attr]
    return mask


def stripes(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Set parallel stripes to 0, at a random angle (REOBench, data gaps).

    There are 2, 3, 4, 5, 6 along the diagonal, 3, 4, 5, 6, 7 px wide (1 px at least).
    """
    height, width = image.shape[1:]
    angle = rng.random() * np.pi
    wide = max(1.0, (3, 4, 5, 6, 7)[severity - 1] * max(height, width) / _SIDE)
    spacing = int(math.hypot(height, width)) / (2, 3, 4, 5, 6)[severity - 1]
    rows, columns = np.mgrid[:height, :width]
    across = columns * np.cos(angle) + rows * np.sin(angle)
    return np.where(across % spacing < wide, np.float32(0), image)


def jpeg(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Compress to JPEG of quality 30, 25, 20, 15, 10 (REOBench, compression artifacts).

    Three bands are one colour image; of any other number, each band is a grey image. What lies outside of 0 to 1 is
    kept apart.
    """
    inside = np.clip(image, 0, 1)
    pixels = np.rint(255 * inside).astype(np.uint8)
    quality = (30, 25, 20, 15, 10)[severity - 1]
    parts = [pixels.transpose(1, 2, 0)] if len(pixels) == 3 else list(pixels)
    stored = np.stack([_compressed(part, quality) for part in parts])
    stored = stored[0].transpose(2, 0, 1) if len(pixels) == 3 else stored
    return stored.astype(np.float32) / 255 + (image - inside)


def _compressed(pixels: np.ndarray, quality: int) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def resolution(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Average to 0.6, 0.5, 0.4, 0.3, 0.25 of height and width, repeat pixels to the old size (ImageNet-C, pixelate)."""
    share = (0.6, 0.5, 0.4, 0.3, 0.25)[severity - 1]
    height, width = image.shape[1:]
    small = max(1, int(width * share)), max(1, int(height * share))
    return np.stack(
        [
            np.asarray(
                Image.fromarray(band)
                .resize(small, Image.Resampling.BOX)
                .resize((width, height), Image.Resampling.NEAREST)
            )
            for band in np.ascontiguousarray(image)
        ]
    )


def shift(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Move by 15, 20, 25, 30, 35 px down or up, and right or left; edges are mirrored (REOBench, translate).

    In whole pixels, 1 at least.
    """
    height, width = image.shape[1:]
    by = max(1, round((15, 20, 25, 30, 35)[severity - 1] * max(height, width) / _SIDE))
    down, right = by * rng.choice([-1, 1], 2)
    padded = np.pad(image, ((0, 0), (by, by), (by, by)), mode="symmetric")
    return padded[:, by - down : by - down + height, by - right : by - right + width]


def rotation(image: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Rotate by 30, 45, 60, 75, 90 degrees about the centre, bilinear; edges are mirrored (REOBench, rotate)."""
    turn = np.deg2rad((30, 45, 60, 75, 90)[severity - 1])
    height, width = image.shape[1:]
    y, x = np.ogrid[:height, :width]
    y, x = y - (height - 1) / 2, x - (width - 1) / 2
    # the place that each pixel comes from
    rows = np.cos(turn) * y + np.sin(turn) * x + (height - 1) / 2
    columns = np.cos(turn) * x - np.sin(turn) * y + (width - 1) / 2
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = (rows - top).astype(np.float32), (columns - left).astype(np.float32)
    total = np.zeros_like(image)
    for i, by_row in ((0, 1 - down), (1, down)):
        for j, by_column in ((0, 1 - right), (1, right)):
            pixels = image[:, _mirrored(top + i, height), _mirrored(left + j, width)]
            total += by_row * by_column * pixels
    return total


def _mirrored(places: np.ndarray, side: int) -> np.ndarray:
    """The pixels at these places if the image is continued by its mirror images."""
    places = places % (2 * side)
    return np.minimum(places, 2 * side - 1 - places)


def perlin_noise(
    sides: tuple[int, ...], cell: float, rng: np.random.Generator, octaves: int = 6
) -> np.ndarray:
    """(H, W) gradient noise (Perlin 2002, doi:10.1145/566654.566636), scaled to [0, 1].

    Each octave has half the `cell` (in pixels) and half the amplitude of the one before.
    """
    total = np.zeros(sides)
    for octave in range(octaves):
        total += 0.5**octave * _gradient_noise(sides, cell / 2**octave, rng)
    spread = np.ptp(total)
    return (total - total.min()) / spread if spread else total


def _gradient_noise(sides: tuple[int, ...], cell: float, rng: np.random.Generator) -> np.ndarray:
    places = [np.arange(side) / cell for side in sides]
    first = [place.astype(int) for place in places]
    angles = 2 * np.pi * rng.random([int(one[-1]) + 2 for one in first])
    (y, x), (row, column) = np.ix_(*places), np.ix_(*first)
    smooth_y, smooth_x = (6 * t**5 - 15 * t**4 + 10 * t**3 for t in (y - row, x - column))
    corners = [
        np.sin(angles[row + i, column + j]) * (y - row - i)
        + np.cos(angles[row + i, column + j]) * (x - column - j)
        for i in (0, 1)
        for j in (0, 1)
    ]
    above, below = (one + smooth_x * (other - one) for one, other in (corners[:2], corners[2:]))
    return above + smooth_y * (below - above)


#: degradation of pixels -> its formula
FORMULAS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    one.__name__: one for one in (noise, haze, clouds, stripes, jpeg, resolution, shift, rotation)
}
