"""``permafrost restore``: unpack the results and records of an archive into a clone."""

from __future__ import annotations

from pathlib import Path

from permafrost.report.archive.restoring import restore_archive


def add_arguments(parser) -> None:
    parser.add_argument("archive", type=Path, help="zip written by `permafrost archive`")
    parser.add_argument(
        "--into", type=Path, default=Path("."), help="clone of the repository (default: here)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files with other content")


def run(arguments) -> None:
    print(restore_archive(arguments.archive, arguments.into, overwrite=arguments.overwrite))
