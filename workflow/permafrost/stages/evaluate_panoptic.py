"""``permafrost evaluate-panoptic``: panoptic quality of files in COCO's format, with intervals."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages import standalone


def add_arguments(parser) -> None:
    parser.add_argument("--truth", type=Path, required=True, help="COCO panoptic JSON")
    parser.add_argument(
        "--truth-masks", type=Path, required=True, help="folder of its pictures (PNG)"
    )
    parser.add_argument("--predictions", type=Path, required=True, help="COCO panoptic JSON")
    parser.add_argument(
        "--prediction-masks", type=Path, required=True, help="folder of its pictures (PNG)"
    )
    parser.add_argument(
        "--mode", default="corrected", help="corrected, or strict: panopticapi's areas and crowds"
    )
    parser.add_argument(
        "--boundary-ratio",
        type=float,
        help="boundary PQ: width of the band, as a share of the diagonal, such as 0.02",
    )
    standalone.add_groups(parser)
    standalone.add_arguments(parser)


@standalone.bounded
def run(arguments) -> None:
    from permafrost.evaluators.panoptic import evaluate

    standalone.check_intervals(arguments)
    standalone.check_files(
        arguments,
        *("truth", "truth_masks", "predictions", "prediction_masks", "groups"),
        again=("groups",),
    )
    standalone.check_groups(arguments)
    evaluation = evaluate(
        (arguments.truth, arguments.truth_masks),
        (arguments.predictions, arguments.prediction_masks),
        mode=arguments.mode,
        boundary_ratio=arguments.boundary_ratio,
    )
    _write(arguments, evaluation)


def _write(arguments, evaluation) -> None:
    import numpy as np

    from permafrost.evaluators.intervals.standalone import score_rows
    from permafrost.evaluators.output import score_text
    from permafrost.statistics.resampling.units import find_units

    notes = evaluation.notes()
    images = np.array(evaluation.images, object)
    groups = standalone.groups_of(arguments, images, notes)
    units = find_units(len(images), sample_ids=evaluation.images, groups=groups)
    rows = score_rows(
        evaluation,
        units,
        resamples=arguments.resamples,
        confidence=arguments.confidence,
        seed=arguments.seed,
    )
    notes += score_text.gate_remarks(rows)
    unit = score_text.interval_method_words(units.count, units.kind, arguments.resamples)
    lines = score_text.score_lines(
        rows, heading=evaluation.heading(), unit=unit, confidence=arguments.confidence, notes=notes
    )
    standalone.deliver(
        arguments,
        lines,
        rows=rows,
        tables={},
        page=lambda: _parts(arguments, evaluation),
        options=_options(arguments, evaluation),
        classes=evaluation.class_counts(),
        n_images=len(images),
        n_units=units.count,
        unit=units.kind,
        notes=notes,
    )


def _parts(arguments, evaluation):
    from permafrost.evaluators.output.page import Parts
    from permafrost.evaluators.output.panoptic_page import panoptic_sections

    files, sections = (arguments.predictions, None), panoptic_sections(evaluation)
    return Parts("Panoptic quality", f"{evaluation.heading()}.", ("pq",), files, sections)


def _options(arguments, evaluation) -> dict:
    """Options, and digests of all files, that can affect a score; those of maps are by content."""
    options = standalone.options_of(arguments, "truth", "predictions", "groups")
    for name, digest in zip(("truth_masks", "prediction_masks"), evaluation.digests, strict=True):
        options[name] = {"path": Path(options[name]).as_posix(), "sha256": digest}
    return options
