"""``permafrost list``: what can be named in a configuration."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument("what", choices=("datasets", "backbones", "probes"))
    parser.add_argument("--task", help="only datasets of this task, or probes that serve it")
    add_places(parser)


def add_places(parser) -> None:
    """The options of the commands that read the catalogues."""
    parser.add_argument(
        "--config",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="configuration files to read beside config/config.yaml",
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="data folder (default: the configuration's)"
    )


def offers_of(arguments):
    """The catalogues that the options name, of the project that the working directory is in."""
    from permafrost.plan.offers import read_offers
    from permafrost.stages.run import find_root

    root = find_root(Path.cwd())
    return read_offers(root, arguments.config, arguments.data and arguments.data.resolve())


def run(arguments) -> None:
    from permafrost.core.errors import PermafrostError
    from permafrost.core.tasks import task_of
    from permafrost.plan.offers import backbone_lines, dataset_lines, probe_lines

    if arguments.task is not None:
        task_of(arguments.task)
    if arguments.what == "probes":
        lines = probe_lines(arguments.task)
    elif arguments.what == "datasets":
        lines = dataset_lines(offers_of(arguments), arguments.task)
    elif arguments.task is not None:
        raise PermafrostError("backbones have no task", remedy="leave --task out")
    else:
        lines = backbone_lines(offers_of(arguments))
    print("\n".join(lines))
