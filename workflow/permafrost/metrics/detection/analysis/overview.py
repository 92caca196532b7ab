"""All error analyses of an evaluation, or the reason why one is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.analysis.calibration import Calibration, calibrate
from permafrost.metrics.detection.analysis.olrp import OptimalLRP, optimal_lrp
from permafrost.metrics.detection.analysis.tide import ErrorKinds, error_kinds
from permafrost.metrics.detection.evaluation import Evaluation


@dataclass(frozen=True)
class Analysis:
    """Analyses at an IoU of 0.5; None if one is impossible.

    Attributes
    ----------
    tide : average precision lost to each kind of error.
    olrp : optimal localisation-recall-precision error.
    calibration : calibration of the scores.
    missing : name of a missing analysis to the reason.
    """

    tide: ErrorKinds | None
    olrp: OptimalLRP | None
    calibration: Calibration | None
    missing: dict[str, str]


def analyse(evaluation: Evaluation) -> Analysis:
    """All analyses of an evaluation; takes one to three times as long as the evaluation."""
    found: dict[str, Any]
    missing: dict[str, str]
    found, missing = {}, {}
    makers: dict[str, Callable[[Evaluation], object]] = {
        "tide": error_kinds,
        "olrp": optimal_lrp,
        "calibration": calibrate,
    }
    for name, make in makers.items():
        try:
            found[name] = make(evaluation)
        except PermafrostError as error:
            found[name], missing[name] = None, error.problem
    return Analysis(**found, missing=missing)


def content_of(analysis: Analysis) -> dict:
    """The figures as JSON; null where undefined, and ``missing`` has the reasons."""
    tide, olrp, calibration = analysis.tide, analysis.olrp, analysis.calibration
    return {
        "tide": tide
        and {
            "ap": tide.precision,
            "gains": tide.gain,
            "counts": tide.counts,
            "gain_without_false_alarms": tide.no_false_alarms,
        },
        "olrp": olrp
        and {name: None if value != value else value for name, value in olrp.means.items()},
        "calibration": calibration
        and {
            "expected_calibration_error": calibration.expected,
            "mean_over_categories": calibration.macro,
            "maximal_calibration_error": calibration.largest,
            "detections": int(calibration.counts.sum()),
        },
        "missing": analysis.missing,
    }
