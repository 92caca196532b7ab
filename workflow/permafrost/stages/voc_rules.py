"""``permafrost evaluate-detections --protocol voc07``, ``voc12`` and ``open_images``: scores by other rules."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.stages import standalone
from permafrost.stages.lists import lines_of, names_of, thresholds

# options of COCO's rules that VOC's do not have
_OF_COCO = (
    *("lvis", "max_dets", "no_categories", "recall_grid", "area_ranges", "boundary_ratio"),
    *("detection_area", "sigmas", "no_analysis", "slices", "cross_slices", "baseline", "partial"),
    *("incomplete", "category_groups", "merge", "counts", "pixel_size"),
)
OPTIONS = {
    "--protocol": (
        "rules: coco, voc07 (11 recalls), voc12 (area under the curve), open_images (CSV, or JSON)",
        "coco",
    ),
    "--inclusive": ("VOC: upright boxes hold their edges' pixels (sides of max - min + 1)", bool),
    "--image-labels": ("Open Images: CSV of the classes that people verified on each image", Path),
    "--hierarchy": ("Open Images: JSON of the classes; boxes count for those above, too", Path),
    "--class-names": ("Open Images: CSV of LabelName, name", Path),
    "--expand-detections": ("Open Images: detections count for classes above, too", bool),
    "--group-weight": ("Open Images: weight of a box around a group (1)", 1.0),
}
INPUTS = ["image_labels", "hierarchy", "class_names"]
_OF_VOC = ("inclusive",)
_OF_OPEN_IMAGES = (*INPUTS, "expand_detections", "group_weight")
_WORDS = {
    "coco": "COCO's rules",
    "voc07": "VOC's rules of 2007: precision at 11 recalls",
    "voc12": "VOC's rules from 2010 on: area under the curve",
    "open_images": "Open Images' rules: area under the curve",
}


def check(arguments) -> None:
    """Refuse options of other rules than those of ``--protocol``."""
    look_up(_WORDS, arguments.protocol, "there is no protocol named", where="--protocol")
    needs = (
        (_OF_COCO, ("coco",)),
        (_OF_VOC, ("voc07", "voc12")),
        (_OF_OPEN_IMAGES, ("open_images",)),
    )
    for names, protocols in needs:
        used, words = arguments.protocol in protocols, " or ".join(protocols)
        standalone.check_used(arguments, *((n, used, f"with --protocol {words}") for n in names))


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
            "the truth has no object to find: it has no annotation, or all are difficult or weigh nothing",
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
    notes += [f"Note: {text}." for text in evaluation.remarks()]
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
        page=lambda: _parts(arguments, scores, lines[0]),
        options=_options(arguments),
        images=len(ids),
        truths=len(evaluation.truths),
        **evaluation.marked,
        detections=len(evaluation.detections),
        dropped={**evaluation.truths.notes.dropped, **evaluation.detections.notes.dropped},
        iou_thresholds=evaluation.thresholds.tolist(),
        **more,
        n_units=units.count,
        unit=units.kind,
        notes=notes,
    )


def _parts(arguments, scores, what: str):
    from permafrost.evaluators.output.page import Parts
    from permafrost.evaluators.output.voc_page import voc_sections

    files, primary = (arguments.predictions, arguments.against), [name for name, _ in scores.means]
    sections = voc_sections(scores.evaluation, scores.labels)
    return Parts("Evaluation of detections", f"{what}.", tuple(primary), files, sections)


def _evaluated(arguments, predictions: Path):
    given = {} if arguments.iou_thresholds is None else {"iou_thresholds": arguments.iou_thresholds}
    return _EVALUATED[arguments.protocol](
        arguments,
        arguments.truth,
        predictions,
        mode=arguments.mode,
        invalid=arguments.invalid,
        images=None if arguments.images is None else lines_of(arguments.images),
        categories=names_of(arguments.categories),
        **{name: thresholds(value) for name, value in given.items()},
    )


def _by_voc(arguments, truth, predictions, **options):
    from permafrost.metrics.detection.voc import evaluate_voc

    return evaluate_voc(
        truth,
        predictions,
        iou_type=arguments.iou_type,
        protocol=arguments.protocol,
        inclusive=arguments.inclusive,
        box_convention=arguments.box_convention,
        **options,
    )


def _by_open_images(arguments, truth, predictions, **options):
    from permafrost.metrics.detection.open_images import evaluate_open_images

    if arguments.iou_type != "bbox":
        raise PermafrostError(
            f"Open Images' rules know no {arguments.iou_type}",
            where="--iou-type",
            remedy="evaluate boxes (bbox)",
        )
    own = {name: getattr(arguments, name) for name in _OF_OPEN_IMAGES}
    return evaluate_open_images(truth, predictions, **own, **options)


_EVALUATED = {"voc07": _by_voc, "voc12": _by_voc, "open_images": _by_open_images}


def _heading(arguments, evaluation, units) -> list[str]:
    from permafrost.evaluators.detection import QUIRKS
    from permafrost.evaluators.output.score_text import interval_method_words

    marked = ", ".join(f"{count} of them {what}" for what, count in evaluation.marked.items())
    edges = ", edges of pixels included" if evaluation.inclusive else ""
    method = interval_method_words(
        units.count, units.kind, arguments.resamples, method=arguments.interval
    )
    return [
        f"{len(evaluation.truths)} truths ({marked}) and {len(evaluation.detections)}"
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

    options = standalone.options_of(arguments, "truth", "predictions", "against", "groups", *INPUTS)
    options = {name: value for name, value in options.items() if name not in _OF_COCO}
    options["images"] = [] if arguments.images is None else [input_digest(arguments.images)]
    return options
