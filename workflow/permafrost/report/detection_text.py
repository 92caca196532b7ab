"""What ``permafrost evaluate-detections`` prints and writes."""

from __future__ import annotations

from .notation import interval_of
from .score_text import gate_remarks, interval_words, row_lines, starred

# more categories than this are in the files, not on the screen
SHOWN = 20
_DIGITS = 3


def heading_lines(evaluation, units, arguments) -> list[str]:
    """What was evaluated and by which rules, and what the intervals are."""
    from permafrost.metrics.detection import QUIRKS

    settings = evaluation.settings
    whose = "LVIS" if settings.lvis else "COCO"
    unit = interval_words(units.count, units.kind, arguments.resamples, method=arguments.interval)
    return [
        f"{len(evaluation.truths)} truths and {len(evaluation.detections)} detections on"
        f" {len(evaluation.truths.images)} images: {settings.iou_type} by {whose}'s rules",
        f"{settings.mode} mode, see {QUIRKS}",
        f"{100 * arguments.confidence:g} % intervals: {unit}",
        "",
    ]


def summary_lines(evaluation, rows: list[dict]) -> list[str]:
    """The familiar lines with their intervals, then the categories if they are few."""
    bounds = {row["metric"]: row for row in rows if row["class"] is None}
    lines = [
        f"{line} {starred(bounds[name], interval_of(bounds[name]))}".rstrip()
        for name, line in zip(evaluation.names, evaluation.lines(), strict=True)
    ]
    of_classes = [row for row in rows if row["class"] is not None]
    classes = {row["class"] for row in of_classes}
    if len(classes) > SHOWN:
        text = f"{len(classes)} categories: --output and --tables write the figures of each."
        return [*lines, "", text]
    if classes:
        return [*lines, "", *row_lines(of_classes, digits=_DIGITS)]
    return lines


def remarks(rows: list[dict], arguments) -> list[str]:
    """What a reader of the intervals should know."""
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
    """Whether the replicates of a precision lie beside it by a tenth of its interval or more."""
    if row["lower"] is None or row["bias"] is None or not row["metric"].startswith("AP"):
        return False
    return abs(row["bias"]) > max(0.1 * (row["upper"] - row["lower"]), 5e-4)


def slice_remarks(rows: list[dict]) -> list[str]:
    """Which figures of slices are not to be trusted."""
    return gate_remarks([{**row, "class": _slice(row)} for row in rows], "slices")


def _slice(row: dict) -> str:
    return f"{row['axis']} = {row['label']}"


def slice_lines(rows: list[dict], names) -> list[str]:
    """The headline figures `names` of every slice."""
    shown = [
        {**row, "class": f"{_slice(row)}, {row['images']} images"}
        for row in rows
        if row["metric"] in names
    ]
    heading = "Slices (--output writes all figures of each):"
    return ["", heading, *row_lines(shown, digits=_DIGITS)]


def robustness_lines(rows: list[dict], names) -> list[str]:
    """mPC and rPC of the headline figures `names`."""
    heading = (
        "Robustness: mPC, the mean over the slices beside the baseline, and rPC, mPC / baseline:"
    )
    shown = [
        {
            **row,
            "metric": f"{row['measure']} of {row['metric']}",
            "class": f"{row['axis']}, {row['slices']} slices against {row['baseline']}",
        }
        for row in rows
        if row["metric"] in names
    ]
    return ["", heading, *row_lines(shown, digits=_DIGITS)]


def robustness_remarks(rows: list[dict], names, arguments) -> list[str]:
    """What a reader of the `names` among these figures should know."""
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


def difference_lines(rows: list[dict], against) -> list[str]:
    """Differences with intervals and p-values; of the categories only if they are few."""
    few = len({row["class"] for row in rows}) <= SHOWN
    heading = f"Difference to {against} on the same images (p-values of single figures):"
    shown = [{**row, "value": row["difference"]} for row in rows if few or row["class"] is None]
    return ["", heading, *row_lines(shown, digits=_DIGITS)]


def content_of(evaluation) -> dict:
    """What is written of an evaluation beside the rows of its figures."""
    axes = evaluation.axes
    return {
        "stats": {
            name: None if value != value else value
            for name, value in zip(evaluation.names, evaluation.stats.tolist(), strict=True)
        },
        "axes": {
            "iou_thresholds": axes.thresholds.tolist(),
            "area_ranges": dict(zip(axes.area_names, axes.areas.tolist(), strict=True)),
            "max_dets": list(axes.max_dets),
        },
        "images": len(evaluation.truths.images),
        "truths": len(evaluation.truths),
        "detections": len(evaluation.detections),
        "dropped": evaluation.dropped,
    }
