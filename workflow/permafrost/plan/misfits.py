"""What each pair of a study is fed, and the pairs that it leaves out: what a dataset cannot feed a backbone, and why.

A misfit is named by (dataset, backbone), or by (dataset, backbone, probe) where the pair runs with other probes.
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

#: names of what is left out -> why, in one line
Misfits = dict[tuple[str, ...], str]


class Cell(NamedTuple):
    """What a backbone is fed of a dataset, as entries alone tell it.

    ``policy`` is the one that had to do something, else `strict`; ``fit``, ``bands_real`` and ``bands_wanted`` are
    as in `InputPlan`; ``recipe`` is the fingerprint of `InputPlan.recipe`, to be compared within one dataset.
    """

    policy: str
    fit: str
    bands_real: int
    bands_wanted: int
    recipe: str


#: (dataset, backbone) -> what is fed; pairs that only their job can tell of are not in it
Cells = dict[tuple[str, str], Cell]

#: where the main process writes down what it left out, below the working directory, for the jobs that plan again
FILE = ".snakemake/permafrost/misfits.json"
_LONGEST_REASON = 240


def fitting(
    misfits: Mapping[tuple[str, ...], object], backbones: dict, datasets: dict
) -> tuple[dict, dict]:
    """The entries of backbones and of datasets that have a pair left."""
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
    """Whether misfits end the plan: the configuration's `unfit` asks for it, or no pair is left."""
    return unfit == "error" or not fitting(misfits, backbones, datasets)[0]


def recorded_misfits(misfits: Mapping[tuple[str, ...], str]) -> list[dict]:
    """Misfits as plans and tables hold them: ``dataset``, ``backbone``, ``probe`` (None: all) and ``reason``.

    They are sorted, so that the order of names in a configuration changes no job.
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
    """What is left out, for a terminal: how many pairs, and a line for each.

    Parameters
    ----------
    left_out : by `recorded_misfits`.
    pairs : how many are left.
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
    """Write down the misfits and cells of what was `asked`, which JSON can hold.

    The main process does so before its first job starts, so its jobs read what it found, not what older code did. Where
    writing fails, the older file goes too, and jobs find out themselves.
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
    """What the main process found of the same; None where nothing is written down of it."""
    try:
        of, misfits, cells = json.loads((root / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if of != fingerprint(asked):
        return None
    return (
        {tuple(names): reason for names, reason in misfits},
        {tuple(names): Cell(*cell) for names, cell in cells},
    )
