"""Find datasets, backbones and kinds of probes by a name or a part of one."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError, holds_name, near_names
from permafrost.operate.chosen import named_like, title_of
from permafrost.operate.offers import Offers, Rows, aligned
from permafrost.plan.catalogue import EVERY
from permafrost.probes.kinds import KINDS

_MOST_LIKE = 20
_LONGEST_CELL = 70


def find(offers: Offers, name: str) -> list[tuple[str, str]]:
    """Matches of `name`, as (``dataset``, ``backbone`` or ``probe``; full name).

    An exact match comes alone; else all whose names contain it; else all whose titles do.
    """
    every = _every(offers)
    for is_meant in (
        lambda known, _: known == name,
        lambda known, _: named_like(known, None, name) or holds_name(known, name),
        lambda _, title: holds_name(title, name),
    ):
        found = [(what, known) for what, known, title in every if is_meant(known, title)]
        if found:
            return found
    return []


def find_one(offers: Offers, name: str) -> tuple[str, str]:
    """The only match of `name`, as in `find`.

    Raises
    ------
    PermafrostError : there is no match, or more than one.
    """
    found = find(offers, name)
    if len(found) == 1:
        return found[0]
    known = [one for _, one, _ in _every(offers)]
    near = near_names(name, known, listing="`permafrost list backbones` (or datasets, probes)")
    raise PermafrostError(
        f"no dataset, backbone or kind of probe has the name {name!r}, {near}",
        remedy="give a full name, or a part that is unique",
    )


def like_lines(offers: Offers, name: str, found: list[tuple[str, str]]) -> list[str]:
    """A short table of several matches from `find`."""
    titles = {(what, known): title for what, known, title in _every(offers)}
    rows: Rows = [(known, what, titles[what, known]) for what, known in found[:_MOST_LIKE]]
    more = len(found) - len(rows)
    listed = " and ".join(
        f"`permafrost list {what}s {name}`" for what in sorted({w for w, _ in found})
    )
    return [
        f"No dataset, backbone or kind of probe has the name {name!r}; {len(found)} are like it:",
        *aligned([("name", "what", "title"), *rows], _LONGEST_CELL),
        *([f"and {more} more: {listed}"] if more else []),
        f"permafrost info {rows[0][0]} says all about the first",
    ]


def _every(offers: Offers) -> list[tuple[str, str, str]]:
    catalogues = {"dataset": offers.datasets, "backbone": offers.backbones}
    entries = [
        (what, known, str(title_of(catalogue, known) or ""))
        for what, catalogue in catalogues.items()
        for known in catalogue.names([EVERY])
    ]
    return entries + [("probe", name, kind.brief) for name, kind in KINDS.items()]
