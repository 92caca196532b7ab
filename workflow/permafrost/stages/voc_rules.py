"""``permafrost evaluate-detections --protocol voc07`` and ``voc12``: scores by VOC's rules."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.stages import standalone
from permafrost.stages.lists import lines_of, names_of, thresholds

# options of COCO's rules that VOC's do not have
_OF_COCO = (
    *("lvis", "max_dets", "no_categories", "recall_grid", "area_ranges", "boundary_ratio"),
    *("detection_area", "sigmas", "no_analysis", "slices", "cross_slices", "baseline", "partial"),
    *("incomplete", "category_groups", "merge", "counts", "pixel_size"),
)
_WORDS = {
    "voc07": "VOC's rules of 2007: precision at 11 recalls",
    "voc12": "VOC's rules from 2010 on: area under the curve",
}


def check(arguments) -> None:
    """Refuse options of COCO's rules, and a comparison by bootstrap without resamples."""
    unused = [(name, False, "with --protocol coco") for name in _OF_COCO]
    standalone.check_used(arguments, *unused)


def leave(arguments) -> None:
    """Evaluate, write all files, then print the scores."""
    from permafrost.evaluators.intervals.detection import detection_rows
    from permafrost.evaluators.intervals.standalone import difference_rows
    from permafrost.evaluators.intervals.voc import VocScores, check_same
    from permafrost.evaluators.output.score_files import comparison_table
    from permafrost.evaluators.output.score_text import difference_lines, gate_remarks, row_lines
    from permafrost.statistics.resampling.units import find_units

    evaluation = _evaluated(arguments, arguments.predictions)
    if not evaluation.positives.sum():
        raise PermafrostError(
            "the truth has no object to find: it has no annotation, or all are difficult",
            where=evaluation.truths.source,
            remedy="check that this is the right file, and which images are evaluated",
        )
    said = [*evaluation.truths.notes.warnings, *evaluation.detections.notes.warnings]
    notes = [f"Note: {text}." for text in said]
    ids = evaluation.truths.images.ids
    groups = standalone.groups_of(arguments, ids, notes)
    units = find_units(len(ids), sample_ids=ids.tolist(), groups=groups)
    drawn = {name: getattr(arguments, name) for name in ("resamples", "confidence", "seed")}
    drawn["method"] = arguments.interval
    scores = VocScores(evaluation)
    rows = detection_rows(scores, units, **drawn)
    shown = [row for row in rows if row["value"] is not None]
    lines = [*_heading(arguments, evaluation, units), *row_lines(shown, digits=3)]
    notes += gate_remarks(rows)
    if bare := evaluation.without_truth:
        notes.append(
            f"Note: {bare} of {len(evaluation.detections)} detections count in no figure, as their classes have"
            " no truth to be found."
        )
    more, tables = {}, {}
    if arguments.against is not None:
        other = _evaluated(arguments, arguments.against)
        check_same(evaluation, other)
        notes += [f"Note: {text}." for text in other.detections.notes.warnings]
        differences = difference_rows(scores, VocScores(other), units, **drawn)
        lines += difference_lines(differences, arguments.against, digits=3, most=len(differences))
        more["comparison"] = differences
        tables["comparison"] = comparison_table(differences)
    tables["curves"] = _curves(evaluation, scores.labels)
    standalone.deliver(
        arguments,
        lines + ["", *notes] if notes else lines,
        rows=rows,
        tables=tables,
        options=_options(arguments),
        images=len(ids),
        truths=len(evaluation.truths),
        difficult=int(evaluation.difficult.sum()),
        detections=len(evaluation.detections),
        dropped={**evaluation.truths.notes.dropped, **evaluation.detections.notes.dropped},
        iou_thresholds=evaluation.thresholds.tolist(),
        **more,
        n_units=units.count,
        unit=units.kind,
        notes=notes,
    )


def _evaluated(arguments, predictions: Path):
    from permafrost.metrics.detection.voc import evaluate_voc

    given = {} if arguments.iou_thresholds is None else {"iou_thresholds": arguments.iou_thresholds}
    return evaluate_voc(
        arguments.truth,
        predictions,
        iou_type=arguments.iou_type,
        protocol=arguments.protocol,
        inclusive=arguments.inclusive,
        mode=arguments.mode,
        box_convention=arguments.box_convention,
        invalid=arguments.invalid,
        images=None if arguments.images is None else lines_of(arguments.images),
        categories=names_of(arguments.categories),
        **{name: thresholds(value) for name, value in given.items()},
    )


def _heading(arguments, evaluation, units) -> list[str]:
    from permafrost.evaluators.detection import QUIRKS
    from permafrost.evaluators.output.score_text import interval_method_words

    difficult = int(evaluation.difficult.sum())
    edges = ", edges of pixels included" if evaluation.inclusive else ""
    method = interval_method_words(
        units.count, units.kind, arguments.resamples, method=arguments.interval
    )
    return [
        f"{len(evaluation.truths)} truths ({difficult} of them difficult) and {len(evaluation.detections)}"
        f" detections on {len(evaluation.truths.images)} images: {evaluation.settings.iou_type}{edges} by"
        f" {_WORDS[evaluation.protocol]}",
        f"{evaluation.settings.mode} mode, see {QUIRKS}",
        f"{100 * arguments.confidence:g} % intervals: {method}",
        "",
    ]


def _curves(evaluation, labels: list[str]):
    """A table of recall and precision after every detection of every class."""
    import numpy as np

    from permafrost.evaluators.detection.export import arrow_table

    parts = []
    for place, threshold in enumerate(evaluation.thresholds.tolist()):
        for category, label in enumerate(labels):
            recall, precision = evaluation.curve(category, place)
            own = evaluation.rows[evaluation.bucket == category]
            parts.append((label, threshold, evaluation.detections.scores[own], recall, precision))
    lengths = [len(part[2]) for part in parts]
    columns = zip(*parts, strict=True)
    names = ("category", "iou", "score", "recall", "precision")
    found = dict(zip(names, columns, strict=True))
    flat = {name: np.concatenate(found[name]) for name in names[2:]}
    repeated = {name: np.repeat(np.array(found[name]), lengths) for name in names[:2]}
    return arrow_table({**repeated, **flat})


def _options(arguments) -> dict:
    from permafrost.core.inputs import input_digest

    options = standalone.options_of(arguments, "truth", "predictions", "against", "groups")
    options = {name: value for name, value in options.items() if name not in _OF_COCO}
    options["images"] = [] if arguments.images is None else [input_digest(arguments.images)]
    return options
