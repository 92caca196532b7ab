"""Options of a job as a frozen dataclass, made once where the job's command reads its arguments."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import get_type_hints

from permafrost.core.errors import PermafrostError, near_names


def read_options[Options](kind: type[Options], values: dict, *, where: object) -> Options:
    """The options of this kind from those of a job's spec; options in options likewise.

    The dataclass has no defaults: the plan has filled in those of the schema.

    Raises
    ------
    PermafrostError : an option that the kind does not have, or one that is missing.
    """
    hints = get_type_hints(kind)
    unknown = [name for name in values if name not in hints]
    if unknown:
        raise PermafrostError(
            f"there is no option {unknown[0]!r}, {near_names(unknown[0], hints)}",
            where=where,
            remedy="correct the job's spec, or let the plan make it from the configuration",
        )
    missing = [name for name in hints if name not in values]
    if missing:
        raise PermafrostError(
            f"the option {missing[0]!r} is missing",
            where=where,
            remedy="give all options, or let the plan fill in those of the configuration's schema",
        )
    return kind(
        **{
            name: read_options(hint, values[name], where=f"{where}.{name}")
            if is_dataclass(hint)
            else values[name]
            for name, hint in hints.items()
        }
    )
