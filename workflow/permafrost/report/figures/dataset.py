"""What a dataset is made of: classes per split, and the statistics of its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from permafrost.core.specification import SPLITS
from permafrost.core.tasks import task_of
from permafrost.report.figures.style import (
    COLOURS,
    INK,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)

if TYPE_CHECKING:
    from permafrost.data.card import Card


def draw_balance(card: Card):
    """Share of each class in each split (a dot per split); a class missing from a split is marked.

    Shares are of the split's samples, so in a multi-label dataset they add up to more than one;
    of masks they are of the split's pixels that have a class, and of objects of the split's objects.
    """
    classes, counted = card.classes, counted_of(card)
    splits = [split for split in SPLITS if split in card.splits]
    font = 8.5 if len(classes) <= 25 else 7
    step = 0.24 if len(classes) <= 25 else 0.17
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH * 0.85, 1.15 + step * len(classes)))
        axes = figure.add_subplot()
        largest = 0.0
        for number, split in enumerate(splits):
            entry = card.splits[split]
            total = entry["count"] if counted == "samples" else sum(entry["class_counts"])
            shares = [count / max(total, 1) for count in entry["class_counts"]]
            largest = max([largest, *shares])
            offset = (number - (len(splits) - 1) / 2) * 0.2
            axes.plot(
                shares,
                [y + offset for y in range(len(classes))],
                lw=0,
                ms=4.6,
                color=COLOURS[number],
                marker=MARKERS[number],
                label=f"{split} ({total if counted == 'objects' else entry['count']:,})".replace(
                    ",", "\u202f"
                ),
            )
            for y, count in enumerate(entry["class_counts"]):
                if count == 0:
                    axes.annotate(
                        f"none in {split}",
                        (0, y + offset),
                        xytext=(7, 0),
                        va="center",
                        textcoords="offset points",
                        color=COLOURS[number],
                        fontsize=6.5,
                    )
        axes.set_ylim(len(classes) - 0.4, -0.6)
        axes.set_xlim(0, 1.06 * (largest or 1))
        axes.set_yticks(
            range(len(classes)), [plain(shorten(name, 30)) for name in classes], fontsize=font
        )
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="both", lw=0.5)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        axes.set_xlabel(f"share of the split's {counted}")
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.01, 1.0),
            ncols=3,
            borderaxespad=0.2,
            handletextpad=0.2,
        )
        put_title(figure, f"{card.dataset}: classes")
    return figure


def counted_of(card: Card) -> str:
    """What the numbers per class of a card are numbers of."""
    if task_of(card.task).objects:
        return "objects"
    if card.target is not None:
        return "numbers"
    return "pixels" if task_of(card.task).masks else "samples"


def draw_bands(card: Card):
    """Mean, standard deviation and range of every band in the train split, in physical units.

    Bands of different units get panels of their own; bands with a wavelength are ordered by it.
    """
    groups: dict[str, list[dict]] = {}
    for band in card.bands:
        groups.setdefault(band["unit"], []).append(band)
    tallest = max(len(bands) for bands in groups.values())
    with drawing() as Figure:
        figure = Figure(
            figsize=(min(PAGE_WIDTH, 2.2 + 0.5 * max(4, tallest)), 0.3 + 2.5 * len(groups))
        )
        panels = figure.subplots(len(groups), 1, squeeze=False)[:, 0]
        for axes, (unit, bands) in zip(panels, groups.items(), strict=True):
            _bands(axes, unit, bands)
        put_title(figure, f"{card.dataset}: bands of the train split")
        put_note(figure, "dot: mean, bar: ± 1 standard deviation, line: range")
    return figure


def _bands(axes, unit: str, bands: list[dict]) -> None:
    bands = sorted(bands, key=lambda band: band.get("wavelength_nm") or float("inf"))
    for x, band in enumerate(bands):
        scale, offset = band.get("scale") or 1, band.get("offset") or 0
        low, high = band["min"] * scale + offset, band["max"] * scale + offset
        mean, std = band["mean"] * scale + offset, abs(band["std"] * scale)
        axes.plot([x, x], [low, high], color="#bdbdbd", lw=1.2)
        axes.plot(
            [x, x],
            [mean - std, mean + std],
            color=COLOURS[0],
            lw=5,
            alpha=0.45,
            solid_capstyle="butt",
        )
        axes.plot([x], [mean], "o", ms=4.6, color=COLOURS[0])
    axes.set_xticks(
        range(len(bands)),
        [_band_name(band) for band in bands],
        fontsize=7.5 if len(bands) <= 13 else 6,
        rotation=0 if len(bands) <= 13 else 90,
    )
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.7, max(len(bands), 4) - 0.3)
    axes.grid(axis="y")
    scaled = any((band.get("scale") or 1) != 1 or (band.get("offset") or 0) != 0 for band in bands)
    axes.set_ylabel(f"{unit.replace('_', ' ')}{' × scale + offset' if scaled else ''}", color=INK)


def _band_name(band: dict) -> str:
    wavelength = band.get("wavelength_nm")
    second = f"\n{wavelength:g} nm" if wavelength else ""
    return plain(shorten(band["name"], 12)) + second
