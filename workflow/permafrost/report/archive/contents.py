"""Allowed members of an archive, and where it may be restored: results and Snakemake's records.

Only listed kinds of files are allowed, by folder. None of them is ever executed or read as
settings, so an archive from another source can contain wrong numbers, but no code.
"""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from pathlib import PurePosixPath

from permafrost.core.names import SOURCES, part_refusal
from permafrost.core.snakemake_internals import METADATA
from permafrost.report.archive.manifest import Member

TIMESTAMP = ".snakemake_timestamp"  # written by Snakemake into every output folder
#: folder of the results -> file suffixes in it; stores are listed separately
_TABLES = frozenset({".parquet"})
_KINDS = {
    "images": frozenset({".json"}),
    "features": frozenset(),
    "views": frozenset(),
    "predictions": _TABLES,
    "masks": frozenset({".tif", ".parquet"}),
    "detections": frozenset({".json"}),
    "measures": _TABLES,
    "similarity": _TABLES,
    "profiles": _TABLES,
    "scores": _TABLES,
    "comparisons": _TABLES,
    "report": frozenset({".html", ".png", ".jpg", ".svg", ".csv", ".json"}),
    "plans": frozenset({".json", ".done"}),
    "read": frozenset({".json"}),
}
_ALONE = frozenset(
    {
        "leaderboard.parquet",
        "leaderboard.csv",
        "standings.parquet",
        "standings.csv",
        "published.parquet",
        "published.csv",
        "plans/current",
    }
)
_STORES = frozenset({"images", "features", "views", "masks"})
# ….zarr/zarr.json, ….zarr/samples.parquet, ….zarr/inventory.json, ….zarr/ARRAY/zarr.json, ….zarr/ARRAY/c/0/0/0
_IN_STORE = re.compile(
    r"(?:\w+/)?zarr\.json|samples\.parquet|inventory\.json|\w+/c(?:/\d+)*", re.ASCII
)
_RUN = re.compile(r"run/[A-Za-z]+\.(?:json|md)")
_RECORD: dict[str, type | tuple[type, ...]] = {
    "rule": str, "input": list, "log": list, "shellcmd": str, "params": list, "code": str,
    "record_format_version": int, "conda_env": str, "container_img_url": str,
    "software_stack_hash": str, "job_hash": int, "starttime": (int, float), "endtime": (int, float),
    "incomplete": bool, "external_jobid": type(None), "input_checksums": dict,
}  # fmt: skip


def refusals(members: Iterable[Member], results: str) -> dict[str, str]:
    """Path -> reason, for every member that an archive with this `results` may not have."""
    refused: dict[str, str]
    seen: dict[str, str]
    refused, seen = {}, {}
    for member in members:
        reason = _refusal(member, results)
        folded = unicodedata.normalize("NFC", member.path).casefold()
        if reason is None and folded in seen:
            reason = f"the same name as {seen[folded]} where case does not count"
        if reason:
            refused[member.path] = reason
        seen[folded] = member.path
    for folded, path in seen.items():
        inside = [str(parent) for parent in PurePosixPath(folded).parents if str(parent) in seen]
        if inside and path not in refused:
            refused[path] = f"it lies in {seen[inside[0]]}, which is a file"
    return refused


def is_result(path: str, results: str) -> bool:
    """Whether `path`, relative to the working directory, has the form of an output of a run."""
    return _result_refusal(path, results) is None


def record_refusal(content: bytes) -> str | None:
    """Why a record is not one that Snakemake writes for a finished job; None if it is."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(record, dict):
        return "not a record of Snakemake"
    unknown = sorted(set(record) - set(_RECORD))
    wrong = [
        name
        for name, value in record.items()
        if name in _RECORD and value is not None and not isinstance(value, _RECORD[name])
    ]
    if unknown or wrong:
        return f"not a record of Snakemake ({', '.join([*unknown, *wrong])})"
    return "of a job that was not finished" if record.get("incomplete") else None


def _refusal(member: Member, results: str) -> str | None:
    match member.role:
        case "result":
            if member.path.endswith(f"/{TIMESTAMP}") and member.size:
                return "a time stamp with content"
            return _result_refusal(member.path, results)
        case "record":
            return _place_of_record(member.path, results)
        case "run":
            return None if _RUN.fullmatch(member.path) else "not one of the files about the run"
    top = member.path.partition("/")[0]
    return None if top in SOURCES else "not a source of the workflow"


def _result_refusal(path: str, results: str) -> str | None:
    if reason := part_refusal(path, hidden=(TIMESTAMP,)):
        return reason
    if not path.startswith(f"{results}/"):
        return f"not below {results}"
    inside = path.removeprefix(f"{results}/")
    top, *rest = inside.split("/")
    if inside in _ALONE:
        return None
    if top not in _KINDS or not rest:
        return f"nothing of a run lies there in {results}"
    if rest[-1] == TIMESTAMP:
        return None
    if PurePosixPath(path).suffix in _KINDS[top]:
        return None
    if top in _STORES and any(
        _IN_STORE.fullmatch("/".join(rest[start:])) for start in range(1, len(rest))
    ):
        return None
    return f"no kind of file that a run leaves in {results}/{top}"


def _place_of_record(path: str, results: str) -> str | None:
    """Why a record, named after its output, belongs to no result; None if it does."""
    parts = PurePosixPath(path).relative_to(METADATA).parts if _is_below(path, METADATA) else ()
    if not parts or any(not part.startswith("@") for part in parts[:-1]):
        return "not a record of Snakemake"
    coded = "".join([*(part[1:] for part in parts[:-1]), parts[-1]])
    try:
        output = urlsafe_b64decode(coded).decode()
    except ValueError:
        return "not a record of Snakemake"
    if urlsafe_b64encode(output.encode()).decode() != coded:
        return "not a record of Snakemake"
    top = output.removeprefix(f"{results}/").partition("/")[0]
    plain = output.startswith(f"{results}/") and (top in _KINDS or top in _ALONE)
    if not plain or part_refusal(output, hidden=(TIMESTAMP,)):
        return f"the record of {output!r}, which is no result"
    return None


def _is_below(path: str, folder) -> bool:
    return path.startswith(f"{PurePosixPath(folder)}/")
