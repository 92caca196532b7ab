"""``permafrost info``: describe a dataset, a backbone or a kind of probe."""

from __future__ import annotations

from permafrost.stages.list import add_json, add_places, offers_of, print_json


def add_arguments(parser) -> None:
    parser.add_argument("name", help="name, as permafrost list prints it")
    parser.add_argument("--dataset", help="for a backbone: also its input on this dataset")
    add_json(parser)
    add_places(parser)


def run(arguments) -> None:
    from permafrost.operate.described import describe, facts

    if arguments.json:
        print_json(facts(offers_of(arguments, shipped=True), arguments.name, arguments.dataset))
        return
    print(
        "\n".join(describe(offers_of(arguments, shipped=True), arguments.name, arguments.dataset))
    )
