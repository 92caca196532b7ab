"""Composition of a dataset: classes per split, and band statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from permafrost.core.specification import SPLITS
from permafrost.core.tasks import targets_of
from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS, shorten

if TYPE_CHECKING:
    from permafrost.data.store.card import Card


def draw_balance(card: Card) -> dict:
    """Share of each class in each split (a dot per split); a class missing from a split is marked.

    Shares are of the split's samples, so in a multi-label dataset they add up to more than one. For
    masks they are of the split's labelled pixels, for objects of its objects.
    """
    counted, rows, labels = counted_of(card), [], {}
    for split in (split for split in SPLITS if split in card.splits):
        entry = card.splits[split]
        total = entry["count"] if counted == "samples" else sum(entry["class_counts"])
        shown = total if counted == "objects" else entry["count"]
        labels[split] = f"{split} ({shown:,})".replace(",", "\u202f")
        rows += [
            {"row": name, "series": split, "lane": split, "said": f"none in {split}"}
            | {"value": count / max(total, 1) if count else None}
            for name, count in zip(card.classes, entry["class_counts"], strict=True)
        ]
    x = chart.number("value", f"share of the split's {counted}", zero=True, axis={"format": "~%"})
    step = 26 if len(card.classes) <= 25 else 20
    classes = chart.shortened(card.classes)
    look: dict[str, Any] = {"lanes": list(labels), "width": chart.NARROW - chart.room(classes)}
    view = chart.dots(rows, classes, x, chart.series(labels), step=step, **look)
    return chart.figure(view, title=f"{card.dataset}: classes")


def counted_of(card: Card) -> str:
    """The unit of the counts per class of a card."""
    if targets_of(card.task).objects:
        return "objects"
    if card.target is not None:
        return "numbers"
    return "pixels" if targets_of(card.task).masks else "samples"


def draw_bands(card: Card) -> dict:
    """Mean, standard deviation and range of every band in the train split, in physical units.

    Bands with different units get separate panels; bands with a wavelength are sorted by it.
    """
    groups: dict[str, list[dict]] = {}
    for band in card.bands:
        groups.setdefault(band["unit"], []).append(band)
    views = [_bands(unit, bands) for unit, bands in groups.items()]
    note = "dot: mean, bar: ± 1 standard deviation, line: range"
    view = views[0] if len(views) == 1 else {"vconcat": views}
    return chart.figure(view, title=f"{card.dataset}: bands of the train split", note=note)


def _bands(unit: str, bands: list[dict]) -> dict:
    bands = sorted(bands, key=lambda band: band.get("wavelength_nm") or float("inf"))
    labels = {band["name"]: _band_name(band) for band in bands}
    scaled = any((band.get("scale") or 1) != 1 or (band.get("offset") or 0) != 0 for band in bands)
    words = f"{unit.replace('_', ' ')}{' × scale + offset' if scaled else ''}"
    x, y = (
        chart.names("band", labels, labelAngle=0 if len(bands) <= 13 else -90),
        chart.number("mean", words, padding=6),
    )
    x["axis"]["labelExpr"] = f"split({x['axis']['labelExpr']}, '\\n')"
    return {
        "data": {"values": [_statistics(band) for band in bands]},
        "width": {"step": 52 if len(bands) <= 13 else 18},
        "height": 180,
        "encoding": {"x": x, "color": {"value": COLOURS[0]}},
        "layer": [
            _range("min", "max", y, color="#bdbdbd", strokeWidth=1.4),
            _range("low", "high", y, strokeWidth=6, opacity=0.45),
            {"mark": {"type": "point", "filled": True, "opacity": 1}, "encoding": {"y": y}},
        ],
    }


def _range(low: str, high: str, y: dict, *, color: str = COLOURS[0], **look) -> dict:
    encoding = {"y": {**y, "field": low}, "y2": {"field": high}, "color": {"value": color}}
    return {"mark": {"type": "rule", **look}, "encoding": encoding}


def _statistics(band: dict) -> dict:
    """A band's statistics in physical units."""
    scale, offset = band.get("scale") or 1, band.get("offset") or 0
    row = {name: band[name] * scale + offset for name in ("min", "max", "mean")}
    std = abs(band["std"] * scale)
    return {**row, "band": band["name"], "low": row["mean"] - std, "high": row["mean"] + std}


def _band_name(band: dict) -> str:
    wavelength = band.get("wavelength_nm")
    return shorten(band["name"], 12) + (f"\n{wavelength:g} nm" if wavelength else "")
