"""``permafrost info``: describe a dataset, a backbone or a kind of probe."""

from __future__ import annotations

from permafrost.stages.list import add_json, add_places, offers_of, print_json


def add_arguments(parser) -> None:
    parser.add_argument("name", help="name, as permafrost list prints it")
    parser.add_argument("--dataset", help="for a backbone: also its input on this dataset")
    add_json(parser)
    parser.add_argument(
        "--croissant",
        action="store_true",
        help="for a dataset: its metadata for search engines and archives (Croissant, JSON-LD)",
    )
    add_places(parser)


def run(arguments) -> None:
    from permafrost.operate.described import describe, facts

    if arguments.croissant:
        from permafrost.operate.croissant import croissant_of

        print_json(croissant_of(offers_of(arguments), arguments.name))
        return
    if arguments.json:
        print_json(facts(offers_of(arguments, shipped=True), arguments.name, arguments.dataset))
        return
    print(
        "\n".join(describe(offers_of(arguments, shipped=True), arguments.name, arguments.dataset))
    )
