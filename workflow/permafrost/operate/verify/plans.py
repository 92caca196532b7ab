"""Checks of recorded plans, their jobs, and the stamps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.stamps import read_stamp
from permafrost.operate.verify.findings import ABSENT, Check, Finding
from permafrost.operate.verify.listing import Listing
from permafrost.operate.verify.outputs import found
from permafrost.plan.jobs import SUFFIX, jobs_file, refuse_damaged
from permafrost.plan.recorded import CURRENT, read_plan, refuse_altered_plan, stamp_of, stamped

_FOLDER = "plans"


def check_plans(listing: Listing, plan: Path) -> Iterator[Check]:
    """Check every file of plans in the folder: the recorded plan's, and those of earlier ones."""
    results = listing.results
    promised = [stamp_of(results, made) for made in stamped(read_plan(plan))]
    for path in promised:
        if path.relative_to(results).as_posix() not in listing.sizes:
            yield found(Finding(path, "missing", "it lists what the files of its job are", path))
    if jobs_file(plan).relative_to(results).as_posix() not in listing.sizes:
        reason = "the next start of snakemake records it"
        yield found(Finding(jobs_file(plan), ABSENT, reason, jobs_file(plan)))
    checks: dict[str, Callable[[Path], object]] = {
        ".json": refuse_altered_plan,
        SUFFIX: lambda path: refuse_damaged(path, refuse_altered_plan(path.with_suffix(".json"))),
        ".done": lambda path: read_stamp(path, expect=path.stem),
        "": lambda path: _refuse_other(path, plan.stem),
    }
    for name in sorted(listing.left):
        folder, _, file = name.rpartition("/")
        path = results / name
        known = file == CURRENT or path.suffix
        if folder == _FOLDER and known and path.suffix in checks:
            size = listing.take(name) or 0
            yield Check(1, max(size, 0), partial(_refused, path, checks[path.suffix]))


def _refused(path: Path, check: Callable[[Path], object]) -> list[Finding]:
    try:
        check(path)
    except PermafrostError as error:
        return [Finding(path, "changed", error.problem, path)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [Finding(path, "changed", f"it cannot be read ({error})", path)]
    return []


def _refuse_other(path: Path, newest: str) -> None:
    """Refuse a file ``current`` that does not have the form in which a plan is named."""
    named = path.read_bytes().decode(errors="replace")
    if not named.endswith("\n") or not path.with_name(f"{named[:-1]}.json").is_file():
        raise PermafrostError(f"it names no recorded plan ({newest} was checked)", where=path)
