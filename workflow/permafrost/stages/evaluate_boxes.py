"""``permafrost evaluate-boxes``: recall, precision and AP of crowns in tables or files of shapes, with intervals."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.geometries import POINT
from permafrost.stages import points_in_boxes, standalone

_OPTIONS = {
    "--geometry": ("auto, box, polygon or point (read or convert)", "auto"),
    "--matching": (
        "area (DeepForest), iou or score; for points distance (DeepForest), within or score",
    ),
    "--iou-threshold": ("a match is above (0.4)", 0.4),
    "--distance-threshold": ("a match is closer (10)", 10.0),
    "--min-score": ("omit lower scores", float),
    "--average": (
        "image: mean over images; dataset: all crowns pooled. Classes and AP are always pooled",
        "image",
    ),
    "--max-detections": (
        "detections per image and class that count in AP, by highest score (100)",
        100,
    ),
    "--invalid": (
        "wrong rows, and predictions without area: error (the latter are false alarms), or drop"
        " (left out and counted)",
        "error",
    ),
    "--against": ("other predictions: differences, p-values", Path),
    "--without-predictions": ("precision of an image without predictions: zero, skip",),
    "--without-truth": ("predictions on an image without crowns: zero, skip",),
    "--unlisted": ("predictions on an image the truth does not name: error, empty, skip",),
    "--group-column": ("column of the truth: unit of resampling",),
    "--pixel-size": ("side of a pixel in metres: densities per hectare; needs --images", float),
    "--images": ("folder that image_path is relative to", Path),
    "--coordinates": ("of files of shapes: map, or pixels of the images", "map"),
    "--pictures": ("folder for overlays; needs --images", Path),
    "--max-pictures": ("images to draw at most (20)", 20),
    "--tile-size": ("score windows too; needs --images", int),
    "--tile-overlap": ("overlap of the windows (0.05)", 0.05),
    "--stitch": ("stitch predictions per window (columns window_xmin, window_ymin)", bool),
    "--stitch-threshold": ("IoU (0.15), or distance (5)", float),
    "--border": ("agree: count no crown twice; none: suppression only", "agree"),
}


def add_arguments(parser) -> None:
    parser.add_argument(
        "--truth",
        type=Path,
        required=True,
        help="CSV in DeepForest's format, or GeoPackage, GeoJSON, Shapefile or FlatGeobuf",
    )
    parser.add_argument("--predictions", type=Path, required=True, help="the same, with scores")
    standalone.add_options(parser, _OPTIONS)
    parser.add_argument(
        "--like", choices=["deepforest"], help="omit the rows that DeepForest omits silently"
    )
    standalone.add_arguments(parser)


@standalone.bounded
def run(arguments) -> None:
    from permafrost.evaluators.intervals.crowns import CrownScores

    _check(arguments)
    truth, predictions, other, tables = _read(arguments)
    points = truth.kind == POINT
    given = [one for one in (predictions, other) if one is not None]
    if points and all(one.kind != POINT and len(one) for one in given):
        areas = functools.partial(_hectares, arguments)
        points_in_boxes.run(arguments, truth, given, tables, areas)
        return
    standalone.check_used(
        arguments,
        ("distance_threshold", points, "with points, which match by distance"),
        ("iou_threshold", not points, "with boxes and polygons, which match by overlap"),
        ("max_detections", not points, "with boxes and polygons"),
    )
    scores, notes = [], []
    for each in given:
        evaluation, remarks = _evaluate(arguments, truth, each, tables)
        remarks = [*tables.remarks, *remarks]
        scores.append(
            CrownScores(
                evaluation,
                max_detections=arguments.max_detections,
                hectares=_hectares(arguments, evaluation.images),
            )
        )
        notes.append([*evaluation.notes(), *scores[-1].notes(), *remarks])
    first, *compared = notes
    for remarks in compared:
        # remarks on the truth occur in both
        first += [f"{arguments.against}: {text}" for text in remarks if text not in first]
    _leave(arguments, scores, first, tables)


def _read(arguments):
    """Truth, predictions, and predictions of ``--against`` (or None), as `Annotations`; and their tables."""
    from permafrost.data.deepforest.maps import read_tables
    from permafrost.data.deepforest.reading import read_annotations

    given = {name: getattr(arguments, name) for name in ("truth", "predictions", "against")}
    tables = read_tables(
        {name: path for name, path in given.items() if path is not None},
        images=arguments.images,
        coordinates=arguments.coordinates,
    )
    reading = {"geometry": arguments.geometry, "invalid": arguments.invalid}
    truth = read_annotations(tables.columns["truth"], "truth", **reading)
    found = [
        read_annotations(tables.columns[name], "predictions", **reading) if given[name] else None
        for name in ("predictions", "against")
    ]
    if arguments.against and _rules(arguments).get("unlisted") == "empty":
        # an image that either table names counts for both, without crowns if the truth lacks it
        named = [name for table in found for name in table.images]
        truth = replace(truth, images=tuple(dict.fromkeys([*truth.images, *named])))
    return truth, *found, tables


def _check(arguments) -> None:
    from permafrost.data.files.vectors import is_shapes

    tiled = arguments.tile_size or arguments.stitch
    dense = arguments.pixel_size is not None
    pictures = arguments.pictures is not None
    maps = any(
        is_shapes(str(path))
        for path in (arguments.truth, arguments.predictions, arguments.against)
        if path is not None
    )
    standalone.check_used(
        arguments,
        ("max_pictures", pictures, "with --pictures"),
        (
            "images",
            tiled
            or pictures
            or dense
            or arguments.report
            or (maps and arguments.coordinates == "map"),
            "with --pictures, --report, --tile-size, --stitch, --pixel-size or files of shapes in map coordinates",
        ),
        ("coordinates", maps, "with files of shapes"),
        ("tile_overlap", tiled, "with --tile-size"),
        ("stitch_threshold", arguments.stitch, "with --stitch"),
        ("border", arguments.stitch, "with --stitch"),
    )
    if tiled:
        for name in ("images", "tile_size"):
            if getattr(arguments, name) is None:
                option = f"--{name.replace('_', '-')}"
                raise PermafrostError(f"windows need {option}", remedy=f"give {option}")
    if dense:
        standalone.check_pixel_size(arguments)
        if arguments.images is None:
            raise PermafrostError(
                "densities need --images", remedy="give the folder of the images, for their sizes"
            )
    if pictures and arguments.images is None:
        raise PermafrostError("pictures need --images", remedy="give the folder of the images")
    standalone.check_intervals(arguments)
    standalone.check_files(arguments, "truth", "predictions", "against", "images")


def _hectares(arguments, images) -> dict[str, float] | None:
    """Area of each image, or None without ``--pixel-size``."""
    if arguments.pixel_size is None:
        return None
    from permafrost.evaluators.crowns.overlay import image_sizes
    from permafrost.evaluators.intervals.counts import HECTARE

    sizes = image_sizes(arguments.images, images)
    pixel = arguments.pixel_size**2 / HECTARE
    return {name: width * height * pixel for name, (width, height) in sizes.items()}


def _rules(arguments) -> dict:
    from permafrost.evaluators.crowns.rules import DEEPFOREST

    chosen = ("without_predictions", "without_truth", "unlisted")
    options = {name: getattr(arguments, name) for name in chosen}
    rules = DEEPFOREST if arguments.like else {}
    return {**rules, **{name: value for name, value in options.items() if value is not None}}


def _evaluate(arguments, truth, predictions, tables):
    """The evaluation of one table of predictions, and remarks on windows."""
    from permafrost.evaluators.crowns.evaluate import evaluate

    plain = ("matching", "iou_threshold", "distance_threshold", "min_score", "average")
    options = {**{name: getattr(arguments, name) for name in plain}, **_rules(arguments)}
    if arguments.tile_size or arguments.stitch:
        return _evaluate_tiles(arguments, truth, predictions, tables, options)
    return evaluate(truth, predictions, **options), []


def _evaluate_tiles(arguments, truth, predictions, tables, options: dict):
    """The evaluation of whole images, and remarks on how windows differ."""
    from permafrost.evaluators.crowns.overlay import image_sizes
    from permafrost.evaluators.crowns.tiles import compare_tiles, read_tile_predictions
    from permafrost.metrics.objects.stitching import stitch

    cut = {"size": arguments.tile_size, "overlap": arguments.tile_overlap}
    sizes = image_sizes(arguments.images, {*truth.images, *predictions.images})
    tiled, remarks = None, []
    if arguments.stitch:
        reading = {"geometry": arguments.geometry, "invalid": arguments.invalid}
        columns = next(one for one in tables.columns.values() if one.where == predictions.where)
        tiles = read_tile_predictions(columns, sizes, **cut, **reading)
        whole = stitch(
            tiles.by_image,
            tiles.windows,
            sizes,
            threshold=arguments.stitch_threshold,
            border=arguments.border,
            every=tiles.every,
        )
        remarks.append(whole.sentence())
        predictions, tiled = whole.crowns, tiles.by_tile
    both = compare_tiles(truth, predictions, sizes, **cut, tile_predictions=tiled, **options)
    return both.whole, [*remarks, both.sentence()]


def _leave(arguments, scores: list, notes: list[str], read) -> None:
    """Write all files, then print the scores."""
    from permafrost.data.deepforest.reading import read_groups
    from permafrost.evaluators.crowns.tables import image_table, match_table
    from permafrost.evaluators.detection.export import arrow_table
    from permafrost.evaluators.intervals.crowns import crown_differences, crown_rows
    from permafrost.evaluators.output import score_files, score_text
    from permafrost.statistics.resampling.units import find_units

    evaluation = scores[0].evaluation
    groups = None
    if arguments.group_column:
        groups = read_groups(read.columns["truth"], arguments.group_column, evaluation.images)
    units = find_units(len(evaluation.images), sample_ids=evaluation.images, groups=groups)
    drawn = {name: getattr(arguments, name) for name in ("resamples", "confidence", "seed")}
    rows = crown_rows(scores[0], units, **drawn)
    notes = [*notes, *score_text.gate_remarks(rows)]
    unit = score_text.interval_method_words(units.count, units.kind, arguments.resamples)
    lines = score_text.score_lines(
        rows, heading=evaluation.heading(), unit=unit, confidence=arguments.confidence, notes=()
    )
    tables, more = {}, {}
    if arguments.tables:
        tables = {"matches": match_table(evaluation), "images": image_table(evaluation)}
        if (curves := scores[0].curves()) is not None:
            tables["curves"] = arrow_table(curves)
    if arguments.against:
        # two scores with --against; mypy does not know the length of a list
        more["comparison"] = crown_differences(*scores, units, **drawn)  # type: ignore[call-arg,arg-type]
        lines += score_text.difference_lines(more["comparison"], arguments.against, digits=4)
        if arguments.tables:
            tables["comparison"] = score_files.comparison_table(more["comparison"])
    lines += score_text.note_lines(notes)
    if arguments.pictures:
        lines += ["", _draw(arguments, evaluation)]
    standalone.deliver(
        arguments,
        lines,
        rows=rows,
        tables=tables,
        page=lambda: _parts(arguments, scores),
        options=standalone.options_of(arguments, "truth", "predictions", "against"),
        class_sizes=evaluation.class_sizes(),
        dropped={
            what: sum(crowns.dropped.values())
            for what, crowns in (
                ("truth", evaluation.truth),
                ("predictions", evaluation.predictions),
            )
        },
        **more,
        n_units=units.count,
        unit=units.kind,
        notes=notes,
    )


def _parts(arguments, scores: list):
    from permafrost.evaluators.output.crown_page import crown_sections
    from permafrost.evaluators.output.page import Parts, file_names

    files = arguments.predictions, arguments.against
    sections = crown_sections(scores, files=file_names(*files), images=arguments.images)
    what = scores[0].evaluation.heading()
    return Parts("Evaluation of crowns", f"{what}.", ("AP", "point_ap", "f1"), files, sections)


def _draw(arguments, evaluation) -> str:
    """Draw the overlays; returns a summary for the terminal."""
    from permafrost.evaluators.crowns.overlay import write_overlays

    drawn, left = write_overlays(
        evaluation, arguments.images, arguments.pictures, limit=arguments.max_pictures
    )
    rest = f"; {left} images with fewer mistakes were not drawn" if left else ""
    return f"{len(drawn)} pictures in {arguments.pictures}{rest}"
