"""What is done with a backbone and a dataset that do not fit: one policy for a whole study.

========================== ================= ============================== ==============================
what does not fit          strict            authors                        geobench2
========================== ================= ============================== ==============================
bands absent               out, unless the   the nearest band within        0, after z-scores
                           model or its      100 nm (B11 for B10), else
                           entry says what   neutral; half of the bands
                           is fed            must be there
one band for two wanted    the same          the same                       0, after z-scores
8-bit pictures, weights    out, unless the   z-scores of the train split    z-scores of the train split,
in reflectance             dataset states    (`two_sigma`: its own form);   for every pair
                           ``white``         where weights only divide,
                                             the ``white`` of their entry
one grey 8-bit channel     out               as red, green and blue, or VV; the same; further optical bands
                                             out where others are wanted    are 0; out where optical bands
                                                                            and radar are wanted
VV and VH, no red, green   out               out                            VV, VH, VV as red, green, blue
and blue; optical weights
a sensor of several absent out               out                            out
========================== ================= ============================== ==============================

Sources: the evaluation code of OlmoEarth, Copernicus-Bench and torchgeo-bench for `authors`; GEO-Bench-2's data package
for `geobench2`, which follows its rules and is not claimed to equal it.
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
    nearest_nm : bands at most this far stand for absent ones; None: absent ones are neutral.
    least_real : share of the wanted bands that must be there.
    rescale : ``pictures``, 8-bit ones for weights in other units are z-scored; ``all``, every pair is.
    grey, radar : whether one grey channel, or radar alone, is fed as a picture.
    """

    nearest_nm: float | None
    least_real: float
    rescale: str
    grey: bool
    radar: bool


#: of policies that do more than `strict`
POLICIES: dict[str, Rules] = {
    "authors": Rules(100.0, 0.5, "pictures", grey=True, radar=False),
    "geobench2": Rules(None, 0.0, "all", grey=True, radar=True),
}
STRICT = "strict"
#: value of `InputContract.missing` by which absent bands are filled as the policy says
FILLED = "filled"
#: bands that stand for others further away: what the evaluations of OlmoEarth and torchgeo-bench copy
COPIED = {"cirrus": "swir16"}
_GREY = {"red": 0, "green": 0, "blue": 0}
_RADAR = {"red": "vv", "green": "vh", "blue": "vv"}


class Way(NamedTuple):
    """A contract to try, and what the policy does by it.

    ``rescaled``, ``assumed``, ``filled`` or ``picture``; nothing by `strict`.
    """

    contract: InputContract
    done: frozenset[str] = frozenset()


def ways(contract: InputContract, bands: list[dict]) -> Iterator[Way]:
    """What the contract's policy tries with the offered `bands`, in order; the first that can be fed is."""
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
    """With statistics of the train split instead of those of the weights; None where that changes nothing.

    Weights that want mean ± 2 deviations in [0, 1] keep that form where the policy follows the authors.
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
    # of dB every table subtracts something: Presto divides reflectance, and adds 25 to dB
    optical = [mean for mean, unit in zip(means, units, strict=True) if unit != "db"]
    if contract.normalization != "weights" or not any(optical or means):
        # what only divides has no statistics that those of the train split could stand for
        return None
    return dataclasses.replace(contract, normalization="dataset", **own)


def _picture(bands: list[dict], rules: Rules) -> tuple[tuple[str, int], ...] | None:
    """Common name of a wanted band -> position of the offered one that is shown as it."""
    commons = {band.get("common_name"): place for place, band in enumerate(bands)}
    if rules.grey and len(bands) == 1 and bands[0]["unit"] in PICTURES:
        return tuple((_GREY | {"vv": 0}).items())
    if rules.radar and {"vv", "vh"} <= commons.keys() and not commons.keys() & _GREY.keys():
        return tuple((name, commons[radar]) for name, radar in _RADAR.items())
    return None
