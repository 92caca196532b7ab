"""The page of ``permafrost evaluate-detections --report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from permafrost.evaluators.output.page import Parts


def parts(arguments, evaluation, what: str, other, analysis) -> Parts:
    """What the page of detections adds to scores and differences.

    Parameters
    ----------
    what : the evaluated data and the rules; other : the evaluation of ``--against``, or None.
    analysis : kinds of errors and calibration, or None.
    """
    from permafrost.evaluators.output.detection_page import Outcomes, detection_sections
    from permafrost.evaluators.output.page import Parts, file_names

    files = arguments.predictions or evaluation.detections.source, arguments.against
    outcomes = Outcomes(evaluation, [str(name) for name in evaluation.truths.images.ids.tolist()])
    sections = detection_sections(
        outcomes,
        files=file_names(*files),
        other=other,
        analysis=analysis,
    )
    return Parts("Evaluation of detections", f"{what}.", ("AP", "AP50"), files, sections)
