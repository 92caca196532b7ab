"""``permafrost evaluate-boxes``: crowns as tables in, recall and precision with intervals out."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError

from . import standalone


def add_arguments(parser) -> None:
    parser.add_argument("--truth", type=Path, required=True, help="CSV in DeepForest's format")
    parser.add_argument("--predictions", type=Path, required=True, help="the same, with scores")
    parser.add_argument(
        "--geometry", default="auto", help="auto, box, polygon or point: what to take or convert to"
    )
    parser.add_argument(
        "--matching",
        help="area (DeepForest), iou or score; of points distance (DeepForest), within or score",
    )
    parser.add_argument("--iou-threshold", type=float, default=0.4, help="a match is above (0.4)")
    parser.add_argument(
        "--distance-threshold", type=float, default=10.0, help="a match of points is nearer (10)"
    )
    parser.add_argument("--min-score", type=float, help="leave out predictions that score less")
    parser.add_argument(
        "--average", default="image", help="image: mean over images; dataset: all crowns pooled"
    )
    _add_rules(parser)
    parser.add_argument("--group-column", help="column of the truth: images resampled together")
    parser.add_argument("--images", type=Path, help="folder that image_path is relative to")
    parser.add_argument("--pictures", type=Path, help="folder for overlays; needs --images")
    parser.add_argument("--max-pictures", type=int, default=20, help="images to draw at most (20)")
    _add_tiles(parser)
    standalone.add_arguments(parser)


def _add_rules(parser) -> None:
    parser.add_argument(
        "--like", choices=["deepforest"], help="leave out what DeepForest leaves out in silence"
    )
    parser.add_argument(
        "--without-predictions", help="precision of an image without predictions: zero, skip"
    )
    parser.add_argument(
        "--without-truth", help="predictions on an image without crowns: zero, skip"
    )
    parser.add_argument(
        "--unlisted", help="predictions on an image the truth does not name: error, empty, skip"
    )


def _add_tiles(parser) -> None:
    parser.add_argument("--tile-size", type=int, help="score windows too; needs --images")
    parser.add_argument("--tile-overlap", type=float, default=0.05, help="of the windows (0.05)")
    parser.add_argument(
        "--stitch",
        action="store_true",
        help="predictions are per window (columns window_xmin, window_ymin): put them together",
    )
    parser.add_argument("--stitch-threshold", type=float, help="IoU (0.15), or distance (5)")
    parser.add_argument(
        "--border", default="agree", help="agree: no crown twice; none: suppression only"
    )


def run(arguments) -> None:
    from permafrost.data.deepforest.reading import read_annotations
    from permafrost.data.geometries import POINT
    from permafrost.metrics.crowns.evaluate import evaluate

    _check(arguments)
    truth = read_annotations(arguments.truth, "truth", geometry=arguments.geometry)
    points = truth.kind == POINT
    standalone.check_used(
        arguments,
        ("distance_threshold", points, "with points, which match by distance"),
        ("iou_threshold", not points, "with boxes and polygons, which match by overlap"),
    )
    notes: list[str] = []
    if arguments.tile_size or arguments.stitch:
        evaluation = _run_tiles(arguments, truth, notes)
    else:
        evaluation = evaluate(truth, arguments.predictions, **_options(arguments))
    _write(arguments, evaluation, notes)


def _check(arguments) -> None:
    tiled = arguments.tile_size or arguments.stitch
    pictures = arguments.pictures is not None
    standalone.check_used(
        arguments,
        ("max_pictures", pictures, "with --pictures"),
        ("images", tiled or pictures, "with --pictures, --tile-size or --stitch"),
        ("tile_overlap", tiled, "with --tile-size"),
        ("stitch_threshold", arguments.stitch, "with --stitch"),
        ("border", arguments.stitch, "with --stitch"),
    )
    if tiled:
        for name in ("images", "tile_size"):
            if getattr(arguments, name) is None:
                option = f"--{name.replace('_', '-')}"
                raise PermafrostError(f"windows need {option}", remedy=f"give {option}")
    if pictures and arguments.images is None:
        raise PermafrostError("pictures need --images", remedy="give the folder of the images")
    standalone.check_intervals(arguments)
    standalone.check_files(arguments, "truth", "predictions", "images")


def _options(arguments) -> dict:
    from permafrost.metrics.crowns.rules import DEEPFOREST

    chosen = ("without_predictions", "without_truth", "unlisted")
    given = {name: getattr(arguments, name) for name in chosen}
    rules = DEEPFOREST if arguments.like else {}
    rules = {**rules, **{name: value for name, value in given.items() if value is not None}}
    plain = ("matching", "iou_threshold", "distance_threshold", "min_score", "average", "geometry")
    return {**{name: getattr(arguments, name) for name in plain}, **rules}


def _run_tiles(arguments, truth, notes: list[str]):
    """Evaluate whole images and windows; returns the former and adds how they differ."""
    from permafrost.data.deepforest.reading import read_annotations
    from permafrost.metrics.crowns.rasters import image_sizes
    from permafrost.metrics.crowns.stitching import stitch
    from permafrost.metrics.crowns.tile_predictions import read_tile_predictions
    from permafrost.metrics.crowns.tiles import compare_tiles

    cut = {"size": arguments.tile_size, "overlap": arguments.tile_overlap}
    tiled, options = None, _options(arguments)
    geometry = options.pop("geometry")
    if arguments.stitch:
        named = read_annotations(arguments.predictions, "predictions", geometry=geometry).images
        sizes = image_sizes(arguments.images, {*truth.images, *named})
        found = read_tile_predictions(arguments.predictions, sizes, **cut, geometry=geometry)
        whole = stitch(
            found.by_image,
            found.windows,
            sizes,
            threshold=arguments.stitch_threshold,
            border=arguments.border,
            every=found.every,
        )
        notes.append(whole.sentence())
        predictions, tiled = whole.crowns, found.by_tile
    else:
        predictions = read_annotations(arguments.predictions, "predictions", geometry=geometry)
        sizes = image_sizes(arguments.images, {*truth.images, *predictions.images})
    both = compare_tiles(truth, predictions, sizes, **cut, tile_predictions=tiled, **options)
    notes.append(both.sentence())
    return both.whole


def _write(arguments, evaluation, notes: list[str]) -> None:
    from permafrost.data.deepforest.reading import read_groups
    from permafrost.metrics.crowns.tables import image_table, match_table
    from permafrost.report import score_text
    from permafrost.statistics.standalone import score_rows
    from permafrost.statistics.units import find_units

    groups = None
    if arguments.group_column:
        groups = read_groups(arguments.truth, arguments.group_column, evaluation.images)
    units = find_units(len(evaluation.images), sample_ids=evaluation.images, groups=groups)
    rows = score_rows(
        evaluation,
        units,
        resamples=arguments.resamples,
        confidence=arguments.confidence,
        seed=arguments.seed,
    )
    notes = [*evaluation.notes(), *notes, *score_text.gate_remarks(rows)]
    unit = score_text.interval_words(units.count, units.kind, arguments.resamples)
    lines = score_text.score_lines(
        rows, heading=evaluation.heading(), unit=unit, confidence=arguments.confidence, notes=notes
    )
    if arguments.pictures:
        lines += ["", _draw(arguments, evaluation)]
    tables = {}
    if arguments.tables:
        tables = {"matches": match_table(evaluation), "images": image_table(evaluation)}
    standalone.deliver(
        arguments,
        lines,
        rows=rows,
        tables=tables,
        options=standalone.options_of(arguments, "truth", "predictions"),
        class_sizes=evaluation.class_sizes(),
        n_units=units.count,
        unit=units.kind,
        notes=notes,
    )


def _draw(arguments, evaluation) -> str:
    """Draw the overlays; returns what was drawn, in words."""
    from permafrost.report.overlay import write_overlays

    drawn, left = write_overlays(
        evaluation, arguments.images, arguments.pictures, limit=arguments.max_pictures
    )
    rest = f"; {left} images with fewer mistakes were not drawn" if left else ""
    return f"{len(drawn)} pictures in {arguments.pictures}{rest}"
