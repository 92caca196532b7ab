"""What ``permafrost evaluate-detections`` prints."""

from __future__ import annotations

# more categories than this are in the files, not on the screen
SHOWN = 20


def print_heading(evaluation, units, arguments) -> None:
    """What was evaluated and by which rules, and what the intervals are."""
    from permafrost.metrics.detection import QUIRKS

    settings = evaluation.settings
    whose = "LVIS" if settings.lvis else "COCO"
    print(
        f"{len(evaluation.truths)} truths and {len(evaluation.detections)} detections on"
        f" {len(evaluation.truths.images)} images: {settings.iou_type} by {whose}'s rules"
    )
    print(f"{settings.mode} mode, see {QUIRKS}")
    unit = (
        f"bootstrap of {units.count} {units.kind}s, {arguments.resamples} resamples,"
        f" {arguments.interval}"
    )
    if not arguments.resamples:
        unit = "none asked for"
    elif units.count <= 1:
        unit = f"none, a single {units.kind} cannot be resampled"
    print(f"{100 * arguments.confidence:g} % intervals: {unit}\n")


def print_summary(evaluation, rows: list[dict]) -> None:
    """The familiar lines with their intervals, then the categories if they are few."""
    bounds = {row["metric"]: row for row in rows if row["class"] is None}
    for name, line in zip(evaluation.names, evaluation.lines(), strict=True):
        print(f"{line} {_interval(bounds[name])}".rstrip())
    of_classes = [row for row in rows if row["class"] is not None]
    classes = {row["class"] for row in of_classes}
    if len(classes) > SHOWN:
        print(f"\n{len(classes)} categories: --output and --tables write the figures of each.")
    elif classes:
        print()
        print_rows(of_classes)


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
            fate = "percentiles do not correct for it, --interval basic does"
        said.append(
            f"Note: resamples hold fewer different images, which raises the envelope that precision"
            f" is read from: {first['metric']} by {first['bias']:.4f} on average; {fate}."
        )
    return said


def _shifted(row: dict) -> bool:
    """Whether the replicates of a precision lie beside it by a tenth of its interval or more."""
    if row["lower"] is None or row["bias"] is None or not row["metric"].startswith("AP"):
        return False
    return abs(row["bias"]) > max(0.1 * (row["upper"] - row["lower"]), 5e-4)


def print_slices(rows: list[dict], names) -> None:
    """The headline figures `names` of every slice."""
    print("\nSlices (--output writes all figures of each):")
    print_rows(
        [
            {**row, "class": f"{row['axis']} = {row['label']}, {row['images']} images"}
            for row in rows
            if row["metric"] in names
        ]
    )


def print_differences(rows: list[dict], against) -> None:
    """Differences with intervals and p-values; of the categories only if they are few."""
    few = len({row["class"] for row in rows}) <= SHOWN
    print(f"\nDifference to {against} on the same resamples (p-values of single figures):")
    print_rows([{**row, "value": row["difference"]} for row in rows if few or row["class"] is None])


def print_rows(rows: list[dict]) -> None:
    """Metric, class, value, interval and, where there is one, p-value as aligned columns."""
    lines = [
        (
            row["metric"],
            row["class"] or "",
            _number(row["value"]),
            _interval(row),
            f"p = {row['p_value']:.3f}" if row.get("p_value") is not None else "",
        )
        for row in rows
    ]
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(4)]
    for metric, label, value, interval, p_value in lines:
        text = (
            f"  {metric:<{widths[0]}}  {label:<{widths[1]}}  {value:>{widths[2]}}"
            f"  {interval:<{widths[3]}}  {p_value}"
        )
        print(text.rstrip())


def _number(value) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(row: dict) -> str:
    if row["lower"] is None:
        return ""
    return f"[{_number(row['lower'])}, {_number(row['upper'])}]"
