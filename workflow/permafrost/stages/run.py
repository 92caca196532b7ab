"""``permafrost run``: run Snakemake in the project's folder, then print the leaderboard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.extras import need
from permafrost.core.home import HOME
from permafrost.operate.run_environment import provide
from permafrost.plan.recorded import current_plan, planned, read_plan

PASSES_ON = True  # unknown options are passed to Snakemake
_DRY = ("-n", "--dry-run", "--dryrun")
SHOWN = 10  # backbones of each dataset and probe


def add_arguments(parser) -> None:
    parser.usage = "permafrost run [--profile NAME] [TARGET ...] [any option of snakemake]"
    parser.epilog = (
        "Everything else goes to snakemake as it is: -n, --cores 4, --configfile FILE, names of targets. "
        "It runs in the project's folder, which paths refer to."
    )
    parser.add_argument(
        "--profile", help="local, slurm or your own profile (default: all cores of this machine)"
    )
    add_against(parser)


def add_against(parser) -> None:
    """Add ``--against``."""
    parser.add_argument(
        "--against",
        type=Path,
        metavar="COMMONS",
        help="also print how the backbones rank among those of a commons of results, by paired comparisons",
    )


def print_standing(results: Path, commons: Path) -> None:
    """Print how the backbones of a folder of results rank in a commons."""
    from permafrost.operate.commons.commons import Commons
    from permafrost.operate.commons.standing import standing_of

    print("\n".join(standing_of(results, Commons(commons))))


def run(arguments) -> int:
    need("snakemake")
    root = project_here(arguments.on_clone)
    for said in provide(root):
        print(f"permafrost: {said}", file=sys.stderr)
    against = arguments.against and arguments.against.resolve()
    passed = _from_root(arguments.passed, root)
    profile = ["--profile", _profile(arguments.profile, root)] if arguments.profile else []
    # --profile takes any number of names, so targets must not follow it
    place = passed.index("--") if "--" in passed else len(passed)
    options = [*passed[:place], *profile, *passed[place:]]
    command = [sys.executable, "-m", "snakemake", *options]
    status = _wait(subprocess.Popen(command, cwd=root))
    if status == 0 and not set(_DRY) & set(passed):
        os.chdir(root)
        print_end(results := _results(passed))
        if against is not None:
            print()
            print_standing(results, against)
    return status


def add_here(parser) -> None:
    """Add ``--here``, for commands that need a project."""
    parser.add_argument(
        "--here",
        dest="on_clone",
        action="store_true",
        help="outside of a project: use the clone of this library as the project",
    )


def project_here(on_clone: bool) -> Path:
    """The project folder that contains the working directory; printed if it is another folder.

    Parameters
    ----------
    on_clone : ``--here`` was given.

    Raises
    ------
    PermafrostError : there is none. The clone of this library is not used instead without
        ``--here``, because its results would be overwritten without notice.
    """
    root = find_root(Path.cwd(), clone=on_clone)
    if root != Path.cwd():
        print(f"permafrost: project {root}", file=sys.stderr)
    return root


def find_root(start: Path, *, clone: bool = True, shipped: bool = False) -> Path:
    """The project's folder: the nearest from `start` upward, else the clone of this library.

    A project is a folder with ``config/config.yaml`` and a Snakefile that names Permafrost.

    Parameters
    ----------
    clone : use the clone even if `start` is outside it, as for read-only commands.
    shipped : without a clone, use the catalogue that the installed package holds; nothing may be written there.

    Raises
    ------
    PermafrostError : there is none.
    """
    own = [HOME] if shipped or (HOME / "workflow" / "permafrost").is_dir() else []
    for folder in (start, *start.parents, *(own if clone else [])):
        if (folder / "config" / "config.yaml").is_file() and _names_permafrost(folder):
            return folder
    there = f", or give --here to use the clone {own[0]}" if own else ""
    raise PermafrostError(
        "no project was found: no folder from here upward holds config/config.yaml and a Snakefile"
        " that names permafrost",
        where=start,
        remedy=f"go to your project, or create one with `permafrost init FOLDER`{there}",
    )


def _names_permafrost(folder: Path) -> bool:
    for name in ("Snakefile", "workflow/Snakefile"):
        try:
            if b"permafrost" in (folder / name).read_bytes().lower():
                return True
        except OSError:
            continue
    return False


def _profile(name: str, root: Path) -> str:
    """The project's profile of that name, because Snakemake does not search ``profiles``."""
    own = f"profiles/{name}"
    return own if (root / own).is_dir() and not (root / name).exists() else name


def print_end(results: Path) -> None:
    """Print the end of a successful run: ranking, leaderboard, path of the report, next step."""
    from permafrost.core.tables import read_table
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.report.tables.shown import Shown

    plan = read_plan(current_plan(results))
    (row,) = planned(plan, "aggregate")
    try:
        table, about = read_table(row["path"], expect=row["fingerprint"])
    except PermafrostError:
        return  # the run had other targets
    print()
    print_blocks(Shown.of(table, results, about).blocks(most=SHOWN))
    print()
    print(f"Leaderboard: {results / 'leaderboard.csv'}")
    print(f"Report:      {(results / 'report' / 'index.html').resolve()} (open it in a browser)")
    if all(entry["source"]["kind"] == "demo" for entry in plan["datasets"].values()):
        print("Next:        add your own images to config/config.yaml, see README.md")
    else:
        print("Next:        `permafrost archive` packs results, plan and code version")


def _wait(process: subprocess.Popen) -> int:
    """The exit status; on Ctrl-C, Snakemake also gets the signal and ends by itself."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _from_root(passed: list[str], root: Path) -> list[str]:
    """The arguments, with absolute paths of configuration files in the user's folder."""
    files = set(_values(passed, "--configfile", "--configfiles"))
    return [
        str(Path(text).resolve())
        if text in files and Path(text).is_file() and not (root / text).exists()
        else text
        for text in passed
    ]


def _results(passed: list[str]) -> Path:
    """The folder of the outputs, from the configuration of this run."""
    from permafrost.plan.catalogue import read_yaml

    results = "results"
    for file in ["config/config.yaml", *_values(passed, "--configfile", "--configfiles")]:
        results = read_yaml(Path(file)).get("results", results)
    for text in _values(passed, "--config", "-C"):
        name, _, value = text.partition("=")
        results = value if name == "results" else results
    return Path(results)


def _values(passed: list[str], *options: str) -> list[str]:
    """The values of these options, up to the next option."""
    values, inside = [], False
    for text in passed:
        name, equals, value = text.partition("=")
        if text.startswith("-"):
            inside = name in options
            values += [value] if inside and equals else []
        elif inside:
            values.append(text)
    return values
