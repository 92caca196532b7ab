"""How many objects images hold, and how large they are, split by split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
)

_BINS = 24
# sides of squares of COCO's areas 32² and 96², between small, medium and large
COCO_SIDES = (32, 96)


@dataclass(frozen=True)
class Objects:
    """What a split holds: (I,) objects of every whole image, and (N,) sizes of all objects in pixels."""

    per_image: np.ndarray
    sizes: np.ndarray


def draw_objects(splits: dict[str, Objects], *, dataset: str, sized: bool = True):
    """Two histograms, a line per split: shares, so that splits of any size can be compared.

    Parameters
    ----------
    sized : whether objects have a size; points do not.
    """
    with drawing() as Figure:
        figure = Figure(figsize=(1.25 * PAGE_WIDTH, 2.5))
        panels = figure.subplots(1, 2 if sized else 1, squeeze=False)[0]
        counts = {name: objects.per_image for name, objects in splits.items()}
        _histogram(panels[0], counts, "objects in an image", "images")
        if sized:
            sizes = {name: objects.sizes for name, objects in splits.items()}
            _histogram(panels[1], sizes, "size of an object (pixels)", "objects", log=True)
            low, high = panels[1].get_xlim()
            for side in COCO_SIDES:
                if low < side < high:
                    panels[1].axvline(side, color=FAINT, lw=0.9, ls=(0, (3, 2)), zorder=1)
        handles, labels = panels[0].get_legend_handles_labels()
        words = [_words(label, splits[label]) for label in labels]
        panels[-1].legend(
            handles,
            words,
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            borderaxespad=0,
            handlelength=1.4,
        )
        put_title(figure, f"{dataset}: objects")
        if sized:
            put_note(
                figure,
                "size: square root of the area. dashed: bounds of COCO's small, medium and "
                "large objects",
            )
    return figure


def _words(name: str, truth: Objects) -> str:
    objects, images = f"{truth.per_image.sum():,}", f"{len(truth.per_image):,}"
    return plain(f"{name} ({objects} in {images} images)".replace(",", "\u202f"))


def _histogram(axes, values: dict[str, np.ndarray], what: str, of: str, *, log=False) -> None:
    known = np.concatenate([np.empty(0), *values.values()])
    known = known[np.isfinite(known) & (known > 0 if log else True)]
    edges = _edges(known, log)
    for number, (name, numbers) in enumerate(values.items()):
        # what lies outside of the edges has no size, and is in no bin
        share = np.histogram(numbers, edges)[0] / max(len(numbers), 1)
        axes.stairs(share, edges, color=COLOURS[number], lw=1.5, label=name, baseline=None)
    axes.set_xlabel(what)
    axes.set_ylabel(f"share of the {of}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    if log:
        from matplotlib.ticker import LogLocator, NullLocator

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _edges(known: np.ndarray, log: bool) -> np.ndarray:
    if log:
        low, high = (known.min(), known.max()) if known.size else (1.0, 2.0)
        return np.geomspace(low / 1.05, high * 1.05, _BINS + 1)
    highest = int(known.max()) if known.size else 0
    # whole numbers only, so that every bin holds as many of them
    step = max(1, -(-(highest + 1) // _BINS))
    return np.arange(0, highest + 1 + step, step) - 0.5
