"""Find stale outputs: made by another plan than the recorded one, damaged, or altered."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.read_files import Here, changed, place_of, records, shown
from permafrost.core.stores import read_seal
from permafrost.core.tables import read_metadata
from permafrost.core.versions import environments_of, mixture_words
from permafrost.operate.verify.verify import verify
from permafrost.plan.configuration import data_folders
from permafrost.plan.recorded import places, read_plan

_SHOWN = 8  # results listed in an error


def find_stale(
    plan: Path, results: Path, *, stores: bool = True, deep: bool = False
) -> list[tuple[Path, str]]:
    """Stale or damaged outputs of the plan, each with the reason; missing outputs are not stale.

    If a file in a store or in the report is damaged, the whole store or report is stale.

    Parameters
    ----------
    plan : path of the recorded plan.
    results : the current folder of the outputs.
    stores : also check stores and predicted masks.
    deep : read every byte of them, and count files that no run wrote into an output.
    """
    read_plan(plan)
    found = verify(results, plan, stores=stores, deep=deep, others=False)
    stale: dict[Path, str] = {}
    for one in found.damage:
        inside = one.path != one.output
        if one.kind == "missing":
            if inside:
                stale.setdefault(one.output, f"{one.path.relative_to(one.output)} is missing")
        elif deep or one.kind != "unexpected":
            named = f"{one.path.relative_to(one.output)}: " if inside else ""
            stale.setdefault(one.output, f"{named}{one.reason}")
    return list(stale.items())


def outdated(plan: Path, results: Path, root: Path) -> list[tuple[Path, str]]:
    """Outputs of jobs that read files beyond their specification which have changed since, with these files.

    Parameters
    ----------
    root : folder of the project, which relative paths refer to.
    """
    recorded = read_plan(plan)
    here = Here(root, hidden=frozenset([os.path.abspath(results)]))
    data = data_folders(recorded["datasets"], str(root / recorded["data"]))
    reasons = {
        place: f"{shown(sorted(keys))}: changed since it was read"
        for place, record in records(results)
        if (keys := changed(record, here, data.get(place)))
    }
    found = []
    for row, path in places(recorded, results) if reasons else ():
        place = place_of({**row, "stage": _stage_of(row, recorded)})
        if place in reasons and path.exists():
            found.append((path, reasons[place]))
    return found


def _stage_of(row: dict, recorded: dict) -> str:
    """The stage of the job that writes an output of the recorded plan."""
    if row["stage"] == "card":
        return "prepare"
    if "probe" in row and row["stage"] not in ("bootstrap", "compare"):
        return recorded["probes"][row["probe"]]["kind"]
    return row["stage"]


def refuse_stale(plan: Path, results: Path, *, stores: bool) -> None:
    """Raise a `PermafrostError` that lists what a deep `find_stale` finds, if anything."""
    stale = find_stale(plan, results, stores=stores, deep=True)
    if not stale:
        return
    listed = "; ".join(f"{path}: {reason}" for path, reason in stale[:_SHOWN])
    more = f" and {len(stale) - _SHOWN} more" if len(stale) > _SHOWN else ""
    raise PermafrostError(
        f"{len(stale)} results are not those of the plan: {listed}{more}",
        where=results,
        remedy="run `permafrost stale --deep --delete`, which removes them, then snakemake again",
    )


def mixed_versions(plan: Path, results: Path) -> str:
    """`mixture_words` of the plan's existing outputs; empty if there is no mixture."""
    recorded = read_plan(plan)
    metadata = []
    for row in recorded["outputs"]:
        path = Path(results) / Path(row["path"]).relative_to(recorded["results"])
        try:
            if path.suffix == ".parquet":
                metadata.append(read_metadata(path, expect=row["fingerprint"]))
            elif path.suffix == ".zarr":
                metadata.append(read_seal(path, expect=row["fingerprint"]))
        except PermafrostError:
            # missing, or made by another plan
            continue
    return mixture_words(metadata, environments_of(recorded))


def delete(paths) -> None:
    """Delete files and folders."""
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
