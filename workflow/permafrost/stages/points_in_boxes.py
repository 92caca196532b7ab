"""``permafrost evaluate-boxes`` of true points and predicted boxes or polygons: recall of points, and counts."""

from __future__ import annotations

from permafrost.stages import standalone

#: options that need truth and predictions of one kind
_ALIKE = (
    *(
        "matching",
        "iou_threshold",
        "distance_threshold",
        "max_detections",
        "without_predictions",
        "without_truth",
    ),
    *("like", "pictures", "tile_size", "stitch"),
)


def run(arguments, truth, tables: list, read, hectares) -> None:
    """Evaluate one or two tables of predictions, write all files, then print the scores.

    Parameters
    ----------
    read : the tables as they were read, see `data.deepforest.maps.read_tables`.
    hectares : function from names of images to their areas, or to None.
    """
    from permafrost.evaluators.crowns.contained import evaluate_contained

    standalone.check_used(
        arguments,
        *((name, False, "with truth and predictions of one kind of shape") for name in _ALIKE),
    )
    options = {name: getattr(arguments, name) for name in ("min_score", "average")}
    if arguments.unlisted:
        options["unlisted"] = arguments.unlisted
    found = [evaluate_contained(truth, one, **options) for one in tables]
    _leave(arguments, found, read, hectares(found[0].images))


def _leave(arguments, found: list, read, areas) -> None:
    from permafrost.data.deepforest.reading import read_groups
    from permafrost.evaluators.crowns.contained import point_table
    from permafrost.evaluators.intervals.counts import crown_counts
    from permafrost.evaluators.intervals.standalone import difference_rows, score_rows
    from permafrost.evaluators.output import score_files, score_text
    from permafrost.statistics.resampling.units import find_units

    first, groups = found[0], None
    if arguments.group_column:
        groups = read_groups(read.columns["truth"], arguments.group_column, first.images)
    units = find_units(len(first.images), sample_ids=first.images, groups=groups)
    drawn = {name: getattr(arguments, name) for name in ("resamples", "confidence", "seed")}
    both = [[one, crown_counts(one, areas)] for one in found]
    rows = [row for part in both[0] for row in score_rows(part, units, **drawn)]
    rows = _described(first, rows)
    unit = score_text.interval_method_words(units.count, units.kind, arguments.resamples)
    lines = score_text.score_lines(
        rows, heading=first.heading(), unit=unit, confidence=arguments.confidence, notes=()
    )
    tables, more = {"points": point_table(first)} if arguments.tables else {}, {}
    if len(found) > 1:
        compared = [
            row
            for one, other in zip(*both, strict=True)
            for row in difference_rows(one, other, units, **drawn)
        ]
        more["comparison"] = _described(first, compared)
        lines += score_text.difference_lines(more["comparison"], arguments.against, digits=4)
        if arguments.tables:
            tables["comparison"] = score_files.comparison_table(more["comparison"])
    notes = [*first.notes(), *score_text.gate_remarks(rows)]
    standalone.deliver(
        arguments,
        lines + score_text.note_lines(notes),
        rows=rows,
        tables=tables,
        page=lambda: _parts(arguments, first),
        options=standalone.options_of(arguments, "truth", "predictions", "against"),
        **more,
        n_units=units.count,
        unit=units.kind,
        notes=notes,
    )


def _parts(arguments, found):
    from permafrost.evaluators.output.crown_page import contained_sections
    from permafrost.evaluators.output.page import Parts

    files, primary = (
        (arguments.predictions, arguments.against),
        ("matched_point_f1", "point_recall"),
    )
    title = "Evaluation of points in shapes"
    return Parts(title, f"{found.heading()}.", primary, files, contained_sections(found))


def _described(found, rows: list[dict]) -> list[dict]:
    """Add ``average`` to the rows; overall rows come first, then class by class."""
    rows = sorted(rows, key=lambda row: (row["class"] is not None, row["class"] or ""))
    return [{**row, "average": found.average_of(row["metric"], row["class"])} for row in rows]
