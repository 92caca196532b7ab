"""Training of heads: losses and validation scores per epoch."""

from __future__ import annotations

from typing import Any

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS
from permafrost.statistics.leaderboard.rows import finite

MOST = len(COLOURS)  # coloured backbones; others are grey
# score in a log of epochs -> in words
SCORES = {
    "val_mean_iou": "mean IoU",
    "val_change_f1": "F1 of change",
    "val_ap": "AP",
    "val_accuracy": "accuracy",
    "val_micro_ap": "micro-AP",
    "val_r2": "R²",
}


def draw_training(
    logs: dict[str, dict[str, dict]],
    *,
    dataset: str,
    score: str = "val_mean_iou",
    order: list[str] | None = None,
) -> dict:
    """A line of panels per head: losses on the left, the validation score on the right.

    Parameters
    ----------
    logs : probe -> backbone -> {"epochs": [{epoch, train_loss, val_loss, and the score}], "epoch":
        the one that was scored}. Values that are None or not finite are skipped.
    order : backbones, of which the first `MOST` are coloured.
    score : a key of `SCORES`.
    """
    if not logs:
        raise ValueError("no epochs to draw")
    backbones = order or list(
        dict.fromkeys(name for by_backbone in logs.values() for name in by_backbone)
    )
    coloured, others = backbones[:MOST], backbones[MOST:]
    colours = chart.series(chart.shortened(coloured))
    epochs = chart.number("x", "epoch", axis={"tickMinStep": 1, "format": "d"}, padding=6)
    loss, scored = (
        chart.number("y", "loss", padding=6),
        chart.number("y", f"validation {SCORES[score]}", padding=6),
    )
    look: dict[str, Any] = {
        "width": chart.WIDTH / 2 - 40,
        "height": 160,
        "marked": "datum.scored",
        "hollow": True,
    }
    views = []
    for probe, by_backbone in logs.items():
        shown = {name: by_backbone[name] for name in coloured if name in by_backbone}
        pale = {name: by_backbone[name] for name in others if name in by_backbone}
        losses = _rows(shown, "train_loss") + _rows(shown, "val_loss", dashed=True)
        scores = _rows(pale, score, pale=True) + _rows(shown, score)
        views.append(
            chart.lines(losses, epochs, loss, colours, title=probe, **{**look, "marked": "false"})
        )
        views.append(chart.lines(scores, epochs, scored, colours, title="", **look))
    grey = f"; grey: scores of {len(others)} other backbones" if others else ""
    note = f"solid: train loss, dashed: validation loss; the marked epoch was scored{grey}"
    return chart.figure(
        chart.panels(views, 2), title=f"{dataset}: training of the heads", note=note
    )


def _rows(logs: dict[str, dict], key: str, **about: bool) -> list[dict]:
    return [
        {"x": one["epoch"], "y": one[key], "series": name, **about}
        | {"scored": one["epoch"] == log["epoch"]}
        for name, log in logs.items()
        for one in log["epochs"]
        if finite(one.get(key))
    ]
