"""What a figure's specification holds, and what its SVG says."""

from __future__ import annotations

import html
import re

from permafrost.report.figures.vega import as_svg


def views_of(figure: dict) -> list[dict]:
    """Every view with rows of its own, in the order of drawing."""
    inner = [view for key in ("concat", "vconcat") for view in figure.get(key, [])]
    return [figure] if not inner else [view for one in inner for view in views_of(one)]


def rows_of(figure: dict, place: int = 0) -> list[dict]:
    """The rows of a view."""
    return views_of(figure)[place]["data"]["values"]


def column(figure: dict, name: str, place: int = 0) -> list:
    return [row[name] for row in rows_of(figure, place)]


def channel(figure: dict, name: str, place: int = 0) -> dict:
    """The first channel of that name of a view."""
    view = views_of(figure)[place]
    parts = [view, *view.get("layer", [])]
    return next(part["encoding"][name] for part in parts if name in part.get("encoding", {}))


def texts_of(figure: dict) -> list[str]:
    """Every text of the SVG."""
    return [html.unescape(text) for text in re.findall(r">([^<>]+)</text>", as_svg(figure))]


def names_of(figure: dict, among) -> list[str]:
    """The texts that are `among` names, in the order of the SVG."""
    return [text for text in texts_of(figure) if text in set(among)]


def size_of(figure: dict) -> tuple[float, float]:
    """Width and height in pixels."""
    found = re.search(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', as_svg(figure))
    return float(found[1]), float(found[2])
