"""The specification of a job as a frozen dataclass, created once at the start of a stage; paths and splits in it."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.options import Options


@dataclass(frozen=True, kw_only=True)
class Specification(Options):
    """What the specification of every job holds.

    Attributes
    ----------
    plugins : what identifies the plug-ins that the job uses, by name.
    versions : of the packages that the job computes with, where the configuration says ``versions: rerun``.
    """

    stage: str
    versions: dict | None = None
    plugins: dict | None = None


def from_json[T](kind: type[T], content: object, *, where: str) -> T:
    """The dataclass `kind` from a JSON object; fields that are dataclasses are made of objects in it.

    Raises
    ------
    PermafrostError : a key is unknown, or one that `kind` needs is missing.
    """
    if not isinstance(content, dict):
        raise PermafrostError(f"{content!r} is not a JSON object", where=where)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in content:
        look_up(fields, key, "unknown key", where=where)
    missing = [
        name
        for name, field in fields.items()
        if name not in content
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        named = ", ".join(map(repr, missing))
        raise PermafrostError(f"missing key{'s' * (len(missing) > 1)} {named}", where=where)
    nested = {name: hint for name, hint in _nested(kind).items() if content.get(name) is not None}
    made = {
        name: from_json(hint, content[name], where=f"{where}.{name}")
        for name, hint in nested.items()
    }
    return kind(**{**content, **made})


def _nested(kind: type) -> dict[str, type]:
    """The dataclasses among the types of the fields of `kind`, also where a field may be None."""
    found = {}
    for name, hint in typing.get_type_hints(kind).items():
        parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        for part in parts:
            if dataclasses.is_dataclass(part):
                found[name] = part
    return found


def substitute(value, folder: str, mark: str = "{data}"):
    """`value` (text, list or mapping) with `mark` replaced by `folder`."""
    if isinstance(value, str):
        return value.replace(mark, folder)
    if isinstance(value, dict):
        return {key: substitute(item, folder, mark) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, folder, mark) for item in value]
    return value


def merged(value: dict, places: dict) -> dict:
    """`value` with the entries of `places` in it, mappings in mappings likewise."""
    both = dict(value)
    for key, place in places.items():
        known = both.get(key)
        nested = isinstance(place, dict) and isinstance(known, dict)
        both[key] = merged(known, place) if nested else place
    return both


# in the order in which they are always listed
SPLITS = ("train", "val", "test")
