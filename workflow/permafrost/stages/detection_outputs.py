"""What ``permafrost evaluate-detections`` writes for ``--tables`` and ``--report``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from permafrost.evaluators.output.score_files import comparison_table

if TYPE_CHECKING:
    from permafrost.evaluators.output.page import Parts
    from permafrost.report.figures.detections import Example


def tables(arguments, evaluation, analysis, more: dict) -> tuple[dict, list[str]]:
    """Tables by name, and sentences about those that cannot be made; `more` is content of the JSON."""
    if not arguments.tables:
        return {}, []
    from permafrost.evaluators.detection.export import arrow_tables

    made, missing = arrow_tables(evaluation, analysis)
    if "comparison" in more:
        made["comparison"] = comparison_table(more["comparison"])
    return made, missing


def parts(scored, other, analysis, more: dict) -> Parts:
    """What the page of detections adds to scores and differences.

    Parameters
    ----------
    scored : the evaluation, see `evaluate_detections`; other : that of ``--against``, or None.
    analysis : kinds of errors and calibration, or None.
    more : content of the JSON, with ``slices``.
    """
    from permafrost.evaluators.output.detection_page import detection_sections
    from permafrost.evaluators.output.outcomes import Outcomes
    from permafrost.evaluators.output.page import Parts, file_names

    arguments, evaluation = scored.arguments, scored.evaluation
    files = arguments.predictions or evaluation.detections.source, arguments.against
    names = [str(name) for name in evaluation.truths.images.ids.tolist()]
    picture = None
    if arguments.image_folder:
        names = _file_names(arguments, names)
        picture = _pictures(arguments.image_folder, names)
    sections = detection_sections(
        Outcomes(evaluation, names),
        files=file_names(*files),
        other=other,
        analysis=analysis,
        picture=picture,
        slices=more.get("slices", ()),
    )
    return Parts(
        "Evaluation of detections", f"{scored.lines[0]}.", evaluation.names, files, sections
    )


def _file_names(arguments, names: list[str]) -> list[str]:
    """``file_name`` of the images in COCO's JSON; the names themselves in other files."""
    import json

    if arguments.truth.suffix.lower() != ".json":
        return names
    images = json.loads(arguments.truth.read_bytes())["images"]
    known = {str(image["id"]): str(image.get("file_name", image["id"])) for image in images}
    return [known.get(name, name) for name in names]


def _pictures(folder, names: list[str]) -> Callable[[int], Example]:
    """Function from the position of an image to its picture."""
    from permafrost.core.extras import need
    from permafrost.evaluators.crowns.overlay import as_picture, image_file, image_size, read_small
    from permafrost.report.figures.detections import LONGEST, Example

    need("rasterio")

    def picture(image: int) -> Example:
        path = image_file(folder, names[image], option="--image-folder", column="file_name")
        return Example(names[image], as_picture(read_small(path, LONGEST)[0]), image_size(path))

    return picture
