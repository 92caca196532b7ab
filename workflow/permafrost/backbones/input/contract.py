"""Match the input that a backbone requires with the bands of a dataset.

`InputContract` describes the required input, the card describes the stored images, and
`resolve_input` combines both to an `InputPlan`, or raises an error that lists the bands. All
decisions on bands, units and normalization are made here. Pure functions without torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permafrost.backbones.input.absent import copies_as_fed, neutral_value
from permafrost.backbones.input.fit import FILLED, STRICT, ways
from permafrost.backbones.input.matching import Fed, OfferedBands, Wish, match_bands
from permafrost.backbones.input.planned import Channel, InputPlan
from permafrost.backbones.input.scaling import (
    NORMALIZATIONS,
    TO_UNIT_INTERVAL,
    Scaled,
    Scaling,
    channel_scaling,
    per_channel,
)
from permafrost.core.errors import PermafrostError, look_up
from permafrost.data.entry import PICTURES

if TYPE_CHECKING:
    from permafrost.data.store.card import Card

#: settings of a run that apply to all backbones
_GENERAL = ("size", "interpolation", "antialias", "fit")


@dataclass(frozen=True)
class InputContract:
    """The input that a backbone requires.

    Attributes
    ----------
    bands : ``all`` (the dataset's selected bands), ``rgb``, or names and wavelengths in nm.
    sensor : the sensor that `bands` are named by, e.g. ``sentinel2``, or one per band; None for
        common names or those of the dataset.
    normalization : ``weights``, ``dataset``, ``two_sigma``, ``percentile``, ``minmax`` or ``none``,
        see `scaling`.
    clip : whether to clip to [0, 1] before resizing; only with a normalization in
        `TO_UNIT_INTERVAL`.
    unit : unit of `mean` and `std`, one for all channels or one per channel.
    mean, std : statistics that the weights were trained with; one number, or one per channel.
    pictures : second table of some weights: (mean, std) in [0, 1] per channel, used for 8-bit
        pictures. Not a key of entries.
    size : size in pixels after resizing (square); None keeps the native size.
    crop : size in pixels of the centre crop after resizing; None: no crop.
    interpolation, antialias : as in ``torch.nn.functional.interpolate`` with align_corners=False.
    missing : treatment of bands that the dataset lacks. ``error``; ``zero``: the neutral value of
        the normalization, see `absent`; ``nearest``: the band with the nearest wavelength, at most
        `nearest_nm` away, which may fill several channels with the same normalization;
        ``leave_out``: fewer channels, for models that accept any subset of their bands.
    white : reflectance that is 255 in 8-bit pictures like the training images of the weights.
    dates : for time series, whether ``each`` date is a separate input or ``all`` are one input.
    fit, picture, assumed_white : policy of the study (see `fit`), the bands that it uses as a
        picture, and the `white` that it assumes for pictures without one. Not keys of entries.
    metadata : ``fed``: models get the metadata that they accept, if known for all samples;
        ``withheld``: they get none.
    """

    bands: str | tuple[str | float, ...] = "rgb"
    sensor: str | tuple[str | None, ...] | None = None
    normalization: str = "dataset"
    clip: bool = False
    unit: str | tuple[str, ...] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    pictures: tuple[tuple[float, float] | None, ...] | None = None
    size: int | None = 224
    crop: int | None = None
    interpolation: str = "bilinear"
    antialias: bool = False
    missing: str = "error"
    nearest_nm: float | None = None
    white: float | None = None
    dates: str = "each"
    metadata: str = "fed"
    fit: str = STRICT
    picture: tuple[tuple[str, int], ...] | None = None
    assumed_white: float | None = None


def input_contract(
    own: Mapping, entry_input: dict, extraction: dict, *, where: object = None
) -> InputContract:
    """The contract of an entry: its own keys, else those of its weights, else the run's defaults.

    Parameters
    ----------
    own : fields of `InputContract` defined by the kind of backbone or its weights.
    entry_input : the mapping ``input`` of the entry.
    extraction : the run's ``size``, ``interpolation``, ``antialias``, ``fit``.

    Raises
    ------
    PermafrostError : a key is unknown, or keys do not go together.
    """
    known = {field.name for field in dataclasses.fields(InputContract)} - {
        "sensor",
        "pictures",
        "fit",
        "picture",
        "assumed_white",
    }
    for key in entry_input:
        look_up(known, key, "unknown key", where=f"{where}: input")
    if entry_input.get("dates", "each") != "each" and "dates" not in own:
        raise PermafrostError(
            "this kind of backbone takes the dates of a series one at a time",
            where=f"{where}: input.dates",
            remedy="leave dates out, or write an entry of kind entrypoint",
        )
    if ("mean" in entry_input) != ("std" in entry_input):
        raise PermafrostError("mean and std must be given together", where=f"{where}: input")
    general = {k: extraction[k] for k in left_to_run(own, entry_input) if k in extraction}
    fields = {**general, **own, **entry_input}
    if "size" in entry_input and "crop" not in entry_input:
        # an entry's size replaces both resizing and crop of the weights
        fields["crop"] = None
    chosen, usual = fields.get("normalization"), own.get("normalization")
    if chosen != usual and "clip" not in entry_input:
        # clipping belongs to the replaced normalization
        fields["clip"] = False
    if chosen == "two_sigma" and usual != "two_sigma":
        # statistics of the weights belong to their own normalization
        fields |= {key: entry_input.get(key) for key in ("mean", "std", "unit")}
    if "mean" in entry_input:
        # the entry's table applies to all input
        fields["pictures"] = None
    if "bands" in entry_input:
        # names in an entry are those of the dataset or common names
        fields["sensor"] = None
    return InputContract(**{key: _frozen(value) for key, value in fields.items()})


def left_to_run(own: Mapping, entry_input: dict) -> tuple[str, ...]:
    """The run's options that count for a backbone: neither its weights nor its entry set them."""
    return tuple(key for key in _GENERAL if key not in own and key not in entry_input)


def resolve_input(
    contract: InputContract, card: Card | OfferedBands, *, where: object = None
) -> InputPlan:
    """Plan the input from the bands of `card`, as the contract and its policy `fit` allow.

    Raises
    ------
    PermafrostError : a band is missing or ambiguous, a unit cannot be converted, or statistics are
        missing or of the wrong number; the message lists the bands of the dataset.
    """
    first = unfilled = None
    stored = {band["name"]: band for band in card.bands}
    bands = [stored[name] for name in card.selected]
    for way, done in ways(contract, bands):
        try:
            plan = _resolved(way, card, where)
        except PermafrostError as error:
            first = first or error
            unfilled = error if way.missing == FILLED and way.picture is None else unfilled
        else:
            reason = None if first is None else first.problem
            # if the policy changed nothing, the plan equals that of `strict`, so both share features
            policy = contract.fit if done else STRICT
            return dataclasses.replace(plan, policy=policy, done=done, reason=reason)
    if first is not None and unfilled is not None and unfilled.problem != first.problem:
        problem = f"{first.problem}; fit: {contract.fit} does not help: {unfilled.problem}"
        raise PermafrostError(problem, where=first.where, remedy=first.remedy)
    raise first or PermafrostError("no image can be passed to the model", where=where)


def _resolved(contract: InputContract, card: Card | OfferedBands, where: object) -> InputPlan:
    if contract.normalization not in NORMALIZATIONS:
        raise PermafrostError(
            f"unknown normalization {contract.normalization!r}, known: {', '.join(NORMALIZATIONS)}",
            where=where,
        )
    if contract.clip and contract.normalization not in TO_UNIT_INTERVAL:
        raise PermafrostError(
            f"clip cuts at 0 and 1, and normalization: {contract.normalization} has another range",
            where=where,
            remedy=f"leave clip out, or choose normalization: {' or '.join(TO_UNIT_INTERVAL)}",
        )
    pairs = match_bands(contract, card, where=where)
    count = len(pairs)
    # statistics of the weights are ignored, whatever their number, by other normalizations
    own = contract.normalization in ("weights", "two_sigma")
    units = per_channel(contract.unit if own else None, count, "unit", where)
    means = per_channel(contract.mean if own else None, count, "mean", where)
    stds = per_channel(contract.std if own else None, count, "std", where)
    tables = per_channel(contract.pictures if own else None, count, "pictures", where)
    channels: list[Channel] = []
    for fed, unit, mean, std, table in zip(pairs, units, means, stds, tables, strict=True):
        if table is not None and fed.band is not None and fed.band["unit"] in PICTURES:
            unit, (mean, std) = "unit_interval", table
        scaling = Scaling(
            contract.normalization, unit, mean, std, contract.white, contract.assumed_white
        )
        if fed.band is not None:
            channels.append(_fed_channel(fed, channel_scaling(fed.band, scaling, where=where)))
        elif contract.missing != "leave_out":
            channels.append(_absent_channel(fed.wanted, neutral_value(fed.wanted, scaling)))
    return InputPlan(
        copies_as_fed(channels),
        contract.size,
        contract.crop,
        contract.interpolation,
        contract.antialias,
        contract.normalization,
        contract.clip,
        contract.dates,
        contract.metadata,
        tuple(one.wanted.name for one in pairs if one.band is None)
        if contract.missing == "leave_out"
        else (),
    )


def _fed_channel(fed: Fed, scaled: Scaled) -> Channel:
    band = fed.band
    return Channel(
        band["name"],
        fed.index,
        scaled.center,
        scaled.gain,
        band.get("wavelength_nm"),
        band.get("common_name"),
        None if fed.distance_nm is None else fed.wanted.name,
        fed.distance_nm,
        band.get("modality"),
        fed.wanted.name,
        band.get("width_nm"),
        band.get("sensor"),
        band.get("orbit"),
        power=scaled.power,
    )


def _absent_channel(wanted: Wish, value: float) -> Channel:
    return Channel(
        wanted.name,
        None,
        wavelength_nm=wanted.wavelength_nm,
        common_name=wanted.common_name,
        wanted=wanted.name,
        value=value,
    )


def check_kernel(kernel: int, side: int | None, where: str) -> None:
    """Raise `PermafrostError` if filters are larger than images of `side` pixels (None: native)."""
    if side is not None and kernel > side:
        raise PermafrostError(
            f"kernel_size: {kernel} exceeds the image of {side} pixels",
            where=where,
            remedy="use a smaller kernel_size, or a larger input.size",
        )


def check_channels(wanted: int | None, plan: InputPlan, weights: object, where: str) -> None:
    """Raise `PermafrostError` unless the plan has the weights' number of channels; None: any number."""
    if wanted is not None and wanted != len(plan):
        raise PermafrostError(
            f"{weights} were trained with {wanted} channels, {len(plan)} are fed"
            f" ({', '.join(plan.names)})",
            where=where,
            remedy="leave input.bands out, or name this number of bands in the order of the weights",
        )


def wavelengths_nm(plan: InputPlan, where: str, *, radar: dict | None = None) -> list[float]:
    """Centre wavelength of every channel in nm, or its value in `radar`.

    Parameters
    ----------
    radar : common name (``vv``) or common name and orbit (``vv-ascending``, preferred) to the
        number that a model expects in place of a wavelength.

    Raises
    ------
    PermafrostError : the wavelength of a band is unknown.
    """
    numbers = radar or {}
    found = [
        numbers.get(
            f"{channel.common_name}-{channel.orbit}",
            numbers.get(channel.common_name, channel.wavelength_nm),
        )
        for channel in plan.channels
    ]
    lacking = [channel for channel, nm in zip(plan.channels, found, strict=True) if nm is None]
    if absent := [channel.name for channel in lacking if channel.index is None]:
        raise PermafrostError(
            "the backbone needs the wavelength of every band, and these, which the dataset lacks, have none by"
            f" their name: {', '.join(absent)}",
            where=where,
            remedy="write their wavelength in nanometres under input.bands instead of the name, such as 842, or leave"
            " them out",
        )
    if lacking:
        raise PermafrostError(
            f"the backbone needs the wavelength of every band, and the dataset has none for"
            f" {', '.join(channel.name for channel in lacking)}",
            where=where,
            remedy="give the sensor or wavelength_nm of these bands in the dataset's entry, or leave the"
            " bands out under input.bands",
        )
    return [float(nm) for nm in found]


def _frozen(value):
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(_frozen, value))
    return value
