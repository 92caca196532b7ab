"""The options of each stage, from the configuration and the entry of a backbone."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.backbones.input.fit import STRICT
from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.features.augmentations import check_augmentations
from permafrost.features.dates import OF_DATES
from permafrost.probes.kinds import KINDS

#: options that decide what a backbone is fed; and whether maps are made
FEEDING = ("size", "interpolation", "antialias", "fit")
FED = (*FEEDING, "maps")
#: measures that need augmented views
OF_VIEWS = ("alignment_augmentations", "lidar")
#: folder of results for the predicted masks that a probe writes on request
MASKS = "masks"
#: options of extraction that change only what is written
_OF_WRITING = frozenset({"dtype"})


def is_several(dataset: dict) -> bool:
    """Whether samples of this entry of a dataset have images of several dates or sensors."""
    return dataset["dates"] != "one" or dataset.get("modalities") is not None


# --- extraction ----------------------------------------------------------------------------------


def feeding_options(config: dict, policy: str | None = None) -> dict:
    """The options of extraction in a complete configuration, with its policy `fit` where that is not strict.

    Parameters
    ----------
    policy : takes the place of the configuration's, for a pair that needs another, see `plan.misfits.Cell`.
    """
    fit = policy or config["fit"]
    return {**config["extraction"], **({} if fit == STRICT else {"fit": fit})}


def extraction_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """Backbone entry and extraction options, without what does not matter for `task`.

    So a change of the layers, or of the type of maps, reruns no dataset that needs none.
    """
    if targets_of(task).dense:
        return entry, {**extraction, "maps": True}
    return _without_maps(entry, extraction)


def views_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """The same for augmented views, which have no maps; a dense task still feeds whole images."""
    return _without_maps(*extraction_of(task, entry, extraction))


def feeding_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """The same for probes that run the backbone themselves: only options that decide what it is fed."""
    entry, options = extraction_of(task, entry, extraction)
    return entry, {key: options[key] for key in FED if key in options}


def _without_maps(entry: dict, extraction: dict) -> tuple[dict, dict]:
    return (
        {key: value for key, value in entry.items() if key != "layers"},
        {key: value for key, value in extraction.items() if key != "maps_dtype"},
    )


# --- probes --------------------------------------------------------------------------------------


def titled(name: str, options: dict) -> str:
    """A probe in a few words: its name, its kind if that differs, and its first two numbers or choices."""
    shown = [
        f"{key}={value}"
        for key, value in options.items()
        if key != "kind" and isinstance(value, (int, float, str)) and not isinstance(value, bool)
    ]
    kind = [] if name == options["kind"] else [f"({options['kind']})"]
    return " ".join([name, *kind, *shown[:2]])


def leaves(options: dict) -> str | None:
    """The folder of results for the second output of a probe with these options; None: it has none."""
    asked = MASKS if options.get("masks", "none") != "none" else None
    return KINDS[options["kind"]].leaves or asked


def is_seeded(options: dict) -> bool:
    """Whether a probe with these options draws random numbers."""
    return KINDS[options["kind"]].seeded or options.get("solver") == "adam"


# --- profile -------------------------------------------------------------------------------------


def profiling(config: dict, *, where: str) -> dict | None:
    """The options of the stage ``profile`` in a complete configuration; None: nothing is profiled.

    They hold no device, and threads only where the user sets them: a profile names the machine that it was
    made on, and a run on another machine keeps it.

    Raises
    ------
    PermafrostError : a probe has the name of the profiles' rows in the leaderboard.
    """
    if config["profile"] is not None:
        _check_free("profile", config, where=where)
    return config["profile"]


def of_forward_pass(extraction: dict) -> dict:
    """The options of extraction that change the cost of a forward pass."""
    return {key: value for key, value in extraction.items() if key not in _OF_WRITING}


# --- measures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measuring:
    """Options of the stages ``measure``, ``similarity`` and ``views``.

    Attributes
    ----------
    split : whose features are measured.
    of_features : options of ``measure``.
    of_pairs : options of ``similarity``; None where it is switched off.
    views : augmentations of ``views``; None where the configuration has none.
    """

    split: str
    of_features: dict
    of_pairs: dict | None
    views: dict | None = None


def measuring(config: dict, *, where: str) -> Measuring | None:
    """The options in a complete configuration; None: nothing is measured.

    Raises
    ------
    PermafrostError : a probe has the name of the measures' rows in the leaderboard; augmentations cannot be
        drawn, no measure needs them, or a measure needs them and there are none.
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
    """Measures of views need augmentations, and augmentations a measure of views."""
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
    # written so that NaN is refused too
    if not 0.0 < delta < float("inf"):
        raise PermafrostError(f"delta is {delta}", where=where, remedy="give a number above 0")
    return delta


def _check_free(name: str, config: dict, *, where: str) -> None:
    """Refuse a probe with the `name` that rows without a probe have in the leaderboard."""
    if config["probes"].get(name):
        raise PermafrostError(
            f"the name {name!r} of a probe is reserved for the rows of `{name}` in the leaderboard",
            where=f"{where}: probes.{name}",
            remedy="give the probe another name",
        )
