"""What a page shows of detections: curves, the best score, kinds of errors, confusion, images, suspected labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from permafrost.core.text import printable_name
from permafrost.evaluators.intervals.counts import counted_at
from permafrost.evaluators.intervals.detection import class_names
from permafrost.evaluators.output.outcomes import LONELY, Outcomes, lonely
from permafrost.evaluators.output.page import Figure, Section
from permafrost.evaluators.output.page_sections import (
    confusion_section,
    image_section,
    slice_section,
    worst_order,
)
from permafrost.metrics.detection.analysis import Analysis, confusion_matrix
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.ratios import divide, mean_of_defined
from permafrost.report.figures import chart
from permafrost.report.figures.detection_curves import draw_calibration, draw_precision_recall
from permafrost.report.figures.detections import Answer, Example, draw_pictures
from permafrost.report.figures.errors import WORDS, draw_errors
from permafrost.report.notation import number, signed
from permafrost.report.tables.blocks import Block

_CURVES = 5  # classes with a curve of their own
_POINTS = 200  # of a curve over scores
_PICTURES, _SUSPECTS = 6, 20
_MOST_CLASSES = 500  # in a confusion matrix


def detection_sections(
    outcomes: Outcomes,
    *,
    files: tuple[str, str],
    other: Evaluation | None = None,
    analysis: Analysis | None = None,
    picture: Callable[[int], Example] | None = None,
    slices: Sequence[Mapping] = (),
) -> list[Section]:
    """All sections.

    Parameters
    ----------
    files : names of the evaluated file and of the `other` one.
    analysis : kinds of errors and calibration, if they were computed.
    picture : function from the position of an image to its picture; None: nothing is drawn.
    slices : rows of scores of parts of the images, with ``axis``, ``label`` and ``images``.
    """
    evaluation = outcomes.evaluation
    sections = score_sections(outcomes, files=files, other=other)
    if analysis is not None:
        sections.append(_errors(analysis))
    if evaluation.settings.use_categories and analysis is not None:
        sections += _confusion(outcomes)
    sections += [slice_section(slices, evaluation.names)]
    return [*sections, _worst(outcomes, picture), suspects(outcomes)]


def score_sections(
    outcomes: Outcomes, *, files: tuple[str, str], other: Evaluation | None = None
) -> list[Section]:
    """Curves, and the best score; parameters as of `detection_sections`."""
    return [_curves(outcomes, other, files), _best(outcomes)]


def _curves(outcomes: Outcomes, other: Evaluation | None, files: tuple[str, str]) -> Section:
    evaluation = outcomes.evaluation
    note = f"a detection is right at an IoU of {outcomes.iou:g} or more; best precision from each recall on"
    own, grid = _precision(evaluation), evaluation.axes.recall_grid.tolist()
    # (R, K): the mean over classes, then the classes with the most truths
    curves = {"mean of the classes" if own.shape[1] > 1 else "all": own}
    if own.shape[1] > 1:
        count = np.bincount(evaluation.truths.category, minlength=own.shape[1])
        names = class_names(evaluation)
        for place in np.argsort(-count, kind="stable")[:_CURVES].tolist():
            curves[printable_name(names[place])] = own[:, place : place + 1]
    figures = [_curve_figure("curves", curves, grid, "Precision and recall", note)]
    if other is not None:
        pair = dict(zip(files, (own, _precision(other)), strict=True))
        figures.append(_curve_figure("curves_compared", pair, grid, "Both files", note))
    few = (
        f" Shown are the {_CURVES} classes with the most truths." if own.shape[1] > _CURVES else ""
    )
    words = (
        f"When the score that a detection needs is lowered, recall rises and precision falls.{few}"
    )
    return Section("curves", "Precision and recall", words, (), figures)


def _precision(evaluation: Evaluation) -> np.ndarray:
    """(R, K) precision of every class; NaN without truths."""
    area, at = counted_at(evaluation)
    values = evaluation.curves.precision[at, :, :, area, -1]
    return np.where(values == -1, np.nan, values)


def _curve_figure(stem: str, curves: dict, grid: list, title: str, note: str) -> Figure:
    drawn = {
        name: {"recall": grid, "precision": mean_of_defined(values.T).tolist()}
        for name, values in curves.items()
    }
    return Figure(
        stem,
        draw_precision_recall(drawn, title=title, note=note, order=""),
        alt=f"Precision against recall: {', '.join(curves)}",
        caption="Precision against recall. The area below a curve is its average precision.",
    )


def _best(outcomes: Outcomes) -> Section:
    """Precision, recall and F1 over the score that a detection needs, and the score with the best F1."""
    keep = outcomes.counts
    order = np.argsort(-outcomes.scores[keep], kind="stable")
    scores, hits = outcomes.scores[keep][order], np.cumsum(outcomes.hit[keep][order])
    if not len(scores):
        return Section("best", "Best score")
    last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    truths = int(np.count_nonzero(outcomes.regular))
    kept, right = last + 1, hits[last]
    lines = {
        "precision": right / kept,
        "recall": divide(right, np.full(len(right), truths)),
        "F1": 2 * right / (kept + truths),
    }
    at = int(np.flatnonzero(scores[last] == outcomes.best)[0])
    shown = [f"{outcomes.best:.4g}", *(number(values[at]) for values in lines.values())]
    shown += [str(right[at]), str(kept[at] - right[at]), str(truths - right[at])]
    heads = ["least score", *lines, "right", "false alarms", "missed"]
    foot = "It is best on this very truth, so it looks better than on other images."
    block = Block("The score with the best F1", [heads, shown], frozenset(heads[1:]), foot)
    some = np.unique(np.linspace(0, len(last) - 1, _POINTS).round().astype(int))
    rows = [
        {"x": float(scores[last[place]]), "y": float(values[place]), "series": name}
        for name, values in lines.items()
        for place in some.tolist()
    ]
    view = chart.lines(
        rows,
        chart.number("x", "least score of a detection"),
        chart.number("y", "", domain=[0, 1]),
        chart.series(chart.shortened(lines)),
        width=300,
        height=300,
        marked="false",
        bars=False,
        layers=[chart.reference(x=outcomes.best)],
    )
    figure = Figure(
        "best",
        chart.figure(view, title="Precision, recall and F1", width=0.6 * chart.WIDTH),
        alt="Precision, recall and F1 against the least score of a detection",
        caption="If only detections with at least this score count. The dashed line is the best F1.",
    )
    words = f"A detection is right at an IoU of {outcomes.iou:g}; all classes and images together."
    return Section("best", "Best score", words, [block], [figure])


def _errors(analysis: Analysis) -> Section:
    blocks, figures = [], []
    if (tide := analysis.tide) is not None:
        heads = ["kind of error", "number", "AP gained without it"]
        lines = [
            [WORDS[kind], str(int(tide.counts[kind])), signed(gain)]
            for kind, gain in tide.gain.items()
        ]
        foot = f"AP at an IoU of 0.5 is {number(tide.precision)}. Gains of different kinds do not add up (TIDE)."
        blocks.append(Block("Kinds of errors", [heads, *lines], frozenset(heads[1:]), foot))
        both = {"gain": dict(tide.gain), "counts": dict(tide.counts)}
        figures.append(
            Figure(
                "errors",
                draw_errors({"": both}, title="Kinds of errors"),
                alt="AP that each kind of error costs",
                caption="How much higher AP would be if errors of one kind, and of no other, did not occur.",
            )
        )
    if (found := analysis.calibration) is not None:
        names = ("counts", "mean_score", "accuracy", "low", "high")
        bins = {name: getattr(found, name).tolist() for name in names}
        figures.append(
            Figure(
                "calibration",
                draw_calibration(bins, title="Calibration"),
                alt="Share of right detections against their score",
                caption=f"Expected calibration error {number(found.expected)}: on the line, scores are the share of"
                " right detections.",
            )
        )
    return Section("errors", "Kinds of errors", "", blocks, figures)


def _confusion(outcomes: Outcomes) -> list[Section]:
    evaluation = outcomes.evaluation
    names = class_names(evaluation)
    if len(names) > _MOST_CLASSES:
        return []
    counts = confusion_matrix(evaluation, threshold=outcomes.iou)
    words = (
        "Every detection counts, whatever its score. Detections are matched to truths of any class,"
        " best score first."
    )
    return [
        confusion_section(
            counts,
            [*names, "(nothing)"],
            unit="samples",
            sides=("true class", "predicted class"),
            words=words,
        )
    ]


def _worst(outcomes: Outcomes, picture: Callable[[int], Example] | None) -> Section:
    """The images with the most errors of detections that reach the best score."""
    heads = {"hits": "right", "alarms": "false alarms", "missed": "missed"}
    columns = {words: outcomes.per_image(kind) for kind, words in heads.items()}
    errors = columns["false alarms"] + columns["missed"]
    chosen = worst_order(errors)[:_PICTURES]
    figures = [] if picture is None or not chosen else [_drawn(outcomes, chosen, picture)]
    words = f"Here {outcomes.rule}."
    return image_section(outcomes.names, columns, errors, words=words, figures=figures)


def _drawn(outcomes: Outcomes, chosen: list[int], picture: Callable[[int], Example]) -> Figure:
    nothing = np.empty((0, 4))
    kinds = ("found", "missed", "uncounted", "hits", "alarms", "excused")
    pairs = [
        (
            picture(image),
            Answer(confused=nothing, **{kind: outcomes.corners(kind, image) for kind in kinds}),
        )
        for image in chosen
    ]
    figure = draw_pictures(
        [("", pairs)], "box", title="Worst images", note="boxes of truth and detections"
    )
    return Figure(
        "pictures",
        figure,
        alt="Truth and detections on the images with the most errors",
        caption="Truth (left) and detections that reach the score with the best F1 (right).",
        wide=True,
        pixels=True,
    )


def suspects(outcomes: Outcomes) -> Section:
    """Confident false alarms and misses that no box of the other side touches."""
    evaluation = outcomes.evaluation
    alarms = lonely(outcomes, "alarms", evaluation.truths)
    alarms = alarms[np.argsort(-evaluation.detections.scores[alarms], kind="stable")]
    missed = lonely(outcomes, "missed", evaluation.detections)
    missed = missed[np.argsort(-evaluation.truths.areas[missed], kind="stable")]
    blocks = [
        _suspect_block(
            outcomes,
            "Maybe missing in the truth",
            evaluation.detections,
            alarms,
            evaluation.detections.scores,
            "score",
        ),
        _suspect_block(
            outcomes,
            "Maybe wrong in the truth",
            evaluation.truths,
            missed,
            evaluation.truths.areas,
            "area",
        ),
    ]
    words = (
        f"Look at these before you trust the scores; many are errors of the detector. Here {outcomes.rule}."
        " A false alarm is listed if no box of a truth of its image overlaps it with an IoU of"
        f" {LONELY:g} or more. A missed truth is listed if no detection does, whatever its score. Classes do"
        " not matter."
    )
    return Section("labels", "Suspected labels", words, blocks)


def _suspect_block(
    outcomes: Outcomes, head: str, table, rows: np.ndarray, values, name: str
) -> Block:
    names = class_names(outcomes.evaluation)
    lines = [
        [
            printable_name(table.ids[row]),
            printable_name(outcomes.names[table.image[row]]),
            printable_name(names[table.category[row]]),
            f"{values[row]:.4g}",
            ", ".join(f"{side:.5g}" for side in table.boxes[row]),
        ]
        for row in rows[:_SUSPECTS].tolist()
    ]
    heads = [outcomes.key, "image", "class", name, "box (x, y, width, height)"]
    foot = (
        f"{len(rows)} in all" + (f", the {_SUSPECTS} first" if len(rows) > _SUSPECTS else "") + "."
    )
    return Block(head, [heads, *lines], frozenset([name]), foot)
