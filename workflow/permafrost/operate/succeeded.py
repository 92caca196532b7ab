"""Leaderboard, standings and report of the successful part of a run with failed jobs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from permafrost.backbones.derived import parents_of
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.option_models import read
from permafrost.core.outputs import whole_directory
from permafrost.core.tables import read_metadata, read_table, write_csv, write_table
from permafrost.operate.failures import Failure
from permafrost.plan.recorded import (
    by_names,
    expected,
    extraction_logs,
    forget_gathered,
    planned,
    published_files,
    tested_features,
)
from permafrost.report.archive.provenance import describe_machine
from permafrost.report.explanations.leaderboard_state import KEY, failures_table, mark_incomplete
from permafrost.statistics.across_datasets.standings_table import write_standings
from permafrost.statistics.leaderboard.derived import about_derived
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.leaderboard.published_table import write_published
from permafrost.statistics.scores.comparison_table import CompareSpec, compare_predictions

# stages that the leaderboard collects -> value of its column `probe`; None: the probe's name
_GATHERED = {"bootstrap": None, "measure": "measures", "profile": "profile"}


def read_made_scores(plan: dict, failures: list[Failure]) -> tuple[list, list[dict]]:
    """The existing score tables of a recorded plan, and the missing ones.

    Returns
    -------
    (tables, missing) : each of `missing` has ``dataset``, ``backbone``, ``probe``, ``seed`` and
    ``reason``: the error of the failed job, or None.
    """
    tables, missing = [], []
    for stage, name in _GATHERED.items():
        for row in planned(plan, stage):
            try:
                tables.append(read_table(row["path"], expect=row["fingerprint"])[0])
            except PermafrostError as error:
                refused = error.problem if Path(row["path"]).exists() else None
                missing.append(
                    {
                        "dataset": row["dataset"],
                        "backbone": row["backbone"],
                        "probe": name or row["probe"],
                        "seed": row.get("seed", 0),
                        "reason": next(_stopping(plan, failures, stage, row), refused),
                    }
                )
    return tables, missing


def _stopping(plan: dict, failures: list[Failure], stage: str, row: dict) -> Iterator[str]:
    """The errors that keep a table from being made; of a derived backbone, also of extracting its parents."""
    yield from (one.error for one in failures if one.stops(stage, row))
    for parent in parents_of(plan["backbones"].get(row["backbone"], {})):
        own = {**row, "backbone": parent}
        yield from (
            one.error for one in failures if one.stage == "extract" and one.stops(stage, own)
        )


def are_made(plan: dict, stage: str) -> bool:
    """Whether all tables of a stage exist and belong to this plan."""
    return all(_is_made(row) for row in planned(plan, stage))


def write_made_tables(
    plan: dict, tables: list, about: dict, job: dict, published: list[Path]
) -> None:
    """Write leaderboard and standings to their usual paths, marked as incomplete.

    Parameters
    ----------
    plan : the recorded plan.
    tables : score tables.
    about : metadata of the leaderboard, from `leaderboard_state.describe`.
    job : spec of the plan's job ``aggregate``.
    published : files of published results that the spec names.
    """
    results = Path(plan["results"])
    cells = job.get("cells", [])
    table = mark_incomplete(
        build_leaderboard(tables, cells, job.get("derived", ()), job.get("derived_datasets", ())),
        about["missing"],
    )
    # the files below belong to no plan; without stamps, each plan rewrites them
    forget_gathered(results)
    metadata = {"fingerprint": fingerprint(KEY, about), "stage": "aggregate", KEY: about}
    metadata |= {
        key: job[key] for key in ("left_out", "fit", "derived", "derived_datasets") if key in job
    }
    metadata |= {"suite": suite} if (suite := plan["config"].get("suite")) else {}
    metadata |= about_derived(tables)
    write_csv(results / "leaderboard.csv", table)
    write_table(results / "leaderboard.parquet", table, metadata)
    options = {"groups": job["groups"], "ranking": job["ranking"], "comparison": job["options"]}
    options["cells"] = cells
    write_standings(
        tables, results / "standings.parquet", results / "standings.csv", metadata, options
    )
    if published:
        # two arguments; mypy does not know the length of a list
        write_published(job["published"], published, *published_files(plan), metadata)  # type: ignore[call-arg,arg-type]


def write_made_page(
    plan: dict, leaderboard: Path, about: dict, comparisons: list[dict], options: dict
) -> None:
    """Write ``report/``: page, figures, table of failures, and comparisons of existing predictions.

    Parameters
    ----------
    plan : the recorded plan.
    leaderboard : path of the leaderboard.
    about : metadata of the leaderboard, from `leaderboard_state.describe`.
    comparisons : specs of the plan's comparisons.
    options : of the report.
    """
    from permafrost.report.page import Report

    predictions = {
        (row["dataset"], row["backbone"], row["seed"], row["probe"]): Path(row["path"])
        for row in planned(plan, "probe")
        if _is_made(row)
    }
    expect = expected(plan)
    if read_metadata(leaderboard).get(KEY):
        del expect[str(leaderboard)]
    with (
        whole_directory(Path(plan["results"]) / "report") as folder,
        tempfile.TemporaryDirectory(dir=folder) as page,
    ):
        made = Path(page) / "report"
        Report(
            plan=plan,
            leaderboard=leaderboard,
            standings=leaderboard.with_name("standings.parquet"),
            published=next(iter(published_files(plan)), None),
            cards=by_names(plan, "card", "dataset"),
            predictions=predictions,
            scores=by_names(plan, "bootstrap", "dataset", "backbone", "seed", "probe"),
            images=by_names(plan, "prepare", "dataset", "split"),
            features=tested_features(plan),
            logs=extraction_logs(plan),
            comparisons=_compare(plan, comparisons, predictions, folder / "comparisons"),
            similarities={
                row["dataset"]: Path(row["path"])
                for row in planned(plan, "similarity")
                if _is_made(row)
            },
            expect=expect,
            title=options["title"],
            examples=options["examples"],
            picture_seed=options["seed"],
            hardware=describe_machine(),
            incomplete=about,
        ).write(made)
        for file in made.iterdir():
            file.rename(folder / file.name)
        write_csv(folder / "failures.csv", failures_table(about["failures"]))


def _is_made(row: dict) -> bool:
    """Whether the table of a row exists and belongs to this plan."""
    try:
        read_metadata(row["path"], expect=row["fingerprint"])
    except PermafrostError:
        return False
    return True


def _compare(plan: dict, specs: list[dict], predictions: dict, folder: Path) -> dict:
    """(dataset, probe) -> comparisons: the plan's table, else a new one of existing predictions."""
    paths = {
        (row["dataset"], row["probe"]): Path(row["path"])
        for row in planned(plan, "compare")
        if _is_made(row)
    }
    for spec in specs:
        dataset, probe = names = spec["dataset"], spec["probe"]
        there = {
            name: made
            for name, made in spec["inputs"]["predictions"].items()
            if (dataset, *_backbone_and_seed(name), probe) in predictions
        }
        if names in paths or len({_backbone_and_seed(name)[0] for name in there}) < 2:
            continue
        own = {**spec, "inputs": {"predictions": there}}
        paths[names] = folder / dataset / f"{probe}.parquet"
        compare_predictions(
            Path(plan["results"]) / "predictions",
            paths[names],
            spec=read(CompareSpec, own, where="the recorded comparison"),
            fingerprint=fingerprint(KEY, own),
        )
    return paths


def _backbone_and_seed(name: str) -> tuple[str, int]:
    backbone, seed = name.rsplit("/seed", 1)
    return backbone, int(seed)
