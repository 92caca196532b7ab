"""Policies of a study for datasets that lack the input of a backbone. "Skip" leaves the pair out.

========================== ================= ============================== ==============================
mismatch                   strict            authors                        geobench2
========================== ================= ============================== ==============================
missing bands              skip, unless the  the nearest band within        0, after z-scores
                           model or its      100 nm (B11 for B10), else
                           entry defines a   neutral; half of the bands
                           substitute        must exist
one band for two wanted    the same          the same                       0, after z-scores
8-bit pictures, weights    skip, unless the  z-scores of the train split    z-scores of the train split,
in reflectance             dataset states    (`two_sigma`: its own form);   for every pair
                           ``white``         if weights only divide,
                                             the ``white`` of their entry
one grey 8-bit channel     skip              as red, green and blue, or VV; the same; other optical bands
                                             skip if others are wanted      are 0; skip if both optical
                                                                            bands and radar are wanted
VV and VH, no red, green   skip              skip                           VV, VH, VV as red, green, blue
and blue; optical weights
one of several sensors     skip              skip                           skip
missing
========================== ================= ============================== ==============================

Sources: for `authors`, the evaluation code of OlmoEarth, Copernicus-Bench and torchgeo-bench; for
`geobench2`, the rules of GEO-Bench-2's data package, which are followed but not claimed to be
reproduced exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from permafrost.backbones.input.scaling import per_channel
from permafrost.data.entry import PICTURES

if TYPE_CHECKING:
    from permafrost.backbones.input.contract import InputContract


@dataclass(frozen=True)
class Rules:
    """What a policy allows.

    Attributes
    ----------
    nearest_nm : largest distance of a band that replaces a missing one; None: neutral values.
    least_real : smallest share of the wanted bands that must exist.
    rescale : inputs to z-score by the train split: ``pictures`` (8-bit, for weights in other units)
        or ``all``.
    grey, radar : whether one grey channel, or radar alone, can serve as red, green and blue.
    """

    nearest_nm: float | None
    least_real: float
    rescale: str
    grey: bool
    radar: bool


#: policies other than `strict`
POLICIES: dict[str, Rules] = {
    "authors": Rules(100.0, 0.5, "pictures", grey=True, radar=False),
    "geobench2": Rules(None, 0.0, "all", grey=True, radar=True),
}
STRICT = "strict"
#: value of `InputContract.missing` for missing bands that the policy fills
FILLED = "filled"
#: missing band to its substitute at any distance, as in the evaluations of OlmoEarth and torchgeo-bench
COPIED = {"cirrus": "swir16"}
_GREY = {"red": 0, "green": 0, "blue": 0}
_RADAR = {"red": "vv", "green": "vh", "blue": "vv"}


class Way(NamedTuple):
    """A contract to try, and the policy's changes in it.

    Changes are ``rescaled``, ``assumed``, ``filled`` and ``picture``; none with `strict`.
    """

    contract: InputContract
    done: frozenset[str] = frozenset()


def ways(contract: InputContract, bands: list[dict]) -> Iterator[Way]:
    """The contracts that the policy tries for these `bands`, in order; the first that fits is used."""
    rules = POLICIES.get(contract.fit)
    if rules is None:
        yield Way(contract)
        return
    scaled, every = _rescaled(contract), rules.rescale == "all"
    tried = [] if every and scaled else [Way(contract)]
    pictures = any(band["unit"] in PICTURES for band in bands)
    if scaled and (every or pictures):
        tried.append(Way(scaled, frozenset({"rescaled"})))
    elif contract.white and pictures:
        assumed = dataclasses.replace(contract, assumed_white=contract.white)
        tried.append(Way(assumed, frozenset({"assumed"})))
    yield from tried
    if contract.missing == "error":
        for way in tried:
            yield Way(dataclasses.replace(way.contract, missing=FILLED), way.done | {"filled"})
    picture = _picture(bands, rules)
    if picture is not None:
        missing = FILLED if contract.missing == "error" else contract.missing
        for way in tried:
            wanted = dataclasses.replace(way.contract, missing=missing, picture=picture)
            yield Way(wanted, way.done | {"picture"})


def _rescaled(contract: InputContract) -> InputContract | None:
    """The contract with statistics of the train split instead of the weights'; None if that is the same.

    With `authors`, weights with mean ± 2 std mapped to [0, 1] keep this form.
    """
    if contract.normalization in ("none", "dataset"):
        return None
    own = {"mean": None, "std": None, "unit": None, "pictures": None}
    if POLICIES[contract.fit].rescale == "all":
        return dataclasses.replace(contract, normalization="dataset", clip=False, **own)
    if contract.normalization == "two_sigma":
        scaled = dataclasses.replace(contract, **own)
        return None if scaled == contract else scaled
    given = (contract.mean, contract.unit)
    count = max(len(one) if isinstance(one, tuple) else 1 for one in given)
    means, units = (per_channel(one, count, "mean", None) for one in given)
    # tables of dB always subtract a mean, also Presto's, which only divides reflectance
    optical = [mean for mean, unit in zip(means, units, strict=True) if unit != "db"]
    if contract.normalization != "weights" or not any(optical or means):
        # weights that only divide have no statistics to replace
        return None
    return dataclasses.replace(contract, normalization="dataset", **own)


def _picture(bands: list[dict], rules: Rules) -> tuple[tuple[str, int], ...] | None:
    """Common name of a wanted band -> position of the band used for it; None if not allowed."""
    commons = {band.get("common_name"): place for place, band in enumerate(bands)}
    if rules.grey and len(bands) == 1 and bands[0]["unit"] in PICTURES:
        return tuple((_GREY | {"vv": 0}).items())
    if rules.radar and {"vv", "vh"} <= commons.keys() and not commons.keys() & _GREY.keys():
        return tuple((name, commons[radar]) for name, radar in _RADAR.items())
    return None
