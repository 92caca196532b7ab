"""``permafrost suite``: run your backbones on a named, versioned set of datasets and probes."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.identity import fingerprint
from permafrost.core.outputs import whole_file
from permafrost.stages.cli import main
from permafrost.stages.run import find_root

PASSES_ON = True  # unknown options are passed to `permafrost run`


def add_arguments(parser) -> None:
    parser.usage = "permafrost suite [NAME [--backbones A,B,C [--plan | --fetch] [any option of permafrost run]]]"
    parser.epilog = (
        "Without a name the suites are listed; without backbones the suite is described. A file that --configfile"
        " names is laid over the suite, and the results say what it changed."
    )
    parser.add_argument("name", nargs="?", help="name of a suite, or the YAML file of your own")
    parser.add_argument("--backbones", metavar="A,B,C", help="names from the catalogue, or all")
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--plan", action="store_true", help="only estimate time, memory and disk")
    step.add_argument(
        "--fetch", action="store_true", help="download its datasets and the backbones' weights"
    )
    parser.add_argument(
        "--dry-run", "-n", action="store_true", help="dry run of --fetch, or of the run"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="with --fetch: do not ask")
    parser.add_argument(
        "--configfile",
        "--configfiles",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="configuration that overrides parts of the suite",
    )
    parser.add_argument("--results", help="folder of the outputs (default: results/NAME)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="data folder")
    parser.add_argument(
        "--format",
        choices=("markdown", "latex", "csv"),
        default="markdown",
        help="format of the table at the end",
    )


def run(arguments) -> int:
    from permafrost.plan.suites import about_suite, find_suite, read_suite, suite_files

    # read-only use works outside a project, with the clone's suites
    root = find_root(Path.cwd(), clone=arguments.on_clone or arguments.backbones is None)
    passed = arguments.passed
    name = arguments.name
    if name is None and passed and not passed[0].startswith("-"):
        name, passed = passed[0], passed[1:]
    if name is None:
        for path in suite_files(root).values():
            print(about_suite(read_suite(path))[0])
        return 0
    path = find_suite(name, root)
    suite = read_suite(path)
    if arguments.backbones is None:
        print("\n".join([*about_suite(suite), f"  file      {path}"]))
        print(f"\nRun it: permafrost suite {name} --backbones A,B,C (before: --plan, --fetch -n)")
        return 0
    results = arguments.results or f"results/{suite['suite']['name']}"
    over = [file.resolve() for file in arguments.configfile]
    files = [*map(str, [path, *over, _write_choice(root / results, results, arguments)])]
    dry = ["--dry-run"] if arguments.dry_run else []
    here = ["--here"] if arguments.on_clone else []
    if arguments.plan:
        return main(["plan", *here, "--config", *files])
    if arguments.fetch:
        return main(["fetch", *here, *files, *dry, *(["--yes"] if arguments.yes else [])])
    place = passed.index("--") if "--" in passed else len(passed)
    options = [*passed[:place], *dry, "--configfile", *files, *passed[place:]]
    status = main(["run", *here, *options])
    made = (root / results / "leaderboard.parquet").is_file()
    if status or arguments.dry_run or not made:
        return status  # without a leaderboard there is no table to print
    print()
    return main(["export", str(root / results), "--format", arguments.format, "--mark-tied"])


def _write_choice(folder: Path, results: str, arguments) -> Path:
    """Write the user's choice as a configuration file for ``--configfile``; returns its path.

    Each choice has its own file, because jobs of a running study still read theirs.
    """
    import yaml

    names = [name.strip() for name in arguments.backbones.split(",")]
    choice: dict = {"results": results, "backbones": [name for name in names if name]}
    if arguments.data is not None:
        choice["data"] = str(arguments.data.resolve())
    path = (folder / f"choice-{fingerprint(choice)[:8]}.yaml").resolve()
    with whole_file(path) as partial:
        partial.write_text(yaml.safe_dump(choice), encoding="utf-8")
    return path
