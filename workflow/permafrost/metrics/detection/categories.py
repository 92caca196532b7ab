"""Selections of categories by name or id, and groups of them that are averaged."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line, near_names
from permafrost.metrics.detection.inputs.parsing import parse, read_file
from permafrost.metrics.detection.inputs.tables import Categories, Detections, Truths, rows_of

_ID_COLUMNS, _GROUP_COLUMN = ("category", "category_id"), "group"


def find_categories(categories: Categories, wanted, where: str = "categories") -> np.ndarray:
    """Positions of the wanted categories, ascending.

    Parameters
    ----------
    wanted : names or ids; a string may be either, a number is an id.

    Raises
    ------
    PermafrostError : no category, an unknown or repeated one, a string that matches several categories.
    """
    if isinstance(wanted, str):
        raise PermafrostError(
            f"categories must be a list, not the text {wanted!r}",
            where=where,
            remedy="put the names or ids into a list",
        )
    by_text: dict[str, list[int]] = {}
    for place, (identity, name) in enumerate(
        zip(categories.ids.tolist(), categories.names, strict=True)
    ):
        for text in dict.fromkeys((str(identity), name)):
            by_text.setdefault(text, []).append(place)
    by_id = {identity: place for place, identity in enumerate(categories.ids.tolist())}
    found: list[int] = []
    for each in wanted:
        places = by_text.get(each, []) if isinstance(each, str) else [by_id.get(each, -1)]
        if len(places) > 1:
            ids = ", ".join(str(categories.ids[place]) for place in places)
            raise PermafrostError(
                f"{each!r} means {len(places)} categories (ids {ids})",
                where=where,
                remedy="give ids that are not names, or give the categories different names",
            )
        if not places or places[0] < 0:
            known = categories.names if isinstance(each, str) else map(str, by_id)
            raise PermafrostError(
                f"there is no category {each!r}", where=where, remedy=near_names(str(each), known)
            )
        if places[0] in found:
            raise PermafrostError(
                f"the category {each!r} is given twice", where=where, remedy="name each once"
            )
        found += places
    if not found:
        raise PermafrostError("no categories are named", where=where, remedy="name one at least")
    return np.sort(np.array(found, np.int64))


def restrict_categories(
    truths: Truths, detections: Detections | None, chosen: np.ndarray
) -> tuple[Truths, Detections | None]:
    """The rows of the categories at the positions `chosen`, which are renumbered; all images stay.

    The warnings of both tables count the omitted rows.
    """
    categories = truths.categories
    number = np.full(len(categories), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    kept = Categories(
        categories.ids[chosen],
        tuple(categories.names[place] for place in chosen),
        None
        if categories.frequencies is None
        else tuple(categories.frequencies[place] for place in chosen),
    )
    images = truths.images
    images = replace(
        images,
        negative=_renumbered(images.negative, number),
        not_exhaustive=_renumbered(images.not_exhaustive, number),
    )
    others = int(np.count_nonzero(number[truths.category] < 0))
    truths.notes.warnings.append(
        f"only {len(chosen)} of {len(categories)} categories are evaluated; {others} annotations are"
        " of others"
    )
    truths = replace(_numbered(truths, number), images=images, categories=kept)
    return truths, None if detections is None else detections_of(
        detections, chosen, len(categories)
    )


def detections_of(detections: Detections, chosen: np.ndarray, count: int) -> Detections:
    """The rows of the categories at the positions `chosen` of `count`, which are renumbered."""
    number = np.full(count, -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    others = int(np.count_nonzero(number[detections.category] < 0))
    if others:
        detections.notes.warnings.append(
            f"{others} detections are of categories that are not evaluated"
        )
    return _numbered(detections, number)


def _numbered(table, number: np.ndarray):
    category = number[table.category]
    table = replace(table, category=category)
    return table if (category >= 0).all() else rows_of(table, category >= 0)


def _renumbered(lists: list | None, number: np.ndarray) -> list | None:
    if lists is None:
        return None
    found = (number[places] for places in lists)
    return [places[places >= 0] for places in found]


def find_groups(categories: Categories, groups, where: str = "category groups") -> dict:
    """Name of every group to the positions of its categories, ascending.

    A category may be in many groups, or in none.

    Parameters
    ----------
    groups : mapping of a name to a list of names or ids of categories.

    Raises
    ------
    PermafrostError : not a mapping, an empty group, an unknown or repeated category.
    """
    if not isinstance(groups, Mapping) or not groups:
        raise PermafrostError(
            "groups of categories must be a mapping from a name to a list of categories",
            where=where,
            remedy='give for example {"vehicle": ["car", "truck"]}',
        )
    return {
        str(name): find_categories(categories, members, f"{where}: {name}")
        for name, members in groups.items()
    }


def read_groups(path: Path) -> dict[str, list]:
    """Groups of categories from a file.

    JSON: ``{"vehicle": ["car", "truck"], "animal": [17, 18]}``; CSV: a row per category with the
    columns ``category`` (a name or an id) and ``group``.

    Raises
    ------
    PermafrostError : the file cannot be read, or has another format.
    """
    content = read_file(path)
    if Path(path).suffix.lower() == ".json":
        return _groups_of_json(parse(content, path), path)
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise PermafrostError(
            f"groups of categories cannot be read ({first_line(error)})",
            where=path,
            remedy="give JSON, or CSV with the columns category and group",
        ) from error
    return _groups_of_rows(rows, path)


def _groups_of_json(content, path) -> dict[str, list]:
    if not isinstance(content, dict) or not all(isinstance(v, list) for v in content.values()):
        raise PermafrostError(
            "groups of categories must be an object with a list of categories per group",
            where=path,
            remedy='write for example {"vehicle": ["car", "truck"]}',
        )
    return content


def _groups_of_rows(rows: list[dict], path) -> dict[str, list]:
    names = list(rows[0]) if rows else []
    column = next((name for name in _ID_COLUMNS if name in names), None)
    if column is None or _GROUP_COLUMN not in names:
        raise PermafrostError(
            "needs the columns category (or category_id) and group",
            where=path,
            remedy=f"it has {', '.join(map(str, names)) or 'no rows'}",
        )
    groups: dict[str, list] = {}
    for row in rows:
        # an empty field: the category is in no group
        if row[_GROUP_COLUMN]:
            groups.setdefault(row[_GROUP_COLUMN].strip(), []).append((row[column] or "").strip())
    return groups
