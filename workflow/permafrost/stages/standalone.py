"""Options that commands share which evaluate given files, and what identifies their figures."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError, near_names


def add_arguments(parser) -> None:
    """``--resamples``, ``--confidence``, ``--seed``, ``--output``, ``--tables``."""
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals (0.95)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (0)")
    parser.add_argument("--output", type=Path, help="JSON file to write: every figure in full")
    parser.add_argument("--tables", type=Path, help="folder for tables to write (parquet)")


def add_groups(parser) -> None:
    """``--groups``, ``--group-column``."""
    parser.add_argument(
        "--groups", type=Path, help="table with image_id and a group: images resampled together"
    )
    parser.add_argument("--group-column", default="group", help="its name in --groups (group)")


def groups_of(arguments, images, notes: list[str]) -> list | None:
    """The group of each of `images` (ids), None where it has none; remarks are added to `notes`."""
    if arguments.groups is None:
        return None
    from permafrost.metrics.detection.slices import UNASSIGNED, read_manifest

    manifest = read_manifest(arguments.groups, images)
    column = arguments.group_column
    if column not in manifest.labels:
        raise PermafrostError(
            f"there is no column {column!r}",
            where=arguments.groups,
            remedy=near_names(column, manifest.labels),
        )
    notes += [f"Note: {text}." for text in manifest.warnings]
    labels = manifest.labels[column].tolist()
    if alone := labels.count(UNASSIGNED):
        notes.append(f"Note: {alone} images have no group; each is a group of its own.")
    return [None if label == UNASSIGNED else label for label in labels]


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
