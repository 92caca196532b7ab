"""Finding outputs that exist but were made from another plan than the recorded one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from permafrost.core.errors import PermafrostError
from permafrost.core.stores import SAMPLES, Store
from permafrost.core.tables import read_metadata
from permafrost.core.versions import gather_versions
from permafrost.data.card import read_card

from .probes import DETECTIONS
from .recorded import read_plan

# what a folder of detections holds; the first has the fingerprint
TRUTH, FOUND = "truth.json", "detections.json"


def find_stale(plan: Path, results: Path) -> list[tuple[Path, str]]:
    """Outputs of the plan that exist with another fingerprint, or are damaged, with the reason.

    Parameters
    ----------
    plan : the recorded plan.
    results : the folder of the outputs, wherever it lies now.
    """
    recorded = read_plan(plan)
    found = []
    for row in recorded["outputs"]:
        path = Path(results) / Path(row["path"]).relative_to(recorded["results"])
        look = _reason_of_detections if row["stage"] == DETECTIONS else _reason
        if path.exists() and (reason := look(path, row)):
            found.append((path, reason))
    return found


def recorded_versions(plan: Path, results: Path) -> dict[str, list[str]]:
    """Package to all versions that outputs of the plan were computed with, as far as they are there."""
    recorded = read_plan(plan)
    found = []
    for row in recorded["outputs"]:
        path = Path(results) / Path(row["path"]).relative_to(recorded["results"])
        try:
            if path.suffix == ".parquet":
                found.append(read_metadata(path, expect=row["fingerprint"]))
            elif path.suffix == ".zarr":
                found.append(Store(path, expect=row["fingerprint"]).attributes)
        except PermafrostError:
            # missing, or of another plan
            continue
    return gather_versions(found)


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


def _reason_of_detections(path: Path, row: dict) -> str | None:
    lacking = [name for name in (TRUTH, FOUND) if not (path / name).is_file()]
    if lacking:
        return f"it lacks {lacking[0]}"
    try:
        made = json.loads((path / TRUTH).read_text())["info"]["fingerprint"]
    except (ValueError, KeyError, TypeError, OSError):
        return "not a file of this pipeline"
    return None if made == row["fingerprint"] else "made from another plan"
