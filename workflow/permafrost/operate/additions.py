"""Add an entry to a project's catalogue, and its name to the configuration's list."""

from __future__ import annotations

from pathlib import Path

import yaml

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import together, whole_file
from permafrost.operate.drafts import Entry
from permafrost.operate.offers import read_offers
from permafrost.plan.catalogue import EVERY, catalogue_folders, read_yaml

CONFIG = "config/config.yaml"


def refuse_known(kind: str, name: str, root: Path) -> None:
    """Refuse a name that is already in the project's catalogues."""
    offers = read_offers(root)
    known = offers.datasets if kind == "dataset" else offers.backbones
    if name in known.names([EVERY]):
        raise PermafrostError(
            f"there is a {kind} {name!r} already",
            where=known.where(name),
            remedy="choose another --name, or remove that entry",
        )


def add_entry(entry: Entry, seen: str, root: Path) -> tuple[Path, bool]:
    """Write the entry to ``KINDs/own.yaml`` of the project's catalogue, and its name to the list.

    Comments and layout of both files are kept. Both files are written, or neither.

    Parameters
    ----------
    entry : a checked draft.
    seen : what it was drafted from, for the comment.
    root : the project's folder.

    Returns
    -------
    The catalogue's file, and whether the name was added to the configuration's list (not if the
    configuration takes the whole catalogue).

    Raises
    ------
    PermafrostError : the name is taken, the project has no catalogue, or the layout of a file does
        not allow additions.
    """
    key = f"{entry.kind}s"
    refuse_known(entry.kind, entry.name, root)
    config_file = root / CONFIG
    config = read_yaml(config_file)
    inside = [
        folder for folder in catalogue_folders(config, root)
        if folder.resolve().is_relative_to(root.resolve())
    ]  # fmt: skip
    if not inside:
        raise PermafrostError(
            "this project has no catalogue of its own",
            where=config_file,
            remedy='add config to its catalogues, as catalogues: ["{permafrost}/config", config]',
        )
    own = inside[-1] / key / "own.yaml"
    before = own.read_text(encoding="utf-8") if own.exists() else ""
    after = "\n".join([*([before.rstrip("\n")] if before.strip() else []), entry.bare(seen), ""])
    _prove(after, {**_content(before), entry.name: entry.content}, own)
    text = config_file.read_text(encoding="utf-8")
    names = config.get(key)
    listed = named(text, key, entry.name) if names != [EVERY] else text
    if listed != text:
        _prove(listed, {**config, key: [*(names or []), entry.name]}, config_file)
    with together() as group:
        for file, content in ((own, after), (config_file, listed)):
            with whole_file(file, group=group) as partial:
                partial.write_text(content, encoding="utf-8")
    return own, listed != text


def named(text: str, key: str, name: str) -> str:
    """A configuration's text with `name` added to the list `key`, which is created if missing."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    value = next((value for found, value in pairs if found.value == key), None)
    if value is None:
        return f"{text.rstrip()}\n\n{key}: [{name}]\n".lstrip()
    place, added = value.start_mark.index, f" [{name}]"
    if isinstance(value, yaml.SequenceNode) and not value.value:
        place, added = place + 1, name
    elif isinstance(value, yaml.SequenceNode) and value.flow_style:
        place, added = value.value[-1].end_mark.index, f", {name}"
    elif isinstance(value, yaml.SequenceNode):
        end = text.find("\n", value.value[-1].end_mark.index)
        place = len(text) if end < 0 else end
        added = f"\n{' ' * value.start_mark.column}- {name}"
    return text[:place] + added + text[place:]


def _content(text: str) -> dict:
    return yaml.safe_load(text) or {}


def _prove(text: str, expected: dict, file: Path) -> None:
    """Refuse a text whose YAML content is not `expected`."""
    try:
        said = _content(text)
    except yaml.YAMLError:
        said = None
    if said != expected:
        raise PermafrostError(
            "the layout of this file does not allow additions; it was not changed",
            where=file,
            remedy="write its lists as [a, b] or with a line for each, entries below each other; or use --output",
        )
