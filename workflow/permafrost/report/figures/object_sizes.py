"""Number of objects per image and size of objects, per split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.report.figures import chart

_BINS = 24
# square roots of COCO's area limits 32² and 96² between small, medium and large
COCO_SIDES = (32, 96)


@dataclass(frozen=True)
class Objects:
    """Objects of a split: (I,) number per whole image, and (N,) sizes of all objects in pixels."""

    per_image: np.ndarray
    sizes: np.ndarray


def draw_objects(splits: dict[str, Objects], *, dataset: str, sized: bool = True) -> dict:
    """Two histograms with a line per split: shares, so that splits of any size are comparable.

    Parameters
    ----------
    sized : whether objects have a size; points do not.
    """
    labels = {name: _words(name, objects) for name, objects in splits.items()}
    counts = {name: objects.per_image for name, objects in splits.items()}
    views = [_histogram(counts, labels, "objects in an image", "images")]
    note = ""
    if sized:
        sizes = {name: objects.sizes for name, objects in splits.items()}
        what = "size of an object (pixels)"
        views.append(_histogram(sizes, labels, what, "objects", sides=COCO_SIDES))
        note = "size: square root of the area. dashed: bounds of COCO's small, medium and large objects"
    return chart.figure(chart.panels(views, 2), title=f"{dataset}: objects", note=note)


def _words(name: str, truth: Objects) -> str:
    objects, images = f"{truth.per_image.sum():,}", f"{len(truth.per_image):,}"
    return f"{name} ({objects} in {images} images)".replace(",", "\u202f")


def _histogram(
    values: dict[str, np.ndarray], labels: dict[str, str], what: str, of: str, *, sides=()
) -> dict:
    """Shares in bins, a step line per split; sizes are on a log scale, with marks at `sides`."""
    known = np.concatenate([np.empty(0), *values.values()])
    known = known[np.isfinite(known) & (known > 0 if sides else True)]
    edges = _edges(known, bool(sides))
    rows = []
    for name, numbers in values.items():
        # sizes beyond the edges are invalid and counted in no bin
        share = np.histogram(numbers, edges)[0] / max(len(numbers), 1)
        ends = zip(edges.tolist(), [*share.tolist(), share[-1]], strict=True)
        rows += [{"x": edge, "y": y, "series": name} for edge, y in ends]
    low, high = float(edges[0]), float(edges[-1])
    axis = {"values": chart.log_ticks(low, high), "labelExpr": chart.SHORT_NUMBER} if sides else {}
    scale = {"type": "log"} if sides else {}
    return chart.lines(
        rows,
        chart.number("x", what, domain=[low, high], axis=axis, **scale),
        chart.number("y", f"share of the {of}", zero=True, axis={"format": "~%"}),
        chart.series(labels),
        marked="false",
        interpolate="step-after",
        layers=[chart.reference(x=side) for side in sides if low < side < high],
        width=chart.WIDTH / 2 - 40,
    )


def _edges(known: np.ndarray, log: bool) -> np.ndarray:
    if log:
        low, high = (known.min(), known.max()) if known.size else (1.0, 2.0)
        return np.geomspace(low / 1.05, high * 1.05, _BINS + 1)
    highest = int(known.max()) if known.size else 0
    # integer edges, so that every bin has the same number of integers
    step = max(1, -(-(highest + 1) // _BINS))
    return np.arange(0, highest + 1 + step, step) - 0.5
