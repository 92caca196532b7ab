"""The option ``--counts`` of ``permafrost evaluate-detections``."""

from __future__ import annotations

import math

from permafrost.core.errors import PermafrostError

BEST = "best"


def score_of(text: str | None) -> float | None:
    """The score of ``--counts``; None for ``best`` and without it."""
    if text in (None, BEST):
        return None
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise PermafrostError(
            f"--counts {text!r} is neither a score nor {BEST}", remedy="give for example 0.4"
        )
    return score


def counted(arguments, evaluation) -> tuple:
    """The counts of an evaluation, and the least score of counted detections."""
    from permafrost.evaluators.intervals.counts import best_score, detection_counts
    from permafrost.evaluators.intervals.detection import class_names

    score = score_of(arguments.counts)
    score = best_score(evaluation) if score is None else score
    names = class_names(evaluation) if evaluation.settings.use_categories else ["all"]
    return detection_counts(evaluation, names, score, arguments.pixel_size), score


def rows_of(scored, more: dict) -> list[dict]:
    """Rows of ``--counts``; extends the JSON content `more`, and the lines and notes of `scored`."""
    arguments, evaluation = scored.arguments, scored.evaluation
    if arguments.counts is None:
        return []
    from permafrost.evaluators.intervals.standalone import score_rows
    from permafrost.evaluators.output import detection_text

    counts, chosen = counted(arguments, evaluation)
    drawn = {key: value for key, value in scored.drawn.items() if key != "method"}
    rows = score_rows(counts, scored.units, **drawn)
    best = arguments.counts == BEST
    more["counts"] = {"score": chosen if math.isfinite(chosen) else None, "best": best}
    scored.lines.extend(detection_text.count_lines(rows, chosen))
    if best:
        scored.notes.append(
            f"Note: counts are of detections that score at least {chosen:.4g}, where F1 is best on this very truth, so"
            " they look better than on other images; give --counts a score that was chosen elsewhere."
        )
    # their rows have no bias
    return [{**row, "bias": None} for row in rows]


def differences_of(scored, other) -> list[dict]:
    """Rows of ``--counts`` for ``--against``: differences to another evaluation of the same images."""
    if scored.arguments.counts is None:
        return []
    from permafrost.evaluators.intervals.standalone import difference_rows

    own, others = (counted(scored.arguments, one)[0] for one in (scored.evaluation, other))
    return difference_rows(own, others, scored.units, **scored.drawn)
