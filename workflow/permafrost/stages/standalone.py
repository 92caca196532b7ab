"""Shared by the commands that evaluate files: options, checks of arguments, and output."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import check_regular, input_digest
from permafrost.core.outputs import together
from permafrost.core.text import printable
from permafrost.evaluators.output import score_files
from permafrost.evaluators.output.score_files import check_table_format

if TYPE_CHECKING:
    from permafrost.evaluators.output.page import Parts


def add_options(parser, options: dict[str, tuple]) -> None:
    """Add options.

    Parameters
    ----------
    options : name -> (help text,) or (help text, default) or (help text, type); text by default.
    """
    for name, (words, *rest) in options.items():
        value = rest[0] if rest else str
        kind, default = (value, None) if isinstance(value, type) else (type(value), value)
        if kind is bool:
            parser.add_argument(name, action="store_true", help=words)
        else:
            parser.add_argument(name, type=kind, default=default, help=words)


def add_arguments(parser, *, resamples: int | None = 1000, how_many: str = "1000") -> None:
    """Add the options of intervals and outputs, from ``--resamples`` to ``--report``.

    Parameters
    ----------
    resamples : default of ``--resamples``; how_many : the same in the help text.
    """
    options = {
        "--resamples": (f"resamples for intervals ({how_many}); 0: no intervals", resamples or int),
        "--confidence": ("confidence level (0.95)", 0.95),
        "--seed": ("seed of the resamples (0)", 0),
        "--largest-image-mb": (
            "memory that one image, block or array may take when it is read, in MB (1000)",
            1000,
        ),
        "--output": ("JSON file to write, in full precision", Path),
        "--tables": ("folder for tables to write", Path),
        "--table-format": ("format of --tables: parquet or csv", "parquet"),
        "--report": ("folder for an HTML page to write; replaces an earlier page", Path),
    }
    add_options(parser, options)
    parser.set_defaults(default_of=parser.get_default)


def bounded(run: Callable) -> Callable:
    """The function of a command, which reads no larger arrays than ``--largest-image-mb`` allows."""

    @functools.wraps(run)
    def within(arguments):
        from permafrost.data.files import opening

        if (most := arguments.largest_image_mb) < 1:
            raise PermafrostError(f"--largest-image-mb {most} is below 1", remedy="give at least 1")
        with opening.bounded(most, "--largest-image-mb"):
            return run(arguments)

    return within


def check_intervals(arguments) -> None:
    """Refuse a negative number of resamples, and a confidence level outside (0, 1)."""
    if arguments.resamples < 0:
        raise PermafrostError(
            f"--resamples {arguments.resamples} is negative", remedy="give 0 (no intervals) or more"
        )
    if not 0 < arguments.confidence < 1:
        raise PermafrostError(
            f"--confidence {arguments.confidence} is not between 0 and 1",
            remedy="give for example 0.95",
        )


def check_pixel_size(arguments) -> None:
    """Refuse a ``--pixel-size`` that is not a length."""
    if not 0 < arguments.pixel_size < float("inf"):
        raise PermafrostError(
            f"--pixel-size {arguments.pixel_size} is not above 0",
            remedy="give the side of a pixel in metres",
        )


def add_groups(parser) -> None:
    """Add ``--groups`` and ``--group-column``."""
    parser.add_argument(
        "--groups", type=Path, help="table of image_id and group, the unit of resampling"
    )
    parser.add_argument("--group-column", default="group", help="its column in --groups (group)")


def check_used(arguments, *options: tuple[str, bool, str]) -> None:
    """Refuse given options that have no effect.

    Parameters
    ----------
    options : (name of the attribute, whether it is used, condition for its use as text).
    """
    for name, used, condition in options:
        if not used and getattr(arguments, name) != arguments.default_of(name):
            raise PermafrostError(
                f"--{name.replace('_', '-')} changes nothing here: it is used {condition}",
                remedy="leave it out, or correct the other options",
            )


def check_files(arguments, *inputs: str, again=()) -> None:
    """Refuse missing inputs, outputs that cannot be written, and an unknown format of tables.

    Parameters
    ----------
    inputs : names of options with paths to read, or lists of them.
    again : those whose files are read more than once, so they must not be pipes.
    """
    check_used(arguments, ("table_format", arguments.tables is not None, "with --tables"))
    check_table_format(arguments.table_format)
    read = {}
    for name in inputs:
        value = getattr(arguments, name)
        for path in value if isinstance(value, list) else [value] if value else []:
            if not os.path.lexists(path):
                raise PermafrostError(
                    "the file does not exist",
                    where=path,
                    remedy=f"check --{name.replace('_', '-')}",
                )
            if name in again and not path.is_dir():
                check_regular(path)
            read[path.resolve()] = name
    written = {
        name: getattr(arguments, name, None)
        for name in ("output", "tables", "partial", "pictures", "report")
    }
    for name, path in written.items():
        if path is None:
            continue
        option = f"--{name}"
        if path.resolve() in read:
            other = read[path.resolve()].replace("_", "-")
            raise PermafrostError(
                f"{option} would overwrite what --{other} reads",
                where=path,
                remedy="choose another place",
            )
        _check_place(path, option, folder=name in ("tables", "pictures", "report"))
    _check_report({name: path for name, path in written.items() if path}, list(read))


def _check_report(written: dict[str, Path], read: list[Path]) -> None:
    """Refuse a folder of ``--report`` that would replace what is read or written, or other files."""
    folder = written.pop("report", None)
    if folder is None:
        return
    from permafrost.evaluators.output.page import check_folder

    inside = [(f"--{name}", path.resolve()) for name, path in written.items()]
    inside += [("an input", path) for path in read]
    for what, path in inside:
        if path.is_relative_to(folder.resolve()):
            raise PermafrostError(
                f"--report would replace its folder, which has {what}: {path}",
                where=folder,
                remedy="choose another place",
            )
    check_folder(folder)


def _check_place(path: Path, option: str, *, folder: bool) -> None:
    kind = "folder" if folder else "file"
    if path.exists() and path.is_dir() != folder:
        raise PermafrostError(
            f"{option} must name a {kind}", where=path, remedy="choose another place"
        )
    home = path if folder else path.absolute().parent
    while not os.path.lexists(home):
        home = home.absolute().parent
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        raise PermafrostError(
            f"{option} cannot be written: {home} is not a writable folder",
            where=path,
            remedy="choose another place",
        )


def deliver(
    arguments,
    lines: list[str],
    *,
    rows: list[dict],
    tables: dict,
    page: Callable[[], Parts],
    **content,
) -> None:
    """Write ``--output``, ``--tables`` and ``--report``, all or none, then print `lines`.

    Parameters
    ----------
    rows : of the scores; in the JSON, and as the table ``scores``.
    tables : further tables by name.
    page : function that returns the command's parts of the page.
    content : further keys of the JSON; ``options`` is also written to the tables.
    """
    with together() as group:
        if arguments.report:
            _write_page(arguments, page(), rows, content, group)
        if arguments.tables:
            every = {**tables, "scores": score_files.score_table(rows)}
            kind = arguments.table_format
            score_files.write_tables(
                arguments.tables, every, content["options"], kind=kind, group=group
            )
        if arguments.output:
            score_files.write_scores(arguments.output, rows=rows, group=group, **content)
    print(printable("\n".join(lines)))


def _write_page(arguments, parts: Parts, rows: list[dict], content: dict, group) -> None:
    from permafrost.evaluators.output.page import Result, write_page

    result = Result(
        rows,
        arguments.confidence,
        comparison=content.get("comparison", ()),
        notes=content["notes"],
        options=content["options"],
    )
    write_page(arguments.report, parts, result, group)


def check_groups(arguments) -> None:
    """Refuse ``--group-column`` without ``--groups``, or a column that is not in their table."""
    if arguments.groups is None:
        check_used(arguments, ("group_column", False, "with --groups"))
        return
    from permafrost.evaluators.detection.slices import read_rows

    read_rows(arguments.groups).check_axis(arguments.group_column)


def groups_of(arguments, images, notes: list[str]) -> list | None:
    """Group of each image id (None: no group), or None without ``--groups``; extends `notes`."""
    if arguments.groups is None:
        return None
    from permafrost.evaluators.detection.slices import UNASSIGNED, read_manifest

    manifest = read_manifest(arguments.groups, images)
    column = arguments.group_column
    notes += [f"Note: {text}." for text in manifest.warnings]
    labels = manifest.labels[column].tolist()
    if alone := labels.count(UNASSIGNED):
        notes.append(f"Note: {alone} images have no group; each is a group of its own.")
    return [None if label == UNASSIGNED else label for label in labels]


def options_of(arguments, *inputs: str) -> dict:
    """Every option that can affect a score, and the digest of every input file."""
    places = {"output", "tables", "images", "pictures", "max_pictures", "report", "default_of"}
    places |= {"image_folder"}
    # neither the format of tables nor what may be read affects scores
    places |= {"table_format", "largest_image_mb"}
    named = {name: value for name, value in vars(arguments).items() if name not in places}
    for name in inputs:
        if named[name] is not None:
            path = Path(named[name])
            named[name] = {"path": path.as_posix(), "sha256": input_digest(path)}
    return named
