"""Text and files of ``permafrost evaluate-detections``."""

from __future__ import annotations

from dataclasses import asdict

from permafrost.core.text import printable_name
from permafrost.evaluators.detection import QUIRKS
from permafrost.evaluators.output.score_text import (
    SHOWN,
    difference_lines,
    gate_remarks,
    interval_method_words,
    row_lines,
    starred,
)
from permafrost.metrics.detection.analysis.calibration import LOWEST_SCORE
from permafrost.metrics.detection.axes import RECALL_GRID
from permafrost.report.notation import interval_of, number

_DIGITS = 3
# characters of an axis, a label and a remark on them
_LONGEST_LABEL = 200


def heading_lines(evaluation, units, arguments) -> list[str]:
    """The evaluated data, the rules, and the interval method."""
    settings = evaluation.settings
    whose = "LVIS" if settings.lvis else "COCO"
    unit = interval_method_words(
        units.count, units.kind, arguments.resamples, method=arguments.interval
    )
    grid = evaluation.axes.recall_grid
    own_grid = []
    if grid.tolist() != RECALL_GRID.tolist():
        own_grid = [
            f"precision is read at {len(grid)} recalls from {grid[0]:g} to {grid[-1]:g}, not at"
            f" {whose}'s {len(RECALL_GRID)}"
        ]
    return [
        f"{len(evaluation.truths)} truths and {len(evaluation.detections)} detections on"
        f" {len(evaluation.truths.images)} images: {settings.iou_type} by {whose}'s rules",
        f"{settings.mode} mode, see {QUIRKS}",
        *own_grid,
        f"{100 * arguments.confidence:g} % intervals: {unit}",
        "",
    ]


def summary_lines(evaluation, rows: list[dict], groups=()) -> list[str]:
    """COCO's or LVIS's summary lines with intervals, then groups of categories (by the labels of
    their rows), then the categories if they are few."""
    bounds = {row["metric"]: row for row in rows if row["class"] is None}
    lines = [
        f"{line} {starred(bounds[name], interval_of(bounds[name]))}".rstrip()
        for name, line in zip(evaluation.names, evaluation.lines(), strict=True)
    ]
    if groups:
        lines += _group_lines(evaluation, rows, groups)
    of_classes = [row for row in rows if row["class"] is not None and row["class"] not in groups]
    classes = {row["class"] for row in of_classes}
    if len(classes) > SHOWN:
        text = f"{len(classes)} categories: --output and --tables write the figures of each."
        return [*lines, "", text]
    if classes:
        return [*lines, "", *row_lines(of_classes, digits=_DIGITS)]
    return lines


def _group_lines(evaluation, rows: list[dict], groups) -> list[str]:
    """The headline scores of every group."""
    shown = [
        row for row in rows if row["class"] in groups and row["metric"] in _headline(evaluation)
    ]
    heading = (
        "Groups of categories, each the mean over its categories with something to find (--output"
        " and --tables write all figures):"
    )
    return ["", heading, *row_lines(shown, digits=_DIGITS)]


def _headline(evaluation) -> tuple[str, ...]:
    """Names of AP, AP50 and the recall of all sizes at the largest cap."""
    recalls = [
        statistic.name
        for statistic in evaluation.statistics
        if (statistic.of, statistic.threshold, statistic.area) == ("recall", None, "all")
    ]
    return ("AP", "AP50", recalls[-1])


def count_lines(rows: list[dict], score: float) -> list[str]:
    """Errors of counts, of all categories and, if there are few, of each."""
    few = len({row["class"] for row in rows}) <= SHOWN
    shown = [row for row in rows if few or row["class"] is None]
    heading = f"Counts per image, of detections that score at least {score:.4g}:"
    return ["", heading, *row_lines(shown, digits=_DIGITS)]


def analysis_lines(analysis) -> list[str]:
    """Kinds of errors, oLRP and calibration, or the reason why one is missing."""
    lines = ["", "Errors at an IoU of 0.5 (--tables writes oLRP and calibration by category):"]
    tide, olrp, calibration = analysis.tide, analysis.olrp, analysis.calibration
    if tide is not None:
        lines.append(f"  TIDE: what AP, {tide.precision:.3f}, gains without one kind of error")
        lines += [
            f"    {kind:<16}  {_signed(gain)}  {tide.counts[kind]:>9}"
            f" {'truths' if kind == 'missed' else 'detections'}"
            for kind, gain in tide.gain.items()
        ]
        lines.append(f"    {'all false alarms':<16}  {_signed(tide.no_false_alarms)}")
    if olrp is not None:
        parts = ", ".join(
            f"{words} {number(olrp.means[name], _DIGITS)}"
            for name, words in (
                ("localisation", "localisation"),
                ("false_alarms", "false alarms"),
                ("misses", "misses"),
            )
        )
        lines.append(f"  mean oLRP {number(olrp.means['olrp'], _DIGITS)} ({parts}; 0 is perfect)")
    if calibration is not None:
        lines.append(
            f"  calibration error {calibration.expected:.3f} (mean over categories"
            f" {calibration.macro:.3f}, largest of a bin {calibration.largest:.3f}) of"
            f" {int(calibration.counts.sum())} detections with a score of at least {LOWEST_SCORE}"
        )
    names = {"tide": "TIDE", "olrp": "oLRP", "calibration": "calibration"}
    lines += [f"  no {names[name]}: {reason}" for name, reason in analysis.missing.items()]
    return lines


def _signed(gain: float) -> str:
    return f"{gain:+.{_DIGITS}f}".replace("-", "−")


def remarks(rows: list[dict], arguments) -> list[str]:
    """Remarks on the intervals."""
    overall = [row for row in rows if row["class"] is None]
    said = []
    lost = [
        f"{row['metric']} {row['n_undefined']}"
        for row in overall
        if row["n_undefined"] and row["value"] is not None
    ]
    if lost:
        said.append(
            f"Note: of {arguments.resamples} resamples, some hold nothing to find and are left out:"
            f" {', '.join(lost)}."
        )
    if shifted := list(filter(_shifted, overall)):
        first = shifted[0]
        fate = "the intervals correct for it"
        if arguments.interval == "percentile":
            fate = "percentiles do not correct for it, the other intervals do"
        said.append(
            f"Note: resamples hold fewer different images, which raises the envelope that precision"
            f" is read from: {first['metric']} by {first['bias']:.4f} on average; {fate}."
        )
    return said + gate_remarks(rows)


def _shifted(row: dict) -> bool:
    """Whether the bias of a precision is a tenth of its interval or more."""
    if row["lower"] is None or row["bias"] is None or not row["metric"].startswith("AP"):
        return False
    return abs(row["bias"]) > max(0.1 * (row["upper"] - row["lower"]), 5e-4)


def slice_remarks(rows: list[dict]) -> list[str]:
    """Remarks on unreliable scores of slices."""
    return gate_remarks([{**row, "class": _slice(row)} for row in rows], "slices")


def _slice(row: dict) -> str:
    return f"{printable_name(row['axis'])} = {printable_name(row['label'])}"


def slice_lines(rows: list[dict], names) -> list[str]:
    """The headline scores `names` of every slice."""
    shown = [
        {**row, "class": f"{_slice(row)}, {row['images']} images"}
        for row in rows
        if row["metric"] in names
    ]
    heading = "Slices (--output writes all figures of each):"
    return ["", heading, *row_lines(shown, digits=_DIGITS, longest=_LONGEST_LABEL)]


def robustness_lines(rows: list[dict], names) -> list[str]:
    """mPC and rPC of the headline scores `names`."""
    heading = (
        "Robustness: mPC, the mean over the slices beside the baseline, and rPC, mPC / baseline:"
    )
    shown = [
        {
            **row,
            "metric": f"{row['measure']} of {row['metric']}",
            "class": f"{printable_name(row['axis'])}, {row['slices']} slices against {printable_name(row['baseline'])}",
        }
        for row in rows
        if row["metric"] in names
    ]
    return ["", heading, *row_lines(shown, digits=_DIGITS, longest=_LONGEST_LABEL)]


def robustness_remarks(rows: list[dict], names, arguments) -> list[str]:
    """Remarks on those of these scores that are in `names`."""
    renamed = [
        {**row, "metric": f"{row['measure']} of {row['metric']}", "class": None} for row in rows
    ]
    said = gate_remarks(renamed)
    for row in rows:
        if row["metric"] not in names or row["measure"] != "mPC":
            continue
        place = f"Note: mPC of {row['metric']} by {row['axis']}"
        if row["undefined"]:
            said.append(
                f"{place} leaves out slices with nothing to find: {', '.join(row['undefined'])}."
            )
        if row["n_undefined"] and row["value"] is not None:
            said.append(
                f"{place}: of {arguments.resamples} resamples, {row['n_undefined']} have a slice with"
                " nothing to find and are left out."
            )
    return said


def category_difference_lines(evaluation, rows: list[dict], against, groups=()) -> list[str]:
    """Differences: for groups the headline scores, for categories if they are few."""
    headline = _headline(evaluation)
    few = len({row["class"] for row in rows}.difference(groups)) <= SHOWN
    shown = [
        row
        for row in rows
        if row["class"] is None or (row["metric"] in headline if row["class"] in groups else few)
    ]
    return difference_lines(shown, against, digits=_DIGITS, most=len(shown))


def content_of(evaluation) -> dict:
    """The contents of the written file except the rows of scores."""
    axes = evaluation.axes
    return {
        "stats": {
            # COCO writes -1 for any undefined score
            name: -1.0 if value != value else value
            for name, value in zip(evaluation.names, evaluation.stats.tolist(), strict=True)
        },
        "axes": {
            "iou_thresholds": axes.thresholds.tolist(),
            "recall_grid": axes.recall_grid.tolist(),
            "area_ranges": dict(zip(axes.area_names, axes.areas.tolist(), strict=True)),
            "max_dets": list(axes.max_dets),
        },
        "images": len(evaluation.truths.images),
        "truths": len(evaluation.truths),
        "detections": len(evaluation.detections),
        "dropped": evaluation.dropped,
        "cut": asdict(evaluation.cut),
        "without_truth": evaluation.without_truth,
    }
