"""What the report costs: of a finished run, and of the same run grown to many backbones and datasets.

    python benchmarks/report.py [--results results] [--sizes 10x5 40x20] [--keep FOLDER] [--grown-only]

The grown run repeats the datasets of the finished one under new names, and its predictions under the names of more
backbones, with values moved a little so that orders differ. Its pictures repeat, but it has as much to read, draw and
write as a real one. Seconds are CPU of a whole process on one thread, start-up included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import measure_command, print_table
from permafrost.core.identity import derive_seed
from permafrost.core.tables import read_table, write_table
from permafrost.plan.recorded import by_names, current_plan, planned, read_plan
from permafrost.report.page import Report
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--sizes", nargs="+", default=["40x20"], help="backbones x datasets")
    parser.add_argument("--grown-only", action="store_true", help="not the run as it is")
    parser.add_argument("--keep", type=Path, help="keep the reports in this folder")
    parser.add_argument(
        "--build", type=Path, help=argparse.SUPPRESS
    )  # what the measured process does
    options = parser.parse_args()
    if options.build is not None:
        build(options.build)
        return
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) if options.keep is None else options.keep
        jobs = {}
        if not options.grown_only:
            jobs["the run as it is"] = write_job(options.results, where / "run")
        for size in options.sizes:
            backbones, datasets = map(int, size.split("x"))
            title = f"{backbones} backbones, {datasets} datasets"
            jobs[title] = write_job(options.results, where / size, backbones, datasets)
        rows = [[name, *measure(job)] for name, job in jobs.items()]
    print_table(
        ["report", "CPU s", "peak MB", "index.html MB", "largest page MB", "all MB", "files"], rows
    )


def measure(job: Path) -> list[str]:
    """CPU seconds and memory of making a report, and what it weighs."""
    _, seconds, memory = measure_command([sys.executable, __file__, "--build", str(job)])
    report = job.parent / "report"
    files = [path for path in report.rglob("*") if path.is_file()]
    pages = [path.stat().st_size for path in files if path.suffix == ".html"]
    sizes = [
        (report / "index.html").stat().st_size,
        max(pages),
        sum(path.stat().st_size for path in files),
    ]
    return [
        f"{seconds:.1f}",
        f"{memory:.0f}",
        *(f"{size / 1e6:.2f}" for size in sizes),
        str(len(files)),
    ]


def build(job: Path) -> None:
    """Make the report of a job that `write_job` wrote."""
    given = json.loads(job.read_text())
    tables = {
        name: {tuple(key): Path(path) for key, path in given[name]}
        for name in ("predictions", "scores", "images", "comparisons")
    }
    report = Report(
        plan=given["plan"],
        leaderboard=Path(given["leaderboard"]),
        cards={name: Path(path) for name, path in given["cards"]},
        **tables,
    )
    report.write(job.parent / "report")


def write_job(results: Path, folder: Path, backbones: int = 0, datasets: int = 0) -> Path:
    """Write what `build` needs for the report of a run, of as many backbones and datasets where they are given."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = read_plan(current_plan(results))
    more = {"b": grown(plan["backbones"], backbones), "d": grown(plan["datasets"], datasets)}
    named = {"b": sources(plan["backbones"], more["b"]), "d": sources(plan["datasets"], more["d"])}
    tables = [
        renamed(read_table(path)[0], backbone, dataset)
        for (name, own), paths in scores_of(plan).items()
        for backbone in named["b"][own]
        for dataset in named["d"][name]
        for path in paths
    ]
    write_leaderboard(
        tables, folder / "leaderboard.parquet", folder / "leaderboard.csv", {"fingerprint": "b"}
    )
    given = {
        "plan": {**plan, "outputs": [], "backbones": more["b"], "datasets": more["d"]},
        "leaderboard": str(folder / "leaderboard.parquet"),
        "cards": [
            [new, path]
            for name, path in by_names(plan, "card", "dataset").items()
            for new in named["d"][name]
        ],
        "images": [
            [[new, split], path]
            for (name, split), path in by_names(plan, "prepare", "dataset", "split").items()
            for new in named["d"][name]
        ],
        **{
            kind: [
                [[new, backbone, seed, probe], path]
                for (name, own, seed, probe), path in by_names(
                    plan, stage, "dataset", "backbone", "seed", "probe"
                ).items()
                for new in named["d"][name]
                for backbone in named["b"][own]
            ]
            for kind, stage in (("predictions", "probe"), ("scores", "bootstrap"))
        },
        "comparisons": [
            [
                [new, probe],
                compare(
                    read_table(path)[0], new, list(more["b"]), folder / f"{new}-{probe}.parquet"
                ),
            ]
            for (name, probe), path in by_names(plan, "compare", "dataset", "probe").items()
            for new in named["d"][name]
        ],
    }
    job = folder / "job.json"
    job.write_text(json.dumps(given, default=os.fspath))
    return job


def grown(entries: dict, count: int) -> dict:
    """The entries, repeated under numbered names up to `count`; as they are where that is 0."""
    if not count:
        return entries
    turns = itertools.islice(itertools.cycle(sorted(entries)), count)
    return {f"{name}-{number:02d}": entries[name] for number, name in enumerate(turns)}


def sources(have: dict, want: dict) -> dict[str, list[str]]:
    """Name of each entry -> names under which it is repeated."""
    return {name: [new for new in want if want[new] is have[name]] for name in have}


def scores_of(plan: dict) -> dict[tuple[str, str], list[Path]]:
    """(dataset, backbone) -> its score tables."""
    found: dict[tuple[str, str], list[Path]] = {}
    for row in planned(plan, "bootstrap"):
        found.setdefault((row["dataset"], row["backbone"]), []).append(Path(row["path"]))
    return found


def renamed(table, backbone: str, dataset: str):
    """A score table of another backbone or dataset, its values and intervals moved by up to 0.05."""
    import pyarrow as pa

    if (table["backbone"][0].as_py(), table["dataset"][0].as_py()) == (backbone, dataset):
        return table
    moved = np.random.default_rng(derive_seed("report", backbone, dataset)).uniform(-0.05, 0.05)
    for name in ("value", "lower", "upper"):
        values = np.clip(table[name].to_numpy(zero_copy_only=False) + moved, 0, None)
        table = table.set_column(
            table.schema.get_field_index(name), name, pa.array(values, from_pandas=True)
        )
    for name, text in (("backbone", backbone), ("dataset", dataset)):
        table = table.set_column(
            table.schema.get_field_index(name), name, pa.array([text] * len(table))
        )
    return table


def compare(table, dataset: str, backbones: list[str], path: Path) -> Path:
    """A comparison table of all pairs of `backbones`, with the rows of `table` in turn."""
    import pyarrow as pa

    rows = itertools.cycle(table.to_pylist())
    pairs = itertools.combinations(backbones, 2)
    new = [
        {**row, "dataset": dataset, "backbone_a": a, "backbone_b": b}
        for row, (a, b) in zip(rows, pairs, strict=False)
    ]
    write_table(
        path, pa.Table.from_pylist(new, schema=table.schema.remove_metadata()), {"fingerprint": "c"}
    )
    return path


if __name__ == "__main__":
    main()
