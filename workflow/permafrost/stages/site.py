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
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="FILE",
        help="also the figure of the first suite: .png, .svg",
    )


def run(arguments) -> None:
    from permafrost.operate.commons.commons import Commons
    from permafrost.operate.commons.site import SuiteResults, draw, write_site
    from permafrost.report.figures.files import write_figure

    commons = Commons(arguments.commons)
    pages = write_site(commons, arguments.output)
    if arguments.picture is not None and commons.suites:
        write_figure(arguments.picture, draw(SuiteResults.of(sorted(commons.suites)[0], commons)))
    print(f"{arguments.output / 'index.html'}: {len(pages)} pages (open it in a browser)")
