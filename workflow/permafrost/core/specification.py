"""The specification of a job as a frozen dataclass, created once at the start of a stage; paths and splits in it."""

from __future__ import annotations

from dataclasses import dataclass

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
