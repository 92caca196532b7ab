"""Statistics of the input channels on the train split, and checks for unusual ones. Without torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from permafrost.backbones.input.contract import Channel, InputContract, InputPlan
from permafrost.backbones.input.scaling import POWER_FLOOR, TO_UNIT_INTERVAL

#: kinds that may use stored values: baselines, and models that normalize them themselves
_TAKE_STORED = frozenset({"imagestats", "entrypoint"})
#: limits for z-scores: largest absolute mean, smallest and largest standard deviation
_MEAN, _LEAST, _MOST = 1.0, 0.3, 10.0
#: smallest standard deviation for values in [-1, 1], since that of photographs is 0.45
_LEAST_SIGNED = 0.3 * 0.45
# 98th percentile of the standard normal distribution
_NORMAL_98 = 2.0537489
_SHOWN = 3
_NORMALISED = {
    "weights": "(x - mean) / std, with the statistics of the weights",
    "dataset": "z-scores, with the statistics of the train split",
    "two_sigma": "mean ± 2 standard deviations to [0, 1]",
    "percentile": "2nd to 98th percentile of the train split to [0, 1]",
    "minmax": "range of the train split to [0, 1]",
    "none": "as they are stored",
}


class FedChannel(NamedTuple):
    """Mean and standard deviation of an input channel, before clipping and resizing."""

    name: str
    mean: float
    std: float

    def __str__(self) -> str:
        mean, std = (f"{x:.0f}" if abs(x) >= 100 else f"{x:.2g}" for x in (self.mean, self.std))
        return f"{self.name} {mean} ± {std}"


def channels_as_fed(plan: InputPlan, bands: Sequence[dict]) -> list[FedChannel]:
    """Statistics of all input channels of `plan` on the train split, from the card's `bands`.

    Constant channels have std 0. For channels converted from power to dB, mean and std are
    estimated from the 2nd and 98th percentile in dB, assuming a normal distribution, since the card
    has no statistics of dB.
    """
    return [
        FedChannel(one.name, one.value, 0.0)
        if one.index is None
        else _as_fed(one, bands[one.index])
        for one in plan.channels
    ]


def _as_fed(channel: Channel, band: dict) -> FedChannel:
    mean, std = band["mean"], band["std"]
    if channel.power is not None:
        scale, offset = channel.power
        low, high = (
            10 * math.log10(max(band[key] * scale + offset, POWER_FLOOR)) for key in ("p2", "p98")
        )
        mean, std = (low + high) / 2, (high - low) / (2 * _NORMAL_98)
    return FedChannel(channel.name, (mean - channel.center) * channel.gain, std * abs(channel.gain))


def unusual_channels(
    plan: InputPlan, kind: str, bands: Sequence[dict], fed: Iterable[FedChannel]
) -> list[FedChannel]:
    """The channels whose mean is beyond ±1, or whose std is below 0.3 or above 10.

    If the input is in [0, 1] (weights that only divide) or in [-1, 1], the smallest std is 0 or
    0.135, since such values vary less in any images. Constant channels are not checked.

    Parameters
    ----------
    kind : of the backbone; baselines may use stored values.
    bands : of the card, for their scale and offset.
    fed : all channels, from `channels_as_fed` or measured.
    """
    if plan.normalization == "none" and kind in _TAKE_STORED:
        return []
    least = _least_deviation(plan, bands)
    return [
        one
        for channel, one in zip(plan.channels, fed, strict=True)
        if channel.index is not None and (abs(one.mean) > _MEAN or not least <= one.std <= _MOST)
    ]


def _least_deviation(plan: InputPlan, bands: Sequence[dict]) -> float:
    if plan.normalization in TO_UNIT_INTERVAL:
        return 0.0
    if plan.normalization != "weights":
        return _LEAST
    # the input value of a physical 0: 0 means division only, -1 means values in [-1, 1]
    nothing = {
        round((-band["offset"] / band["scale"] - one.center) * one.gain, 6)
        for one in plan.channels
        if one.index is not None and one.power is None and (band := bands[one.index])["scale"]
    }
    if 0 in nothing:
        return 0.0
    return _LEAST_SIGNED if nothing == {-1} else _LEAST


def listed(fed: Sequence[FedChannel]) -> str:
    """The first three channels as text, and the number of others."""
    more = f" and {len(fed) - _SHOWN} more" if len(fed) > _SHOWN else ""
    return ", ".join(map(str, fed[:_SHOWN])) + more


def values_words(plan: InputPlan) -> str:
    """The normalization as text."""
    return _NORMALISED[plan.normalization] + (", clipped" if plan.clip else "")


def assumed_words(contract: InputContract) -> str | None:
    """Mean, std and unit of the weights as text; None if the normalization does not use them."""
    if contract.normalization not in ("weights", "two_sigma") or contract.mean is None:
        return None
    mean, std, unit = (
        ", ".join(
            f"{one:.6g}" if isinstance(one, float | int) else str(one) for one in _listed(values)
        )
        for values in (contract.mean, contract.std, contract.unit)
    )
    return f"mean {mean}; std {std}; unit {unit}"


def _listed(values) -> tuple:
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def formula(channel: Channel, normalization: str) -> str:
    """The formula from stored values to input values of a channel, as text."""
    if channel.index is None:
        return f"{channel.value:.6g} everywhere" if channel.value else "zeros"
    if normalization == "none":
        return "stored"
    stored = "stored"
    if channel.power is not None:
        scale, offset = channel.power
        power = "stored" if (scale, offset) == (1, 0) else f"stored x {scale:.6g} + {offset:.6g}"
        stored = f"10 log10(max({power}, {POWER_FLOOR:g}))"
    return f"({stored} - {channel.center:.6g}) x {channel.gain:.6g}"
