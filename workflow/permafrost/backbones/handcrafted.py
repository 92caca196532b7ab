"""Handcrafted features of each band and spectral index, in the three levels of torchgeo-bench's baseline.

Formulas: src/torchgeo_bench/models/_handcrafted_*.py of github.com/torchgeo/torchgeo-bench.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from permafrost.backbones.input.contract import Channel

#: index -> common names of the bands a and b of ``(a - b) / (a + b)``: NDVI, NDWI, NDBI, NBR
INDICES = (("nir", "red"), ("green", "nir"), ("swir16", "nir"), ("nir", "swir22"))
#: features per map that a level adds
ADDS = (9, 12, 16)
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_SCALES = (1, 2, 4)
_TINY = 1e-6
# clockwise from the upper left: (row, column) of the neighbours in windows of 3 x 3
_AROUND = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))


def index_pairs(channels: Sequence[Channel]) -> list[tuple[int, int]]:
    """Positions of the bands of each index that a sensor has, sensor by sensor.

    Where a sensor has no band of common name nir, its narrow one (nir08) is used.
    """
    pairs = []
    for sensor in dict.fromkeys((one.modality, one.sensor) for one in channels):
        places = {
            one.common_name: place
            for place, one in enumerate(channels)
            if (one.modality, one.sensor) == sensor and one.index is not None
        }
        places.setdefault("nir", places.get("nir08", -1))
        found = [(places.get(a, -1), places.get(b, -1)) for a, b in INDICES]
        pairs += [pair for pair in found if min(pair) >= 0]
    return pairs


class Handcrafted(nn.Module):
    """Features of M maps, the C channels and the indices `pairs` of them.

    Level 1: mean, standard deviation (n), minimum, maximum, five quantiles. Level 2 adds mean and
    deviation of the gradient, its coherence and the entropy of its direction, at three scales.
    Level 3 adds local binary patterns, Harris corners, quadrants, and where the lowest and highest
    quarter of the values are. Each level begins with the features of the one before.
    """

    def __init__(self, level: int, pairs: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.level, self.pairs = level, list(pairs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, 9 M), (B, 21 M) or (B, 37 M)."""
        indices = [_difference(images[:, a], images[:, b]) for a, b in self.pairs]
        maps = torch.cat([images, *(one[:, None] for one in indices)], dim=1)
        found = [_statistics(maps)]
        if self.level > 1:
            found.append(torch.cat([_texture(_shrunk(maps, scale)) for scale in _SCALES], dim=-1))
        if self.level > 2:
            found.append(_structure(maps, found[0]))
        return torch.cat([one.flatten(1) for one in found], dim=1)


def _difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``(a - b) / (a + b)``, 0 where the sum almost vanishes."""
    total = a + b
    defined = total.abs() > _TINY * (a.abs() + b.abs())
    return torch.where(defined, (a - b) / torch.where(defined, total, 1), 0)


def _statistics(maps: torch.Tensor) -> torch.Tensor:
    flat = maps.flatten(2)
    ordered = flat.sort(dim=-1).values
    places = torch.tensor(_QUANTILES, dtype=torch.float64) * (flat.shape[-1] - 1)
    below, above = places.floor().long().to(maps.device), places.ceil().long().to(maps.device)
    weight = (places - places.floor()).to(maps)
    quantiles = torch.lerp(ordered[..., below], ordered[..., above], weight)
    basic = [flat.mean(-1), flat.std(-1, correction=0), ordered[..., 0], ordered[..., -1]]
    return torch.cat([torch.stack(basic, -1), quantiles], -1)


def _shrunk(maps: torch.Tensor, scale: int) -> torch.Tensor:
    sides = [min(scale, side) for side in maps.shape[-2:]]
    return F.avg_pool2d(maps, sides, ceil_mode=True, count_include_pad=False)


def _gradients(maps: torch.Tensor) -> list[torch.Tensor]:
    """Derivatives along x and y: central, one-sided at the edge, 0 along an axis of one pixel."""
    return [
        torch.gradient(maps, dim=axis)[0] if maps.shape[axis] > 1 else torch.zeros_like(maps)
        for axis in (-1, -2)
    ]


def _entropy(counts: torch.Tensor) -> torch.Tensor:
    """Entropy of (…, bins), 1 for equal counts and 0 without any."""
    shares = counts / counts.sum(-1, keepdim=True).clamp_min(_TINY)
    return -torch.xlogy(shares, shares).sum(-1) / math.log(counts.shape[-1])


def _elongation(xx: torch.Tensor, yy: torch.Tensor, xy: torch.Tensor) -> torch.Tensor:
    """Difference over sum of the eigenvalues of ``[[xx, xy], [xy, yy]]``."""
    return torch.hypot(xx - yy, 2 * xy) / (xx + yy).clamp_min(_TINY)


def _texture(maps: torch.Tensor) -> torch.Tensor:
    gx, gy = _gradients(maps)
    length = torch.hypot(gx, gy)
    # coherence and direction do not depend on the unit
    largest = length.amax((-2, -1), keepdim=True).clamp_min(_TINY)
    ux, uy = gx / largest, gy / largest
    angles = torch.remainder(torch.atan2(uy, ux), math.pi)
    bins = (angles * (8 / math.pi)).long().clamp_max(7).flatten(2)
    weights = torch.hypot(ux, uy).flatten(2)
    histogram = weights.new_zeros(*maps.shape[:2], 8).scatter_add_(-1, bins, weights)
    moments = [one.mean((-2, -1)) for one in (ux.square(), uy.square(), ux * uy)]
    found = [length.mean((-2, -1)), length.std((-2, -1), correction=0)]
    return torch.stack([*found, _elongation(*moments), _entropy(histogram)], dim=-1)


def _structure(maps: torch.Tensor, statistics: torch.Tensor) -> torch.Tensor:
    least, most, low, high = (statistics[..., one, None, None] for one in (2, 3, 5, 7))
    span = (most - least).clamp_min(_TINY)
    tails = [
        _spread(((low - maps) / span).clamp_min(0)),
        _spread(((maps - high) / span).clamp_min(0)),
    ]
    return torch.cat(
        [_binary_patterns(maps), _corners((maps - least) / span), _quadrants(maps), *tails], -1
    )


def _binary_patterns(maps: torch.Tensor) -> torch.Tensor:
    """Entropy of the 256 patterns of larger neighbours, and the share with at most two changes."""
    height, width = (side - 2 for side in maps.shape[-2:])
    if min(height, width) < 1:
        return maps.new_zeros(*maps.shape[:2], 2)
    center = maps[..., 1:-1, 1:-1]
    larger = torch.stack(
        [maps[..., row : row + height, column : column + width] > center for row, column in _AROUND]
    )
    codes = sum(bit.long() << place for place, bit in enumerate(larger)).flatten(2)
    ones = torch.ones_like(codes, dtype=maps.dtype)
    counts = maps.new_zeros(*maps.shape[:2], 256).scatter_add_(-1, codes, ones)
    changes = (larger != larger.roll(1, 0)).sum(0)
    return torch.stack([_entropy(counts), (changes <= 2).to(maps).mean((-2, -1))], dim=-1)


def _corners(maps: torch.Tensor) -> torch.Tensor:
    """Share of pixels that are peaks of Harris' response, and its mean, for maps in [0, 1]."""
    gx, gy = _gradients(maps)
    xx, yy, xy = (
        F.avg_pool2d(one, 3, stride=1, padding=1, count_include_pad=False)
        for one in (gx.square(), gy.square(), gx * gy)
    )
    response = (xx * yy - xy.square() - 0.04 * (xx + yy).square()).clamp_min(0)
    strong = response > 0.01 * response.amax((-2, -1), keepdim=True)
    peaks = strong & (response == F.max_pool2d(response, 3, stride=1, padding=1))
    return torch.stack([peaks.to(maps).mean((-2, -1)), response.mean((-2, -1))], dim=-1)


def _quadrants(maps: torch.Tensor) -> torch.Tensor:
    """Mean and deviation of each quarter of the image; 0 for an empty one."""
    row, column = ((side + 1) // 2 for side in maps.shape[-2:])
    found = []
    for rows in (slice(None, row), slice(row, None)):
        for columns in (slice(None, column), slice(column, None)):
            part = maps[..., rows, columns].flatten(2)
            part = part if part.shape[-1] else maps.new_zeros(*maps.shape[:2], 1)
            found += [part.mean(-1), part.std(-1, correction=0)]
    return torch.stack(found, dim=-1)


def _spread(weights: torch.Tensor) -> torch.Tensor:
    """Elongation and radius of a distribution of weights over the image, whose sides are 2 long."""
    x, y = (
        torch.linspace(-1, 1, side).to(weights) if side > 1 else weights.new_zeros(1)
        for side in (weights.shape[-1], weights.shape[-2])
    )
    y = y[:, None]
    shares = weights / weights.sum((-2, -1), keepdim=True).clamp_min(_TINY)
    mx, my = ((shares * one).sum((-2, -1), keepdim=True) for one in (x, y))
    terms = ((x - mx).square(), (y - my).square(), (x - mx) * (y - my))
    xx, yy, xy = ((shares * one).sum((-2, -1)) for one in terms)
    return torch.stack([_elongation(xx, yy, xy).clamp_max(1), (xx + yy).sqrt()], dim=-1)
