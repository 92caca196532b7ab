"""The metrics of each task, by their names in the score tables, and their properties.

To add a metric, add an entry here and its formula in the module of the task's metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.plugins import Registry
from permafrost.core.tasks import targets_of

# with k classes or fewer, top-k accuracy is always 1: it is omitted
TOP_K = 5


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes
    ----------
    name : name in the score tables.
    words : name in figures and on the page.
    primary : backbones are ranked by this metric by default; one per task.
    per_class : one number per class, else one for the test set.
    better : the better direction; None: neither, so that it ranks no backbones.
    bounds : ``unit``: [0, 1]; ``positive``: at least 0 without an upper bound, so that its interval is computed
        on the logarithm; ``below_one``: at most 1 without a lower bound.
    of_gaps : a sum or maximum of absolute differences, which sampling increases: resamples are biased upward.
    of_curves : read from curves over a ranking: resamples are biased to one side. For both see
        `statistics.resampling.intervals`.
    biased : biased upward with few positives: its interval is corrected for the bias.
    of_quantiles : a quantile of the samples, for which the jackknife fails: its interval comes from resamples.
    mean_of : the metric per class that it averages; its interval includes the one from the intervals of classes.
    least_of : the metric per class whose least value it is; its interval comes from those of the classes.
    formula : plug-ins only: ``formula(predictions, weights)`` with the `statistics.predictions.reading.Predictions`
        of a test set and the (N,) number of times that each of its samples counts; returns a number, NaN if
        undefined, or (K,) numbers if ``per_class``.
    tasks : plug-ins only: the tasks of the metric.
    needs : ``boundary``: the probe counted boundaries; ``classes``: there are more than `TOP_K` classes.
    """

    name: str
    words: str
    primary: bool = False
    per_class: bool = False
    better: Literal["higher", "lower"] | None = "higher"
    bounds: Literal["unit", "positive", "below_one"] = "unit"
    of_gaps: bool = False
    of_curves: bool = False
    biased: bool = False
    of_quantiles: bool = False
    mean_of: str | None = None
    least_of: str | None = None
    needs: Literal["boundary", "classes"] | None = None
    formula: Callable | None = None
    tasks: tuple[str, ...] = ()

    @property
    def higher_is_better(self) -> bool | None:
        """True, False, or None if neither direction is better."""
        return None if self.better is None else self.better == "higher"


def _error(name: str, words: str, **more) -> Metric:
    return Metric(name, words, better="lower", bounds="positive", **more)


def _curve(name: str, words: str, **more) -> Metric:
    return Metric(name, words, of_curves=True, **more)


_MACRO = (
    Metric("macro_precision", "macro precision"),
    Metric("macro_recall", "macro recall"),
    Metric("macro_f1", "macro F1"),
)
_NUMBERS = (
    Metric("r2", "R²", primary=True, bounds="below_one"),
    _error("rmse", "RMSE"),
    _error("mae", "MAE"),
)
# of boxes, oriented boxes and masks; they differ in the shape whose IoU counts
_OBJECTS = (
    _curve("AP", "AP", primary=True),
    _curve("AP50", "AP50"),
    _curve("AP75", "AP75"),
    _curve("APs", "AP of small objects"),
    _curve("APm", "AP of medium objects"),
    _curve("APl", "AP of large objects"),
    _curve("AR1", "AR with 1 detection"),
    _curve("AR10", "AR with 10 detections"),
    _curve("AR", "AR"),
    _curve("ARs", "AR of small objects"),
    _curve("ARm", "AR of medium objects"),
    _curve("ARl", "AR of large objects"),
    Metric("box_recall", "box recall"),
    Metric("box_precision", "box precision"),
    Metric("box_f1", "box F1"),
    _curve("class_AP", "AP", per_class=True),
    _curve("class_AP50", "AP50", per_class=True),
)
METRICS: dict[str, tuple[Metric, ...]] = {
    "classification": (
        Metric("accuracy", "accuracy", primary=True),
        Metric("balanced_accuracy", "balanced accuracy"),
        *_MACRO,
        Metric("top5_accuracy", "top-5 accuracy", needs="classes"),
        Metric("recall", "recall", per_class=True),
        Metric("precision", "precision", per_class=True),
    ),
    "multilabel": (
        Metric("micro_ap", "micro-AP", primary=True),
        Metric("macro_ap", "macro-AP", biased=True, mean_of="average_precision"),
        Metric("micro_f1", "micro F1"),
        Metric("average_precision", "average precision", per_class=True, biased=True),
    ),
    # and recall_at_k, hit_at_k for every requested k
    "retrieval": (Metric("mean_ap", "mean average precision", primary=True),),
    "segmentation": (
        Metric("mean_iou", "mean IoU", primary=True),
        Metric("frequency_weighted_iou", "frequency-weighted IoU"),
        Metric("pixel_accuracy", "pixel accuracy"),
        *_MACRO,
        Metric("mean_boundary_iou", "mean boundary IoU", needs="boundary"),
        Metric("iou", "IoU", per_class=True),
        Metric("boundary_iou", "boundary IoU", per_class=True, needs="boundary"),
    ),
    # means over all classes but the first, which is no change
    "change": (
        Metric("change_f1", "F1 of change", primary=True),
        Metric("change_iou", "IoU of change"),
        Metric("change_precision", "precision of change"),
        Metric("change_recall", "recall of change"),
        Metric("mean_iou", "mean IoU"),
        Metric("pixel_accuracy", "pixel accuracy"),
        Metric("mean_boundary_iou", "mean boundary IoU", needs="boundary"),
        Metric("f1", "F1", per_class=True),
        Metric("iou", "IoU", per_class=True),
        Metric("boundary_iou", "boundary IoU", per_class=True, needs="boundary"),
    ),
    "regression": (
        *_NUMBERS,
        _error("median_absolute_error", "median absolute error", of_quantiles=True),
    ),
    "pixel_regression": _NUMBERS,
    "detection": _OBJECTS,
    "oriented_detection": _OBJECTS,
    "instance_segmentation": _OBJECTS,
    "point_detection": (
        _curve("point_ap", "point AP", primary=True),
        Metric("point_recall", "point recall"),
        Metric("point_precision", "point precision"),
        Metric("point_f1", "point F1"),
        _error("count_mae", "mean absolute error of counts"),
        _curve("class_point_ap", "point AP", per_class=True),
    ),
}
# metrics of probabilities, if the probe has them (`core.tasks.Task.calibrated`) and the
# configuration requests them
TEMPERATURE, BRIER = "temperature", "brier_score"
AURC, EXCESS_AURC = "aurc", "excess_aurc"
# suffix of metrics after temperature scaling
SCALED = "_scaled"
_CALIBRATION_ERRORS = {
    "expected_calibration_error": "expected calibration error",
    "rms_calibration_error": "root mean square calibration error",
    "maximum_calibration_error": "maximum calibration error",
}


def _judged(suffix: str = "", words: str = "") -> tuple[Metric, ...]:
    """Metrics of unscaled or scaled probabilities."""
    errors = (
        Metric(f"{name}{suffix}", f"{said}{words}", better="lower", of_gaps=True)
        for name, said in _CALIBRATION_ERRORS.items()
    )
    return *errors, _error(f"{BRIER}{suffix}", f"Brier score{words}")


OF_PROBABILITIES = (
    *_judged(),
    Metric(AURC, "AURC", better="lower"),
    Metric(EXCESS_AURC, "excess AURC", better="lower"),
    Metric(TEMPERATURE, "temperature", better=None, bounds="positive"),
    *_judged(SCALED, " after scaling"),
)
CALIBRATION_ERRORS = tuple(_CALIBRATION_ERRORS)
CALIBRATION = tuple(metric.name for metric in OF_PROBABILITIES)
# prediction sets with one threshold, one per class, or one per group: suffix to words
SETS = {"": "", "_by_class": ", by class", "_by_group": ", by group"}


def _of_sets(suffix: str, words: str) -> tuple[Metric, ...]:
    """Metrics of prediction sets. Coverage should be near its level, so neither direction is better."""
    share = {"better": None}
    each = f"class_set_coverage{suffix}"
    return (
        Metric(f"set_coverage{suffix}", f"coverage of sets{words}", **share),
        _error(f"set_size{suffix}", f"mean size of sets{words}"),
        Metric(f"set_singletons{suffix}", f"share of sets with one class{words}", **share),
        Metric(
            f"worst_class_set_coverage{suffix}",
            f"coverage of sets of the worst class{words}",
            least_of=each,
            **share,
        ),
        Metric(each, f"coverage of sets{words}", per_class=True, **share),
    )


OF_SETS = {suffix: _of_sets(suffix, words) for suffix, words in SETS.items()}
_EVERY = [
    *METRICS["classification"],
    *METRICS["multilabel"],
    *OF_PROBABILITIES,
    *(metric for metrics in OF_SETS.values() for metric in metrics),
    *(metric for metrics in METRICS.values() for metric in metrics),
]
_BY_NAME = {metric.name: metric for metric in reversed(_EVERY)}
# position in tables
ORDER = {name: place for place, name in enumerate(dict.fromkeys(each.name for each in _EVERY))}


def _add_metric(name: str, metric: Metric) -> None:
    where = f"extra_metrics.{name}"
    if name in _BY_NAME:
        raise PermafrostError("the name is taken", where=where, remedy="use another name")
    if metric.name != name or metric.formula is None or not metric.tasks:
        raise PermafrostError(
            f"it has the name {metric.name!r}, the formula {metric.formula} and the tasks {metric.tasks}",
            where=where,
            remedy=f"give the Metric the name {name!r}, a formula and its tasks",
        )
    for task in metric.tasks:
        look_up(METRICS, task, "no metric can be added to the task", where=where)
    _BY_NAME[name] = metric
    ORDER[name] = len(ORDER)


PLUGINS = Registry("metrics", {}, _add_metric)


def added_metrics(task: str) -> list[Metric]:
    """The metrics that plug-ins add to a task; `METRICS` lacks them."""
    return [one for one in PLUGINS.values() if task in one.tasks]


def metric_of(name: str) -> Metric:
    """The metric of that name; an unlisted one (``recall_at_5``) is a share, and higher is better."""
    return _BY_NAME.get(name) or Metric(name, name.replace("_", " "))


def place_of(name: str) -> int:
    """Position of a metric in tables, from 0; unlisted metrics come last."""
    return ORDER.get(name, len(ORDER))


def primary_metric(task: str) -> str:
    """Name of the metric that backbones are ranked by."""
    check_task(task)
    return next(metric.name for metric in METRICS[task] if metric.primary)


def overall_metrics(
    task: str, classes: int, *, boundary: bool = False, calibration: bool = False
) -> tuple[str, ...]:
    """Names of the metrics that give one number for a test set of `classes` classes.

    Parameters
    ----------
    boundary : whether boundaries were counted; only tasks with masks have boundary metrics.
    calibration : whether calibration was evaluated; only `calibrated` tasks have calibration metrics.
    """
    found = _counted(task, classes=classes, boundary=boundary)
    judged = CALIBRATION if calibration and targets_of(task).calibrated else ()
    return (*(metric.name for metric in found if not metric.per_class), *judged)


def class_metrics(task: str, *, boundary: bool = False) -> tuple[str, ...]:
    """Names of the metrics that give one number per class; arguments as `overall_metrics`."""
    found = _counted(task, classes=TOP_K + 1, boundary=boundary)
    return tuple(metric.name for metric in found if metric.per_class)


def _counted(task: str, *, classes: int, boundary: bool) -> list[Metric]:
    check_task(task)
    met = {None: True, "boundary": boundary, "classes": classes > TOP_K}
    return [metric for metric in METRICS[task] if met[metric.needs]]


def check_task(task: str) -> None:
    """Refuse a task without metrics."""
    look_up(METRICS, task, "no metrics for the task")
