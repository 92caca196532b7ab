"""Kinds of object shapes."""

from __future__ import annotations

BOX, POLYGON, POINT = "box", "polygon", "point"
GEOMETRIES = (BOX, POLYGON, POINT)
#: pixels, as runs: objects of instance segmentation, and what is detected of them
MASK = "mask"
#: boxes of any direction, see `oriented`
ORIENTED = "oriented_box"
