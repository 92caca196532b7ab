"""``permafrost submit``: write a folder with predictions, cards and scores of a run, for a commons of results."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.plan.recorded import results_in
from permafrost.stages.arguments import add_results_folder

_SHOWN = 10


def add_arguments(parser) -> None:
    add_results_folder(parser)
    parser.add_argument("--suite", required=True, metavar="NAME", help="suite that was run")
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder to write; its name names the submission",
    )
    parser.add_argument(
        "--author", required=True, metavar="'FAMILY, GIVEN[; ORCID]'", help="who answers for it"
    )
    parser.add_argument(
        "--licence", default="cc-by-4.0", help="licence of the results (default: cc-by-4.0)"
    )
    parser.add_argument(
        "--confirmed",
        action="append",
        default=[],
        metavar="BACKBONE=URL",
        help="where the model's authors confirm these results (repeatable)",
    )
    parser.add_argument(
        "--overlap",
        action="append",
        default=[],
        metavar="BACKBONE=TEXT",
        help="what is known of test images among those of its pre-training (repeatable)",
    )


def run(arguments) -> None:
    from permafrost.core.text import bytes_words
    from permafrost.operate.commons.submission import list_files
    from permafrost.operate.commons.submit import submit

    _, left_out = made = submit(
        results_in(arguments.results),
        arguments.output,
        suite=arguments.suite,
        author=arguments.author,
        licence=arguments.licence,
        confirmed=_pairs("--confirmed", arguments.confirmed),
        overlap=_pairs("--overlap", arguments.overlap),
    )
    for said in left_out[:_SHOWN]:
        print(f"left out: {said}")
    if len(left_out) > _SHOWN:
        print(f"left out: {len(left_out) - _SHOWN} more")
    sizes = list_files(arguments.output)
    tables = sum(name.startswith("predictions/") for name in sizes)
    backbones, size = len(made[0]["backbones"]), bytes_words(sum(sizes.values()))
    print(f"{arguments.output}: {tables} evaluations of {backbones} backbones, {size}")
    print(f"Check it: permafrost verify {arguments.output}")


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise PermafrostError(
                f"{option} {text!r} is not BACKBONE=TEXT", remedy=f"write {option} NAME=TEXT"
            )
        pairs[name] = value
    return pairs
