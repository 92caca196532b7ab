"""Plug-ins of a configuration: their fingerprints, and their options in the schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from permafrost.backbones.digest import identify
from permafrost.backbones.entry import Imaged, Placed
from permafrost.backbones.imported import modules_named
from permafrost.core.plugins import MODULES, folders_of, importable, registry


def plugins_in_use() -> Iterator[tuple[str, str]]:
    """Name, such as ``probes.NAME``, and place of all registered plug-ins."""
    for group in MODULES:
        for name, place in registry(group).places.items():
            yield f"{group}.{name}", place


# --- identity --------------------------------------------------------------------------------------


def identified(
    place: str, root: Path, digest: Callable[[Path], str]
) -> tuple[dict, dict[str, str]]:
    """What identifies a plug-in, and the paths of its files by their role.

    Parameters
    ----------
    place : ``path/to/file.py:NAME`` or ``package.module:NAME``.
    root : the folder that relative paths refer to.
    digest : gives the SHA-256 of a file.

    Returns
    -------
    ``entry`` : the place without paths; ``files`` : digests of its file and of the user's modules
    that it imports; ``package`` : its package and version; ``library`` : modules of this library
    that it imports, whose sources also count.
    """
    known = identify({"entrypoint": place}, root, lambda path: root / path)
    files = {role: digest(root / file) for role, file in known.files.items()}
    sources = [root / file for file in known.files.values()]
    if not sources:
        with importable(*folders_of(place)):
            sources = [Path(find_spec(place.partition(":")[0]).origin)]
    named = {
        name
        for path in sources
        for name in modules_named(path, "")
        if name.startswith("permafrost.")
    }
    identity = {
        "entry": known.entry["entrypoint"],
        "files": files,
        "package": known.package,
        "library": sorted(named),
    }
    return identity, known.files


# --- schemas ---------------------------------------------------------------------------------------


def offer(instance: object, schema_name: str, schema: dict) -> None:
    """Add the plug-in kinds that `instance` names to its schema, in place."""
    if not isinstance(instance, dict) or schema_name not in _OFFERS:
        return
    group, named, add = _OFFERS[schema_name]
    known = schema.setdefault("plugins", [])
    for name in named(instance):
        offered = registry(group)
        if isinstance(name, str) and name in offered and name in offered.places.keys() - known:
            known.append(name)
            add(schema, name, offered[name])


def _kinds_of_probes(config: dict) -> Iterator[object]:
    probes = config.get("probes")
    for one in probes.values() if isinstance(probes, dict) else ():
        yield one.get("kind") if isinstance(one, dict) else None


def _kind_of_source(entry: dict) -> Iterator[object]:
    source = entry.get("source")
    yield source.get("kind") if isinstance(source, dict) else None


def _add_probe(schema: dict, name: str, kind) -> None:
    made = _schema_of(schema, name, *kind.option_classes())
    schema["properties"]["probes"]["additionalProperties"]["anyOf"].append(made)


def common_keys(kind) -> tuple[type, ...]:
    """The option classes that a kind of backbone shares with others."""
    if kind.derived:
        return ()
    return (Imaged if kind.pixels else Placed,)


def _add_source(schema: dict, name: str, kind) -> None:
    made = _schema_of(schema, name, kind.options_class())
    _add_alternative(schema["properties"]["source"], name, made)


def _add_backbone(schema: dict, name: str, kind) -> None:
    made = _schema_of(schema, name, kind.options_class(), *common_keys(kind))
    _add_alternative(schema, name, made)


def _add_alternative(schema: dict, name: str, made: dict) -> None:
    schema["properties"]["kind"]["enum"].append(name)
    schema["allOf"].append({"if": {"properties": {"kind": {"const": name}}}, "then": made})


_OFFERS = {
    "config": ("probes", _kinds_of_probes, _add_probe),
    "dataset": ("sources", _kind_of_source, _add_source),
    "backbone": ("backbones", lambda entry: [entry.get("kind")], _add_backbone),
}


def _schema_of(schema: dict, name: str, *classes: type) -> dict:
    """The JSON schema of a kind's options; the classes they refer to are added to `schema`."""
    from permafrost.core.option_models import named, schema_of

    made = schema_of(named(name, *classes))
    schema["$defs"] |= made.pop("$defs", {})
    return {**made, "additionalProperties": False}
