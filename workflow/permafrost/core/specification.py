"""Base class of job specifications, and placeholders for paths in them."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.options import Options


@dataclass(frozen=True, kw_only=True)
class Specification(Options):
    """Fields of every job's specification.

    Attributes
    ----------
    stage : name of the stage.
    versions : versions of the packages that the job computes with, if ``versions: rerun``.
    plugins : identities of the plug-ins that the job uses, by name.
    read : digests of what the job read before and did not declare, if that has changed since.
    """

    stage: str
    versions: dict | None = None
    plugins: dict | None = None
    read: dict | None = None


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
    """A copy of `value` updated with `places`, recursively in nested mappings."""
    both = dict(value)
    for key, place in places.items():
        known = both.get(key)
        nested = isinstance(place, dict) and isinstance(known, dict)
        both[key] = merged(known, place) if nested else place
    return both


# the order of splits in all lists
SPLITS = ("train", "val", "test")
