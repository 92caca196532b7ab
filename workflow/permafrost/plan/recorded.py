"""Read a recorded plan, without the code that makes plans."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import fingerprint
from permafrost.core.inputs import check_file, check_folder
from permafrost.core.read_files import READ

CURRENT = "current"
_LEADERBOARD = "leaderboard.parquet"


_HEAD = re.compile(rb'\{"about": "([0-9a-f]{32})", "sha256": "([0-9a-f]{64})", ')


def encode_plan(about: str, content: dict) -> bytes:
    """A recorded plan: JSON that begins with `about` and the SHA-256 of the rest of the file.

    Parameters
    ----------
    about : fingerprint of the content, 32 hexadecimal digits.
    """
    body = f"{json.dumps(content)[1:]}\n".encode()
    head = f'{{"about": "{about}", "sha256": "{hashlib.sha256(body).hexdigest()}", '
    return head.encode() + body


def says(raw: bytes, about: str) -> bool:
    """Whether `raw` is an undamaged plan that `encode_plan` wrote with the same `about`."""
    head = _HEAD.match(raw)
    return head is not None and head[1].decode() == about and _is_whole(raw, head)


def _is_whole(raw: bytes, head: re.Match) -> bool:
    return hashlib.sha256(raw[head.end() :]).hexdigest() == head[2].decode()


def read_plan(path, results: Path | None = None) -> dict:
    """The content of a plan that `record_plan` wrote.

    Parameters
    ----------
    results : the current folder of its outputs; None: the recorded one.

    Raises
    ------
    PermafrostError : the file cannot be read, or was altered.
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
    if not _is_plan(recorded):
        raise _unreadable("does not say where its results lie, and of which jobs", path)
    if results is None or str(results) == recorded["results"]:
        return recorded
    outputs = [{**row, "path": str(place)} for row, place in places(recorded, results)]
    return {**recorded, "results": str(results), "outputs": outputs}


def refuse_altered_plan(path: Path) -> str:
    """Check every byte of a recorded plan, and that it is the one that its name says.

    Returns
    -------
    The fingerprint of its content, which the file of its jobs has, too.

    Raises
    ------
    PermafrostError : the file cannot be read, or was altered.
    """
    content = read_plan(path)
    about = {key: content[key] for key in content if key not in ("about", "sha256", "outputs")}
    if content.get("about") != fingerprint(about):
        raise _unreadable("was altered since it was written", path)
    if content["plan"] != Path(path).stem:
        raise _unreadable("has the name of another one", path)
    return content["about"]


def _is_plan(recorded: object) -> bool:
    """Whether it has what every reader of a plan relies on."""
    if not isinstance(recorded, dict) or not isinstance(recorded.get("results"), str):
        return False
    rows = recorded.get("outputs")
    return isinstance(rows, list) and all(
        isinstance(row, dict)
        and all(isinstance(row.get(key), str) for key in ("stage", "path", "fingerprint"))
        for row in rows
    )


def _unreadable(problem: str, path) -> PermafrostError:
    return PermafrostError(
        f"the recorded plan {problem}", where=path, remedy="run snakemake to record it"
    )


def planned(recorded: dict, stage: str) -> list[dict]:
    """The rows of one stage's outputs in a recorded plan."""
    return [row for row in recorded["outputs"] if row["stage"] == stage]


def current_plan(results: Path) -> Path:
    """The path of the last plan recorded in ``{results}/plans``.

    Raises
    ------
    PermafrostError : the folder does not exist, or no plan was recorded.
    """
    check_folder(results)
    folder = Path(results) / "plans"
    try:
        return folder / f"{(folder / CURRENT).read_text().strip()}.json"
    except OSError as error:
        raise PermafrostError(
            "no plan was recorded", where=folder, remedy="run snakemake, which records it"
        ) from error


def results_in(path) -> Path:
    """The folder of results, from its path, a file in it, or its project's folder."""
    path = Path(path)
    if path.is_file() and (path.parent / "plans").is_dir():
        return path.parent
    inside = path / "results"
    return inside if not (path / "plans").is_dir() and (inside / "plans").is_dir() else path


def leaderboard_in(path) -> Path:
    """The path of a leaderboard, from its path, a folder of results, or a project's folder.

    Raises
    ------
    PermafrostError : the folder has none.
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
    """Each output row of a recorded plan, with its path in the folder `results`.

    Raises
    ------
    PermafrostError : the plan names an output outside its results. Plans in archives are not
        trusted, because outputs may be deleted later.
    """
    located = []
    for row in recorded["outputs"]:
        inside = row["path"].removeprefix(f"{recorded['results']}/")
        if inside == row["path"] or inside.startswith("/") or ".." in inside.split("/"):
            raise _unreadable(f"names an output outside of its results ({row['path']})", results)
        located.append((row, Path(results) / inside))
    return located


def by_names(recorded: dict, stage: str, *names: str) -> dict:
    """Labels -> path of a stage's outputs; the key is a tuple, or one value if `names` is one."""
    paths = {}
    for row in planned(recorded, stage):
        key = tuple(row[name] for name in names)
        paths[key[0] if len(names) == 1 else key] = Path(row["path"])
    return paths


def tested_features(recorded: dict) -> dict[tuple[str, str], Path]:
    """(dataset, backbone) -> path of the feature store of test, which may have been deleted."""
    return {
        (row["dataset"], row["backbone"]): Path(row["path"])
        for row in planned(recorded, "extract")
        if row["split"] == "test"
    }


def extraction_logs(recorded: dict) -> dict[tuple[str, str], Path]:
    """(dataset, backbone) -> path of the log of its extraction, which may be missing."""
    logs = Path(recorded["results"]) / "logs" / "extract"
    return {
        (row["dataset"], row["backbone"]): logs / row["dataset"] / f"{row['backbone']}.log"
        for row in planned(recorded, "extract")
    }


def expected(recorded: dict) -> dict[str, str]:
    """Path -> the fingerprint that the output must have."""
    return {row["path"]: row["fingerprint"] for row in recorded["outputs"]}


def stamp_of(results: Path, fingerprint: str) -> Path:
    """The path of the stamp: a file with digests of what was written under this fingerprint."""
    return Path(results) / "plans" / f"{fingerprint}.done"


def forget_gathered(results: Path) -> None:
    """Delete all stamps, so that every plan recomputes its leaderboard and report."""
    for stamp in (Path(results) / "plans").glob("*.done"):
        stamp.unlink(missing_ok=True)


def stamped(recorded: dict) -> list[str]:
    """The fingerprints with a stamp: the leaderboard's, and the plan's, which is the report's."""
    (gathered,) = planned(recorded, "aggregate")
    return [gathered["fingerprint"], recorded["plan"]]


def published_files(recorded: dict) -> list[Path]:
    """Paths of the tables of published results; empty if the configuration names none."""
    asked = recorded["config"].get("published")
    return [Path(recorded["results"]) / f"published.{form}" for form in ("parquet", "csv") if asked]


def summaries(recorded: dict) -> list[Path]:
    """Paths of the tables beside the leaderboard, which its stamp lists."""
    results = Path(recorded["results"])
    names = ("leaderboard.csv", "standings.parquet", "standings.csv")
    return [*(results / name for name in names), *published_files(recorded)]


def archived(recorded: dict, plan: Path) -> list[Path]:
    """Paths that an archive of the plan contains: outputs, report, the plan itself and stamps."""
    results = Path(recorded["results"])
    fixed = [
        *summaries(recorded),
        results / "report",
        plan,
        plan.with_name(CURRENT),
        *(stamp_of(results, made) for made in stamped(recorded)),
        *([results / READ] if (results / READ).is_dir() else []),
    ]
    return [*(Path(row["path"]) for row in recorded["outputs"]), *fixed]
