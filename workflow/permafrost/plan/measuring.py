"""What the measures of the features themselves are told, from the configuration's `measures`."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.errors import PermafrostError

#: stands in the leaderboard where a score has the name of its probe
NAME = "measures"


@dataclass(frozen=True)
class Measuring:
    """Options of the two stages.

    Attributes
    ----------
    split : whose features are measured.
    of_features : what ``measure`` is told.
    of_pairs : what ``similarity`` is told; None where it is switched off.
    """

    split: str
    of_features: dict
    of_pairs: dict | None


def measuring(config: dict, *, where: str) -> Measuring | None:
    """The options that a complete configuration asks for, or None: nothing is measured.

    Raises
    ------
    PermafrostError : a probe has the name under which measures stand in the leaderboard.
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
    return Measuring(
        options["split"], {**drawn, "names": names}, drawn if options["similarity"] else None
    )
