"""What the measures of the features themselves are told, from the configuration's `measures`."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.features.augmentations import check_augmentations

#: stands in the leaderboard where a score has the name of its probe
NAME = "measures"
#: measures that are made of augmented views
OF_VIEWS = ("alignment_augmentations", "lidar")


@dataclass(frozen=True)
class Measuring:
    """Options of the three stages.

    Attributes
    ----------
    split : whose features are measured.
    of_features : what ``measure`` is told.
    of_pairs : what ``similarity`` is told; None where it is switched off.
    views : what ``views`` is told of augmentations; None where none are asked for.
    """

    split: str
    of_features: dict
    of_pairs: dict | None
    views: dict | None = None


def measuring(config: dict, *, where: str) -> Measuring | None:
    """The options that a complete configuration asks for, or None: nothing is measured.

    Raises
    ------
    PermafrostError : a probe has the name under which measures stand in the leaderboard; augmentations
        that cannot be drawn, or that no measure wanted is made of, or that one wanted lacks.
    """
    options = config["measures"]
    if options is None:
        return None
    if config["probes"].get(NAME):
        raise PermafrostError(
            f"a probe is called {NAME!r}, as the measures are in the leaderboard",
            where=f"{where}: probes.{NAME}",
            remedy="give the probe another name",
        )
    bootstrap = {key: config["bootstrap"][key] for key in ("resamples", "confidence", "seed")}
    drawn = {key: options[key] for key in ("split", "max_rows", "seed")} | {"bootstrap": bootstrap}
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
    """Measures of views are made where augmentations are asked for, and only there."""
    wanted = [name for name in OF_VIEWS if name in (names or [])]
    if wanted and augmentations is None:
        raise PermafrostError(
            f"{' and '.join(wanted)} take augmented views, and no augmentations are asked for",
            where=f"{where}.names",
            remedy="add `augmentations: {}` beside `names`",
        )
    if augmentations is not None and names is not None and not wanted:
        raise PermafrostError(
            "no measure of `names` is made of the augmented views that are asked for",
            where=f"{where}.augmentations",
            remedy=f"add {' or '.join(OF_VIEWS)} to `names`, or drop `augmentations`",
        )


def _positive(delta: float, *, where: str) -> float:
    # written so that NaN is refused too
    if not 0.0 < delta < float("inf"):
        raise PermafrostError(f"delta is {delta}", where=where, remedy="give a number above 0")
    return delta
