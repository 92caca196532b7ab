"""All measures of one set of features, or of augmented views; they share distances and decompositions."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.metrics.representation.directions import Uniformity, alignment, view_alignment
from permafrost.metrics.representation.intrinsic_dimension import KEPT, mle_of, two_nn_of
from permafrost.metrics.representation.lidar import lidar
from permafrost.metrics.representation.measure import Measure, undefined
from permafrost.metrics.representation.neighbours import NeighbourSearch
from permafrost.metrics.representation.pairs import visit_pairs
from permafrost.metrics.representation.points import (
    as_points,
    check_features,
    check_labels,
    check_units,
    draw_rows,
)
from permafrost.metrics.representation.silhouette import Silhouette
from permafrost.metrics.representation.spectrum import (
    alpha_req_of,
    gram_of,
    lpca_of,
    nesum_of,
    participation_ratio_of,
    rankme_of,
    spectral,
    stable_rank_of,
)

UNCENTRED = {"rankme": rankme_of, "stable_rank": stable_rank_of}
CENTRED = {
    "alpha_req": alpha_req_of,
    "nesum": nesum_of,
    "participation_ratio": participation_ratio_of,
    "dimension_lpca": lpca_of,
}
NEIGHBOURHOOD = {"dimension_two_nn": two_nn_of, "dimension_mle": mle_of}
SILHOUETTES = {"silhouette": False, "silhouette_normalised": True}
LABEL_FREE = ("uniformity", *UNCENTRED, *CENTRED, *NEIGHBOURHOOD)
LABELLED = ("alignment", *SILHOUETTES)
MEASURES = (*LABEL_FREE, *LABELLED)


def measures(
    features, labels=None, *, seed: int, max_rows: int = 10_000, units=None, names=None
) -> dict[str, Measure]:
    """Measure features and, with labels, the separation of classes.

    Parameters
    ----------
    features : (N, d) numbers without NaN.
    labels : (N,) class ids, or (N, L) multi-label, for which the measures of `LABELLED` are
        undefined. Without labels those measures are omitted.
    seed : draws the rows if there are more than `max_rows`; with the same N, all backbones get the
        same rows.
    units : (N,) independent unit of each row, numbered from 0; terms are by unit.
    names : the measures to compute; all by default.

    Returns
    -------
    Name to measure, in the order of `MEASURES`. O(rows d + min(rows, d)^2) memory.

    Raises
    ------
    PermafrostError : NaN or infinite features (names the row), wrong shapes, unknown names, a
        measure of labels without labels.
    """
    features = check_features(features)
    wanted = _wanted(names, labels is not None)
    units = check_units(units, len(features))
    n_units = int(units.max()) + 1
    drawn = draw_rows(len(features), max_rows, seed)
    single = None
    if labels is not None:
        labels = check_labels(labels, len(features))[drawn]
        if labels.ndim == 1:
            # silhouettes sum over slices of classes; no other measure depends on the order
            single = np.argsort(labels, kind="stable")
            labels, drawn = labels[single], drawn[single]
    points = as_points(features[drawn], units[drawn])
    found = _of_pairs(points, labels if single is not None else None, wanted)
    found |= _of_spectra(points, wanted)
    if "alignment" in wanted:
        found["alignment"] = alignment(points, labels)
    results = {}
    for name in (name for name in MEASURES if name in wanted):
        measure = found.get(name)
        if measure is None:
            measure = undefined("labels are not single classes", points.notes())
        if points.collapsed and measure.terms is not None:
            measure.notes.setdefault("flag", "all rows are equal")
        results[name] = _of_all(measure, len(features), len(points), n_units)
    return results


def _wanted(names, labelled: bool) -> set[str]:
    if names is None:
        return set(MEASURES if labelled else LABEL_FREE)
    for name in names:
        look_up(MEASURES, name, "there is no measure named")
        if name in LABELLED and not labelled:
            raise PermafrostError(
                f"the measure {name!r} needs labels", remedy="give labels, or leave it out"
            )
    return set(names)


def _of_pairs(points, labels, wanted: set[str]) -> dict[str, Measure]:
    visitors: dict[str, Uniformity | Silhouette] = {}
    if "uniformity" in wanted:
        visitors["uniformity"] = Uniformity(points)
    if labels is not None:
        for name in (name for name in SILHOUETTES if name in wanted):
            visitors[name] = Silhouette(points, labels, normalise=SILHOUETTES[name])
    search = NeighbourSearch(points, KEPT) if wanted & set(NEIGHBOURHOOD) else None
    visit_pairs(points, [*visitors.values(), *([search] if search else [])])
    found = {name: visitor.measure() for name, visitor in visitors.items()}
    if search:
        neighbours = search.neighbours()
        for name in (name for name in NEIGHBOURHOOD if name in wanted):
            found[name] = NEIGHBOURHOOD[name](neighbours, points.notes())
    return found


def _of_spectra(points, wanted: set[str]) -> dict[str, Measure]:
    groups: list[tuple]
    groups = [(False, UNCENTRED), (True, CENTRED)]
    groups = [(centred, [n for n in group if n in wanted], group) for centred, group in groups]
    gram = gram_of(points) if any(names for _, names, _ in groups) else None
    found: dict[str, Measure] = {}
    for centred, names, group in groups:
        if names:
            chosen = [group[name] for name in names]
            values = spectral(points, chosen, centred=centred, gram=gram)
            found |= dict(zip(names, values, strict=True))
    return found


def _of_all(measure: Measure, total: int, rows: int, n_units: int) -> Measure:
    """Note the number of rows, and set the effects of units without a drawn row to zero."""
    notes = {**measure.notes, "drawn_from": total} if rows < total else measure.notes
    terms = measure.terms
    if terms is not None and len(terms) < n_units:
        terms = np.concatenate([terms, np.zeros((n_units - len(terms), terms.shape[1]))])
    return Measure(measure.value, notes, terms, measure.scale, measure.margins)


VIEW_MEASURES = ("alignment_augmentations", "lidar")


def measures_of_views(views, *, delta: float, units=None, names=None) -> dict[str, Measure]:
    """Measures of (N, q, d) features of q augmented views of N images, in the order of `VIEW_MEASURES`.

    Parameters
    ----------
    delta : see `lidar`.
    units : (N,) independent unit of each image, numbered from 0; terms are by unit.
    names : the measures to compute; all by default.

    Raises
    ------
    PermafrostError : NaN or infinite features, wrong shapes.
    """
    made = {
        "alignment_augmentations": lambda: view_alignment(views, units=units),
        "lidar": lambda: lidar(views, delta=delta, units=units),
    }
    return {name: made[name]() for name in VIEW_MEASURES if names is None or name in names}
