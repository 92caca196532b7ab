"""What a page shows of crowns: curves and suspected labels if there are scores, confused labels, the worst images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from permafrost.core.extras import need
from permafrost.core.text import printable_name
from permafrost.evaluators.crowns.contained import ContainedPoints
from permafrost.evaluators.crowns.overlay import LONGEST, draw_overlay, image_file, read_small
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.evaluators.intervals.crowns import CrownScores, OverlapPrecision
from permafrost.evaluators.output.detection_page import score_sections, suspects
from permafrost.evaluators.output.outcomes import Outcomes
from permafrost.evaluators.output.page import Figure, Section
from permafrost.evaluators.output.page_sections import (
    confusion_section,
    image_section,
    worst_order,
)
from permafrost.metrics.detection.evaluation import Evaluation

_PICTURES = 6


def crown_sections(
    scores: list[CrownScores], *, files: tuple[str, str], images: Path | None
) -> list[Section]:
    """All sections.

    Parameters
    ----------
    scores : of the evaluated file, and of the other one if there is one; files : their names.
    images : folder of the images, to draw those with the most errors; None draws none.
    """
    found = [one.precision for one in scores]
    evaluation, sections, suspected = scores[0].evaluation, [], []
    if isinstance(first := found[0], OverlapPrecision):
        other = found[-1] if len(found) > 1 else None
        names = sorted(evaluation.images)
        outcomes = Outcomes(_in_rows(first.evaluation, evaluation), names, "row")
        compared = other.evaluation if isinstance(other, OverlapPrecision) else None
        sections = score_sections(outcomes, files=files, other=compared)
        suspected = [suspects(outcomes)]
    return [*sections, _confusion(evaluation), _worst(evaluation, images), *suspected]


def _in_rows(found: Evaluation, crowns: CrownEvaluation) -> Evaluation:
    """An evaluation of average precision whose ids are the rows of the files."""
    counted = crowns.counted[crowns.image_of(crowns.predictions)]
    return replace(
        found,
        truths=replace(found.truths, ids=crowns.truth.row),
        detections=replace(found.detections, ids=crowns.predictions.row[counted]),
    )


def contained_sections(found: ContainedPoints) -> list[Section]:
    """The images with the most points outside of all shapes."""
    image, count = found.image_of(found.truth), len(found.images)
    points = np.bincount(image, minlength=count)
    outside = np.bincount(image[found.holders == 0], minlength=count)
    columns = {"points": points, "outside of all shapes": outside}
    return [image_section(found.images, columns, outside)]


def _confusion(found: CrownEvaluation) -> Section:
    """Labels of matched crowns; the last row holds false alarms, the last column misses."""
    place = {name: number for number, name in enumerate(found.classes)}
    size, nothing = len(place) + 1, len(place)
    counts = np.zeros((size, size), np.int64)
    true, made = (
        np.array([place[name] for name in crowns.label.tolist()], np.int64)
        for crowns in (found.truth, found.predictions)
    )
    predicted = np.full(len(true), nothing)
    predicted[found.match] = made[found.partner[found.match]]
    np.add.at(counts, (true, predicted), 1)
    np.add.at(counts, (np.full(int((~found.hit).sum()), nothing), made[~found.hit]), 1)
    return confusion_section(
        counts,
        [*found.classes, "(nothing)"],
        unit="samples",
        sides=("true class", "predicted class"),
        words="Predictions are matched whatever their class, as for recall and precision.",
    )


def _worst(found: CrownEvaluation, images: Path | None) -> Section:
    truths, predictions, matches = found.image_counts.values()
    columns = {
        "found": matches,
        "false alarms": predictions - matches,
        "missed": truths - matches,
    }
    errors = truths + predictions - 2 * matches
    figures = []
    if images is not None:
        need("rasterio")
        chosen = worst_order(errors)[:_PICTURES]
        figures = [_drawn(found, place, images) for place in chosen]
    return image_section(found.images, columns, errors, figures=figures)


def _drawn(found: CrownEvaluation, place: int, images: Path) -> Figure:
    name = found.images[place]
    figure = draw_overlay(found, place, *read_small(image_file(images, name), LONGEST))
    words = printable_name(name)
    alt = f"Truth and predictions on {words}"
    return Figure(f"picture{place}", figure, alt=alt, caption=words, pixels=True)
