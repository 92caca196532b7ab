"""``permafrost incomplete``: what succeeded of a run that failed in, its leaderboard and page out."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

_GATHERED = ("bootstrap", "measure", "profile")


def add_arguments(parser) -> None:
    parser.add_argument(
        "--failures",
        type=Path,
        default=Path("results/logs/failures.json"),
        help="record of the jobs that failed (default: results/logs/failures.json)",
    )
    parser.add_argument(
        "--list", action="store_true", help="only name what failed, make nothing of the rest"
    )


def run(arguments) -> None:
    from permafrost.plan.failures import read_failures
    from permafrost.plan.recorded import planned, read_plan
    from permafrost.report.incomplete import describe, format_failures, headline

    job = read_failures(arguments.failures)
    plan = read_plan(job["plan"])
    failures = [asdict(failure) for failure in job["failures"]]
    if failures:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(f"\n{format_failures(failures, width=width)}")
    if arguments.list:
        return
    tables, lacking = _read_scores(plan, job["failures"])
    whole = not lacking and all(_is_made(row) for row in planned(plan, "compare"))
    if whole:
        return
    about = describe(plan, failures, lacking)
    print(f"\n{headline(about)}")
    if not tables:
        print("No result of this plan exists yet, so there is no leaderboard.")
        return
    results = Path(plan["results"])
    leaderboard = _write_tables(plan, job, tables, about) if lacking else None
    _write_page(plan, job, about, leaderboard or results / "leaderboard.parquet")
    print(
        "Leaderboard and report hold what succeeded and are marked incomplete:\n"
        f"  {results / 'leaderboard.csv'}\n  {results / 'report' / 'index.html'}\n"
        "The same command again makes only what lacks."
    )


def _read_scores(plan: dict, failures: list) -> tuple[list, list[dict]]:
    """The score tables that this plan's jobs left, and what lacks, each with the reason."""
    from permafrost.core.errors import PermafrostError
    from permafrost.core.tables import read_table
    from permafrost.plan.recorded import planned

    tables, lacking = [], []
    for stage in _GATHERED:
        for row in planned(plan, stage):
            try:
                tables.append(read_table(row["path"], expect=row["fingerprint"])[0])
            except PermafrostError:
                reason = next((f.error for f in failures if f.stops(stage, row)), None)
                probe = {"measure": "measures"}.get(stage, row.get("probe", stage))
                names = {"dataset": row["dataset"], "backbone": row["backbone"], "probe": probe}
                lacking.append({**names, "seed": row.get("seed", 0), "reason": reason})
    return tables, lacking


def _is_made(row: dict) -> bool:
    """Whether the table of a row of the plan exists and is of this plan."""
    from permafrost.core.errors import PermafrostError
    from permafrost.core.tables import read_metadata

    try:
        read_metadata(row["path"], expect=row["fingerprint"])
    except PermafrostError:
        return False
    return True


def _write_tables(plan: dict, job: dict, tables: list, about: dict) -> Path:
    """Write leaderboard and summary where those of a complete run lie, marked; return the leaderboard."""
    from permafrost.core.identity import fingerprint
    from permafrost.core.tables import write_table
    from permafrost.plan.recorded import forget_gathered
    from permafrost.report.incomplete import KEY, mark_incomplete
    from permafrost.report.leaderboard import build_leaderboard, write_csv
    from permafrost.report.summary import write_summary

    results = Path(plan["results"])
    table = mark_incomplete(build_leaderboard(tables), about["lacking"])
    # the files below are no plan's any more: without its stamp each plan gathers its scores again
    forget_gathered(results)
    metadata = {"fingerprint": fingerprint(KEY, about), "stage": "aggregate", KEY: about}
    write_csv(results / "leaderboard.csv", table)
    write_table(results / "leaderboard.parquet", table, metadata)
    write_summary(table, results / "summary.csv", **job["aggregate"]["options"])
    return results / "leaderboard.parquet"


def _write_page(plan: dict, job: dict, about: dict, leaderboard: Path) -> None:
    """Write ``report/``: the page, its figures, what failed, and comparisons of what can be compared."""
    from permafrost.core.outputs import whole_directory
    from permafrost.plan.recorded import by_names, expected, planned
    from permafrost.report.incomplete import failures_table
    from permafrost.report.leaderboard import write_csv
    from permafrost.report.page import build_report
    from permafrost.report.provenance import describe_machine

    predictions = {
        (row["dataset"], row["backbone"], row["seed"], row["probe"]): Path(row["path"])
        for row in planned(plan, "probe")
        if _is_made(row)
    }
    similarities = {
        row["dataset"]: Path(row["path"]) for row in planned(plan, "similarity") if _is_made(row)
    }
    expect = expected(plan)
    expect.pop(str(leaderboard), None)
    options = job["report"]["options"]
    with (
        whole_directory(Path(plan["results"]) / "report") as folder,
        tempfile.TemporaryDirectory(dir=folder) as page,
    ):
        comparisons = _compare(plan, job["compare"], predictions, folder / "comparisons")
        build_report(
            plan=plan,
            leaderboard_path=leaderboard,
            cards=by_names(plan, "card", "dataset"),
            predictions=predictions,
            images=by_names(plan, "prepare", "dataset", "split"),
            comparisons=comparisons,
            similarities=similarities,
            output_dir=Path(page) / "report",
            expect=expect,
            title=options["title"],
            examples=options["examples"],
            picture_seed=options["seed"],
            hardware=describe_machine(),
            incomplete=about,
        )
        for made in (Path(page) / "report").iterdir():
            made.rename(folder / made.name)
        write_csv(folder / "failures.csv", failures_table(about["failures"]))


def _compare(plan: dict, specs: list[dict], predictions: dict, folder: Path) -> dict:
    """(dataset, probe) -> comparisons: the plan's where made, else of the backbones that are there."""
    from permafrost.core.identity import fingerprint
    from permafrost.plan.recorded import planned
    from permafrost.statistics.comparison_table import compare_predictions

    made = {
        (row["dataset"], row["probe"]): Path(row["path"])
        for row in planned(plan, "compare")
        if _is_made(row)
    }
    for spec in specs:
        names = spec["dataset"], spec["probe"]
        there = {
            name: made_from
            for name, made_from in spec["inputs"]["predictions"].items()
            if (names[0], *_backbone_and_seed(name), names[1]) in predictions
        }
        if names in made or len({_backbone_and_seed(name)[0] for name in there}) < 2:
            continue
        own = {**spec, "inputs": {"predictions": there}}
        path = folder / names[0] / f"{names[1]}.parquet"
        compare_predictions(
            Path(plan["results"]) / "predictions",
            path,
            spec=own,
            fingerprint=fingerprint(json.dumps(own, sort_keys=True)),
        )
        made[names] = path
    return made


def _backbone_and_seed(name: str) -> tuple[str, int]:
    backbone, seed = name.rsplit("/seed", 1)
    return backbone, int(seed)
