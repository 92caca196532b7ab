"""Filter backbones by name, kind, bands, size, licence, dataset, and weights on this machine."""

from __future__ import annotations

import fnmatch
import functools
import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.backbones.kinds import kind_of
from permafrost.backbones.weights.published import FOLDER
from permafrost.core.environment import user_home
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import substitute
from permafrost.plan.installed import installed

if TYPE_CHECKING:
    from permafrost.operate.offers import Offers
    from permafrost.plan.catalogue import Catalogue
    from permafrost.plan.installed import Installed

_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGbB]?)")
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


@dataclass(frozen=True)
class Choice:
    """Filters of backbones; None: any.

    Attributes
    ----------
    pattern : part of the name or the title, or a shell pattern (``*dinov3*``) for the whole name.
    bands : ``rgb``, ``all``, a number of bands, or (part of) the name of a sensor.
    most_parameters : largest number of parameters; backbones of unknown size are excluded.
    licence : part of the licence.
    fits : name of a dataset that they must fit.
    here : only backbones that need no weights, or whose weights are on this machine.
    """

    pattern: str | None = None
    kind: str | None = None
    bands: str | None = None
    most_parameters: int | None = None
    licence: str | None = None
    fits: str | None = None
    here: bool = False


def parameter_count(text: str) -> int:
    """The number that ``86M``, ``1.1b`` or ``300000`` gives; other text is refused."""
    found = _COUNT.fullmatch(text.strip())
    if found is None:
        raise PermafrostError(
            f"{text!r} is not a number of parameters", remedy="give 100M, 1.1B or 300k"
        )
    return round(float(found[1]) * _FACTORS[found[2].lower()])


def count_words(count: int) -> str:
    """A number of parameters with at most three digits, such as ``86 M``."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)


def title_of(catalogue: Catalogue, name: str) -> object:
    """The title of an entry, which may be invalid; None: it has none."""
    entry = catalogue.written(name)
    return entry.get("title") if isinstance(entry, dict) else None


def named_like(name: str, title: object, pattern: str | None) -> bool:
    """Whether the pattern matches an entry, ignoring case; see `Choice.pattern`."""
    if pattern is None:
        return True
    wanted = pattern.lower()
    if any(sign in wanted for sign in "*?["):
        return fnmatch.fnmatchcase(name, wanted)
    return wanted in name or wanted in str(title or "").lower()


def chosen(offers: Offers, names: list[str], choice: Choice) -> Iterator[str]:
    """Those of `names` that match `choice`, except for `fits`, which is not checked.

    An invalid entry matches only if `choice` has no filter but the pattern.
    """
    asked = choice != Choice(pattern=choice.pattern)
    for name in names:
        title = title_of(offers.backbones, name)
        if named_like(name, title, choice.pattern) and (
            not asked or _is_meant(offers, name, choice)
        ):
            yield name


@functools.cache
def _installed(root: Path) -> Installed | None:
    return installed(root / ".snakemake" / "permafrost")


def _is_meant(offers: Offers, name: str, choice: Choice) -> bool:
    entry = offers.backbones.written(name)
    if not isinstance(entry, dict):
        return False
    known = entry.get("parameters")
    return (
        choice.kind in (None, entry.get("kind"))
        and (
            choice.most_parameters is None
            or (isinstance(known, int) and known <= choice.most_parameters)
        )
        and (choice.licence or "").lower() in str(entry.get("licence", "not given")).lower()
        and (not choice.here or weights_state(offers, entry) in HERE)
        and (
            choice.bands is None
            or _takes(choice.bands, bands_words(entry, lambda: _installed(offers.root)))
        )
    )


def _takes(wanted: str, words: str) -> bool:
    wanted = wanted.lower()
    if wanted.isdigit():
        return wanted == ("3" if words == "rgb" else words.partition(" ")[0])
    return wanted == words or (wanted in words.partition(" ")[2])


def bands_words(entry: dict, offered: Callable[[], Installed | None]) -> str:
    """The bands that a backbone expects: ``rgb``, ``all``, ``13 sentinel2``, or ``?`` (unknown)."""
    wants: Mapping = {}
    try:
        known = kind_of(entry).known({"weights": None, **entry}, "", offered)
        wants = {} if known is None else known.wants
    except (PermafrostError, LookupError, TypeError):
        return "?"
    bands = (entry.get("input") or {}).get("bands")
    sensor = None if bands is not None else wants.get("sensor")
    bands = bands if bands is not None else wants.get("bands", "rgb")
    if isinstance(bands, str):
        return bands
    sensors = [sensor] if isinstance(sensor, str) else [one for one in sensor or () if one]
    return f"{len(bands)} {' and '.join(dict.fromkeys(sensors))}".strip()


# --- weights ---------------------------------------------------------------------------------------

#: states of weights that need no download
HERE = ("none", "random", "here")


def weights_state(offers: Offers, entry: dict) -> str:
    """Whether the weights of an entry are on this machine; no file is read.

    ``none``: needs no weights; ``random``; ``here``: on this machine; ``missing``: a file that the
    user must provide; ``to download``.
    """
    weights = entry.get("weights")
    if weights is None:
        return "random" if "weights" in entry else "none"
    if isinstance(weights, str):
        return _torchgeo_state(offers, weights)
    source = weights.get("source", "file")
    if source == "file":
        path = offers.root / substitute(weights["path"], str(offers.data))
        return "here" if path.exists() else "missing"
    return "random" if source == "random" else _timm_state(offers, entry["model"])


# same folders as in `backbones.weights.published`, which has to import the libraries


def _torchgeo_state(offers: Offers, weights: str) -> str:
    known = _installed(offers.root)
    name = None if known is None else known.torchgeo_file(weights)
    home = Path(os.environ.get("TORCH_HOME", user_home() / ".cache" / "torch"))
    places = (home / "hub" / "checkpoints", offers.data / FOLDER)
    is_here = name is not None and any((place / name).is_file() for place in places)
    return "here" if is_here else "to download"


def _timm_state(offers: Offers, model: str) -> str:
    """Whether timm weights are in the data folder or the Hugging Face cache, by timm's names."""
    fetched = (offers.data / FOLDER).glob(f"{glob.escape(model)}.*")
    if any(path.suffix in (".safetensors", ".bin", ".pth", ".pt") for path in fetched):
        return "here"
    home = Path(os.environ.get("HF_HOME", user_home() / ".cache" / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    kept = cache / f"models--timm--{model}" / "snapshots"
    return "here" if kept.is_dir() and any(kept.glob("*/*model*")) else "to download"
