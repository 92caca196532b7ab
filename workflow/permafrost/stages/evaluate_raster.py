"""``permafrost evaluate-raster``: accuracy metrics of a predicted raster against a reference."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages import standalone
from permafrost.stages.lists import values_of


def add_arguments(parser) -> None:
    parser.add_argument("--reference", type=Path, required=True, help="raster of class codes")
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--prediction", type=Path, help="raster of class codes")
    one.add_argument("--logits", type=Path, help="raster of one band per class, or of one band")
    _add_classes(parser)
    _add_pixels(parser)
    standalone.add_arguments(parser)


def _add_classes(parser) -> None:
    parser.add_argument("--mode", help="multiclass, or binary (scores class 1 of two)")
    parser.add_argument("--classes", type=int, help="number of classes (default: those that occur)")
    parser.add_argument(
        "--class-names", help="names of the classes in the order of their codes: a,b"
    )
    parser.add_argument("--class-weights", help="weights in the order of the codes: 0,1,1")
    parser.add_argument(
        "--like",
        choices=["geodl"],
        help="count undefined recall and precision as 1 in means, like geodl",
    )
    parser.add_argument(
        "--smooth", type=float, help="smoothing of ratios (none; 1e-8 with --like geodl)"
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        help="threshold on the sigmoid of one logit (strictly above)",
    )
    parser.add_argument("--one-based", action="store_true", help="class codes start at 1, not 0")


def _add_pixels(parser) -> None:
    parser.add_argument("--ignore", help="reference codes without a class: 255,254")
    parser.add_argument(
        "--keep-nodata", action="store_true", help="read the nodata value of the files as a class"
    )
    parser.add_argument(
        "--missing-prediction",
        default="error",
        help="pixels with a reference but no prediction: error, or ignore (counted)",
    )
    parser.add_argument("--reference-band", type=int, help="band with the classes, from 1")
    parser.add_argument("--prediction-band", type=int, help="band with the classes, from 1")
    parser.add_argument(
        "--by-pixel", action="store_true", help="compare pixel by pixel, whatever the georeference"
    )
    parser.add_argument(
        "--block",
        type=int,
        default=512,
        help="side of the blocks that are read and resampled, in pixels (512)",
    )


@standalone.bounded
def run(arguments) -> None:
    from permafrost.evaluators.raster import evaluate

    by_logits = arguments.logits is not None
    standalone.check_used(
        arguments,
        ("threshold", by_logits, "with --logits"),
        ("prediction_band", not by_logits, "with --prediction"),
        ("classes", not arguments.class_names, "without --class-names, which say how many"),
    )
    standalone.check_intervals(arguments)
    standalone.check_files(arguments, "reference", "prediction", "logits")
    evaluation = evaluate(
        arguments.reference,
        arguments.prediction,
        logits=arguments.logits,
        mode=arguments.mode,
        classes=values_of(arguments.class_names, str) or arguments.classes,
        class_weights=values_of(arguments.class_weights, float),
        smooth=arguments.smooth,
        like=arguments.like,
        threshold=arguments.threshold,
        zero_based=not arguments.one_based,
        ignore=values_of(arguments.ignore, int) or (),
        missing=arguments.missing_prediction,
        keep_nodata=arguments.keep_nodata,
        reference_band=arguments.reference_band,
        prediction_band=arguments.prediction_band,
        by_pixel=arguments.by_pixel,
        block=arguments.block,
    )
    _write(arguments, evaluation)


def _write(arguments, evaluation) -> None:
    from permafrost.evaluators.intervals.standalone import score_rows
    from permafrost.evaluators.output import score_text
    from permafrost.evaluators.output.confusion_text import confusion_lines
    from permafrost.evaluators.raster.result import confusion_table
    from permafrost.statistics.resampling.units import find_units

    units = find_units(evaluation.n_blocks)
    rows = score_rows(
        evaluation,
        units,
        resamples=arguments.resamples,
        confidence=arguments.confidence,
        seed=arguments.seed,
        kind="block",
    )
    area_rows, remarks = evaluation.area_rows(arguments.confidence)
    rows, notes = rows + area_rows, [*evaluation.notes(), *remarks, *score_text.gate_remarks(rows)]
    unit = score_text.interval_method_words(
        units.count,
        "block",
        arguments.resamples,
        size=f" of {arguments.block} px",
        hint=" (a smaller --block gives several)",
    )
    lines = score_text.score_lines(
        rows, heading=evaluation.heading(), unit=unit, confidence=arguments.confidence, notes=()
    )
    lines += confusion_lines(evaluation.counts, evaluation.names, evaluation.codes)
    lines += score_text.note_lines(notes)
    standalone.deliver(
        arguments,
        lines,
        rows=rows,
        tables={"confusion": confusion_table(evaluation)} if arguments.tables else {},
        page=lambda: _parts(arguments, evaluation),
        options=standalone.options_of(arguments, "reference", "prediction", "logits"),
        classes=evaluation.names,
        confusion_reference_by_prediction=evaluation.counts.tolist(),
        mapped=evaluation.mapped.tolist(),
        mapped_area_m2=None if evaluation.mapped_area is None else evaluation.mapped_area.tolist(),
        pixels=evaluation.pixels,
        ignored=evaluation.ignored,
        unpredicted=evaluation.unpredicted,
        n_units=units.count,
        unit="block",
        notes=notes,
    )


def _parts(arguments, evaluation):
    from permafrost.evaluators.output.page import Parts
    from permafrost.evaluators.output.page_sections import confusion_section

    section = confusion_section(
        evaluation.counts,
        evaluation.names,
        unit="pixels",
        sides=("reference", "prediction"),
    )
    files = arguments.prediction or arguments.logits, None
    what = f"{evaluation.heading()}."
    return Parts("Evaluation of a raster", what, ("mean_iou", "overall_accuracy"), files, [section])
