"""The splits that every dataset has."""

from __future__ import annotations

# in the order in which they are always listed
SPLITS = ("train", "val", "test")
