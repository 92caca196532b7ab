"""Misfits: pairs of a dataset and a backbone that do not fit. Cells: the input of the others.

A misfit is named by (dataset, backbone), or by (dataset, backbone, probe) if other probes of the
pair can run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.outputs import whole_file
from permafrost.core.text import shortened

#: names of the omitted pair or run -> the reason, in one line
Misfits = dict[tuple[str, ...], str]


class Cell(NamedTuple):
    """A backbone's input from a dataset, as far as their entries determine it.

    Attributes
    ----------
    policy : the policy that changed the input, or ``strict`` if none did.
    fit, bands_real, bands_wanted : as in `InputPlan`.
    recipe : fingerprint of `InputPlan.recipe`; comparable within one dataset.
    asks : the options of extraction that the backbone's input depends on.
    """

    policy: str
    fit: str
    bands_real: int
    bands_wanted: int
    recipe: str
    asks: tuple[str, ...]


#: (dataset, backbone) -> its cell, without pairs whose input is only known in their job
Cells = dict[tuple[str, str], Cell]

#: the main process's misfits and cells, for jobs that plan again; below the working directory
FILE = ".snakemake/permafrost/misfits.json"
_LONGEST_REASON = 240


def fitting(
    misfits: Mapping[tuple[str, ...], object], backbones: dict, datasets: dict
) -> tuple[dict, dict]:
    """The backbones and the datasets that fit at least one partner, name to entry."""
    if not misfits:
        return backbones, datasets
    left = [(d, b) for d in datasets for b in backbones if (d, b) not in misfits]
    some, other = {backbone for _, backbone in left}, {dataset for dataset, _ in left}
    return (
        {name: entry for name, entry in backbones.items() if name in some},
        {name: entry for name, entry in datasets.items() if name in other},
    )


def refuses(
    unfit: str | None, misfits: Mapping[tuple[str, ...], object], backbones: dict, datasets: dict
) -> bool:
    """Whether misfits are an error: the configuration sets ``unfit: error``, or no pair is left."""
    return unfit == "error" or not fitting(misfits, backbones, datasets)[0]


def recorded_misfits(misfits: Mapping[tuple[str, ...], str]) -> list[dict]:
    """Misfits as rows of plans and tables.

    Keys: ``dataset``, ``backbone``, ``probe`` (None: all probes) and ``reason``.
    They are sorted, so the order of names in a configuration does not change any fingerprint.
    """
    return [
        {
            "dataset": names[0],
            "backbone": names[1],
            "probe": names[2] if len(names) > 2 else None,
            "reason": reason,
        }
        for names, reason in sorted(misfits.items())
    ]


def misfit_lines(left_out: list[dict], pairs: int) -> Iterator[str]:
    """Lines for a terminal: the number of omitted pairs, and one line for each.

    Parameters
    ----------
    left_out : from `recorded_misfits`.
    pairs : number of remaining pairs.
    """
    if not left_out:
        return
    whole = sum(one["probe"] is None for one in left_out)
    parts = len({(one["dataset"], one["backbone"]) for one in left_out if one["probe"] is not None})
    said = [f"{whole} of {pairs + whole} pairs of a backbone and a dataset"] if whole else []
    said += [f"some probes of {parts} {'pair' if parts == 1 else 'pairs'}"] if parts else []
    yield f"Left out:  {' and '.join(said)} do not fit"
    for one in left_out:
        probe = "" if one["probe"] is None else f", {one['probe']}"
        reason = shortened(one["reason"], _LONGEST_REASON)
        yield f"  {one['backbone']} on {one['dataset']}{probe}: {reason}"


def remember(root: Path, asked: list, misfits: Misfits, cells: Cells) -> None:
    """Save the misfits and cells of `asked`, a JSON value with all that determines them.

    The main process saves them before its first job starts, so jobs never read those of older code.
    If writing fails, an older file is deleted, and jobs check again.
    """
    content = json.dumps([fingerprint(asked), *(list(one.items()) for one in (misfits, cells))])
    path = root / FILE
    try:
        if path.read_text(encoding="utf-8") == content:
            return
    except OSError:
        pass
    try:
        with whole_file(path, exclusive=False) as partial:
            partial.write_text(content, encoding="utf-8")
    except (OSError, PermafrostError):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def remembered(root: Path, asked: list) -> tuple[Misfits, Cells] | None:
    """The saved misfits and cells for `asked`; None: there are none."""
    try:
        of, misfits, cells = json.loads((root / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if of != fingerprint(asked):
        return None
    return (
        {tuple(names): reason for names, reason in misfits},
        {tuple(names): Cell(*cell)._replace(asks=tuple(cell[-1])) for names, cell in cells},
    )
