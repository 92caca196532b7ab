"""`verify`: every byte of a results folder, against the digests that its writers recorded.

It needs the folder alone: no data, no weights, no configuration.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from permafrost.core.cores import usable_cores
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.read_files import LABELS
from permafrost.core.stamps import read_stamp
from permafrost.operate.verify.findings import ABSENT, Check, Finding, Verification
from permafrost.operate.verify.listing import Listing
from permafrost.operate.verify.others import check_others
from permafrost.operate.verify.outputs import (
    Output,
    altered,
    check_detections,
    check_file,
    check_files,
    check_sealed_folder,
    found,
    missing,
)
from permafrost.operate.verify.plans import check_plans
from permafrost.plan.options import MASKS
from permafrost.plan.recorded import (
    CURRENT,
    current_plan,
    places,
    read_plan,
    refuse_altered_plan,
    stamp_of,
    stamped,
    summaries,
)

_MOST_THREADS = 8
# stages whose outputs may be deleted to free space
_STORES = ("prepare", "extract", "views", MASKS)


def verify(
    results: Path,
    plan: Path | None = None,
    *,
    stores: bool = True,
    deep: bool = True,
    others: bool = True,
    complete: bool = False,
    tick: Callable[[int], object] = lambda size: None,
) -> Verification:
    """Check the files of a results folder.

    Parameters
    ----------
    results : the folder, which may have been moved or restored.
    plan : the recorded plan; None: the newest in the folder.
    stores : also check stores and predicted masks.
    deep : read every file of stores and masks; False: compare their names and sizes.
    others : also check or list what the plan does not name.
    complete : no store may be absent; else those of a job may be, if none of them is there.
    tick : called with the number of bytes that were read.

    Raises
    ------
    PermafrostError : the folder or its plan is missing, or the plan names files outside of it.
    """
    began = time.monotonic()
    results = Path(results)
    newest = results / "plans" / CURRENT
    if plan is None:
        if not newest.parent.is_dir():
            current_plan(results)  # raises, since nothing was recorded
        if not newest.is_file() or not (plan := current_plan(results)).is_file():
            kind, named = ("missing", "") if plan is None else ("changed", f" {plan.name!r}")
            reason = f"no plan{named} is there, so nothing else can be checked; --plan names one"
            return Verification(results, "", [Finding(newest, kind, reason, newest)])
    plan = Path(plan)
    verification = Verification(results, plan.stem)
    listing = Listing(results)
    try:
        recorded = read_plan(plan)
        refuse_altered_plan(plan)
    except PermafrostError as error:
        whole = f"{error.problem}; without it, nothing else can be checked"
        verification.findings = [Finding(plan, "changed", whole, plan)]
        return verification
    checks = itertools.chain(
        _outputs(recorded, listing, stores=stores, deep=deep, complete=complete),
        _stamped(recorded, listing),
        check_plans(listing, plan),
        check_others(listing, recorded, verification) if others else (),
    )
    _carry_out(checks, verification, tick)
    verification.seconds = time.monotonic() - began
    return verification


def _carry_out(checks: Iterator[Check], verification: Verification, tick: Callable) -> None:
    """Carry out checks in threads: hashing and reading release Python's lock."""
    findings: dict[Path, Finding] = {}
    pool = ThreadPoolExecutor(min(_MOST_THREADS, usable_cores()))
    try:
        begun = [(check, pool.submit(check.run)) for check in checks]
        for check, future in begun:
            for one in future.result():
                findings.setdefault(one.path, one)
            verification.files += check.files
            verification.bytes += check.bytes
            tick(check.bytes)
    finally:
        pool.shutdown(cancel_futures=True)
    verification.findings = sorted(
        findings.values(), key=lambda one: (not one.is_damage, str(one.path))
    )


def _outputs(
    recorded: dict, listing: Listing, *, stores: bool, deep: bool, complete: bool
) -> Iterator[Check]:
    """Checks of the plan's outputs."""
    results = listing.results
    rows = places(recorded, results)
    tables = {_job(row)[1:]: path for row, path in rows if row["stage"] == "probe"}
    for job, same in itertools.groupby(rows, key=lambda pair: _job(pair[0])):
        outputs = [
            Output(path, path.relative_to(results).as_posix(), row["fingerprint"], row.get("split"))
            for row, path in same
        ]
        stage = job[0]
        if stage == "detections":
            yield from check_detections(outputs[0], listing, tables[job[1:]])
        elif stage not in _STORES:
            for output in outputs:
                yield from check_file(output, listing)
        elif not stores:
            for output in outputs:
                listing.take_below(output.name)
        else:
            yield from _stores(outputs, listing, deep=deep, complete=complete)


def _stores(
    outputs: list[Output], listing: Listing, *, deep: bool, complete: bool
) -> Iterator[Check]:
    """Checks of the stores of one job, which may be absent together."""
    # the folder of a damaged store may be empty
    if not complete and not any(output.path.exists() for output in outputs):
        for output in outputs:
            reason = "deleted, or not in the archive"
            yield found(Finding(output.path, ABSENT, reason, output.path))
        return
    for output in outputs:
        for check in check_sealed_folder(output, listing):
            if deep or not check.bytes:
                yield check


def _job(row: dict) -> tuple:
    return tuple(row.get(name) for name in LABELS)


def _stamped(recorded: dict, listing: Listing) -> Iterator[Check]:
    """Checks of the files beside the leaderboard and of the report, by the stamps of their jobs."""
    results = listing.results
    report = Output(results / "report", "report")
    expected: dict[str, tuple] = {}
    unknown = set()
    for fingerprint in stamped(recorded):
        try:
            digests = read_stamp(stamp_of(results, fingerprint), expect=fingerprint)
        except PermafrostError:
            # a finding of its own, see `check_plans`
            unknown.add(fingerprint)
            continue
        expected |= {name: (None, digest) for name, digest in digests.items()}
    names = listing.take_below("report")
    pages = {
        name.removeprefix("report/"): digest
        for name, digest in expected.items()
        if name.startswith("report/")
    }
    if not names:
        yield found(missing(report))
    elif recorded["plan"] not in unknown:
        yield from check_files(report, names, pages, file_digest)
    for name in sorted(expected.keys() - {f"report/{page}" for page in pages}):
        if name in listing.sizes:
            # the leaderboard has a digest of its own, too
            counted = int(name in listing.left)
            size = max(listing.take(name) or 0, 0) * counted
            yield Check(counted, size, partial(_compare, results / name, expected[name][1]))
    for path in summaries({**recorded, "results": results}):
        name = path.relative_to(results).as_posix()
        if listing.take(name) is None:
            yield found(missing(Output(path, name)))


def _compare(path: Path, digest: str) -> list[Finding]:
    reason = altered(path, digest, file_digest)
    return [Finding(path, "changed", reason, path)] if reason else []
