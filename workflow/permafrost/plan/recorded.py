"""Reading a plan that was written down, without the means of making one."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.inputs import check_file, check_folder

CURRENT = "current"
_LEADERBOARD = "leaderboard.parquet"


_HEAD = re.compile(rb'\{"about": "([0-9a-f]{32})", "sha256": "([0-9a-f]{64})", ')


def encode_plan(about: str, content: dict) -> bytes:
    """A recorded plan: JSON that begins with what it is about and the SHA-256 of all that follows."""
    body = f"{json.dumps(content)[1:]}\n".encode()
    head = f'{{"about": "{about}", "sha256": "{hashlib.sha256(body).hexdigest()}", '
    return head.encode() + body


def says(raw: bytes, about: str) -> bool:
    """Whether `raw` is a plan that `encode_plan` wrote about the same, to the last byte."""
    head = _HEAD.match(raw)
    return head is not None and head[1].decode() == about and _is_whole(raw, head)


def _is_whole(raw: bytes, head: re.Match) -> bool:
    return hashlib.sha256(raw[head.end() :]).hexdigest() == head[2].decode()


def read_plan(path, results: Path | None = None) -> dict:
    """The recorded plan, as `record_plan` wrote it.

    Parameters
    ----------
    results : the folder that its outputs lie in now; None where it is the recorded one.

    Raises
    ------
    PermafrostError : it cannot be read, or was altered.
    """
    check_file(path)
    try:
        raw = Path(path).read_bytes()
        recorded = json.loads(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(f"cannot be read ({first_line(error)})", path) from error
    head = _HEAD.match(raw)
    if head is not None and not _is_whole(raw, head):
        raise _unreadable("was altered since it was written", path)
    if results is None or str(results) == recorded["results"]:
        return recorded
    outputs = [{**row, "path": str(place)} for row, place in places(recorded, results)]
    return {**recorded, "results": str(results), "outputs": outputs}


def _unreadable(problem: str, path) -> PermafrostError:
    return PermafrostError(
        f"the recorded plan {problem}", where=path, remedy="run snakemake to record it"
    )


def planned(recorded: dict, stage: str) -> list[dict]:
    """The outputs of one stage in a recorded plan."""
    return [row for row in recorded["outputs"] if row["stage"] == stage]


def current_plan(results: Path) -> Path:
    """The plan recorded last under ``{results}/plans``."""
    check_folder(results)
    folder = Path(results) / "plans"
    try:
        return folder / f"{(folder / CURRENT).read_text().strip()}.json"
    except OSError as error:
        raise PermafrostError(
            "no plan was recorded", where=folder, remedy="run snakemake, which records it"
        ) from error


def results_in(path) -> Path:
    """The folder of results that is meant by its path, by a file in it, or by its project's folder."""
    path = Path(path)
    if path.is_file() and (path.parent / "plans").is_dir():
        return path.parent
    inside = path / "results"
    return inside if not (path / "plans").is_dir() and (inside / "plans").is_dir() else path


def leaderboard_in(path) -> Path:
    """The leaderboard that is meant by its path, by a folder of results, or by a project's folder.

    Raises
    ------
    PermafrostError : the folder holds none.
    """
    path = Path(path)
    if not path.is_dir():
        return path
    for folder in (path, path / "results"):
        if (folder / _LEADERBOARD).is_file():
            return folder / _LEADERBOARD
    raise PermafrostError(
        f"the folder holds no {_LEADERBOARD}",
        where=path,
        remedy="name a folder of results; `permafrost run` makes one",
    )


def places(recorded: dict, results: Path) -> list[tuple[dict, Path]]:
    """Each output of a recorded plan with its path in the folder `results`, wherever that lies now.

    Raises
    ------
    PermafrostError : the plan names an output outside of its results. It may come from an archive of
        somebody else, and what lies at these paths may be deleted.
    """
    located = []
    for row in recorded["outputs"]:
        inside = row["path"].removeprefix(f"{recorded['results']}/")
        if inside == row["path"] or inside.startswith("/") or ".." in inside.split("/"):
            raise _unreadable(f"names an output outside of its results ({row['path']})", results)
        located.append((row, Path(results) / inside))
    return located


def by_names(recorded: dict, stage: str, *names: str) -> dict:
    """Paths of a stage's outputs by the values of `names`: a tuple of them, or one alone."""
    paths = {}
    for row in planned(recorded, stage):
        key = tuple(row[name] for name in names)
        paths[key[0] if len(names) == 1 else key] = Path(row["path"])
    return paths


def expected(recorded: dict) -> dict[str, str]:
    """The fingerprint that each output must carry, by path."""
    return {row["path"]: row["fingerprint"] for row in recorded["outputs"]}


def stamp_of(results: Path, fingerprint: str) -> Path:
    """The file that says what was written under this fingerprint, with digests."""
    return Path(results) / "plans" / f"{fingerprint}.done"


def forget_gathered(results: Path) -> None:
    """Let every plan make leaderboard and report again: what lies in their place is of none of them."""
    for stamp in (Path(results) / "plans").glob("*.done"):
        stamp.unlink(missing_ok=True)


def stamped(recorded: dict) -> list[str]:
    """The fingerprints of what leaves a stamp: the leaderboard, and the report, which has the plan's."""
    (gathered,) = planned(recorded, "aggregate")
    return [gathered["fingerprint"], recorded["plan"]]


def published_files(recorded: dict) -> list[Path]:
    """The tables of published results, which a run has whose configuration names some."""
    asked = recorded["config"].get("published")
    return [Path(recorded["results"]) / f"published.{form}" for form in ("parquet", "csv") if asked]


def archived(recorded: dict, plan: Path) -> list[Path]:
    """What an archive of the plan holds: every output, the report, the plan itself and the stamps."""
    results = Path(recorded["results"])
    fixed = [
        results / "leaderboard.csv",
        results / "standings.parquet",
        results / "standings.csv",
        *published_files(recorded),
        results / "report",
        plan,
        plan.with_name(CURRENT),
        *(stamp_of(results, made) for made in stamped(recorded)),
    ]
    return [*(Path(row["path"]) for row in recorded["outputs"]), *fixed]
