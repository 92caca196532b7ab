"""Kind ``points``: images with a table of points each, one CSV per image."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.data.decode import UnreadableImage
from permafrost.data.files import Members, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.corners import EDGES, point_places
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.points_file import parse_points
from permafrost.data.sources.reading import read_member

POINTS = Companions("points", "table of points", ("csv",), images="images", folder="points")


def open_points(entry: dict, *, where: object) -> ObjectSource:
    """Images whose points stand in a CSV of the same name.

    Options: ``path``; ``root``; ``images`` and ``points`` (folders or patterns with ``<stem>``, see
    `permafrost.data.sources.pairing`; default images and points; ``<split>`` names the split); ``x``,
    ``y`` (columns, default x and y); ``label`` (the column of the class; without it, all points are of
    the entry's one class); ``coordinates`` (what the numbers mean, default edges); ``missing`` (what
    an image without a table is: error, or empty for an image without points); ``extensions``,
    ``other_files``, ``group``.
    """
    options = entry["source"]
    members = open_members(options["path"], where=where)
    optional = options.get("missing", "error") == "empty"
    pairs = pair_files(members, options, POINTS, optional=optional, where=where)
    problems: list[str] = []
    only = None if options.get("label") else entry["classes"][0]
    images = [_annotated(members, pair, options, only, problems) for pair in pairs]
    return ObjectSource(entry, members, images, where=where, problems=problems)


def check_entry(entry: dict, *, where: object) -> None:
    """Refuse points whose class nothing says."""
    if entry["source"].get("label") is None and len(entry.get("classes") or []) != 1:
        raise PermafrostError(
            "the tables name no classes, so the entry has to list the one class of all points",
            where=where,
            remedy="list one class, e.g. classes: [tree], or name the column of classes with label",
        )


def _annotated(
    members: Members, pair: Pair, options: dict, only: str | None, problems: list[str]
) -> Annotated:
    split, name = pair.parts.get("split"), pair.companion
    if name is None:
        return Annotated(pair.image, [], split=split)
    try:
        points, labels = parse_points(
            read_member(members, name),
            x=options.get("x", "x"),
            y=options.get("y", "y"),
            label=options.get("label"),
        )
    except UnreadableImage as failure:
        problems.append(f"{name}: {failure}")
        return Annotated(pair.image, [], split=split)
    places = point_places(points, options.get("coordinates", EDGES)).tolist()
    found = [
        Found(label, [x, y, x, y], f"{name}: point {number}")
        for number, ((x, y), label) in enumerate(
            zip(places, labels or [only] * len(places), strict=True), start=1
        )
    ]
    return Annotated(pair.image, found, split=split)
