"""Find stale outputs: made by another plan than the recorded one, damaged, or altered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.stamps import altered_files
from permafrost.core.stores import SAMPLES, Store
from permafrost.core.tables import read_metadata
from permafrost.core.versions import environments_of, mixture_words
from permafrost.data.store.card import read_card
from permafrost.plan.options import MASKS
from permafrost.plan.recorded import places, read_plan, stamped

# files in a folder of detections; the first has the fingerprint
TRUTH, FOUND = "truth.json", "detections.json"
_SHOWN = 8  # results listed in an error


def find_stale(plan: Path, results: Path, *, stores: bool = True) -> list[tuple[Path, str]]:
    """Stale outputs of the plan, each with the reason; missing outputs are not stale.

    Parameters
    ----------
    plan : path of the recorded plan.
    results : the current folder of the outputs.
    stores : also check stores and predicted masks.
    """
    recorded = read_plan(plan)
    outputs = places(recorded, results)
    tables = {_names(row): path for row, path in outputs if row["stage"] == "probe"}
    stale = []
    for row, path in outputs:
        if not stores and (row["stage"] == MASKS or row["path"].endswith(".zarr")):
            continue
        if not path.exists():
            continue
        if row["stage"] == "detections":
            reason = _reason_of_detections(path, row["fingerprint"], tables.get(_names(row)))
        else:
            reason = _reason(path, row)
        if reason:
            stale.append((path, reason))
    known = {path for path, _ in stale}
    return stale + [pair for pair in _altered(recorded, Path(results)) if pair[0] not in known]


def refuse_stale(plan: Path, results: Path, *, stores: bool) -> None:
    """Raise a `PermafrostError` that lists what `find_stale` finds, if anything."""
    stale = find_stale(plan, results, stores=stores)
    if not stale:
        return
    shown = "; ".join(f"{path}: {reason}" for path, reason in stale[:_SHOWN])
    more = f" and {len(stale) - _SHOWN} more" if len(stale) > _SHOWN else ""
    raise PermafrostError(
        f"{len(stale)} results are not those of the plan: {shown}{more}",
        where=results,
        remedy="run `permafrost stale --delete`, which removes them, then snakemake again",
    )


def _altered(recorded: dict, results: Path) -> list[tuple[Path, str]]:
    """Files of leaderboard and report whose digests differ from their stamps.

    If a file of the report differs, the whole folder is stale. Missing tables next to the
    leaderboard are rewritten by the next run.
    """
    altered: dict[Path, str] = {}
    report = results / "report"
    for fingerprint in stamped(recorded):
        stamp = results / "plans" / f"{fingerprint}.done"
        if not stamp.exists():
            continue
        try:
            files = altered_files(stamp, expect=fingerprint)
        except PermafrostError as error:
            altered[stamp] = error.problem
            continue
        for path, reason in files.items():
            if path.is_relative_to(report):
                if report.exists():
                    altered.setdefault(report, f"{path.relative_to(report)} is {reason}")
            elif path.exists():
                altered[path] = reason
    return list(altered.items())


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
                metadata.append(Store(path, expect=row["fingerprint"]).attributes)
        except PermafrostError:
            # missing, or made by another plan
            continue
    return mixture_words(metadata, environments_of(recorded))


def delete(paths) -> None:
    """Delete files and folders."""
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _reason(path: Path, row: dict) -> str | None:
    expected = row["fingerprint"]
    try:
        if path.is_dir() and (path / SAMPLES).exists() and not (path / "zarr.json").exists():
            if pq.read_metadata(path / SAMPLES).metadata[b"fingerprint"] != expected.encode():
                return "made from another plan"
        elif path.is_dir():
            Store(path, expect=expected, split=row.get("split"))
        elif path.suffix == ".parquet":
            read_metadata(path, expect=expected)
        else:
            read_card(path, expect=expected)
    except PermafrostError as error:
        return error.problem
    except (ValueError, KeyError, TypeError, OSError):
        return "not a file of this pipeline"
    return None


def _names(row: dict) -> tuple:
    """The labels of an evaluation."""
    return tuple(row.get(name) for name in ("dataset", "backbone", "probe", "seed"))


def _reason_of_detections(path: Path, expected: str, table: Path | None) -> str | None:
    """Why a folder of detections is stale, by its fingerprint and the digests in its table."""
    lacking = [name for name in (TRUTH, FOUND) if not (path / name).is_file()]
    if lacking:
        return f"it lacks {lacking[0]}"
    try:
        made = json.loads((path / TRUTH).read_text())["info"]["fingerprint"]
    except (ValueError, KeyError, TypeError, OSError):
        return "not a file of this pipeline"
    if made != expected:
        return "made from another plan"
    try:
        digests = read_metadata(table, expect=expected).get("files", {}) if table else {}
    except PermafrostError:
        return None  # reported for the table itself
    altered = [
        name
        for name in (TRUTH, FOUND)
        if name in digests and file_digest(path / name) != digests[name]
    ]
    return f"{altered[0]} was altered since it was written" if altered else None
