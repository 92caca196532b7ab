"""Parse options that are lists of values."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import read_text


def values_of(text: str | None, kind) -> list | None:
    """Items of a comma-separated list, each as `kind`; None for None. Other text is refused."""
    if text is None:
        return None
    try:
        return [kind(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise PermafrostError(
            f"{text!r} is not a list of {'whole ' if kind is int else ''}numbers",
            remedy="separate them by commas",
        ) from error


def thresholds(text: str | None):
    """Numbers of a comma-separated list, or of ``first:last:step`` with both ends; None for None.

    Raises
    ------
    PermafrostError : the text is neither, or the step does not divide the range.
    """
    if text is None or ":" not in text:
        return values_of(text, float)
    import numpy as np

    parts = values_of(text.replace(":", ","), float)
    if len(parts) != 3 or not parts[2] > 0 or parts[1] < parts[0]:
        raise PermafrostError(f"{text!r} is not first:last:step", remedy="give 0.5:0.95:0.05")
    first, last, step = parts
    count = round((last - first) / step) + 1
    if count > 10_000 or abs(first + (count - 1) * step - last) > 1e-6:
        raise PermafrostError(
            f"steps of {step:g} do not lead from {first:g} to {last:g}",
            remedy="choose a step that divides the range",
        )
    # linspace gives COCO's values; a running sum would differ in the last bits
    return np.linspace(first, last, count)


def names_of(text: str | None) -> list[str] | None:
    """Names of a comma-separated list; None for None. An empty name is refused."""
    if text is None:
        return None
    names = [part.strip() for part in text.split(",")]
    if not all(names):
        raise PermafrostError(f"{text!r} has an empty item between two commas", remedy="give a,b,c")
    return names


def category_groups(groups: str | Path) -> dict[str, list]:
    """Group -> categories, from ``group=a,b;other=c`` or a file.

    Raises
    ------
    PermafrostError : the text is not in this form, or the file is wrong, see
        `metrics.detection.categories.read_groups`.
    """
    if isinstance(groups, Path):
        from permafrost.metrics.detection.categories import read_groups

        return read_groups(groups)
    members_of: dict[str, list] = {}
    for part in groups.split(";"):
        name, equals, members = (piece.strip() for piece in part.partition("="))
        if not (name and equals and members) or name in members_of:
            raise PermafrostError(
                f"{part.strip()!r} is not a new group=category,category",
                remedy="give vehicle=car,truck;animal=cat,dog, or a file",
            )
        members_of[name] = names_of(members)
    return members_of


def groups_or_path(text: str) -> str | Path:
    """The text of groups, which has an equals sign, or the path of a file."""
    return text if "=" in text else Path(text)


def area_ranges(text: str | None) -> dict | None:
    """Name -> (low, high) in square pixels, from comma-separated ``name=low:high``.

    The range ``all`` is added if missing. Other text is refused.
    """
    if text is None:
        return None
    ranges = {}
    for part in text.split(","):
        name, equals, bounds = (piece.strip() for piece in part.partition("="))
        low, colon, high = bounds.partition(":")
        try:
            limits = float(low), float(high)
        except ValueError:
            limits = None
        if not (name and equals and colon and limits) or name in ranges:
            raise PermafrostError(
                f"{part.strip()!r} is not a new name=low:high",
                remedy="give tiny=0:256,rest=256:1e10",
            )
        ranges[name] = limits
    return ranges if "all" in ranges else {"all": (0.0, 1e10), **ranges}


def lines_of(path: Path) -> list[str]:
    """The non-empty lines of a text file, without surrounding spaces."""
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]
