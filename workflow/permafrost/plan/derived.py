"""Derived backbones of a configuration: those that `derive` makes, and what all of them need."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from permafrost.backbones.derived import BY, at_depth, parents_of
from permafrost.backbones.kinds import kind_of
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
    backbones: Mapping[str, dict],
    named: list[str],
    where: Callable[[str], str],
    mistakes: Mistakes,
    depths: str | list[float] | None,
) -> None:
    """Add derived backbones to `mistakes` whose parents are not in the run, or are derived themselves; and those
    that read a depth which is not kept.

    Parameters
    ----------
    backbones : valid entries by name; named : all names of the run.
    where : name -> file and name of the entry.
    depths : the option of extraction.
    """
    seen = set()
    for name, entry in backbones.items():
        # a form of `derive` has the same steps for every backbone
        form = name.partition(BY)[2] or name
        if parents_of(entry) and form not in seen:
            seen.add(form)
            with mistakes.gathered():
                _check_depth(entry["steps"], depths, where(name))
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


def _check_depth(steps: list[dict], depths: str | list[float] | None, where: str) -> None:
    """Refuse a step `depth` that is not the first, or whose features are not kept."""
    depth, _ = at_depth(steps, where)
    if depth is None or depths == "all" or depth in (depths or ()):
        return
    kept = f"{depth:g} is not one of extraction.depths" if depths else "none are kept"
    raise PermafrostError(
        f"it reads the features of blocks at depth {depth:g}, and {kept}",
        where=where,
        remedy="add `extraction: {depths: all}`, or the depths that you need: {depths: [0.5, 1]}",
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
            elif shallow := _without_blocks(entry, backbones):
                problem = f"{shallow} has no blocks, and the step depth reads one"
            else:
                continue
            refused[dataset, name] = PermafrostError(
                problem, where=where(name), remedy="leave this pair out"
            )
    return refused


def _without_blocks(entry: dict, backbones: Mapping[str, dict]) -> str | None:
    """The first parent whose kind has no blocks, if an entry reads one."""
    if not any("depth" in step for step in entry["steps"]):
        return None
    known = [one for one in parents_of(entry) if one in backbones]
    return next((one for one in known if not kind_of(backbones[one]).deep), None)
