"""``permafrost site``: make the static site of a commons of results."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages.accept import COMMONS


def add_arguments(parser) -> None:
    parser.add_argument(
        "commons",
        nargs="?",
        type=Path,
        default=COMMONS,
        metavar="COMMONS",
        help="folder (default: commons)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("site"),
        metavar="FOLDER",
        help="folder to replace (default: site)",
    )


def run(arguments) -> None:
    from permafrost.operate.commons.commons import Commons
    from permafrost.operate.commons.site import write_site

    pages = write_site(Commons(arguments.commons), arguments.output)
    print(f"{arguments.output / 'index.html'}: {len(pages)} pages (open it in a browser)")
