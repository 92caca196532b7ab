"""Finding outputs that exist but were made from another plan than the recorded one, or were altered."""

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

# what a folder of detections holds; the first has the fingerprint
TRUTH, FOUND = "truth.json", "detections.json"
_SHOWN = 8  # results that an error names


def find_stale(plan: Path, results: Path, *, stores: bool = True) -> list[tuple[Path, str]]:
    """Outputs of the plan that exist with another fingerprint, or are damaged or altered, with the reason.

    Parameters
    ----------
    plan : the recorded plan.
    results : the folder of the outputs, wherever it lies now.
    stores : look at stores and predicted masks as well.
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
    """An error that names what `find_stale` finds, if it finds anything."""
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
    """Files of the leaderboard and the report that are not as their stamps say.

    The report is one whole: any file of it stands for its folder. What is missing beside the
    leaderboard is made again by itself.
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
    """`mixture_words` of the outputs of the plan, as far as they are there."""
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
            # missing, or of another plan
            continue
    return mixture_words(metadata, environments_of(recorded))


def delete(paths) -> None:
    """Remove files and stores."""
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
    """What an evaluation is called."""
    return tuple(row.get(name) for name in ("dataset", "backbone", "probe", "seed"))


def _reason_of_detections(path: Path, expected: str, table: Path | None) -> str | None:
    """The files bear the fingerprint; their digests are in the table of predictions, where that is there."""
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
        return None  # said of the table itself
    altered = [
        name
        for name in (TRUTH, FOUND)
        if name in digests and file_digest(path / name) != digests[name]
    ]
    return f"{altered[0]} was altered since it was written" if altered else None
