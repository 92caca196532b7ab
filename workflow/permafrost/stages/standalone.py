"""Options that commands share which evaluate given files, and what identifies their figures."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    """``--resamples``, ``--confidence``, ``--seed``, ``--output``, ``--tables``."""
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals (0.95)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (0)")
    parser.add_argument("--output", type=Path, help="JSON file to write: every figure in full")
    parser.add_argument("--tables", type=Path, help="folder for tables to write (parquet)")


def options_of(arguments, *inputs: str) -> dict:
    """Every option that can change a figure, and the digest of every input file."""
    from permafrost.core.identity import file_digest

    places = {"output", "tables", "images", "pictures", "max_pictures"}
    named = {name: value for name, value in vars(arguments).items() if name not in places}
    for name in inputs:
        if named[name] is not None:
            path = Path(named[name])
            named[name] = {"path": path.as_posix(), "sha256": file_digest(path)}
    return named
