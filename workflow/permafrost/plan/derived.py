"""Derived backbones of a configuration: those that `derive` makes, and what all of them need."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from permafrost.backbones.derived import BY, parents_of
from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.plan.catalogue import Catalogue
from permafrost.plan.mistakes import Mistakes


def add_derived(catalogue: Catalogue, chosen: Mapping[str, dict], derive: dict) -> list[str]:
    """Add the entries of `derive` for every chosen backbone that is not derived; returns their names."""
    roots = [name for name, entry in chosen.items() if not parents_of(entry)]
    for name in roots:
        for form, steps in derive.items():
            catalogue.add_derived(f"{name}{BY}{form}", {"of": name, "steps": steps})
    return [f"{name}{BY}{form}" for name in roots for form in derive]


def check_derived(
    backbones: Mapping[str, dict], named: list[str], where: Callable[[str], str], mistakes: Mistakes
) -> None:
    """Add derived backbones to `mistakes` whose parents are not in the run, or are derived themselves.

    Parameters
    ----------
    backbones : valid entries by name; named : all names of the run.
    where : name -> file and name of the entry.
    """
    for name, entry in backbones.items():
        for parent in parents_of(entry):
            if parent not in named:
                mistakes.add(
                    PermafrostError(
                        f"it is derived from {parent!r}, which is not a backbone of this run",
                        where=where(name),
                        remedy=f"add {parent} to `backbones`, or leave {name} out",
                    )
                )
            elif parents_of(backbones.get(parent, {})):
                mistakes.add(
                    PermafrostError(
                        f"it is derived from {parent!r}, which is derived itself",
                        where=where(name),
                        remedy=f"name what {parent} is derived from, and its steps first",
                    )
                )


def misfits_of_derived(
    backbones: Mapping[str, dict],
    datasets: Mapping[str, dict],
    found: Mapping[tuple[str, ...], PermafrostError],
    where: Callable[[str], str],
) -> dict[tuple[str, ...], PermafrostError]:
    """(dataset, backbone) -> why a derived backbone has no features there.

    Parameters
    ----------
    found : the misfits of others.
    """
    refused: dict[tuple[str, ...], PermafrostError] = {}
    for name, entry in backbones.items():
        parents = parents_of(entry)
        for dataset, about in datasets.items() if parents else ():
            lacking = next((one for one in parents if (dataset, one) in found), None)
            if lacking is not None:
                problem = f"{lacking}, of which it is derived, does not fit: {found[dataset, lacking].problem}"
            elif targets_of(about["task"]).dense:
                problem = "the task needs maps, and derived backbones have none"
            else:
                continue
            refused[dataset, name] = PermafrostError(
                problem, where=where(name), remedy="leave this pair out"
            )
    return refused
