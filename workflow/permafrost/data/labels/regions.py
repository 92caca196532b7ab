"""Parts of the Earth and of the year: bands of degrees, and seasons."""

from __future__ import annotations

import math
import re

#: meteorological, three whole months each; winter is December to February north of the equator
SEASONS = ("winter", "spring", "summer", "autumn")
# ISO 8601, to the year, the month, or finer
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?!\d)|(\d{2})\d{2}(?!\d))?")


def band(value: float, size: float, most: float = 90, signs: str = "NS") -> tuple[int, str]:
    """(place, name) of a band of degrees; no band holds values of both signs."""
    place = min(math.floor(value / size), math.ceil(most / size) - 1)
    low, high = (min(max(edge * size, -most), most) for edge in (place, place + 1))
    side = signs[0] if place >= 0 else signs[1]
    near, far = sorted((abs(low), abs(high)))
    return place, f"{near:.5g} to {far:.5g}° {side}"


def year_month(date) -> tuple[int, int | None] | None:
    """Year and month of an ISO 8601 date; None for what is not known."""
    match = _DATE.match(str(date)) if date is not None else None
    if not match:
        return None
    month = int(match[2] or match[3] or 0)
    return int(match[1]), month if 1 <= month <= 12 else None


def season(month: int, lat: float) -> tuple[int, str]:
    """(place in the year, name) of the season of a month at a latitude in degrees; turned south of the equator."""
    place = (month % 12 // 3 + (2 if lat < 0 else 0)) % 4
    return place, SEASONS[place]
