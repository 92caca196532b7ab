"""Paths in entries: ``{data}`` stands for the data folder, so that moving the data changes no entry."""

from __future__ import annotations


def substitute(value, data_root: str):
    """`value` (text, list or mapping) with ``{data}`` replaced by `data_root`."""
    if isinstance(value, str):
        return value.replace("{data}", data_root)
    if isinstance(value, dict):
        return {key: substitute(item, data_root) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, data_root) for item in value]
    return value


def merged(value: dict, places: dict) -> dict:
    """`value` with the entries of `places` in it, mappings in mappings likewise."""
    both = dict(value)
    for key, place in places.items():
        known = both.get(key)
        nested = isinstance(place, dict) and isinstance(known, dict)
        both[key] = merged(known, place) if nested else place
    return both
