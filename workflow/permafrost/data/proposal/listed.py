"""Recognise listings: COCO's JSON, DeepForest's CSV, a CSV of points per image, a table of images."""

from __future__ import annotations

import csv
import io
import json
from itertools import combinations
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.data.files.members import Members
from permafrost.data.proposal.beside import Beside
from permafrost.data.proposal.dates import dates_of_places, two_dates
from permafrost.data.proposal.draft import Draft, given_splits, is_image, split_of, stem_of
from permafrost.data.sources.coco import parse_coco

#: names of columns with a class
LABELS = ("label", "class", "classname", "class_name", "category", "landcover", "land_cover")
_COLUMNS = {
    "split": ("split", "partition", "subset", "fold", "set"),
    "group": ("group", "scene", "tile", "region", "site", "flight"),
    "lon": ("lon", "longitude", "lng"),
    "lat": ("lat", "latitude"),
    "date": ("date", "acquired", "datetime"),
}


def coco(members: Members, where: object) -> Draft | None:
    """COCO's JSON, one file for all images or one per split."""
    found = {}
    for name in [n for n in members.names if n.lower().endswith(".json")]:
        try:
            found[name] = parse_coco(members.read(name), name)
        except (ValueError, json.JSONDecodeError):
            continue
    if not found:
        return None
    images = [name for name in members.names if is_image(name)]
    listed = [one.file_name for file in found.values() for one in file.images.values()]
    source: dict = {"kind": "coco"}
    draft = Draft("detection", source, images)
    splits = {name: split_of(stem_of(name)) for name in found}
    if len(found) > 1 and None not in splits.values() and len({*splits.values()}) == len(found):
        source["annotations"] = {split: f"<path>/{name}" for name, split in splits.items()}
        draft.splits = given_splits(splits.values(), draft)
    else:
        place, *others = found
        source["annotations"] = f"<path>/{place}"
        if others:
            draft.note("source", f"further files of annotations are left out: {', '.join(others)}")
    set_root(source, images, listed, draft)
    return draft


def set_root(source: dict, images: list[str], listed: list[str], draft: Draft) -> None:
    """The folder that listed names are relative to."""
    have, wanted = {*images}, next(iter(listed), None)
    if wanted is None or wanted in have:
        return
    home = next((name for name in images if name.endswith(f"/{wanted}")), None)
    if home is None:
        draft.note("source", f"no images are named {wanted}, as the annotations say: correct root")
        return
    folders = home.removesuffix(f"/{wanted}").split("/")
    source["root"] = "/".join("<split>" if draft.splits and split_of(f) else f for f in folders)


def tables(members: Members, where: object) -> Draft | None:
    """A CSV that lists objects or images, or one CSV of points per image."""
    images = [name for name in members.names if is_image(name)]
    csvs = [name for name in members.names if name.lower().endswith(".csv")]
    headers = {name: _rows(members, name) for name in csvs}
    stems = {stem_of(name) for name in images}
    own = [name for name in csvs if stem_of(name) in stems and _xy(headers[name])]
    if own and len(own) * 2 >= len(images):
        return _points(members, images, own, headers[own[0]])
    for name, rows in headers.items():
        if rows and "image_path" in rows[0] and {"xmin", "geometry", "x"} & {*rows[0]}:
            return _deepforest(images, name, rows)
    for name, rows in headers.items():
        draft = _table(members, images, name, rows, where)
        if draft is not None:
            return draft
    return None


def _rows(members: Members, name: str) -> list[dict[str, str]]:
    """The first rows of a CSV; an empty list if it is not one."""
    try:
        text = members.read(name).decode("utf-8-sig")
    except UnicodeDecodeError:
        return []
    reader = csv.DictReader(io.StringIO(text))
    rows = [row for row, _ in zip(reader, range(2000), strict=False)]
    return rows if all(None not in row for row in rows) else []


def _xy(rows: list[dict[str, str]]) -> bool:
    return bool(rows) and {"x", "y"} <= {*rows[0]}


def _points(
    members: Members, images: list[str], files: list[str], rows: list[dict[str, str]]
) -> Draft:
    def folder(name: str) -> str:
        return name.rpartition("/")[0] or "."

    source = {"kind": "points", "images": folder(images[0]), "points": folder(files[0])}
    draft = Draft("point_detection", source, images)
    label = next((column for column in rows[0] if column.lower() in LABELS), None)
    if label is None:
        draft.fields["classes"] = ["object"]
        draft.note("classes", "name the one class of all points")
    else:
        source["label"] = label
    if len(files) < len(images):
        source["missing"] = "empty"
    if len(members.names) > len(images) + len(files):
        source["other_files"] = "ignore"
        draft.note("source", "files that are neither images nor points are ignored")
    return draft


def _deepforest(images: list[str], name: str, rows: list[dict[str, str]]) -> Draft:
    source = {"kind": "deepforest", "table": f"<path>/{name}"}
    points = "x" in rows[0] and not {"xmin", "geometry"} & {*rows[0]}
    draft = Draft("point_detection" if points else "detection", source, images)
    split = _column(rows, _COLUMNS["split"])
    if split:
        source["split"] = split
        draft.splits = given_splits((row[split] for row in rows), draft)
    set_root(source, images, [row["image_path"] for row in rows], draft)
    return draft


def _table(members, images, name, rows, where) -> Draft | None:
    files = _file_columns(images, rows)
    if not files:
        return None
    pattern: str | list[str]
    (column, pattern), *_ = files.items()
    two = next((both for both in combinations(files, 2) if two_dates(*both)), None)
    if two is not None:
        pattern = [files[one] for one in two]
    source: dict[str, Any] = {"kind": "table", "table": f"{members.place}/{name}", "path": pattern}
    if not (members.place.is_dir() or isinstance(members, Beside)):
        raise PermafrostError(
            f"the table {name} is inside the archive, but must be next to it",
            where=where,
            remedy="move it out of the archive, or unpack the archive",
        )
    known = {key: _column(rows, names) for key, names in _COLUMNS.items()}
    source |= {key: found for key, found in known.items() if found}
    draft = Draft("classification", source, images)
    if two is not None:
        draft.fields["dates"] = "pair"
        draft.note("source", "two dates in each row: path lists the one before and the one after")
    label = _column(rows, LABELS)
    used = {column, label, *known.values()}
    numbers = [key for key in rows[0] if key not in used and _are_numbers(rows, key)]
    flags = [key for key in numbers if {row[key] for row in rows} <= {"0", "1"}]
    if label:
        source["label"] = label
        draft.fields["classes"] = sorted({row[label] for row in rows})
    elif len(flags) > 1:
        draft.task, source["labels"] = "multilabel", flags
    elif numbers:
        draft.task, source["target"] = "regression", numbers[0]
        draft.fields["target"] = {"name": numbers[0]}
        draft.note("target", "give the unit of the number")
        if numbers[1:]:
            draft.note("source", f"other columns of numbers: {', '.join(numbers[1:])}")
    else:
        return None
    _group_places(draft, rows, column, where)
    if known["split"]:
        draft.splits = given_splits((row[known["split"]] for row in rows), draft)
    elif "group" in source:
        draft.splits = {"method": "group"}
    elif (
        known["lon"] and known["lat"] and all(_are_numbers(rows, known[k]) for k in ("lon", "lat"))
    ):
        draft.places = [(float(row[known["lon"]]), float(row[known["lat"]])) for row in rows]
    return draft


def _group_places(draft: Draft, rows: list[dict[str, str]], column: str, where: object) -> None:
    """Set `group` if several rows are images of one location.

    Raises
    ------
    PermafrostError : file names show that, but no column names the location.
    """
    source = draft.source
    if "group" in source:
        return
    lon, lat = source.get("lon"), source.get("lat")
    if lon and lat and len({(row[lon], row[lat]) for row in rows}) < len(rows):
        source["group"] = f"<{lon}>/<{lat}>"
        draft.note("source", "several images have the same coordinates: these are one group")
        return
    around = dates_of_places([row[column] or "" for row in rows])
    if not around:
        return
    places = [around.get(row[column]) for row in rows]
    for one in rows[0]:
        values = [row[one] for row in rows]
        if len({*values}) == len({*places}) == len({*zip(values, places, strict=True)}):
            source["group"] = one
            draft.note("source", f"files are of several dates: {one} names the place, the group")
            return
    raise PermafrostError(
        f"the table lists several dates of a place, such as {rows[0][column]}, but no column names the location",
        where=where,
        remedy="add a column of the location, or one named group, so that its dates stay in one split",
    )


def _file_columns(images: list[str], rows: list[dict[str, str]]) -> dict[str, str]:
    """Columns that name images -> conversion of a name to a path below the folder."""
    have = {*images}
    found = {}
    for column in rows[0] if rows else ():
        values = [row[column] for row in rows]
        if values[0] in have:
            found[column] = column
            continue
        match = next((name for name in images if name.endswith(f"/{values[0]}")), None)
        if match and values[0]:
            folder = match.removesuffix(values[0])
            if all(f"{folder}{value}" in have for value in values):
                found[column] = f"{folder}<{column}>"
    return found


def _column(rows: list[dict[str, str]], names: tuple[str, ...]) -> str | None:
    return next((column for column in rows[0] if column.lower() in names), None)


def _are_numbers(rows: list[dict[str, str]], column: str) -> bool:
    try:
        return all(float(row[column]) is not None for row in rows)
    except (TypeError, ValueError):
        return False
