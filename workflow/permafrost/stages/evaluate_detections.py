"""``permafrost evaluate-detections``: COCO's or LVIS's scores of files, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import input_digest
from permafrost.stages import detection_counts, detection_outputs, standalone, voc_rules
from permafrost.stages.lists import (
    area_ranges,
    category_groups,
    groups_or_path,
    lines_of,
    names_of,
    thresholds,
    values_of,
)

if TYPE_CHECKING:
    import argparse

    from permafrost.evaluators.intervals.detection import DetectionScores
    from permafrost.metrics.detection.evaluation import Evaluation
    from permafrost.statistics.resampling.units import Units

# options that --merge excludes, because its parts already contain them
_OF_AN_EVALUATION = (
    *("truth", "predictions", "iou_type", "lvis", "mode", "max_dets", "no_categories"),
    *("iou_thresholds", "area_ranges", "boundary_ratio", "detection_area", "sigmas", "invalid"),
    *("box_convention", "protocol", "inclusive"),
    *("recall_grid", "categories", "images", "against", "partial"),
)

_OPTIONS = {
    "--truth": (
        "COCO or LVIS JSON, CSV in DeepForest's columns (boxes), or a folder of DOTA's labels or VOC's XML",
        Path,
    ),
    "--predictions": (
        "JSON list in COCO's results format, CSV as of --truth, or a folder of DOTA's Task1_CLASS.txt",
        Path,
    ),
    "--iou-type": ("bbox (the only one for CSV), segm, boundary, keypoints, oriented",),
    "--box-convention": ("of oriented boxes of five numbers: le90, le135, oc, detectron2, …",),
    **voc_rules.OPTIONS,
    "--lvis": ("LVIS's federated rules", bool),
    "--mode": ("corrected, or strict: pycocotools (lvis) bit for bit", "corrected"),
    "--max-dets": ("detections per image and category: 1,10,100",),
    "--no-categories": ("pool all categories", bool),
    "--iou-thresholds": ("0.5,0.75 or first:last:step (0.5:0.95:0.05)",),
    "--recall-grid": ("recalls at which precision is read: 0:1:0.1 or 0,0.5,1 (0:1:0.01)",),
    "--area-ranges": ("in square pixels: tiny=0:256,rest=256:1e10",),
    "--boundary-ratio": ("boundary band by diagonal (0.02; LVIS 0.008)", 0.02),
    "--detection-area": ("area for area ranges: auto, bbox, mask", "auto"),
    "--sigmas": ("keypoint sigmas: 0.026,0.025,…",),
    "--invalid": ("wrong entries: error, or drop (left out and counted)", "error"),
    "--categories": ("evaluate these only: names or ids, person,car",),
    "--no-analysis": ("skip error types (TIDE), oLRP and calibration", bool),
    "--slices": ("manifest (CSV or JSON): image_id, columns of subsets to score", Path),
    "--cross-slices": ("also by all combinations of these columns", bool),
    "--baseline": ("label of --slices to score the others against (mPC, rPC)",),
    "--images": ("evaluate these images only: an id per line", Path),
    "--image-folder": ("folder of the images, to draw the worst ones in --report", Path),
    "--counts": (
        "errors of counts per image, of detections with at least this score: 0.4, or best (of F1)",
    ),
    "--pixel-size": ("side of a pixel in metres: densities per hectare too", float),
    "--partial": ("file to write for --merge", Path),
    "--incomplete": ("merge although images are missing", bool),
    "--against": ("other predictions: differences, p-values", Path),
    "--interval": (
        "jackknife_t (images left out in turn, Student's t), or bootstrap: basic, percentile",
        "jackknife_t",
    ),
}


def add_arguments(parser) -> None:
    standalone.add_options(parser, _OPTIONS)
    parser.add_argument(
        "--category-groups",
        type=groups_or_path,
        help="means over groups: vehicle=car,truck;animal=cat,dog, or a file (JSON: group to list;"
        " CSV: category, group)",
    )
    parser.add_argument(
        "--merge", type=Path, nargs="+", help="files of --partial, instead of truth and predictions"
    )
    standalone.add_groups(parser)
    standalone.add_arguments(parser, resamples=None, how_many="400, of a bootstrap 1000")


@standalone.bounded
def run(arguments) -> None:
    if arguments.iou_type is None and arguments.truth and arguments.truth.suffix.lower() == ".csv":
        arguments.iou_type = "bbox"
    _check(arguments)
    if arguments.protocol != "coco":
        voc_rules.leave(arguments)
        return
    evaluation = _evaluate(arguments)
    # a part of the images may have no objects, but the whole must have some
    if not arguments.partial:
        _check_anything_to_find(evaluation)
    _leave(arguments, evaluation)


def _check(arguments) -> None:
    """Refuse wrong options and files before the evaluation."""
    from permafrost.evaluators.intervals.detection import INTERVALS, check_interval

    check_interval(arguments.interval)
    if arguments.resamples is None:
        arguments.resamples = INTERVALS[arguments.interval]
    standalone.check_intervals(arguments)
    merged, sliced = arguments.merge is not None, arguments.slices is not None
    for name in _OF_AN_EVALUATION if merged else ():
        if getattr(arguments, name) != arguments.default_of(name):
            raise PermafrostError(
                f"--{name.replace('_', '-')} and --merge exclude each other",
                remedy="parts contain their inputs; leave it out",
            )
    for name in () if merged else ("truth", "predictions", "iou_type"):
        if getattr(arguments, name) is None:
            raise PermafrostError(f"--{name.replace('_', '-')} is missing", remedy="give it")
    kind = arguments.iou_type
    voc_rules.check(arguments)
    standalone.check_used(
        arguments,
        ("incomplete", merged, "with --merge"),
        (
            "image_folder",
            arguments.report and arguments.protocol == "coco" and not merged,
            "with --report, not with --merge or VOC",
        ),
        ("cross_slices", sliced, "with --slices"),
        ("baseline", sliced, "with --slices"),
        ("category_groups", not arguments.no_categories, "without --no-categories"),
        ("no_analysis", arguments.partial is None, "without --partial"),
        ("counts", arguments.partial is None, "without --partial"),
        ("pixel_size", arguments.counts is not None, "with --counts"),
        ("sigmas", merged or kind == "keypoints", "with --iou-type keypoints"),
        ("boundary_ratio", merged or kind == "boundary", "with --iou-type boundary"),
        ("box_convention", merged or kind == "oriented", "with --iou-type oriented"),
    )
    detection_counts.score_of(arguments.counts)
    if arguments.pixel_size is not None:
        standalone.check_pixel_size(arguments)
    inputs = ["truth", "predictions", "against", "groups", "slices", "images", "merge"]
    inputs += ["image_folder", *voc_rules.INPUTS]
    if isinstance(arguments.category_groups, Path):
        inputs.append("category_groups")
    standalone.check_files(
        arguments,
        *inputs,
        again=(
            *("groups", "slices", "merge", "category_groups"),
            *(["truth"] if arguments.against or arguments.image_folder else []),
        ),
    )
    if arguments.category_groups is not None:
        category_groups(arguments.category_groups)
    standalone.check_groups(arguments)
    if sliced:
        from permafrost.evaluators.detection.slices import read_rows

        manifest = read_rows(arguments.slices)
        if arguments.baseline is not None:
            manifest.check_baseline(arguments.baseline, crossed=arguments.cross_slices)


def _check_anything_to_find(evaluation) -> None:
    truths = evaluation.truths
    if not len(truths):
        reason = "the truth has no annotation of these images and categories"
    elif truths.ignored.all():
        reason = "all annotations of the truth are crowds or ignored"
    else:
        return
    raise PermafrostError(
        f"the truth has no object: {reason}",
        where=truths.source,
        remedy="check that this is the right file, and which images are evaluated",
    )


def _evaluate(arguments):
    if not arguments.merge:
        return _evaluated(arguments, arguments.predictions)
    from permafrost.evaluators.detection.partial import merge

    return merge(arguments.merge, incomplete=arguments.incomplete)


def _evaluated(arguments, predictions: Path):
    from permafrost.evaluators.detection import evaluate

    return evaluate(
        arguments.truth,
        predictions,
        iou_type=arguments.iou_type,
        mode=arguments.mode,
        lvis=arguments.lvis,
        use_categories=not arguments.no_categories,
        max_dets=values_of(arguments.max_dets, int),
        iou_thresholds=thresholds(arguments.iou_thresholds),
        area_ranges=area_ranges(arguments.area_ranges),
        recall_grid=thresholds(arguments.recall_grid),
        boundary_ratio=arguments.boundary_ratio,
        detection_area=arguments.detection_area,
        box_convention=arguments.box_convention,
        sigmas=values_of(arguments.sigmas, float),
        invalid=arguments.invalid,
        images=None if arguments.images is None else lines_of(arguments.images),
        categories=names_of(arguments.categories),
    )


@dataclass(frozen=True)
class _Scored:
    """An evaluation with its sampling units, and the lines to print.

    Attributes
    ----------
    groups : group of each image; images of a group are resampled together.
    units : the sampling units.
    drawn : options of the intervals.
    lines, notes : printed text; more is appended.
    """

    arguments: argparse.Namespace
    evaluation: Evaluation
    scores: DetectionScores
    groups: list | None
    units: Units
    drawn: dict
    lines: list[str]
    notes: list[str]


def _leave(arguments, evaluation) -> None:
    """Write all files, then print the scores."""
    from permafrost.evaluators.intervals.detection import (
        DetectionScores,
        detection_rows,
        image_units,
    )
    from permafrost.evaluators.output import detection_text
    from permafrost.evaluators.output.score_text import note_lines

    drawn = {name: getattr(arguments, name) for name in ("resamples", "confidence", "seed")}
    drawn["method"] = arguments.interval
    notes = [f"Note: {text}." for text in evaluation.warnings]
    groups = standalone.groups_of(arguments, evaluation.truths.images.ids, notes)
    units = image_units(evaluation, groups)
    members = _members(arguments, evaluation)
    scores = DetectionScores(evaluation, groups=members)
    rows = detection_rows(scores, units, **drawn)
    lines = detection_text.heading_lines(evaluation, units, arguments)
    labels = list(scores.group_labels.values())
    lines += detection_text.summary_lines(evaluation, rows, labels)
    more, analysis = _analysis(arguments, evaluation, lines)
    if members:
        more["category_groups"] = _named(evaluation, members, labels)
    notes += detection_text.remarks(rows, arguments)
    scored = _Scored(arguments, evaluation, scores, groups, units, drawn, lines, notes)
    rows += detection_counts.rows_of(scored, more)
    more |= _slices(scored)
    compared, other = _comparison(scored, members)
    more |= compared
    tables, missing = detection_outputs.tables(arguments, evaluation, analysis, more)
    notes += missing
    if arguments.partial:
        from permafrost.evaluators.detection.partial import save_partial

        save_partial(evaluation, arguments.partial)
    standalone.deliver(
        arguments,
        lines + note_lines(notes),
        rows=rows,
        tables=tables,
        page=lambda: detection_outputs.parts(scored, other, analysis, more),
        options=_options(arguments),
        **detection_text.content_of(evaluation),
        **more,
        n_units=units.count,
        unit=units.kind,
        notes=notes,
    )


def _members(arguments, evaluation) -> dict:
    """Group of ``--category-groups`` -> positions of its categories."""
    if arguments.category_groups is None:
        return {}
    from permafrost.metrics.detection.categories import find_groups

    return find_groups(
        evaluation.truths.categories,
        category_groups(arguments.category_groups),
        "--category-groups",
    )


def _named(evaluation, members: dict, labels: list[str]) -> dict:
    """Label of a group -> names of its categories."""
    from permafrost.evaluators.intervals.detection import class_names

    names = class_names(evaluation)
    pairs = zip(labels, members.values(), strict=True)
    return {label: [names[place] for place in places] for label, places in pairs}


def _analysis(arguments, evaluation, lines) -> tuple[dict, object]:
    """JSON content of error types, oLRP and calibration, and the analysis; extends `lines`."""
    if arguments.no_analysis or arguments.partial:
        return {}, None
    from permafrost.evaluators.output import detection_text
    from permafrost.metrics.detection.analysis.overview import analyse, content_of

    analysis = analyse(evaluation)
    lines += detection_text.analysis_lines(analysis)
    return {"analysis": content_of(analysis)}, analysis


def _slices(scored: _Scored) -> dict:
    """JSON content of ``--slices``; extends the lines and notes of `scored`."""
    arguments, evaluation, lines = scored.arguments, scored.evaluation, scored.lines
    if arguments.slices is None:
        return {}
    from permafrost.evaluators.detection.slices import crossed, read_manifest, slices
    from permafrost.evaluators.intervals.detection import slice_rows
    from permafrost.evaluators.intervals.robustness import robustness_rows
    from permafrost.evaluators.output import detection_text

    manifest = read_manifest(arguments.slices, evaluation.truths.images.ids)
    scored.notes.extend(f"Note: {text}." for text in manifest.warnings)
    parts = slices(evaluation, manifest)
    if arguments.cross_slices and len(manifest.labels) > 1:
        parts += slices(evaluation, crossed(manifest))
    rows = slice_rows(parts, scored.groups, **scored.drawn)
    names = evaluation.names[:3]
    lines.extend(detection_text.slice_lines(rows, names))
    scored.notes.extend(detection_text.slice_remarks(rows))
    if arguments.baseline is None:
        return {"slices": rows}
    ratios = robustness_rows(parts, arguments.baseline, scored.units, **scored.drawn)
    lines.extend(detection_text.robustness_lines(ratios, names))
    scored.notes.extend(detection_text.robustness_remarks(ratios, names, arguments))
    return {"slices": rows, "robustness": ratios}


def _comparison(scored: _Scored, members: dict) -> tuple[dict, Evaluation | None]:
    """JSON content of ``--against``, and that evaluation; extends the lines and notes of `scored`."""
    arguments = scored.arguments
    if arguments.against is None:
        return {}, None
    from permafrost.evaluators.intervals.detection import DetectionScores, comparison_rows
    from permafrost.evaluators.output import detection_text

    other = _evaluated(arguments, arguments.against)
    said = [*other.detections.notes.warnings, *other.uncounted()]
    scored.notes.extend(f"Note: {text}." for text in said)
    others = DetectionScores(other, groups=members)
    rows = comparison_rows(scored.scores, others, scored.units, **scored.drawn)
    rows += detection_counts.differences_of(scored, other)
    labels = list(scored.scores.group_labels.values())
    scored.lines.extend(
        detection_text.category_difference_lines(other, rows, arguments.against, labels)
    )
    return {"comparison": rows}, other


def _options(arguments) -> dict:
    """Options, and digests of all files, that can affect a score."""
    inputs = ["truth", "predictions", "against", "groups", "slices"]
    if isinstance(arguments.category_groups, Path):
        inputs.append("category_groups")
    options = standalone.options_of(arguments, *inputs)
    options.pop("partial")
    for name in ("images", "merge"):
        value = getattr(arguments, name)
        paths = value if isinstance(value, list) else [value] if value else []
        options[name] = [input_digest(path) for path in paths]
    return options
