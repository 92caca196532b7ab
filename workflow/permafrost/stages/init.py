"""``permafrost init``: a folder with a project of one's own, which runs as it is."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a new or empty folder")
    parser.add_argument(
        "--module",
        action="store_true",
        help="use the workflow as Snakemake's module, so that rules can be changed in the project",
    )


def run(arguments) -> None:
    from permafrost.operate.new_project import write_project

    folder = arguments.folder
    write_project(folder, module=arguments.module)
    print(
        f"{folder}: a project with a backbone and a dataset of its own; README.md says what is where"
    )
    print(f"Next: cd {folder} && permafrost run")
