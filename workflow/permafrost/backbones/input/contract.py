"""Where what a backbone wants meets what a dataset has.

`InputContract` says what a backbone wants to be fed; the card says what the image stores hold;
`resolve_input` turns the two into an `InputPlan`, or into an error that lists what exists. Everything
about bands, units and normalisation is decided here and nowhere else. Pure functions, no torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permafrost.backbones.input.matching import OfferedBands, match_bands
from permafrost.backbones.input.scaling import (
    NORMALIZATIONS,
    TO_UNIT_INTERVAL,
    Scaling,
    channel_scaling,
    per_channel,
)
from permafrost.core.errors import PermafrostError, near_names

if TYPE_CHECKING:
    from permafrost.data.card import Card

#: kind of backbone -> fields of `InputContract` that it brings along, for kinds without published weights
OWN_WANTS = {
    "imagestats": {"normalization": "none"},
    "rcf": {"normalization": "dataset"},
    "entrypoint": {"normalization": "dataset", "unit": "unit_interval", "dates": "each"},
}

#: kinds of backbone that are told where images lie, and fed none of their pixels
WITHOUT_PIXELS = frozenset({"embeddings", "coordinates"})


@dataclass(frozen=True)
class InputContract:
    """What a backbone wants to be fed.

    Attributes
    ----------
    bands : ``all`` (the dataset's selected bands), ``rgb``, or names and wavelengths in nm.
    sensor : the sensor whose names `bands` are, e.g. ``sentinel2``, or one for each of them; None for common or
        true names.
    normalization : ``weights``, ``dataset``, ``two_sigma``, ``percentile``, ``minmax`` or ``none``, see `scaling`.
    clip : whether values beyond [0, 1] become 0 and 1, before resizing; only for what `TO_UNIT_INTERVAL` lists.
    unit : the unit in which `mean` and `std` are written, one for all channels or one each.
    mean, std : statistics that the weights were trained with; one number, or one per channel.
    size : side in pixels after resizing; None keeps the native size.
    crop : side of the centre crop taken after resizing; None takes none.
    interpolation, antialias : as in ``torch.nn.functional.interpolate`` with align_corners=False.
    missing : what is fed for bands that do not exist: ``error``, nothing; ``zero``, zeros (after normalisation);
        ``nearest``, the band with the nearest wavelength, at most `nearest_nm` away. It may be fed twice;
        ``leave_out``, fewer channels, for kinds whose models take any of their bands.
    white : reflectance that an 8-bit picture shows as 255; needed only to pass between the two.
    dates : of a series, ``each`` date is fed by itself, or ``all`` of them at once.
    metadata : place, dates and ground distance are ``fed`` to models that take them, where they are known of all
        samples, or ``withheld``.
    """

    bands: str | tuple[str | float, ...] = "rgb"
    sensor: str | tuple[str | None, ...] | None = None
    normalization: str = "dataset"
    clip: bool = False
    unit: str | tuple[str, ...] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    size: int | None = 224
    crop: int | None = None
    interpolation: str = "bilinear"
    antialias: bool = False
    missing: str = "error"
    nearest_nm: float | None = None
    white: float | None = None
    dates: str = "each"
    metadata: str = "fed"


@dataclass(frozen=True)
class Channel:
    """One channel that is fed: ``(stored - center) * gain``, or zeros where `index` is None.

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


@dataclass(frozen=True)
class InputPlan:
    """How the tensor that a backbone receives is made from stored pixels.

    ``channels`` in the order fed; ``size``, ``crop``, ``interpolation``, ``antialias``, ``normalization``,
    ``clip``, ``dates``, ``metadata`` as in `InputContract`.
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
    def wavelengths_nm(self) -> list[float | None]:
        return [channel.wavelength_nm for channel in self.channels]

    def describe(self) -> dict:
        """What a feature store records of its input."""
        return {
            "bands": self.names,
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
        }


def input_contract(
    own: dict, entry_input: dict, extraction: dict, *, where: object = None
) -> InputContract:
    """The contract of an entry: what it says itself, else what its weights want, else the run's default.

    Parameters
    ----------
    own : fields of `InputContract` that the kind of backbone or its weights bring along.
    entry_input : the mapping ``input`` of the entry.
    extraction : the run's ``size``, ``interpolation``, ``antialias``.
    """
    known = {field.name for field in dataclasses.fields(InputContract)} - {"sensor"}
    for key in entry_input:
        if key not in known:
            raise PermafrostError(
                f"unknown key {key!r}, {near_names(key, known)}", where=f"{where}: input"
            )
    if entry_input.get("dates", "each") != "each" and "dates" not in own:
        raise PermafrostError(
            "this kind of backbone takes the dates of a series one at a time",
            where=f"{where}: input.dates",
            remedy="leave dates out, or write an entry of kind entrypoint",
        )
    if ("mean" in entry_input) != ("std" in entry_input):
        raise PermafrostError("mean and std belong together", where=f"{where}: input")
    general = {k: extraction[k] for k in ("size", "interpolation", "antialias") if k in extraction}
    fields = {**general, **own, **entry_input}
    if "size" in entry_input and "crop" not in entry_input:
        # the weights' own resize-then-crop is replaced as a whole
        fields["crop"] = None
    chosen, usual = fields.get("normalization"), own.get("normalization")
    if chosen != usual and "clip" not in entry_input:
        # it belongs to the normalisation that is replaced
        fields["clip"] = False
    if chosen == "two_sigma" and usual != "two_sigma":
        # the weights' statistics are for their own normalisation; those of the entry are meant
        fields |= {key: entry_input.get(key) for key in ("mean", "std", "unit")}
    if "bands" in entry_input:
        # names that a person writes are the dataset's or common names
        fields["sensor"] = None
    return InputContract(**{key: _frozen(value) for key, value in fields.items()})


def resolve_input(
    contract: InputContract, card: Card | OfferedBands, *, where: object = None
) -> InputPlan:
    """Meet the wishes of `contract` with the bands of `card`.

    Raises
    ------
    PermafrostError : a band is missing or ambiguous, a unit cannot be reached, statistics are absent or
        of the wrong number; the message lists the bands that exist.
    """
    if contract.normalization not in NORMALIZATIONS:
        raise PermafrostError(
            f"unknown normalization {contract.normalization!r}, known: {', '.join(NORMALIZATIONS)}",
            where=where,
        )
    if contract.clip and contract.normalization not in TO_UNIT_INTERVAL:
        raise PermafrostError(
            f"clip cuts at 0 and 1, and normalization: {contract.normalization} leads elsewhere",
            where=where,
            remedy=f"leave clip out, or choose normalization: {' or '.join(TO_UNIT_INTERVAL)}",
        )
    pairs = match_bands(contract, card, where=where)
    count = len(pairs)
    # statistics of three channels must not stand in the way of another normalisation
    own = contract.normalization in ("weights", "two_sigma")
    units = per_channel(contract.unit if own else None, count, "unit", where)
    means = per_channel(contract.mean if own else None, count, "mean", where)
    stds = per_channel(contract.std if own else None, count, "std", where)
    channels = []
    for fed, unit, mean, std in zip(pairs, units, means, stds, strict=True):
        if fed.band is None:
            if contract.missing == "leave_out":
                continue
            absent = fed.wanted
            channels.append(
                Channel(
                    absent.name,
                    None,
                    wavelength_nm=absent.wavelength_nm,
                    common_name=absent.common_name,
                    wanted=absent.name,
                )
            )
            continue
        band = fed.band
        scaling = Scaling(contract.normalization, unit, mean, std, contract.white)
        center, gain = channel_scaling(band, scaling, where=where)
        channels.append(
            Channel(
                band["name"],
                fed.index,
                center,
                gain,
                band.get("wavelength_nm"),
                band.get("common_name"),
                None if fed.distance_nm is None else fed.wanted.name,
                fed.distance_nm,
                band.get("modality"),
                fed.wanted.name,
                band.get("width_nm"),
                band.get("sensor"),
                band.get("orbit"),
            )
        )
    return InputPlan(
        tuple(channels),
        contract.size,
        contract.crop,
        contract.interpolation,
        contract.antialias,
        contract.normalization,
        contract.clip,
        contract.dates,
        contract.metadata,
    )


def check_kernel(kernel: int, side: int | None, where: str) -> None:
    """Refuse filters that are larger than the images fed, of `side` pixels; None keeps their native size."""
    if side is not None and kernel > side:
        raise PermafrostError(
            f"kernel_size: {kernel} exceeds the image of {side} pixels",
            where=where,
            remedy="use a smaller kernel_size, or a larger input.size",
        )


def check_channels(wanted: int | None, plan: InputPlan, weights: object, where: str) -> None:
    """Refuse another number of channels than the weights were trained with; None fits any number."""
    if wanted is not None and wanted != len(plan):
        raise PermafrostError(
            f"{weights} were trained with {wanted} channels, {len(plan)} are fed"
            f" ({', '.join(plan.names)})",
            where=where,
            remedy="leave input.bands out, or name as many bands in the order of the weights",
        )


def wavelengths_nm(plan: InputPlan, where: str, *, radar: dict | None = None) -> list[float]:
    """Centre wavelength of every channel; channels whose common name is in `radar` get that number instead.

    One for its orbit, ``vv-ascending``, goes before the one for its polarisation.

    Raises
    ------
    PermafrostError : bands whose wavelength the dataset does not say.
    """
    numbers = radar or {}
    found = [
        numbers.get(
            f"{channel.common_name}-{channel.orbit}",
            numbers.get(channel.common_name, channel.wavelength_nm),
        )
        for channel in plan.channels
    ]
    lacking = [channel.name for channel, nm in zip(plan.channels, found, strict=True) if nm is None]
    if lacking:
        raise PermafrostError(
            f"the backbone needs the wavelength of every band, and the dataset does not tell it for"
            f" {', '.join(lacking)}",
            where=where,
            remedy="give the sensor or wavelength_nm of these bands in the dataset's entry, or leave the"
            " bands out under input.bands",
        )
    return [float(nm) for nm in found]


def _frozen(value):
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
