"""``permafrost accept``: check a submission against a commons of results, and add it."""

from __future__ import annotations

from pathlib import Path

COMMONS = Path("commons")


def add_arguments(parser) -> None:
    parser.add_argument(
        "submission", type=Path, metavar="FOLDER", help="folder that `permafrost submit` wrote"
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=COMMONS,
        metavar="COMMONS",
        help="folder of the commons (default: commons)",
    )
    parser.add_argument(
        "--as-reference",
        action="store_true",
        help="for maintainers: the test sets that the commons lacks become those of all later submissions",
    )
    parser.add_argument("--dry-run", "-n", action="store_true", help="check only")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--comment", type=Path, metavar="FILE", help="Markdown to write, for a pull request"
    )


def run(arguments) -> int:
    from permafrost.core.outputs import whole_file
    from permafrost.operate.commons.commons import accept
    from permafrost.operate.commons.said import as_json, comment, lines
    from permafrost.stages.run import find_root

    folder, commons = arguments.submission, arguments.into
    submission, refused = accept(
        folder,
        commons,
        find_root(Path.cwd()),
        as_reference=arguments.as_reference,
        dry=arguments.dry_run,
    )
    if arguments.comment is not None:
        with whole_file(arguments.comment) as partial:
            partial.write_text(comment(folder, submission, refused, commons), encoding="utf-8")
    print("\n".join([as_json(refused)] if arguments.json else lines(folder, submission, refused)))
    return int(bool(refused))
