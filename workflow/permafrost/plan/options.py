"""The options of each stage, from the configuration and a backbone's entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from permafrost.backbones.input.fit import STRICT
from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.features.augmentations import check_augmentations
from permafrost.features.dates import OF_DATES
from permafrost.probes.kinds import KINDS

#: options of extraction that determine a backbone's input; FED adds whether maps are computed
FEEDING = ("size", "interpolation", "antialias", "fit")
FED = (*FEEDING, "maps")
#: feature metrics that need augmented views
OF_VIEWS = ("alignment_augmentations", "lidar")
#: folder below the results for predicted masks, which probes write on request
MASKS = "masks"
#: files in a folder of detections
DETECTIONS = ("truth.json", "detections.json")
#: option of extraction for features of blocks
DEPTHS = "depths"
#: options of extraction that are of feature maps alone
_OF_MAPS = ("maps_dtype", "maps_channels")
#: options of extraction that only affect how features are stored
_OF_WRITING = frozenset({"dtype", "maps_channels", DEPTHS})
#: options of extraction that only affect how a network runs
_OF_FORWARD_PASS = frozenset({"precision", "compile"})


def is_several(dataset: dict) -> bool:
    """Whether the samples of a dataset's entry have images of several dates or sensors."""
    return dataset["dates"] != "one" or dataset.get("modalities") is not None


# --- extraction ----------------------------------------------------------------------------------


def feeding_options(config: dict, policy: str | None = None) -> dict:
    """The options of extraction of a complete configuration, with the policy `fit` unless strict.

    Parameters
    ----------
    policy : replaces the configuration's, for a pair with another one, see `plan.misfits.Cell`.
    """
    fit = policy or config["fit"]
    return {**config["extraction"], **({} if fit == STRICT else {"fit": fit})}


def extraction_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """Backbone entry and extraction options, without those that do not affect `task`.

    So a change of layers or of the maps' data type reruns only datasets of dense tasks.
    """
    if targets_of(task).dense:
        return entry, {**_without(extraction, DEPTHS), "maps": True}
    return _without_maps(entry, extraction)


def asked_of_run(
    entry: dict, extraction: dict, *, pixels: bool, asks: Iterable[str] | None
) -> dict:
    """The options of extraction that affect a backbone's features.

    Parameters
    ----------
    pixels : whether the backbone reads pixels.
    asks : those that its input depends on, see `plan.misfits.Cell`; None: only its job knows all.
    """
    if not pixels:
        unused = {*FEEDING, *_OF_FORWARD_PASS, "maps_channels"}
    elif asks is None:
        unused = set(entry["input"])
    else:
        unused = set(FEEDING) - set(asks)
    if not kind_of(entry).deep:
        unused |= {DEPTHS}
    return _without(extraction, *unused)


def views_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """Like `extraction_of`, for augmented views: without maps and blocks; dense tasks keep whole images."""
    return _without_maps(*extraction_of(task, entry, _without(extraction, DEPTHS)))


def feeding_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """Like `extraction_of`, for probes that run the backbone: only options of its input."""
    entry, options = extraction_of(task, entry, extraction)
    return entry, {key: options[key] for key in FED if key in options}


def _without_maps(entry: dict, extraction: dict) -> tuple[dict, dict]:
    return _without(entry, "layers"), _without(extraction, *_OF_MAPS)


def _without(options: dict, *keys: str) -> dict:
    return {key: value for key, value in options.items() if key not in keys}


# --- probes --------------------------------------------------------------------------------------


def titled(name: str, options: dict) -> str:
    """A short title of a probe: its name, its kind if different, and its first two options."""
    shown = [
        f"{key}={value}"
        for key, value in options.items()
        if key != "kind" and isinstance(value, (int, float, str)) and not isinstance(value, bool)
    ]
    kind = [] if name == options["kind"] else [f"({options['kind']})"]
    return " ".join([name, *kind, *shown[:2]])


def leaves(options: dict) -> str | None:
    """The folder below the results for a probe's second output; None: it has none."""
    asked = MASKS if options.get("masks", "none") != "none" else None
    return KINDS[options["kind"]].leaves or asked


def is_seeded(options: dict) -> bool:
    """Whether a probe with these options uses random numbers."""
    return KINDS[options["kind"]].seeded or options.get("solver") == "adam"


# --- profile -------------------------------------------------------------------------------------


def profiling(config: dict, *, where: str) -> dict | None:
    """The options of the stage ``profile`` in a complete configuration; None: switched off.

    They have no device, and threads only if the user sets them, so a run on another machine keeps
    a profile. The profile itself names the machine that it was measured on.

    Raises
    ------
    PermafrostError : a probe is called ``profile``, a name reserved in the leaderboard.
    """
    if config["profile"] is not None:
        _check_free("profile", config, where=where)
    return config["profile"]


def of_forward_pass(extraction: dict) -> dict:
    """The options of extraction that affect the cost of a forward pass."""
    return _without(extraction, *_OF_WRITING)


# --- measures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measuring:
    """Options of the stages ``measure``, ``similarity`` and ``views``.

    Attributes
    ----------
    split : the split whose features are used.
    of_features : options of ``measure``.
    of_pairs : options of ``similarity``; None: switched off.
    views : augmentations of ``views``; None: there are none.
    """

    split: str
    of_features: dict
    of_pairs: dict | None
    views: dict | None = None


def measuring(config: dict, *, where: str) -> Measuring | None:
    """The options of feature metrics in a complete configuration; None: switched off.

    Raises
    ------
    PermafrostError : a probe is called ``measures``, a name reserved in the leaderboard; or the
        augmentations are invalid, not used by any metric, or missing.
    """
    options = config["measures"]
    if options is None:
        return None
    _check_free("measures", config, where=where)
    bootstrap = {key: config["bootstrap"][key] for key in ("resamples", "confidence", "seed")}
    kept = ("split", "max_rows", "seed", *OF_DATES)
    drawn = {key: options[key] for key in kept if key in options} | {"bootstrap": bootstrap}
    names = options["names"] and sorted(options["names"])
    of_features, augmentations = {**drawn, "names": names}, options["augmentations"]
    _check_names(names, augmentations, where=f"{where}: measures")
    views = None
    if augmentations is not None:
        place = f"{where}: measures.augmentations"
        check_augmentations(augmentations, where=place)
        views = dict(augmentations)
        of_features["augmentations"] = {"delta": _positive(views.pop("delta"), where=place)}
    return Measuring(options["split"], of_features, drawn if options["similarity"] else None, views)


def _check_names(names: list[str] | None, augmentations: dict | None, *, where: str) -> None:
    """Refuse metrics of views without augmentations, and augmentations without such a metric."""
    wanted = [name for name in OF_VIEWS if name in (names or [])]
    if wanted and augmentations is None:
        raise PermafrostError(
            f"{' and '.join(wanted)} need augmented views, but there are no `augmentations`",
            where=f"{where}.names",
            remedy="add `augmentations: {}` next to `names`",
        )
    if augmentations is not None and names is not None and not wanted:
        raise PermafrostError(
            "no measure of `names` uses the `augmentations`",
            where=f"{where}.augmentations",
            remedy=f"add {' or '.join(OF_VIEWS)} to `names`, or drop `augmentations`",
        )


def _positive(delta: float, *, where: str) -> float:
    # in this form the comparison also refuses NaN
    if not 0.0 < delta < float("inf"):
        raise PermafrostError(f"delta is {delta}", where=where, remedy="give a number above 0")
    return delta


def _check_free(name: str, config: dict, *, where: str) -> None:
    """Refuse a probe called `name`, which the leaderboard uses for rows without a probe."""
    if config["probes"].get(name):
        raise PermafrostError(
            f"the name {name!r} of a probe is reserved for the rows of `{name}` in the leaderboard",
            where=f"{where}: probes.{name}",
            remedy="give the probe another name",
        )
