"""Reading a plan that was written down, without the means of making one."""

from __future__ import annotations

import json
from pathlib import Path

from permafrost.core.errors import PermafrostError

CURRENT = "current"


def read_plan(path) -> dict:
    """The recorded plan, as `record_plan` wrote it."""
    try:
        return json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise PermafrostError(
            f"the recorded plan cannot be read ({error})",
            where=path,
            remedy="run snakemake -n to record it",
        ) from error


def planned(recorded: dict, stage: str) -> list[dict]:
    """The outputs of one stage in a recorded plan."""
    return [row for row in recorded["outputs"] if row["stage"] == stage]


def current_plan(results: Path) -> Path:
    """The plan recorded last under ``{results}/plans``."""
    folder = Path(results) / "plans"
    try:
        return folder / f"{(folder / CURRENT).read_text().strip()}.json"
    except OSError as error:
        raise PermafrostError(
            "no plan was recorded", where=folder, remedy="run snakemake -n, which records it"
        ) from error


def by_names(recorded: dict, stage: str, *names: str) -> dict:
    """Paths of a stage's outputs by the values of `names`: a tuple of them, or one alone."""
    found = {}
    for row in planned(recorded, stage):
        key = tuple(row[name] for name in names)
        found[key[0] if len(names) == 1 else key] = Path(row["path"])
    return found


def expected(recorded: dict) -> dict[str, str]:
    """The fingerprint that each output must carry, by path."""
    return {row["path"]: row["fingerprint"] for row in recorded["outputs"]}


def stamp_of(results: Path, fingerprint: str) -> Path:
    """The file that says that the scores of this fingerprint were gathered."""
    return Path(results) / "plans" / f"{fingerprint}.done"


def forget_gathered(results: Path) -> None:
    """Let every plan gather its scores again: what lies in the leaderboard's place is of none of them."""
    for stamp in (Path(results) / "plans").glob("*.done"):
        stamp.unlink(missing_ok=True)


def archived(recorded: dict, plan: Path) -> list[Path]:
    """What an archive of the plan holds: every output, the report, the plan itself and its stamp."""
    results = Path(recorded["results"])
    (gathered,) = planned(recorded, "aggregate")
    fixed = [
        results / "leaderboard.csv",
        results / "summary.csv",
        results / "report",
        plan,
        plan.with_name(CURRENT),
        stamp_of(results, gathered["fingerprint"]),
    ]
    return [*(Path(row["path"]) for row in recorded["outputs"]), *fixed]
