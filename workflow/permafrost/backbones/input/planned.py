"""The planned input of a backbone for a dataset: channels, size, normalization, quality of the fit."""

from __future__ import annotations

from dataclasses import dataclass, fields

from permafrost.backbones.input.fit import STRICT
from permafrost.backbones.input.matching import wish
from permafrost.backbones.input.scaling import POWER_FLOOR


@dataclass(frozen=True)
class Channel:
    """One input channel: ``(stored - center) * gain``, or the constant ``value`` if `index` is None.

    Attributes
    ----------
    name : of the band.
    index : position of the band in the card; None: the dataset lacks it.
    wavelength_nm, common_name, width_nm, sensor, orbit : as in `Band`.
    stands_for, distance_nm : the wanted band, and its distance in nm, if this one is a substitute.
    modality : of the band, in a dataset of several modalities.
    wanted : name of the band in the contract.
    power : (scale, offset) if stored power is converted to dB first, see `scaling`.
    """

    name: str
    index: int | None
    center: float = 0.0
    gain: float = 1.0
    wavelength_nm: float | None = None
    common_name: str | None = None
    stands_for: str | None = None
    distance_nm: float | None = None
    modality: str | None = None
    wanted: str | None = None
    width_nm: float | None = None
    sensor: str | None = None
    orbit: str | None = None
    value: float = 0.0
    power: tuple[float, float] | None = None


@dataclass(frozen=True)
class InputPlan:
    """How the input tensor of a backbone is computed from stored pixels.

    Attributes
    ----------
    channels : input channels in order.
    size, crop, interpolation, antialias, normalization, clip, dates, metadata : as in
        `InputContract`.
    left_out : wanted bands without a channel.
    policy : the policy if it changed something, else `strict`.
    done, reason : the policy's changes, and the problem that they solve.
    """

    channels: tuple[Channel, ...]
    size: int | None
    crop: int | None
    interpolation: str
    antialias: bool
    normalization: str
    clip: bool = False
    dates: str = "each"
    metadata: str = "fed"
    left_out: tuple[str, ...] = ()
    policy: str = STRICT
    done: frozenset[str] = frozenset()
    reason: str | None = None

    def __len__(self) -> int:
        return len(self.channels)

    @property
    def names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    @property
    def side(self) -> int | None:
        """Height and width of the input tensor in pixels; None for native sizes."""
        return self.crop or self.size

    @property
    def bands_real(self) -> int:
        """Number of bands of the dataset in the input, each counted once."""
        return len({one.index for one in self.channels} - {None})

    @property
    def bands_wanted(self) -> int:
        return len(self.channels) + len(self.left_out)

    @property
    def fit(self) -> str:
        """The most severe adaptation of the input, in the order of the keys below; else ``exact``."""
        done = {
            "picture": "picture" in self.done,
            "neutral": any(one.index is None for one in self.channels),
            "copied": any(one.stands_for is not None for one in self.channels),
            "assumed": "assumed" in self.done,
            "rescaled": "rescaled" in self.done,
            "subset": bool(self.left_out),
            "converted": any(one.power is not None for one in self.channels),
            "exact": True,
        }
        return next(kind for kind, so in done.items() if so)

    @property
    def wavelengths_nm(self) -> list[float | None]:
        return [channel.wavelength_nm for channel in self.channels]

    def recipe(self) -> dict:
        """Everything that affects the tensor: with equal recipes, equal pixels give equal values.

        Policies, reasons and channel names do not count. ``wanted`` does, since models use it to
        order bands; it is replaced by the common name, if there is one.
        """
        aside = ("policy", "done", "reason", "channels")
        told = ("name", "stands_for", "distance_nm")
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name not in aside},
            "channels": [
                {
                    one.name: getattr(channel, one.name)
                    for one in fields(channel)
                    if one.name not in told
                }
                | {
                    "wanted": channel.wanted
                    and (wish(channel.wanted).common_name or channel.wanted)
                }
                for channel in self.channels
            ],
        }

    def describe(self) -> dict:
        """The description of the input in the attributes of feature stores."""
        return {
            "bands": self.names,
            "fit": self.fit,
            "bands_real": self.bands_real,
            "bands_wanted": self.bands_wanted,
            "zero_filled": [channel.name for channel in self.channels if channel.index is None],
            "nearest": {
                channel.stands_for: {"band": channel.name, "distance_nm": channel.distance_nm}
                for channel in self.channels
                if channel.stands_for is not None
            },
            "size": self.size,
            "crop": self.crop,
            "interpolation": self.interpolation,
            "antialias": self.antialias,
            "normalization": self.normalization,
            "clip": self.clip,
            "center": [channel.center for channel in self.channels],
            "gain": [channel.gain for channel in self.channels],
            "wavelengths_nm": self.wavelengths_nm,
            **({"dates": self.dates} if self.dates != "each" else {}),
            **({"policy": self.policy} if self.policy != STRICT else {}),
            **({"reason": self.reason} if self.reason else {}),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
            **self._describe_values(),
        }

    def _describe_values(self) -> dict:
        """Nonzero constants of missing channels, and channels converted to dB with the smallest power."""
        filled = {one.name: one.value for one in self.channels if one.index is None and one.value}
        decibels = [one.name for one in self.channels if one.power is not None]
        return {
            **({"filled_with": filled} if filled else {}),
            **({"to_decibels": decibels, "power_floor": POWER_FLOOR} if decibels else {}),
        }
