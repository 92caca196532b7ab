"""Finding outputs that exist but were made from another plan than the recorded one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from permafrost.core.errors import PermafrostError
from permafrost.core.stores import SAMPLES, Store
from permafrost.core.tables import read_metadata

from .recorded import read_plan

# what a folder of detections holds beside them, with the fingerprint
TRUTH = "truth.json"


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
        if path.exists() and (reason := _reason(path, row["fingerprint"])):
            found.append((path, reason))
    return found


def delete(paths) -> None:
    """Remove files and stores."""
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _reason(path: Path, expected: str) -> str | None:
    try:
        if path.is_dir() and (path / SAMPLES).exists() and not (path / "zarr.json").exists():
            if pq.read_metadata(path / SAMPLES).metadata[b"fingerprint"] != expected.encode():
                return "made from another plan"
        elif (path / TRUTH).exists():
            if json.loads((path / TRUTH).read_text())["info"]["fingerprint"] != expected:
                return "made from another plan"
        elif path.is_dir():
            Store(path, expect=expected)
        elif path.suffix == ".parquet":
            read_metadata(path, expect=expected)
        elif json.loads(path.read_text())["fingerprint"] != expected:
            return "made from another plan"
    except PermafrostError as error:
        return error.problem
    except (ValueError, KeyError, TypeError, OSError):
        return "not a file of this pipeline"
    return None
