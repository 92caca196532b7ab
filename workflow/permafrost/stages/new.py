"""``permafrost new``: draft an entry for your images or model, as YAML."""

from __future__ import annotations

import sys
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file
from permafrost.core.text import printable
from permafrost.core.working import working
from permafrost.plan.installed import installed
from permafrost.stages.first_look import first_look
from permafrost.stages.run import find_root


def add_arguments(parser) -> None:
    parser.add_argument("what", choices=("dataset", "backbone"))
    parser.add_argument(
        "source",
        metavar="FOLDER|MODEL",
        help="dataset: folder, zip or tar of images; backbone: a model or weights of timm or torchgeo,"
        " a Python file (model.py:build), or a checkpoint",
    )
    parser.add_argument("--name", help="name of the entry (default: from the folder or model)")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--output", type=Path, help="configuration file to write; the terminal by default"
    )
    place.add_argument(
        "--add",
        action="store_true",
        help="write the entry into the project: config/datasets/own.yaml or config/backbones/own.yaml,"
        " and its name into config/config.yaml",
    )
    parser.add_argument(
        "--try",
        dest="attempt",
        action="store_true",
        help="dataset: then score a baseline by nearest neighbours, on up to 2,000 images of each split; and write"
        " thumbnails next to the draft, as --add does",
    )


def run(arguments) -> None:
    from permafrost.operate.additions import CONFIG, add_entry, refuse_known

    if arguments.output is not None and arguments.output.exists():
        raise PermafrostError(
            "exists already", where=arguments.output, remedy="choose another --output"
        )
    if arguments.attempt and arguments.what == "backbone":
        raise PermafrostError(
            "--try is for datasets",
            remedy="try a backbone with `permafrost check NAME --dataset D`",
        )
    root = _root(arguments)
    if arguments.add and arguments.name:
        refuse_known(arguments.what, arguments.name, root)
    with working(f"looking at {arguments.source}"):
        entry = _draft(arguments, root)
        entry.check()
    asked = f"{sum(map(len, entry.notes.values()))} comments to read"
    file = arguments.output
    if arguments.add:
        file, listed = add_entry(entry, arguments.source, root)
        print(f"{file}: {entry.kind} {entry.name} added, {asked}")
        print(f"{root / CONFIG}: {'names it now' if listed else f'runs all {entry.kind}s'}")
    elif file is None:
        sys.stdout.write(entry.as_yaml(arguments.source, None))
    else:
        with whole_file(file) as partial:
            partial.write_text(entry.as_yaml(arguments.source, file), encoding="utf-8")
        print(f"{file}: {entry.kind} {entry.name}, {asked}")
    if entry.kind == "dataset" and (arguments.add or arguments.attempt):
        sheet = None if file is None else file.with_name(f"{entry.name}.png")
        _look(entry, sheet, arguments)
    if arguments.add:
        print(f"Next: permafrost check {entry.trial()}")


def _look(entry, sheet: Path | None, arguments) -> None:
    """Write the thumbnails, and print a baseline's input and, with --try, its score."""
    # if the entry goes to standard output, nothing else may be printed there
    stream = sys.stderr if arguments.output is None and not arguments.add else sys.stdout
    try:
        with first_look(entry, whole=arguments.attempt) as look:
            if sheet is not None:
                with working("drawing thumbnails"):
                    look.write_sheet(sheet, arguments.source)
                print(f"{sheet}: check the thumbnails with the names of labels", file=stream)
            for line in look.fed_lines():
                print(printable(f"  {line}"), file=stream)
            lines = []
            if arguments.attempt:
                with working(f"scoring {look.baseline()} on {entry.name}"):
                    lines = look.score()
            for line in lines:
                print(printable(f"  {line}"), file=stream)
    except PermafrostError as error:
        if arguments.attempt:
            raise
        print(f"  no thumbnails yet: {error}", file=stream)


def _root(arguments) -> Path:
    """The project's folder; for a drafted dataset without a project, the working directory.

    Raises
    ------
    PermafrostError : there is no project to add the entry to, or to look up the backbone in.
    """
    here = Path.cwd()
    try:
        root = find_root(here)
    except PermafrostError:
        if arguments.add or arguments.what == "backbone":
            raise
        return here
    if arguments.add and not here.is_relative_to(root):
        raise PermafrostError(
            "there is no project here to add an entry to",
            where=here,
            remedy="go to your project, or create one with `permafrost init FOLDER`",
        )
    return root


def _draft(arguments, root: Path):
    from permafrost.operate.drafts import backbone_draft, dataset_draft

    if arguments.what == "dataset":
        return dataset_draft(Path(arguments.source), arguments.name, root)

    offered = installed(root / ".snakemake" / "permafrost")
    return backbone_draft(arguments.source, arguments.name, offered, root)
