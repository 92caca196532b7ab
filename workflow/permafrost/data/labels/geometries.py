"""Kinds of object shapes."""

from __future__ import annotations

BOX, POLYGON, POINT = "box", "polygon", "point"
GEOMETRIES = (BOX, POLYGON, POINT)
#: boxes of any direction, see `oriented`
ORIENTED = "oriented_box"
