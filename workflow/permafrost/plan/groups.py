"""Groups of datasets for rankings: those of the configuration, and automatic ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line, look_up, near_names
from permafrost.core.tasks import targets_of
from permafrost.plan.mistakes import Mistakes
from permafrost.statistics.across_datasets.ranking import EVERYTHING

#: (upper limit in metres, name) of ranges of ground sampling distance
GROUND = ((1.0, "ground:to-1m"), (10.0, "ground:1m-10m"), (float("inf"), "ground:over-10m"))


def groups_of(datasets: dict[str, dict], configured: dict[str, list[str]]) -> dict[str, list[str]]:
    """Group -> sorted names of datasets: ``all``, then the configured groups, then automatic ones.

    Automatic groups are by task, type of label, sensor and ground sampling distance; their names
    have a colon. They need two datasets, and are omitted if an earlier group has the same ones.

    Parameters
    ----------
    datasets : entries by name.
    configured : groups of the configuration; datasets that are not in the run stay in them.
    """
    groups = {EVERYTHING: list(datasets), **configured}
    made: dict[str, list[str]] = {}
    for name, entry in datasets.items():
        for group in _of_entry(entry):
            made.setdefault(group, []).append(name)
    seen = {frozenset(names) for names in groups.values()}
    for group in sorted(made, key=lambda name: (_KINDS.index(name.partition(":")[0]), name)):
        names = frozenset(made[group])
        if len(names) > 1 and names not in seen and group not in groups:
            groups[group] = made[group]
            seen.add(names)
    # sorted: the order of datasets does not affect results
    return {name: sorted(names) for name, names in groups.items()}


_KINDS = ("task", "labels", "sensor", "ground")


def _of_entry(entry: dict) -> list[str]:
    dense = targets_of(entry["task"]).dense
    groups = [f"task:{entry['task']}", "labels:of-places" if dense else "labels:of-images"]
    modalities = entry.get("modalities") or {}
    sensors = [entry.get("sensor"), *(one.get("sensor") for one in modalities.values())]
    # processing levels and products (the part after '-') count as one sensor
    groups += sorted({f"sensor:{name.partition('-')[0]}" for name in sensors if name})
    if entry.get("gsd_m"):
        groups.append(next(name for end, name in GROUND if entry["gsd_m"] <= end))
    return groups


def read_bounds(bounds: dict | None, locate: Callable[[str], Path], where: str) -> dict | None:
    """Dataset -> [low, high] for normalised means, from the configuration or the file it names.

    Parameters
    ----------
    bounds : the configuration's: the intervals, or a file and its names; None: there are none.
    locate : gives the path of a file that the configuration names.

    Raises
    ------
    PermafrostError : the file cannot be read, lacks a name, or its value is not two numbers.
    """
    if bounds is None or not isinstance(bounds.get("file"), str):
        return bounds
    path, place = locate(bounds["file"]), f"{where}: ranking.bounds"
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise PermafrostError(
            f"{path} cannot be read ({first_line(error)})", where=place, remedy="correct file"
        ) from error
    if not isinstance(content, dict):
        raise PermafrostError(
            f"{path} holds no names",
            where=place,
            remedy="give JSON of names, each with [low, high]",
        )
    found: dict[str, list[float]] = {}
    for theirs, ours in bounds["datasets"].items():
        pair = look_up(content, theirs, f"{path} has no", where=f"{place}.datasets")
        numbers = isinstance(pair, list) and len(pair) == 2
        if not numbers or not all(type(one) in (int, float) and isfinite(one) for one in pair):
            raise PermafrostError(
                f"{theirs!r} in {path} is {pair!r}",
                where=place,
                remedy="give two numbers, [low, high]",
            )
        if ours in found:
            raise PermafrostError(
                f"two names of {path} are {ours!r} here",
                where=f"{place}.datasets",
                remedy="name one",
            )
        found[ours] = pair
    return found


def check_ranking(
    config: dict, known: set[str], backbones: list[str], where: str, mistakes: Mistakes
) -> None:
    """Add unknown names and impossible bounds of groups and ranking to `mistakes`.

    Parameters
    ----------
    config : the validated configuration.
    known : all datasets of the catalogues; backbones : the chosen ones.
    """

    def unknown(what: str, name: str, names, place: str) -> None:
        mistakes.add(
            PermafrostError(
                f"no {what} {name!r}, {near_names(name, names)}",
                where=f"{where}: {place}",
                remedy=f"correct the name, or add the {what}",
            )
        )

    for group, names in config["groups"].items():
        if group == EVERYTHING:
            mistakes.add(
                PermafrostError(
                    f"the group {EVERYTHING!r} is that of all datasets of a run",
                    where=f"{where}: groups.{group}",
                    remedy="give it another name",
                )
            )
        for name in names:
            if name not in known:
                unknown("dataset", name, known, f"groups.{group}")
    ranking = config["ranking"]
    for name, (low, high) in (ranking["bounds"] or {}).items():
        if name not in known:
            unknown("dataset", name, known, "ranking.bounds")
        if not low < high:
            mistakes.add(
                PermafrostError(
                    f"the bounds of {name!r} are {low:g} and {high:g}",
                    where=f"{where}: ranking.bounds",
                    remedy="give a high that is above the low",
                )
            )
    for name in ranking["reference"] or ():
        if name not in backbones:
            unknown("backbone", name, backbones, "ranking.reference")
    if ranking["bounds"] is not None and ranking["reference"] is not None:
        mistakes.add(
            PermafrostError(
                "bounds and reference both define the values of 0 and 1",
                where=f"{where}: ranking",
                remedy="give one of them",
            )
        )
    if ranking["baseline"] not in (None, "imagestats", *backbones):
        unknown("backbone", ranking["baseline"], backbones, "ranking.baseline")
