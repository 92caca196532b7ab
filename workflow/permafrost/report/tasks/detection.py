"""Figures of a detection dataset: pictures, curves, kinds of errors, training, metrics, classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from permafrost.core.tables import read_metadata
from permafrost.metrics.tasks import metric_of
from permafrost.report.figures import errors, per_class
from permafrost.report.figures.detection_curves import draw_calibration, draw_precision_recall
from permafrost.report.figures.detections import Answer
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    name_of,
    names_of,
    of_evaluation,
    save,
)
from permafrost.report.material.objects import ObjectPredictions, read_detected
from permafrost.report.notation import interval_of, number
from permafrost.report.tasks.object_pictures import MOST as MOST_PICTURES
from permafrost.report.tasks.object_pictures import ObjectPictures
from permafrost.report.tasks.probe_figures import draw_classes, draw_training_curves
from permafrost.statistics.leaderboard.rows import brief_count, finite, metric_name, of_metrics
from permafrost.statistics.scores.gates import chance_level

MOST = errors.MOST  # backbones in one chart


@dataclass(frozen=True)
class View:
    """The charts of an evaluation's scores, and its answers to the drawn images."""

    charts: dict
    drawn: dict[str, Answer]


def chance(material: Material, best: Evaluation) -> float:
    """Average precision without any detection."""
    truth = _read(material, best).detected.truth
    return chance_level(truth, material.card.task)


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Pictures of the best evaluation and of all backbones, then details of the scores."""
    if best is None:
        return draw_training_curves(material, folder, "val_ap"), []
    # one table at a time: all may not fit in memory
    predictions = _read(material, best)
    views = {
        key: _view(material, key, predictions if key == best else _read(material, key))
        for key in best_of_each(material)[:MOST_PICTURES]
    }
    drawn = {key: view.drawn for key, view in views.items()}
    figures, notes = ObjectPictures(material, best, predictions, drawn).draw(folder)
    charted = dict(list(views.items())[:MOST])
    figures.append(_curves(material, predictions, charted, folder))
    figures += _errors(material, charted, folder)
    figures += _calibration(material, best, views[best].charts.get("calibration"), folder)
    figures += draw_training_curves(material, folder, "val_ap")
    figures += _metrics(material, list(charted), folder)
    figures += _per_class(material, predictions, list(charted), folder)
    return figures, notes


def _read(material: Material, key: Evaluation) -> ObjectPredictions:
    path = material.predictions[key]
    return read_detected(path, expect=material.expected(path))


def _view(material: Material, key: Evaluation, predictions: ObjectPredictions) -> View:
    path = material.scores[key]
    charts = read_metadata(path, expect=material.expected(path))["charts"]
    return View(charts, {name: predictions.answer(name) for name in predictions.shown["drawn"]})


def _curves(material: Material, predictions: ObjectPredictions, views: dict, folder: Path) -> Drawn:
    rule = (
        f"within {predictions.threshold:g} pixels"
        if predictions.kind == "point"
        else "at an IoU of 0.5 or more"
    )
    figure = draw_precision_recall(
        {key[0]: view.charts["precision_recall"] for key, view in views.items()},
        title=f"{material.name}: precision and recall",
        note=f"a detection is right {rule}; at each recall the best precision from there on, mean over classes",
    )
    return save(
        figure,
        folder,
        "precision_recall",
        material.name,
        alt=f"Precision against recall of the best head of each backbone on {material.name}",
        caption=f"Precision against recall ({rule}) when the score that a detection needs is lowered, "
        f"with the best head of each backbone: {names_of(list(views), material)}. The area below a "
        f"curve is its {'point AP' if predictions.kind == 'point' else 'AP50'}.",
    )


def _errors(material: Material, views: dict[Evaluation, View], folder: Path) -> list[Drawn]:
    sorted_ones = {
        key: view.charts["errors"] for key, view in views.items() if "errors" in view.charts
    }
    if not sorted_ones:
        return []
    figure = errors.draw_errors(
        {key[0]: errors for key, errors in sorted_ones.items()},
        title=f"{material.name}: errors",
    )
    return [
        save(
            figure,
            folder,
            "errors",
            material.name,
            alt=f"AP that each kind of error costs on {material.name}, by backbone",
            caption="Kinds of errors: how much higher AP would be if errors of one kind, and of no other, did not "
            f"occur, with the best head of each backbone: {names_of(list(sorted_ones), material)}. Gains of "
            "different kinds do not add up.",
        )
    ]


def _calibration(
    material: Material, best: Evaluation, counted: dict | None, folder: Path
) -> list[Drawn]:
    """Reliability diagram of box scores, for the best evaluation."""
    if counted is None:
        return []
    figure = draw_calibration(counted, title=f"{material.name}: {name_of(best, material)}")
    return [
        save(
            figure,
            folder,
            "calibration",
            material.name,
            alt=f"Share of right detections against their score, {best[0]} with {best[2]} on {material.name}",
            caption=f"Scores of the best evaluation: the share of detections that are right (at an IoU of 0.5) "
            f"against their score. Expected calibration error {number(counted['expected'])}.",
        )
    ]


def _metrics(material: Material, keys: list[Evaluation], folder: Path) -> list[Drawn]:
    """All metrics in [0, 1] in one figure; the others, and undefined ones, in words."""
    rows = [row for key in keys for row in of_evaluation(material.rows, key)]
    shares = [row for row in rows if metric_of(row["metric"]).better != "lower"]
    valued = {row["metric"] for row in shares if finite(row["value"])}
    names = [metric_name(name) for name in of_metrics(shares) if name in valued]
    if not names:
        return []
    lines = [
        {**row, "class": metric_name(row["metric"])} for row in shares if row["metric"] in valued
    ]
    figure = per_class.draw_per_class(
        lines, title=f"{material.name}: all metrics", order=names, what="value"
    )
    lacking = [metric_name(name) for name in of_metrics(shares) if name not in valued]
    said = f" No value for want of objects: {', '.join(lacking)}." if lacking else ""
    return [
        save(
            figure,
            folder,
            "metrics",
            material.name,
            alt=f"Every metric with its interval on {material.name}, by backbone",
            caption=f"All metrics with the best head of each backbone: {names_of(keys, material)}."
            f"{_errors_in_words(rows)}{said}",
        )
    ]


def _errors_in_words(rows: list[dict]) -> str:
    """Sentences on the metrics for which lower is better."""
    said = []
    for metric in of_metrics(row for row in rows if metric_of(row["metric"]).better == "lower"):
        values = [
            f"{row['backbone']} {row['value']:.3g} {interval_of(row, '{:.3g}'.format)}".rstrip()
            for row in rows
            if row["metric"] == metric and finite(row["value"])
        ]
        name = metric_name(metric)
        said += [f" {name[0].upper()}{name[1:]}: {'; '.join(values)}."] if values else []
    return "".join(said)


def _per_class(
    material: Material, predictions: ObjectPredictions, keys, folder: Path
) -> list[Drawn]:
    """AP of every class for each backbone's best evaluation, if there are several classes."""
    classes = material.card.classes
    if len(classes) < 2:
        return []
    counts = predictions.detected.truth.sum(axis=0).tolist()
    support = {name: brief_count(count) for name, count in zip(classes, counts, strict=True)}
    kinds = {
        "class_AP": "per_class",
        "class_AP50": "per_class_ap50",
        "class_point_ap": "per_class",
    }
    return draw_classes(material, folder, keys, kinds, support, "number of test objects")
