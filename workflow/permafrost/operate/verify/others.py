"""What the recorded plan does not name: outputs of other plans, archives, logs, foreign files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.read_files import ReadFiles
from permafrost.core.stores import GROUP, SAMPLES, read_seal
from permafrost.core.tables import read_metadata
from permafrost.data.store.card import read_card
from permafrost.operate.verify.findings import FOREIGN, OTHER_PLAN, Check, Finding, Verification
from permafrost.operate.verify.listing import Listing
from permafrost.operate.verify.outputs import (
    Output,
    check_detections,
    check_file,
    check_sealed_folder,
    found,
)
from permafrost.plan.options import MASKS
from permafrost.plan.parts import FOLDER as PARTS
from permafrost.plan.recorded import READ
from permafrost.report.archive.contents import is_result
from permafrost.report.archive.restoring import check_archive

_LOGS, _ARCHIVES, _README, _DETECTIONS = "logs", "archive", "README.md", "detections"
# folders of masks and detections are this deep: STAGE/DATASET/BACKBONE/SEED/PROBE
_DEPTH = 5


def check_others(listing: Listing, recorded: dict, verification: Verification) -> Iterator[Check]:
    """Check what no other check has accounted for; counts logs in `verification`."""
    own = {row["fingerprint"] for row in recorded["outputs"]}
    for name in sorted(listing.left):
        if name not in listing.left:
            continue  # of a folder that was checked
        top, *inside = name.split("/")
        if listing.is_leftover(name):
            yield found(_leftover(listing, name))
        elif top == _LOGS and inside:
            listing.take(name)
            verification.unchecked += 1
        elif top == PARTS and inside:
            listing.take_below(PARTS)
            reason = "parts of stores that a run has not joined yet"
            yield found(Finding(listing.results / PARTS, FOREIGN, reason, listing.results / PARTS))
        elif top == _ARCHIVES and name.endswith(".zip"):
            path = listing.results / name
            yield Check(1, max(listing.take(name) or 0, 0), partial(_archive, path))
        elif top == READ and name.endswith(".json"):
            path = listing.results / name
            yield Check(1, max(listing.take(name) or 0, 0), partial(_record_of_reading, path))
        elif is_result(f"results/{name}", "results"):
            yield _of_another_plan(listing, name, own)
        elif name != _README:
            listing.take(name)
            path = listing.results / name
            yield found(Finding(path, FOREIGN, "no run wrote it", path))


def _leftover(listing: Listing, name: str) -> Finding:
    parts = name.split("/")
    length = next(n for n in range(1, len(parts) + 1) if listing.is_leftover(parts[n - 1]))
    root = "/".join(parts[:length])
    listing.take_below(root)
    listing.take(root)
    path = listing.results / root
    return Finding(path, FOREIGN, "a killed run left it; it may be deleted", path)


def _archive(path: Path) -> list[Finding]:
    try:
        check_archive(path)
    except PermafrostError as error:
        return [Finding(path, "changed", error.problem, path)]
    return []


def _record_of_reading(path: Path) -> list[Finding]:
    if ReadFiles.load(path).base:
        return []
    return [Finding(path, "changed", "it is not what was written", path)]


def _of_another_plan(listing: Listing, name: str, own: set[str]) -> Check:
    """Check an output by what it says of itself alone."""
    root = _root(name)
    output = Output(listing.results / root, root)
    if root.startswith(f"{_DETECTIONS}/") and root != name:
        table = listing.results / f"predictions/{root.partition('/')[2]}.parquet"
        checks = list(check_detections(output, listing, table))
    elif root != name:
        checks = list(check_sealed_folder(output, listing))
    elif name.endswith((".parquet", "/card.json")):
        checks = list(check_file(output, listing))
    else:
        listing.take(name)
        return found(
            output.finding("unexpected", "it is in a folder of outputs, and no run wrote it")
        )
    size = sum(check.bytes for check in checks)
    return Check(sum(check.files for check in checks), size, lambda: _judged(output, checks, own))


def _judged(output: Output, checks: list[Check], own: set[str]) -> list[Finding]:
    damage = [one for check in checks for one in check.run()]
    if damage:
        reason = f"it is in a folder of outputs, but is not a valid one ({damage[0].reason})"
        return [output.finding("unexpected", reason)]
    if _fingerprint(output.path) in own:
        return [output.finding("unexpected", "a copy of another output")]
    return [output.finding(OTHER_PLAN, "an output that the recorded plan does not name")]


def _fingerprint(path: Path) -> str | None:
    """The fingerprint of an output that was checked."""
    if path.is_dir():
        if (path / GROUP).exists():
            return read_seal(path)["fingerprint"]
        return read_metadata(path / SAMPLES)["fingerprint"] if (path / SAMPLES).exists() else None
    reads_card = path.suffix == ".json"
    return read_card(path).fingerprint if reads_card else read_metadata(path)["fingerprint"]


def _root(name: str) -> str:
    """The store or folder that a file belongs to; the file itself if it is an output."""
    parts = name.split("/")
    if parts[0] in (MASKS, _DETECTIONS) and len(parts) > _DEPTH:
        return "/".join(parts[:_DEPTH])
    for length in range(1, len(parts)):
        if parts[length - 1].endswith(".zarr"):
            return "/".join(parts[:length])
    return name
