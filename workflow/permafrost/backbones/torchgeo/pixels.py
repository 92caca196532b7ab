"""Presto and TESSERA, torchgeo's models of time series of single pixels, applied to images.

``pixels: mean`` uses the mean of an image's pixels as one pixel, as the authors of Galileo evaluate
Presto. ``centre`` uses the centre pixel. ``every`` uses each pixel; their features are a map and
are averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from permafrost.backbones.input.acquired import by_dates, month_and_day
from permafrost.backbones.outputs.layers import Dense
from permafrost.core.errors import PermafrostError

if TYPE_CHECKING:
    from permafrost.backbones.input.contract import InputPlan
    from permafrost.backbones.torchgeo.models import TorchgeoOptions

# pixels per forward pass, which limits the memory for tokens of many dates
_BLOCK = 4096

_S2 = dict.fromkeys(("B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B11", "B12"), (0.0, 1e4))
#: bands in Presto's order without ERA5 and SRTM -> (mean, std) of its normalization (nasaharvest/presto)
PRESTO_BANDS = {"VV": (-25.0, 25.0), "VH": (-25.0, 25.0), **_S2}
_PRESTO_CHANNELS, _PRESTO_NDVI, _PRESTO_NO_CLASS = 17, 16, 9
# month from 0 that the authors of Galileo use for Presto if it is unknown: July
_UNKNOWN_MONTH = 6

_TESSERA_S2 = {
    "B4": (1711.0938, 1926.1026),
    "B2": (1308.8511, 1862.9751),
    "B3": (1546.4543, 1803.1792),
    "B8": (3010.1293, 1741.7837),
    "B8A": (3106.5083, 1677.4543),
    "B5": (2068.3044, 1888.7862),
    "B6": (2685.0845, 1736.3090),
    "B7": (2931.5889, 1715.8104),
    "B11": (2514.6928, 1514.5199),
    "B12": (1899.4922, 1398.4779),
}
# converted to dB from the authors' statistics of (2 dB + 50) * 200
_TESSERA_S1 = {
    name: ((mean / 200 - 50) / 2, std / 400)
    for name, mean, std in (("VV", 5484.0407, 1871.2334), ("VH", 3003.7812, 1726.0670))
}


def presto_contract(weights: str | None) -> dict:
    """Fields of `InputContract` for Presto; bands that a dataset lacks are masked."""
    return {**_contract(PRESTO_BANDS), "missing": "leave_out"}


def tessera_contract(weights: str | None) -> dict:
    """Fields of `InputContract` for TESSERA or its encoder of one sensor: z-scores of all its bands."""
    return _contract(tessera_bands(weights))


def tessera_bands(weights: str | None) -> dict[str, tuple[float, float]]:
    """Band to (mean, std), in the order of the weights; dB for radar, else digital numbers."""
    name = (weights or "").rpartition(".")[2]
    return {
        "TESSERA_SENTINEL2_ENCODER": _TESSERA_S2,
        "TESSERA_SENTINEL1_ENCODER": _TESSERA_S1,
    }.get(name, _TESSERA_S2 | _TESSERA_S1)


def _contract(bands: dict[str, tuple[float, float]]) -> dict:
    radar = [name in ("VV", "VH") for name in bands]
    return {
        "bands": tuple(bands),
        "sensor": tuple("sentinel1" if one else "sentinel2" for one in radar),
        "normalization": "weights",
        "unit": tuple("db" if one else "digital_number" for one in radar),
        "mean": tuple(mean for mean, _ in bands.values()),
        "std": tuple(std for _, std in bands.values()),
        "size": None,
        "dates": "each",
    }


def presto_wrap(model, plan: InputPlan, options: TorchgeoOptions, where: str) -> dict:
    """`Family.wrap` for Presto; raises `PermafrostError` if it lacks a band of the input."""
    called = _Presto(model.encoder, _wanted(plan, PRESTO_BANDS, where), options.pixels)
    # with another normalization, such as z-scores, an NDVI would be meaningless and unbounded
    there = {channel.wanted for channel in plan.channels if channel.index is not None}
    called.ndvi = plan.normalization == "weights" and {"B8", "B4"} <= there
    unknown = {"month": _UNKNOWN_MONTH + 1, "place": [0.0, 0.0]}
    takes = frozenset({"dates", "present", "place"})
    return _fields(called, {"where_unknown": unknown}, takes)


def tessera_wrap(model, plan: InputPlan, options: TorchgeoOptions, where: str) -> dict:
    """`Family.wrap` for TESSERA; raises `PermafrostError` unless the input has all of its bands."""
    weights = cast(str | None, getattr(options.weights, "like", options.weights))
    bands = tessera_bands(weights)
    names = _wanted(plan, bands, where)
    if names != list(bands):
        raise PermafrostError(
            f"TESSERA takes the bands {', '.join(bands)}, and is fed {', '.join(names)}",
            where=where,
            remedy="leave input.bands out",
        )
    called = _Tessera(model, names, options.pixels)
    fields = _fields(called, {}, frozenset({"dates", "present"}))
    return {**fields, "needs": frozenset({"dates"})}


def _wanted(plan: InputPlan, known, where: str) -> list[str]:
    names = [str(channel.wanted) for channel in plan.channels]
    if strangers := [name for name in names if name not in known]:
        raise PermafrostError(
            f"the model has no band {', '.join(map(repr, strangers))}",
            where=where,
            remedy=f"leave input.bands out; its bands are {', '.join(known)}",
        )
    return names


def _fields(called: _Pixels, notes: dict, takes: frozenset[str]) -> dict:
    def dense() -> Dense:
        if called.pixels == "every":
            return Dense(called, ("every_pixel",), blocks=())
        return Dense(called, missing="with pixels: every it gives the features of every pixel")

    return {
        "module": called,
        "notes": {"pixels": called.pixels, **notes},
        "dense": dense,
        "takes": takes,
    }


class _Pixels(nn.Module):
    """Applies a model of pixel time series to images; `features` maps (B, T, C) pixels to (B, K)."""

    def __init__(self, model: nn.Module, names: list[str], pixels: str | None) -> None:
        super().__init__()
        self.model, self.names, self.pixels = model, names, pixels or "mean"
        # the map passes through this layer, where a hook can catch it
        self.every_pixel = nn.Identity()

    def forward(
        self,
        images: Tensor,
        dates: Tensor | None = None,
        present: Tensor | None = None,
        place: Tensor | None = None,
    ) -> Tensor:
        """(B, C, H, W) or (B, T, C, H, W) -> (B, K)."""
        series = images if images.ndim == 5 else images[:, None]
        dates = None if dates is None else dates.reshape(*series.shape[:2], 2)
        features, maps = by_dates(self._run, present, series, dates, place)
        for values in maps.values():
            self.every_pixel(values)
        return features

    def _run(self, series: Tensor, dates: Tensor | None, place: Tensor | None):
        if self.pixels == "mean":
            return self.features(series.mean((3, 4)), dates, place), {}
        rows, columns = series.shape[3:]
        if self.pixels == "centre":
            return self.features(series[..., rows // 2, columns // 2], dates, place), {}
        every = series.permute(0, 3, 4, 1, 2).flatten(1, 2)
        count = every.shape[1]
        blocks = every.flatten(0, 1).split(_BLOCK)
        of_pixel = torch.arange(len(series), device=series.device).repeat_interleave(count)
        found = torch.cat(
            [
                self.features(
                    block,
                    None if dates is None else dates[at],
                    None if place is None else place[at],
                )
                for block, at in zip(blocks, of_pixel.split(_BLOCK), strict=True)
            ]
        )
        found = found.unflatten(0, (len(series), count))
        return found.mean(1), {"every_pixel": found.mT.unflatten(2, (rows, columns))}

    def features(self, pixels: Tensor, dates: Tensor | None, place: Tensor | None) -> Tensor:
        """Normalized pixels (B, T, C), dates (B, T, 2), locations (B, 2) -> features (B, K)."""
        raise NotImplementedError


class _Presto(_Pixels):
    """Mean of Presto's tokens; weather, terrain and land cover are masked, and the NDVI unless `ndvi`."""

    ndvi = False

    def features(self, pixels: Tensor, dates: Tensor | None, place: Tensor | None) -> Tensor:
        values, mask = self.inputs(pixels)
        count, times = pixels.shape[:2]
        classes = torch.full((count, times), _PRESTO_NO_CLASS, device=pixels.device)
        months = torch.full_like(classes, _UNKNOWN_MONTH)
        if dates is not None:
            months = torch.where(dates[..., 0] > 0, month_and_day(dates)[0], months)
        latitudes = pixels.new_zeros(count, 2) if place is None else place.flip(-1)
        tokens, _, _ = self.model(values, classes, latitudes, mask, months)
        return tokens.mean(1)

    def inputs(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, C) -> the authors' (B, T, 17) with the NDVI, and their mask (1: missing)."""
        order = list(PRESTO_BANDS)
        values = pixels.new_zeros(*pixels.shape[:2], _PRESTO_CHANNELS)
        mask = torch.ones_like(values)
        at = [order.index(name) for name in self.names]
        values[..., at], mask[..., at] = pixels, 0.0
        if self.ndvi:
            nir, red = (values[..., order.index(name)] for name in ("B8", "B4"))
            light = nir + red
            values[..., _PRESTO_NDVI] = torch.where(light > 0, (nir - red) / light, 0.0)
            mask[..., _PRESTO_NDVI] = 0.0
        return values, mask


class _Tessera(_Pixels):
    """TESSERA's embedding of a time series; the day of the year follows each sensor's bands."""

    def features(self, pixels: Tensor, dates: Tensor | None, place: Tensor | None) -> Tensor:
        if dates is None:
            raise PermafrostError(
                "TESSERA needs the date of every image, and they are not known of all of them",
                remedy="use a dataset that has dates, or leave the backbone out",
            )
        days = dates[..., 1:].to(pixels.dtype)
        optical = [at for at, name in enumerate(self.names) if name not in ("VV", "VH")]
        radar = [at for at, name in enumerate(self.names) if name in ("VV", "VH")]
        parts = [part for at in (optical, radar) if at for part in (pixels[..., at], days)]
        return self.model(torch.cat(parts, dim=-1))
