"""``permafrost init``: write a new project that is ready to run."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.working import working
from permafrost.operate.new_project import write_project


def add_arguments(parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a new or empty folder")
    parser.add_argument(
        "--module",
        action="store_true",
        help="include the workflow as a Snakemake module, so that the project can change rules",
    )


def run(arguments) -> None:
    folder = arguments.folder
    with working(f"writing {folder}"):
        write_project(folder, module=arguments.module)
    print(f"{folder}: a project with its own backbone and dataset; README.md describes the files")
    print(f"Next: cd {folder} && permafrost run")
