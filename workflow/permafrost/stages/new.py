"""``permafrost new``: a first entry for one's own images or model, as YAML."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument("what", choices=("dataset", "backbone"))
    parser.add_argument(
        "source",
        metavar="FOLDER|MODEL",
        help="dataset: folder, zip or tar of images; backbone: a model or weights of timm or torchgeo,"
        " a Python file (model.py:build), or a checkpoint",
    )
    parser.add_argument("--name", help="of the entry (default: from the folder or model)")
    parser.add_argument(
        "--output", type=Path, help="configuration file to write; the terminal by default"
    )


def run(arguments) -> None:
    import sys

    from permafrost.core.errors import PermafrostError
    from permafrost.core.outputs import whole_file

    if arguments.output is not None and arguments.output.exists():
        raise PermafrostError(
            "exists already", where=arguments.output, remedy="choose another --output"
        )
    entry = _draft(arguments)
    entry.check()
    text = entry.as_yaml(arguments.source, arguments.output)
    if arguments.output is None:
        sys.stdout.write(text)
        return
    with whole_file(arguments.output) as partial:
        partial.write_text(text, encoding="utf-8")
    asked = sum(map(len, entry.notes.values()))
    print(f"{arguments.output}: {entry.kind} {entry.name}, {asked} comments to read")


def _draft(arguments):
    from permafrost.plan.drafts import backbone_draft, dataset_draft

    if arguments.what == "dataset":
        return dataset_draft(Path(arguments.source), arguments.name)
    from permafrost.plan.installed import installed
    from permafrost.stages.run import find_root

    root = find_root(Path.cwd())
    offered = installed(root / ".snakemake" / "permafrost")
    return backbone_draft(arguments.source, arguments.name, offered, root)
