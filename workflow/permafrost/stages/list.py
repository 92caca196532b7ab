"""``permafrost list``: list the available datasets, backbones or probes."""

from __future__ import annotations

import json
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import task_of
from permafrost.operate.chosen import Choice, parameter_count
from permafrost.stages.run import find_root


def add_arguments(parser) -> None:
    parser.add_argument("what", choices=("datasets", "backbones", "probes"))
    parser.add_argument(
        "pattern",
        nargs="?",
        help="part of a name or title, or a shell pattern ('*dinov3*') of names",
    )
    parser.add_argument("--task", help="only datasets of this task, or probes that serve it")
    backbones = parser.add_argument_group("backbones")
    backbones.add_argument("--kind", help="only of this kind (timm, torchgeo, …)")
    backbones.add_argument(
        "--bands", help="only backbones with this input: rgb, all, a number of bands, or a sensor"
    )
    backbones.add_argument(
        "--max-parameters",
        metavar="N",
        help="only backbones with at most so many parameters (100M, 1.1B)",
    )
    backbones.add_argument("--licence", help="only backbones whose licence contains this")
    backbones.add_argument("--fits", metavar="DATASET", help="only backbones that fit this dataset")
    backbones.add_argument(
        "--here", action="store_true", help="only backbones whose weights are on this machine"
    )
    add_json(parser)
    add_places(parser)


_OF_BACKBONES = ("kind", "bands", "max_parameters", "licence", "fits", "here")


def add_places(parser) -> None:
    """Add the options of commands that read the catalogues."""
    parser.add_argument(
        "--config",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="configuration files to read after config/config.yaml",
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="data folder (default: the configuration's)"
    )


def add_json(parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for a program to read")


def print_json(content) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def offers_of(arguments, *, shipped: bool = False):
    """The catalogues of the project of the working directory, with those of the options.

    `shipped` as for `find_root`.
    """
    from permafrost.operate.offers import read_offers

    # what only shows the catalogue works outside a project, with the clone's
    clone = getattr(arguments, "on_clone", True)
    root = find_root(Path.cwd(), clone=clone, shipped=shipped)
    return read_offers(root, arguments.config, arguments.data and arguments.data.resolve())


def run(arguments) -> None:
    from permafrost.operate import offers

    if arguments.task is not None:
        task_of(arguments.task)
    if arguments.what != "backbones" and any(getattr(arguments, name) for name in _OF_BACKBONES):
        given = next(name for name in _OF_BACKBONES if getattr(arguments, name))
        option = f"--{given.replace('_', '-')}"
        raise PermafrostError(
            f"{option} chooses backbones, not {arguments.what}", remedy="leave it out"
        )
    asked: tuple
    if arguments.what == "probes":
        asked = (arguments.task, arguments.pattern)
    elif arguments.what == "datasets":
        asked = (offers_of(arguments, shipped=True), arguments.task, arguments.pattern)
    elif arguments.task is not None:
        raise PermafrostError("backbones have no task", remedy="leave --task out")
    else:
        most = arguments.max_parameters
        choice = Choice(
            pattern=arguments.pattern,
            kind=arguments.kind,
            bands=arguments.bands,
            most_parameters=None if most is None else parameter_count(most),
            licence=arguments.licence,
            fits=arguments.fits,
            here=arguments.here,
        )
        asked = (offers_of(arguments, shipped=True), choice)
    one = arguments.what.removesuffix("s")
    if arguments.json:
        heading, *rows = getattr(offers, f"{one}_table")(*asked)
        print_json([dict(zip(heading, row, strict=True)) for row in rows])
        return
    print("\n".join(getattr(offers, f"{one}_lines")(*asked)))
