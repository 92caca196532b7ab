"""What a backbone is fed of a dataset: channels, size and normalisation, and how well they fit what it wants."""

from __future__ import annotations

from dataclasses import dataclass, fields

from permafrost.backbones.input.fit import STRICT
from permafrost.backbones.input.matching import wish
from permafrost.backbones.input.scaling import POWER_FLOOR


@dataclass(frozen=True)
class Channel:
    """One channel that is fed: ``(stored - center) * gain``, or ``value`` everywhere where `index` is None.

    With ``power``, a scale and an offset, stored values become dB first, see `scaling`.

    ``modality`` is the one whose images hold it, of a dataset of several.
    ``stands_for`` is the band that was wanted where the nearest one is fed, ``distance_nm`` how far they are apart.
    ``wanted`` is the band by its name in the contract. ``width_nm``, ``sensor`` and ``orbit`` are those of `Band`.
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
    """How the tensor that a backbone receives is made from stored pixels.

    ``channels`` in the order fed; ``size``, ``crop``, ``interpolation``, ``antialias``, ``normalization``,
    ``clip``, ``dates``, ``metadata`` as in `InputContract`. ``left_out`` are wanted bands that no channel is fed for;
    ``policy`` is the one that had to do something, ``done`` and ``reason`` what it did, and why.
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
        """Side in pixels of the tensor fed; None where images keep their native size."""
        return self.crop or self.size

    @property
    def bands_real(self) -> int:
        """Number of bands of the dataset that are fed; one that is fed twice counts once."""
        return len({one.index for one in self.channels} - {None})

    @property
    def bands_wanted(self) -> int:
        return len(self.channels) + len(self.left_out)

    @property
    def fit(self) -> str:
        """What had to be done, the gravest first: see the keys; else ``exact``."""
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
        """All that decides the tensor: of two plans with one recipe the same pixels become the same values.

        Policies, reasons and names of channels are no part of it. ``wanted`` is, as models find a band's place by it; a
        common name stands for others of the same band.
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
        """What a feature store records of its input."""
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
        """What is fed instead of zeros, and the least power of channels that become dB; nothing where neither is."""
        filled = {one.name: one.value for one in self.channels if one.index is None and one.value}
        decibels = [one.name for one in self.channels if one.power is not None]
        return {
            **({"filled_with": filled} if filled else {}),
            **({"to_decibels": decibels, "power_floor": POWER_FLOOR} if decibels else {}),
        }
