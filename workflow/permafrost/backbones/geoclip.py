"""GeoCLIP's location encoder (Vivanco Cepeda et al. 2023, arXiv:2309.16020); the authors' tensor names."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

#: standard deviations of the random frequencies: coarse, middle and fine
_SIGMAS = (1.0, 16.0, 256.0)
#: coefficients of the Equal Earth projection (Šavrič et al. 2019, doi:10.1080/13658816.2018.1504949)
_A1, _A2, _A3, _A4 = 1.340264, -0.081106, 0.000893, 0.003796
#: the authors' scale of projected coordinates
_SCALE = 66.50336 / 180


def equal_earth(places: Tensor) -> Tensor:
    """Project (n, 2) longitude and latitude in degrees to (n, 2) x and y, in the authors' scale."""
    lon, lat = torch.deg2rad(places).unbind(1)
    theta = torch.asin(math.sqrt(3) / 2 * torch.sin(lat))
    below = 3 * (9 * _A4 * theta**8 + 7 * _A3 * theta**6 + 3 * _A2 * theta**2 + _A1)
    x = 2 * math.sqrt(3) * lon * torch.cos(theta) / below
    y = _A4 * theta**9 + _A3 * theta**7 + _A2 * theta**3 + _A1 * theta
    return torch.stack([x, y], dim=1) * _SCALE


class _Fourier(nn.Module):
    """(n, 2) -> (n, 512): random Fourier features, whose frequencies are stored with the weights."""

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.randn(256, 2) * sigma, requires_grad=False)

    def forward(self, plane: Tensor) -> Tensor:
        phases = 2 * math.pi * plane @ self.b.T
        return torch.cat([phases.cos(), phases.sin()], dim=-1)


class _Capsule(nn.Module):
    def __init__(self, sigma: float) -> None:
        super().__init__()
        layers: list[nn.Module] = [_Fourier(sigma)]
        for width in (512, 1024, 1024):
            layers += [nn.Linear(width, 1024), nn.ReLU()]
        self.capsule = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(1024, 512))

    def forward(self, plane: Tensor) -> Tensor:
        return self.head(self.capsule(plane))


class LocationEncoder(nn.Module):
    """(n, 2) longitude and latitude in degrees -> (n, 512), summed over three scales."""

    def __init__(self) -> None:
        super().__init__()
        for at, sigma in enumerate(_SIGMAS):
            self.add_module(f"LocEnc{at}", _Capsule(sigma))

    def forward(self, places: Tensor) -> Tensor:
        plane = equal_earth(places)
        return sum(capsule(plane) for capsule in self.children())
