"""Identity of a result: canonical JSON, fingerprints, and seeds derived from them."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

from permafrost.core.errors import PermafrostError

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value) -> str:
    """JSON with sorted keys, no spaces, and ``1.0`` written as ``1``.

    YAML entries that differ only in key order, comments or number notation give the same string.

    Raises
    ------
    PermafrostError : a number is not finite, or two keys have the same text.
    TypeError : a value has no canonical form.
    """
    return _ENCODER.encode(_canonical(value))


def unique_keys(pairs: list[tuple]) -> dict:
    """A ``object_pairs_hook`` for `json` that raises ValueError for a duplicate key."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} occurs twice in one object")
            seen.add(key)
    return found


def _canonical(value):
    if isinstance(value, dict):
        named = {str(key): _canonical(item) for key, item in value.items()}
        if len(named) < len(value):
            raise PermafrostError(
                f"two keys of {list(value)} have the same text", remedy="give each key its own text"
            )
        return named
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PermafrostError(
                f"the number {value} cannot identify a result", remedy="give a finite number"
            )
        return int(value) if value.is_integer() else value
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")


def fingerprint(*parts) -> str:
    """32 hexadecimal digits of the SHA-256 of the canonical JSON of `parts`."""
    return hashlib.sha256(canonical_json(list(parts)).encode()).hexdigest()[:32]


def derive_seed(*parts) -> int:
    """A seed in [0, 2^63) that depends only on `parts`, the identity of the run."""
    digest = hashlib.sha256(("seed" + canonical_json(list(parts))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def file_digest(path) -> str:
    """SHA-256 of a file, in hexadecimal; raises OSError if it cannot be read."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
